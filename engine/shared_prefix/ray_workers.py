"""``ray``: any model of lm-eval in several processes, on this machine or on a Ray cluster.

This process holds no model. It divides the requests into batches, whose answers do not depend on who computes them: which
requests are in a batch is decided by their texts alone. Each worker, an actor of Ray, holds the whole model. A worker that is
lost is replaced, and its batch is done again.

Ray is imported when a model of this type is made.
"""

from __future__ import annotations

import atexit
import logging
import math
import os
import secrets
import shutil
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partialmethod
from importlib import import_module
from importlib.util import find_spec
from typing import Any, ClassVar

from tqdm import tqdm

from shared_prefix.model_error import ModelError, reason_with_type
from shared_prefix.upstream import LM, Instance, get_model, hash_args, register_model

logger = logging.getLogger("lm_eval.shared_prefix")

#: The name of this type of models.
RAY = "ray"
#: Engines of ours -> the module that registers them.
MODULES = {
    "hf-shared-prefix": "shared_prefix.hf_shared_prefix",
    "vllm-shared-prefix": "shared_prefix.vllm_shared_prefix",
    "nnd_mlm": "shared_prefix.text_models",
    "nnd_reward": "shared_prefix.text_models",
}
#: Seconds: between looks at the cluster while no answer comes; the first time that it is said what is waited for.
NOTICE = 30.0
#: Seconds without an answer after which a run ends: no machine is large enough for a worker, others have taken the room, and
#: batches are read (a large model on a CPU may take hours).
JOINING, PATIENCE, LONGEST = 600.0, 3600.0, 6 * 3600.0
#: A run ends when so many more workers than it has are lost one after the other.
SPARE = 3


# ---------------------------------------------------------------- batches

#: Least size of a batch, in characters that its requests do not share.
LEAST = 16_384
#: Least number of requests of a batch that generates text, where an engine wants many at once.
LEAST_GENERATED = 64
#: A batch ends where the next one has to read at most this share of what it has again.
AGAIN = 1 / 32


def divide(requests: Sequence[tuple[Any, ...]]) -> list[list[int]]:
    """Divide the requests of a call into batches.

    Requests are sorted by their texts, so that prompts with a common beginning, such as those about one source, are neighbours.
    A batch ends where it is large enough and has little in common with the next prompt. That depends on no request after the
    next one, so where whole batches are taken away, the others stay as they are: a run that goes on from ``--use_cache`` has
    the batches of the first one.

    Args:
        requests: the arguments of each: (context, continuation), (context, generation arguments), or a text alone.

    Returns:
        The indices of the requests of each batch. Requests with the same context are in one batch.
    """
    # Whole texts may come with an empty context.
    keys = [(str(request[0]) if len(request) > 1 else "", str(request[-1])) for request in requests]
    generated = bool(requests) and isinstance(requests[0][-1], dict)
    batches: list[list[int]] = []
    size, before = 0.0, ""
    for index in sorted(range(len(keys)), key=keys.__getitem__):
        context, rest = keys[index]
        same_prompt = bool(context) and context == before
        shared = len(context if same_prompt else os.path.commonprefix([before, context]))  # noqa: RUF071
        if not batches or (size >= LEAST and (generated or shared <= AGAIN * size) and not same_prompt):
            batches.append([])
            size, shared = 0, 0
        batches[-1].append(index)
        size += LEAST / LEAST_GENERATED if generated else len(context) - shared + len(rest)
        before = context
    return batches


# ---------------------------------------------------------------- a worker


class Worker:
    """A process that holds an engine; an actor of Ray."""

    def load(self, module: str | None, engine: str, arguments: dict[str, Any], threads: int) -> Any:
        """Load the model; return what lm-eval's results say of it.

        Args:
            module: registers the engine; None for those of lm-eval.
            engine: name of a model type.
            arguments: its arguments.
            threads: that it computes with on a CPU.
        """
        import torch
        from transformers.utils.logging import disable_progress_bar

        disable_progress_bar()
        os.environ["OMP_NUM_THREADS"] = str(threads)
        torch.set_num_threads(threads)
        if module is not None:
            import_module(module)
        self.lm = get_model(engine).create_from_arg_obj(arguments)
        return self.ask("get_model_info")

    def answer(self, method: str, requests: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Answer the requests of a batch, each given by its arguments."""
        instances = [Instance(method, {}, request, i) for i, request in enumerate(requests)]
        return list(getattr(self.lm, method)(instances, disable_tqdm=True))

    def ask(self, name: str, *arguments: Any) -> Any:
        """Call a method of the engine, or look up an attribute; None where it has none."""
        value = getattr(self.lm, name, None)
        return value(*arguments) if callable(value) else value


#: A method of `Worker`, and its arguments.
Job = tuple[Any, ...]


# ---------------------------------------------------------------- the model


@register_model(RAY)
class RayWorkers(LM):  # type: ignore[misc]
    """Several processes with the same model.

    Args:
        engine: name of the model type that the workers hold.
        workers: number of processes.
        address: of a cluster, ``auto`` or ``ray://HOST:PORT``; None starts Ray on this machine.
        worker_cpus: cores of each worker, and threads that it computes with.
        worker_gpus: GPUs of each worker; None takes one where the cluster has any.
        arguments: all others are the engine's.

    Raises:
        ModelError: Ray is not installed or cannot be reached, an argument cannot be taken, or no machine has room for a worker.
    """

    #: All workers of this process that were not stopped.
    _running: ClassVar[list[Any]] = []

    def __init__(
        self,
        engine: str = "hf",
        workers: int = 1,
        address: str | None = None,
        worker_cpus: int = 1,
        worker_gpus: float | None = None,
        **arguments: Any,
    ) -> None:
        super().__init__()
        check_arguments(workers, worker_cpus, worker_gpus, arguments)
        start_ray(address, workers * worker_cpus)
        import ray

        machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        if worker_gpus is None:
            worker_gpus = int(any(machine.get("GPU") for machine in machines))
        self._needs = {"CPU": worker_cpus, "GPU": worker_gpus}
        check_room(machines, workers, self._needs)
        self.workers = workers
        self._actor = ray.remote(num_cpus=worker_cpus, num_gpus=worker_gpus)(Worker)
        self._load = (MODULES.get(engine), engine, arguments, worker_cpus)
        self._loading: dict[Any, Any] = {}  # what will be known when a worker has loaded the model -> that worker
        self._idle: list[Any] = []
        self._failed_loads = 0  # one after the other
        self._info: dict[str, Any] = {}

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """Write a chat as one text, as the engine does."""
        return str(self._ask("apply_chat_template", chat_history, add_generation_prompt))

    def chat_template(self, chat_template: bool | str = False) -> str | None:
        """Look up the engine's chat template."""
        return self._ask("chat_template", chat_template)  # type: ignore[no-any-return]

    @property
    def tokenizer_name(self) -> str:
        """Name of the engine's tokenizer."""
        return str(self._ask("tokenizer_name"))

    def get_model_info(self) -> dict[str, Any]:
        """Say what lm-eval's results say of the engine's model."""
        return self._info or self._ask("get_model_info") or {}

    @classmethod
    def stop_all(cls) -> None:
        """End all workers of this process, so that others have room."""
        while cls._running:
            import_module("ray").kill(cls._running.pop())

    def _ask(self, name: str, *arguments: Any) -> Any:
        [(_, answer)] = self._do([("ask", name, *arguments)])
        return answer

    def _answer(self, method: str, requests: Sequence[Any], disable_tqdm: bool = False) -> list[Any]:
        """Answer requests. Those of a batch go to lm-eval's cache together, as soon as they are known."""
        batches = divide([request.args for request in requests])
        batches.sort(key=len, reverse=True)  # a long one that begins last would let the other workers wait
        jobs = [("answer", method, [requests[index].args for index in batch]) for batch in batches]
        answers: list[Any] = [None] * len(requests)
        with tqdm(total=len(requests), disable=disable_tqdm, desc=f"Running {method} requests") as progress:
            for job, of_batch in self._do(jobs):
                for index, answer in zip(batches[job], of_batch, strict=True):
                    answers[index] = answer
                self._keep(method, jobs[job][2], of_batch)
                progress.update(len(of_batch))
        return answers

    loglikelihood = partialmethod(_answer, "loglikelihood")
    loglikelihood_rolling = partialmethod(_answer, "loglikelihood_rolling")
    generate_until = partialmethod(_answer, "generate_until")

    def _keep(self, method: str, requests: Iterable[tuple[Any, ...]], answers: Iterable[Any]) -> None:
        """Put the answers of a batch into lm-eval's cache: all of them or, where this process is killed, none.

        Upstream: `CacheHook.add_partial` (lm_eval/api/model.py) puts in one after the other. What is left of a batch would be
        another batch.
        """
        database = self.cache_hook.dbdict
        if database is None:
            return
        values: list[Any] = []
        for request, answer in zip(requests, answers, strict=True):
            values += [hash_args(method, request), database.encode(answer)]
        insert = f'REPLACE INTO "{database.tablename}" (key, value) VALUES '  # noqa: S608
        # SQLite takes 32,766 values at once; few batches have more.
        for start in range(0, len(values), 30_000):
            rows = values[start : start + 30_000]
            database.conn.execute(insert + ", ".join(["(?, ?)"] * (len(rows) // 2)), rows)

    # ------------------------------------------------------------ the loop

    def _do(self, jobs: Sequence[Job]) -> Iterator[tuple[int, Any]]:
        """Let the workers do jobs; yield the index and the result of each as soon as it is done.

        Raises:
            ModelError: too many workers were lost one after the other, none can begin, no machine is alive, or no answer comes.
            Exception: the engine's own, where a worker raises one.
        """
        import ray
        from ray.exceptions import RayError, RayTaskError

        waiting = deque(range(len(jobs)))
        doing: dict[Any, tuple[Any, int]] = {}  # what will be known when a job is done -> its worker, its index
        most_lost, lost, reason, waited = self.workers + SPARE, 0, "", 0.0
        while waiting or doing:
            workers = len(doing) + len(self._idle) + len(self._loading)
            for _ in range(self.workers - workers if self._failed_loads < most_lost else 0):
                worker = self._actor.remote()
                self._loading[worker.load.remote(*self._load)] = worker
                self._running.append(worker)
            while waiting and self._idle:
                worker, index = self._idle.pop(), waiting.popleft()
                name, *arguments = jobs[index]
                doing[getattr(worker, name).remote(*arguments)] = worker, index
            if lost >= most_lost or (self._failed_loads >= most_lost and not doing):
                raise ModelError(
                    f"--model ray: {most_lost} workers were lost one after the other, the last one by {reason}; where memory is "
                    "short, lower batch_size or take fewer workers"
                )
            ready, _ = ray.wait([*doing, *self._loading], timeout=NOTICE)
            if not ready:
                waited += NOTICE
                machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
                check_waiting(waited, machines, self._needs, reading=bool(doing))
                if math.log2(waited / NOTICE) % 1 == 0:  # not every 30 s for hours
                    logger.warning(
                        "ray: no answer for %.0f s: %d batches are read, %d wait, %d workers load or wait for a machine with "
                        "room",
                        *(waited, len(doing), len(waiting), len(self._loading)),
                    )
                continue
            waited, worker, done = 0.0, self._loading.pop(ready[0], None), None
            if worker is None:
                worker, done = doing.pop(ready[0])
            try:
                result = ray.get(ready[0], timeout=JOINING)  # it may be lost with its machine
            except RayTaskError as error:
                if done is not None:
                    self._idle.append(worker)  # has no fault; who catches the error may go on
                logger.error("ray: %s", str(error).partition("\n")[0])  # names the process and the machine
                raise (error.cause if isinstance(error.cause, Exception) else error) from None
            except RayError as error:  # the process, the machine or the memory of the worker is gone
                reason = reason_with_type(error)
                logger.warning("ray: a worker was lost: %s", reason)
                if done is None:
                    self._failed_loads += 1
                else:
                    lost += 1
                    waiting.append(done)
                ray.kill(worker)
                continue
            self._idle.append(worker)
            if done is None:
                self._failed_loads, self._info = 0, result
            else:
                lost = 0
                yield done, result


# ---------------------------------------------------------------- Ray itself


def check_arguments(workers: Any, cpus: Any, gpus: Any, arguments: dict[str, Any]) -> None:
    """Check the arguments of `RayWorkers`.

    Raises:
        ModelError: one of them cannot be taken, or Ray is not installed.
    """
    if find_spec("ray") is None:
        raise ModelError("--model ray: Ray is not installed; pip install 'ray>=2.60'")
    for name, value, least in (("workers", workers, 1), ("worker_cpus", cpus, 1), ("worker_gpus", gpus or 0, 0)):
        if not isinstance(value, int if least else (int, float)) or value < least:
            raise ModelError(f"--model ray: {name}={value}: expected a number of at least {least}")
    for name in arguments.keys() & {"base_url", "data_parallel_size"}:
        raise ModelError(f"--model ray: {name} is of an engine that computes elsewhere; run that engine without ray")
    if os.environ.get("WORLD_SIZE", "1") != "1":
        raise ModelError("--model ray: a launcher has started several processes; start one, which starts the workers")


def start_ray(address: str | None, cores: int) -> None:
    """Connect to a cluster, or start Ray on this machine with room for ``cores``; nothing if this process is connected.

    Raises:
        ModelError: the cluster cannot be reached.
    """
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray

    if ray.is_initialized():
        return
    try:
        if address is not None:
            ray.init(address, logging_level="warning")
            return
        # Ray would write into /tmp/ray and ~/.ray, for all users to read; it opens its own folder to all, so that lies in a
        # private one. Longer names do not fit its sockets.
        folder = tempfile.mkdtemp(prefix="nnd-ray-", dir="/tmp")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        atexit.register(ray.shutdown)  # runs before the other
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))  # Ray itself turns its check on
        cores = max(cores, os.cpu_count() or 1)
        ray.init("local", num_cpus=cores, include_dashboard=False, logging_level="error", _temp_dir=f"{folder}/ray")
    except Exception as error:  # Ray raises many kinds
        raise ModelError(f"--model ray: Ray cannot be reached or started ({reason_with_type(error)})") from error


def count_room(machines: Sequence[Mapping[str, float]], needs: Mapping[str, float]) -> int:
    """Count the workers that fit into the machines of a cluster, by the resources of each and the needs of a worker."""
    return sum(int(min(machine.get(name, 0) // need for name, need in needs.items() if need)) for machine in machines)


def describe_needs(needs: Mapping[str, float]) -> str:
    """Say what a worker needs: ``1 CPU, 0 GPU``."""
    return ", ".join(f"{need:g} {name}" for name, need in needs.items())


def check_waiting(
    waited: float, machines: Sequence[Mapping[str, float]], needs: Mapping[str, float], *, reading: bool
) -> None:
    """Check that it makes sense to wait for an answer.

    Args:
        waited: seconds since the last answer.
        machines: what Ray says of the resources of each that is alive.
        needs: resources of each worker.
        reading: whether batches are read.

    Raises:
        ModelError: it does not.
    """
    kept = "what was answered is kept with --use_cache FILE"
    if not machines:
        raise ModelError(f"--model ray: no machine of the cluster is alive, as Ray says above; {kept}")
    limit, what = (LONGEST, "no batch was answered") if reading else (PATIENCE, "no worker could begin")
    if not reading and not count_room(machines, needs):
        limit, what = JOINING, f"no machine with room for a worker ({describe_needs(needs)}) has joined"
    if waited >= limit:
        raise ModelError(f"--model ray: {what} within {waited / 60:.0f} minutes; {kept}")


def check_room(machines: Sequence[Mapping[str, float]], workers: int, needs: Mapping[str, float]) -> None:
    """Check that a worker fits into one machine; warn where not all fit now.

    Args:
        machines: what Ray says of the resources of each.
        workers: number of workers.
        needs: resources of each worker.

    Raises:
        ModelError: no machine has room for one.
    """
    room = count_room(machines, needs)
    if room >= workers:
        return
    said = describe_needs(needs)
    if room == 0:
        raise ModelError(
            f"--model ray: a worker takes {said} of one machine, and none of the {len(machines)} machines has so much; lower "
            "worker_cpus or worker_gpus"
        )
    logger.warning(
        "ray: %d of %d workers have room now (%s each); the others begin when machines join", room, workers, said
    )
