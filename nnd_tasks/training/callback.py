"""`NNDCallback`: pass rates during training with `transformers.Trainer` (Laban et al., 2022, section 5.4 and Figure 4).

The model is evaluated without a copy and without changing it: training gives the same weights with and without the callback.
"""

from __future__ import annotations

import copy
import inspect
import logging
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase, Trainer, TrainerCallback

from nnd_tasks.categories import ALL
from nnd_tasks.errors import NNDError, typed_reason_of
from nnd_tasks.measures import MEASURES
from nnd_tasks.run.adapter import task_manager
from nnd_tasks.run.run import evaluate
from nnd_tasks.schema import list_slugs
from nnd_tasks.task.metrics import UNDEFINED
from nnd_tasks.task.settings import check_selection
from nnd_tasks.text import counted
from nnd_tasks.training.training_log import LOG_NAME, Line, read_log, write_log
from shared_prefix.hf_shared_prefix import SharedPrefixLM

logger = logging.getLogger("lm_eval.nnd")

#: Key that marks the Trainer's final log of a training run, before its loggers close.
_LAST = "train_runtime"


class NNDCallback(TrainerCallback):  # type: ignore[misc]
    """Evaluate NND tasks at regular steps of a `transformers.Trainer`, and at the end of training.

    Example:
        ``Trainer(model, arguments, callbacks=[NNDCallback("nnd_quiz_design", every=500)], ...)``

    Pass rates go through the Trainer's `log`, as ``nnd/<task>`` and ``nnd/<task>/<category>``, and so to
    ``trainer.state.log_history``, TensorBoard, Weights & Biases and wherever else the Trainer reports. The measures of
    `nnd_tasks.measures` go there too, such as ``nnd/<task>/margin`` and ``nnd/<task>/<category>/margin``. A file gets one JSON
    object per evaluation and task, with ``step``, ``epoch``, ``task``, ``signature``, ``rates`` and ``measures``. The rates are,
    for ``all`` and each category with a scored test, ``rate``, ``stderr`` (None if undefined), ``tests`` and ``clusters``
    (number of prompts); the measures likewise, by name, ``mean`` and ``stderr``.
    When training starts, or continues from a checkpoint, the file keeps no lines of later steps; all that it had are then in
    ``nnd.1.jsonl`` beside it, or the next free number.

    Only the main process evaluates; the others wait for it (see the Trainer's ``ddp_timeout``). Models that are sharded over
    processes (FSDP, DeepSpeed ZeRO 3, tensor parallelism) are refused. The forward pass runs in the type of the weights,
    without the Trainer's autocast, so the rates are those of the saved checkpoint. If an evaluation fails, there is a warning
    and training continues.

    Args:
        tasks: names of NND tasks or groups.
        every: number of optimizer steps from one evaluation to the next.
        limit: number of prompts of each task, its first ones, or a share of them if below 1; None takes all.
        sample: number of prompts of each task, spread over its categories and the same every time, as for
            ``nnd run --sample``; not together with ``limit``.
        token_stats: also log ranks, entropies and the share of likeliest tokens.
        tokenizer: a tokenizer, or its name or folder; None takes the Trainer's ``processing_class``.
        batch_size: batch size for models that cannot share prefixes.
        log_path: the file; None takes ``nnd.jsonl`` in the Trainer's ``output_dir``.
        metadata: settings of the tasks, as for ``--metadata``.
        include_path: further folders of task YAMLs.
        **options: passed on to `lm_eval.simple_evaluate`, such as ``num_fewshot``.

    Raises:
        NNDError: an argument is wrong.
    """

    def __init__(
        self,
        tasks: str | Sequence[str],
        every: int,
        limit: float | None = None,
        tokenizer: Any = None,
        batch_size: int | str = 8,
        log_path: str | Path | None = None,
        metadata: Mapping[str, Any] | None = None,
        include_path: str | Path | Sequence[str | Path] | None = None,
        sample: int | None = None,
        token_stats: bool = False,
        **options: Any,
    ) -> None:
        self.token_stats = token_stats
        self.tasks = [tasks] if isinstance(tasks, str) else list(tasks)
        if not isinstance(every, (int, np.integer)) or every < 1:
            raise NNDError(f"NNDCallback: every={every!r}: expected a number of steps, 1 or more")
        check_selection({"limit": limit, "sample": sample})
        task_manager(include_path, self.tasks)  # raises for a name that no task has
        self.every, self.batch_size = every, batch_size
        self._prompts = {"limit": limit, "sample": sample}
        self.tokenizer, self.log_path = tokenizer, log_path
        self.metadata, self.include_path = dict(metadata or {}), include_path
        # lm-eval must not set seeds: likelihoods need none, and training goes on with its own random numbers.
        seeds = dict.fromkeys(("random_seed", "numpy_random_seed", "torch_random_seed"))
        self.options = {"bootstrap_iters": 0, "log_samples": False, **seeds, **options}
        self._trainer: Any = None
        self._own_tokenizer: Any = None
        self._path = Path(log_path or LOG_NAME)
        self._done = -1  # the last step that was evaluated

    # ------------------------------------------------------------ events

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        """Check everything that could fail later, and move the lines of later steps to another file.

        Raises:
            NNDError: no such task, a set cannot be built, there is no tokenizer, the file cannot be written, ...
        """
        if not state.is_world_process_zero:
            return
        self._trainer = _calling_trainer()
        _check_whole(self._trainer, model)
        self._path = Path(self.log_path or Path(args.output_dir) / LOG_NAME).expanduser()
        lines = read_log(self._path)  # raises if it is another kind of file
        self._own_tokenizer = self._find_tokenizer(kwargs.get("processing_class"))
        try:
            names = {line["task"] for line in self._score(model, {"limit": 1})}
        except NNDError:
            raise
        except Exception as error:  # lm-eval, torch and transformers raise many kinds
            raise NNDError(f"NNDCallback: this model cannot be evaluated ({typed_reason_of(error)})") from error
        earlier = [line for line in lines if line["step"] <= state.global_step]
        if later := len(lines) - len(earlier):
            kept = (self._path.with_suffix(f".{number}.jsonl") for number in count(1))
            before = next(path for path in kept if not path.exists())
            write_log(before, lines)
            logger.warning(
                "%s: %s of steps after %d, which an earlier run left, only in %s from now on",
                self._path, counted(later, "line"), state.global_step, before,
            )  # fmt: skip
        write_log(self._path, earlier)
        logged = {line["task"] for line in earlier if line["step"] == state.global_step}
        self._done = state.global_step if names <= logged else -1

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        """Evaluate at every so many steps and at the last, before the Trainer saves a checkpoint of the step."""
        last = state.global_step >= state.max_steps or control.should_training_stop
        if last or state.global_step % self.every == 0:
            self._evaluate(state, control, model)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, model: Any = None, **kwargs: Any) -> None:
        """Evaluate at the end of a training run that stopped between two evaluations."""
        if _LAST in (logs or {}):
            self._evaluate(state, control, model)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Release the Trainer and the tokenizer."""
        self._trainer = self._own_tokenizer = None

    # ------------------------------------------------------------ evaluation

    def _evaluate(self, state: Any, control: Any, model: Any) -> None:
        """Evaluate, log and write to the file; an error becomes a warning."""
        step = state.global_step
        if self._trainer is None or step in (0, self._done):
            return
        self._done = step
        try:
            lines = self._score(model, self._prompts)
        except Exception as error:  # a failed evaluation must not stop the training
            logger.warning("NNDCallback: no evaluation at step %d, training goes on (%s)", step, typed_reason_of(error))
            return
        should_log = control.should_log  # log() resets it, but the Trainer has yet to log its loss
        self._trainer.log({name: rate for line in lines for name, rate in _scalars(line)})
        control.should_log = should_log
        try:
            new = [{"step": step, "epoch": float(state.epoch or 0.0), **line} for line in lines]
            write_log(self._path, [*read_log(self._path), *new])
        except NNDError as error:
            logger.warning("NNDCallback: step %d is not in the file, training goes on (%s)", step, error)

    def _score(self, model: Any, prompts: Mapping[str, Any]) -> list[Line]:
        """Return ``task``, ``rates`` and ``signature`` of each task; ``prompts`` says how many of its prompts are taken."""
        with untouched(model):
            lm = _LiveLM(model, tokenizer=self._own_tokenizer, batch_size=self.batch_size, token_stats=self.token_stats)
            # The tasks read the window from the model's config; nothing is loaded, because no string names the model.
            settings = {**self.metadata, "pretrained": model}
            results = evaluate(
                self.tasks, lm, metadata=settings, include_path=self.include_path, **prompts, **self.options
            )
        return [_rates_line(task, results) for task in results["configs"]]

    def _find_tokenizer(self, processing_class: Any) -> Any:
        """Return a copy of the tokenizer: lm-eval may add a padding token to it, which must not affect training."""
        tokenizer = self.tokenizer
        if tokenizer is None:
            tokenizer = processing_class
            if not isinstance(tokenizer, PreTrainedTokenizerBase):  # a processor may have a tokenizer
                tokenizer = getattr(tokenizer, "tokenizer", None)
        if tokenizer is None:
            raise NNDError(
                "NNDCallback: there is no tokenizer; pass processing_class=... to the Trainer or tokenizer=... here"
            )
        return tokenizer if isinstance(tokenizer, str) else copy.deepcopy(tokenizer)


class _LiveLM(SharedPrefixLM):
    """The model that is being trained. It shows no progress bars, which would disturb the Trainer's."""

    def loglikelihood(self, requests: list[Any], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """Score requests; see `SharedPrefixLM`."""
        answers: list[tuple[float, bool]] = super().loglikelihood(requests, disable_tqdm=True)
        return answers


@contextmanager
def untouched(model: Any) -> Iterator[None]:
    """Within this context, use a model in evaluation mode and in its own precision; afterwards, restore what changed.

    The attributes and buffers of every module, the model's configs, and the states of the random number generators of Python,
    NumPy and PyTorch (on the CPU and all CUDA devices) are restored. Parameters and their gradients are not touched at all.

    Args:
        model: a `torch.nn.Module`.
    """
    configs = [getattr(model, name, None) for name in ("config", "generation_config")]
    attributes = [vars(owner) for owner in (*model.modules(), *configs) if hasattr(owner, "__dict__")]
    # Shallow copies are enough: evaluation assigns attributes such as `training`, and changes no value in place.
    copies = [(now, dict(now)) for now in (*attributes, *(module._buffers for module in model.modules()))]
    python, numpy = random.getstate(), np.random.get_state()
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
    try:
        with torch.random.fork_rng(devices):
            if "_original_forward" in vars(model):  # accelerate's wrapper for mixed precision
                vars(model)["forward"] = vars(model)["_original_forward"]
            vars(model)["tie_weights"] = lambda *args, **kwargs: None  # HFLM would tie the weights again
            model.eval()
            yield
    finally:
        for now, before in copies:
            now.clear()
            now.update(before)
        random.setstate(python)
        np.random.set_state(numpy)


# ---------------------------------------------------------------- from results to rates


def _rates_line(task: str, results: Mapping[str, Any]) -> Line:
    """Return ``task``, ``rates``, ``measures`` and ``signature`` of one task.

    Args:
        task: its name.
        results: what `nnd_tasks.evaluate` returned.

    Raises:
        NNDError: the task is not an NND task.
    """
    facts = (results["configs"][task].get("metadata") or {}).get("nnd")
    if facts is None:
        raise NNDError(f"NNDCallback: {task} is not an NND task, so it has no pass rate; leave it out of tasks")
    # lm-eval names them METRIC,FILTER; of several filters the first counts.
    values = reversed(results["results"][task].items())
    metrics = {name.partition(",")[0]: None if value == UNDEFINED else value for name, value in values}

    def mean(metric: str, name: str) -> dict[str, Any]:
        return {name: metrics.get(metric), "stderr": metrics.get(f"{metric}_stderr")}

    ends = {ALL: ""}
    for name in facts["categories"]:  # whether its slug has a hash depends on the categories of the whole set
        slugs = [slug for slug in list_slugs(name) if f"pass_rate_{slug}" in metrics]
        ends |= {name: f"_{slugs[0]}"} if slugs else {}
    sizes = {**facts["categories"], ALL: {name: metrics[name] for name in ("tests", "clusters")}}
    rates, measures = {}, {}
    for name, end in ends.items():
        if metrics.get(f"pass_rate{end}") is not None:
            rates[name] = {**mean(f"pass_rate{end}", "rate"), **sizes[name]}
            of_category = {measure: mean(f"{measure}{end}", "mean") for measure in MEASURES}
            measures[name] = {measure: pair for measure, pair in of_category.items() if pair["mean"] is not None}
    signature = (facts.get("signature") or {}).get("line")
    return {"task": task, "rates": rates, "measures": measures, "signature": signature}


def _scalars(line: Line) -> Iterator[tuple[str, float]]:
    """Yield the numbers of a line under the names that loggers get: ``nnd/<task>/<category>/<measure>``.

    A rate has no name of a measure, and what is of all tests none of a category.
    """
    for name, rate in line["rates"].items():
        place = f"nnd/{line['task']}" + ("" if name == ALL else f"/{name}")
        yield place, rate["rate"]
        for measure, numbers in line["measures"][name].items():
            yield f"{place}/{measure}", numbers["mean"]


# ---------------------------------------------------------------- checks


def _calling_trainer() -> Any:
    """Return the Trainer that called the callback, whose `log` is needed; the Trainer does not pass itself to callbacks."""
    frame = inspect.currentframe()
    while frame is not None:
        owner = frame.f_locals.get("self")
        if isinstance(owner, Trainer):
            return owner
        frame = frame.f_back
    raise NNDError("NNDCallback: no transformers.Trainer calls it; add it to one with callbacks=[...]")


def _check_whole(trainer: Any, model: Any) -> None:
    """Raise NNDError if the main process does not hold the whole model."""
    plugin = getattr(trainer.accelerator.state, "deepspeed_plugin", None)
    reasons = {
        "FSDP": trainer.is_fsdp_enabled,
        "DeepSpeed ZeRO 3": plugin is not None and plugin.zero_stage == 3,
        "tensor parallelism": getattr(model, "tp_size", None) or trainer.is_distributed_loading_by_transformers,
    }
    for reason, holds in reasons.items():
        if holds:
            raise NNDError(
                f"NNDCallback: {reason} shards the model over processes, and the callback needs the whole; evaluate saved "
                "checkpoints with `nnd run`"
            )
