"""Check the tasks of a set in a separate process: a stranger's template may take any time and memory.

The process gets the data that the parent has read. It answers with lines of JSON: the name of each task that it turns to, and
at last the findings. Where a task takes too much time or memory the process is ended, and started again without that task.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
from pyarrow import feather

from nnd_tasks.check.findings import Finding, Row, Severity, finding
from nnd_tasks.check.loading import Config, Loaded
from nnd_tasks.check.yamls import Yaml, dump_task_yaml, parse_settings
from nnd_tasks.errors import NNDError, reason_of

#: Seconds for rendering the prompts of a task, and again for running it; and more for each of its prompts.
SECONDS, SECONDS_PER_PROMPT = 120.0, 0.02
#: Seconds until the first task: reading the data, and importing lm-eval.
SECONDS_TO_START = 300.0
#: Bytes of memory that the tasks may take besides the data and lm-eval; enforced on Linux.
MEMORY = 4 * 2**30
_STOPS = 2  # after so many tasks that had to be stopped, the rest is not checked
_LINE = 50_000_000  # characters of an answer


def check_apart(
    loaded: Loaded, configs: Mapping[str, Config], yamls: Collection[Yaml], *, run: bool
) -> tuple[list[Finding], list[str]]:
    """Check the tasks that read a set, in a process that may take a bounded time and memory for each of them.

    Args:
        loaded: the set.
        configs: those whose columns are in order.
        yamls: its tasks.
        run: run them on a tiny model too.

    Returns:
        The findings, and the names of the tasks that were run.

    Raises:
        NNDError: the process cannot be started.
    """
    stopped: dict[str, Finding] = {}
    while True:
        process = _Process(loaded, configs, yamls, run=run, skip=stopped)
        findings, ran = process.result()
        if process.task and len(stopped) < _STOPS:
            stopped[process.task] = _stopped(process, loaded, yamls)
            continue
        if process.task:
            message = f"the tasks were not checked: {process.task} was stopped too, which {process.reason}"
            findings = [finding("task_invalid", message, "correct the tasks that were stopped, then check again")]
        return [*stopped.values(), *findings], ran


def _stopped(process: _Process, loaded: Loaded, yamls: Collection[Yaml]) -> Finding:
    config = next((task.config for task in yamls if task.name == process.task), None) or loaded.default
    code, what = ("run_failed", "its run") if process.runs else ("prompt_invalid", "rendering its prompts")
    message = f"{process.task} was stopped: {what} {process.reason}"
    return finding(code, message, "look for loops and regular expressions in its templates", config=config)


class _Process:
    """One process that checks tasks.

    Attributes:
        task: the task at which the process was ended or broke down; ``""`` where it finished.
        runs: whether that task was being run on the tiny model.
        reason: why the process was ended, in words.
    """

    def __init__(
        self,
        loaded: Loaded,
        configs: Mapping[str, Config],
        yamls: Collection[Yaml],
        *,
        run: bool,
        skip: Collection[str],
    ) -> None:
        self.task, self.runs, self.reason = "", False, ""
        self._prompts = {
            task.name: len(set(configs[name].columns["cluster_id"]))
            for task in yamls
            if (name := task.config or loaded.default) in configs
        }
        self._tables = {name: config.table for name, config in configs.items()}
        self._request: dict[str, Any] = {
            "set": {
                "folder": str(loaded.folder),
                "name": loaded.name,
                "known": loaded.known,
                "default": loaded.default,
            },
            "configs": list(loaded.configs),
            "yamls": [
                {
                    "name": task.name,
                    "path": str(task.path),
                    "config": task.config,
                    "settings": dump_task_yaml(task.settings),
                    "foreign": list(task.foreign),
                }
                for task in yamls
            ],
            "run": run,
            "skip": sorted(skip),
        }

    def result(self) -> tuple[list[Finding], list[str]]:
        """Return the findings and the names of the tasks that were run; `task` is set where it was ended."""
        # With the parent's search path: with -c alone, Python would import from the current folder.
        code = f"import sys; sys.path[:] = {sys.path!r}; from nnd_tasks.check.apart import main; main()"
        with tempfile.TemporaryDirectory(prefix="nnd-check-") as scratch:  # a process that is ended leaves files
            self._request["tables"] = {}
            for i, (name, table) in enumerate(self._tables.items()):
                self._request["tables"][name] = path = str(Path(scratch) / f"{i}.arrow")
                feather.write_feather(table, path, compression="uncompressed")
            environment = {**os.environ, **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), scratch)}
            command = [sys.executable, "-c", code]
            try:
                process = subprocess.Popen(  # noqa: S603 - Python itself
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
                )
            except OSError as error:
                raise NNDError(f"a process to check the tasks cannot be started ({reason_of(error)})") from error
            assert process.stdin is not None
            assert process.stdout is not None
            lines: queue.Queue[bytes] = queue.Queue()
            threading.Thread(target=_read, args=(process.stdout, lines), daemon=True).start()
            threading.Thread(
                target=_send, args=(process.stdin, json.dumps(self._request).encode()), daemon=True
            ).start()
            try:
                return self._follow(process, lines)
            finally:
                process.kill()
                process.wait()

    def _follow(self, process: subprocess.Popen[bytes], lines: queue.Queue[bytes]) -> tuple[list[Finding], list[str]]:
        seconds = SECONDS_TO_START
        while True:
            try:
                line = lines.get(timeout=seconds)
            except queue.Empty:
                self.reason = f"took more than {seconds:,.0f} seconds"
                break
            if not line.endswith(b"\n"):
                self.reason = f"ended its process (status {process.wait()}); it may have asked for too much memory"
                break
            said = json.loads(line)
            if "findings" in said:
                self.task = ""
                return [_finding_of(one) for one in said["findings"]], said["ran"]
            if "bug" in said:
                raise RuntimeError(said["bug"])
            if "error" in said:
                raise NNDError(said["error"])
            self.task, self.runs = said["task"], said["runs"]
            seconds = SECONDS + SECONDS_PER_PROMPT * self._prompts.get(self.task, 0)
        if not self.task:
            raise NNDError(f"the tasks could not be checked: starting {self.reason}; try again")
        return [], []


def _read(stream: IO[bytes], lines: queue.Queue[bytes]) -> None:
    """Put each line that a process writes into a queue; at its end, or at a line that is too long, put ``b""``."""
    with contextlib.suppress(ValueError, OSError):
        while (line := stream.readline(_LINE)).endswith(b"\n"):
            lines.put(line)
    lines.put(b"")


def _send(stream: IO[bytes], request: bytes) -> None:
    with contextlib.suppress(OSError), stream:  # it may have ended already
        stream.write(request)


def _finding_of(said: Mapping[str, Any]) -> Finding:
    rows = tuple(Row(**row) for row in said["rows"])
    table = tuple(map(tuple, said["table"]))
    return Finding(**{**said, "severity": Severity(said["severity"]), "rows": rows, "table": table})


# ---------------------------------------------------------------- in that process


def check_here(
    loaded: Loaded,
    configs: Mapping[str, Config],
    yamls: Collection[Yaml],
    *,
    run: bool,
    skip: Collection[str] = (),
    tell: Callable[[str, bool], object] = lambda task, runs: None,
) -> tuple[list[Finding], list[str]]:
    """Do what `check_apart` does, in this process.

    Besides its arguments, ``skip`` names tasks that are left out, and ``tell`` is called with the name of each task and False
    before it is checked, and with True before it is run.
    """
    from nnd_tasks.check import trial
    from nnd_tasks.check.task_checks import Documents, check_tasks

    documents = Documents(loaded, configs)
    findings, runnable = check_tasks(documents, yamls, skip, lambda task: tell(task, False))
    ran = runnable if run else []
    findings += trial.run(documents, ran, lambda task: tell(task, True))
    return findings, [task.name for task in ran]


def main() -> None:
    """Answer the request on standard input."""
    asked = json.loads(sys.stdin.buffer.read())
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)  # so that nothing that other libraries print is read as an answer
    os.dup2(nowhere, 2)

    def answer(**said: Any) -> None:
        answers.write(json.dumps(said) + "\n")
        answers.flush()

    try:
        loaded, configs, yamls = _received(asked)
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # a GPU takes more address space than is allowed, and is not needed
        import lm_eval.tasks  # noqa: F401 - before the memory in use is counted

        import nnd_tasks.harness.task  # noqa: F401

        _limit_memory(MEMORY)
        findings, ran = check_here(
            loaded,
            configs,
            yamls,
            run=asked["run"],
            skip=asked["skip"],
            tell=lambda task, runs: answer(task=task, runs=runs),
        )
        answer(findings=[asdict(one) for one in findings], ran=ran)
    except NNDError as error:
        answer(error=str(error))
    except Exception:
        answer(bug=traceback.format_exc())
    answers.close()
    os._exit(0)  # threads of libraries would keep the process alive


def _received(asked: Mapping[str, Any]) -> tuple[Loaded, dict[str, Config], list[Yaml]]:
    """Return the set and the tasks that the parent has sent; a config whose columns are not in order is without data."""
    tables = {name: feather.read_table(path, memory_map=False) for name, path in asked["tables"].items()}
    configs = {name: Config(name, table) for name, table in tables.items()}
    loaded = Loaded(
        **{**asked["set"], "folder": Path(asked["set"]["folder"])},
        header={},
        card="",
        body="",
        configs={name: Config(name, tables.get(name, pa.table({}))) for name in asked["configs"]},
    )
    yamls = [
        Yaml(
            **{
                **one,
                "path": Path(one["path"]),
                "settings": parse_settings(one["settings"]),
                "foreign": tuple(one["foreign"]),
            }
        )
        for one in asked["yamls"]
    ]
    return loaded, configs, yamls


def _limit_memory(more: int) -> None:
    """Let this process take at most ``more`` bytes in addition to its present ones, where the system enforces that."""
    try:
        import resource

        status = Path("/proc/self/status").read_text(encoding="ascii")
        used = next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmData:"))
        # RLIMIT_DATA, not the address space: libraries reserve addresses that they never use.
        resource.setrlimit(resource.RLIMIT_DATA, (used + more, used + more))
    except (ImportError, OSError, ValueError, StopIteration):
        pass
