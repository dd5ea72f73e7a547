"""Where a run meets lm-eval: what it calls, and every patch of it, each with what upstream does otherwise.

All patches are context managers, and outside of them lm-eval is unchanged. It works with the releases 0.4.13 and 0.5.
"""

from __future__ import annotations

import glob
import json
import logging
import os
import re
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import entry_points
from inspect import signature
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
from lm_eval.api.model import LM, hash_args

from nnd_tasks.errors import NNDError
from nnd_tasks.files import changing, writing_all
from nnd_tasks.redact import bare_urls
from nnd_tasks.task.settings import SAMPLE
from nnd_tasks.task.signature import digest
from nnd_tasks.task.task_files import write_task_folder
from nnd_tasks.text import did_you_mean, some_of
from shared_prefix.servers import checked_servers

__all__ = ["LM"]

logger = logging.getLogger("lm_eval.nnd")

#: Bytes that the name of a folder of results may have; file systems allow 255.
_MOST_BYTES = 200
#: Stands for the time in the names of files.
_SOME_TIME = "2000-01-01T00-00-00.000000"


def model_types() -> list[str]:
    """List the names that ``--model`` may have: models of lm-eval, and of packages that declare theirs, as ours does."""
    import lm_eval.models  # noqa: F401 - registers lm-eval's
    from lm_eval.api.registry import model_registry

    return sorted({*model_registry.keys(), *entry_points(group="lm_eval.models").names})


def model_parameters(model: str) -> dict[str, str]:
    """List the arguments that a type of model and its base classes take, with their annotations."""
    from lm_eval.api.registry import get_model

    return {
        name: str(parameter.annotation)
        for base in reversed(get_model(model).__mro__)
        for name, parameter in signature(base.__init__).parameters.items()
        if name not in ("self", "args", "kwargs")
    }


# ---------------------------------------------------------------- tasks


def task_manager(include_path: Any, names: Sequence[str], metadata: Any = None) -> Any:
    """Make a `TaskManager` that knows tasks of ours, of ``include_path`` and, where one is asked for, of lm-eval.

    Reading all of our YAMLs takes half a second, and lm-eval's own thousands 8 seconds. So all of ours are read only for a
    group, which may have tasks of any folder, and for a name that is none of ours; lm-eval's only for one that is neither.

    It loads tasks once. Upstream: `simple_evaluate` (lm_eval/evaluator.py) asks for them after it has loaded the model, so the
    user would wait for the model before hearing of a mistake in a task.

    Args:
        include_path: further folders: one, several or None.
        names: of the tasks that will be asked for.
        metadata: of all tasks.

    Raises:
        NNDError: there is no task, group or tag of a name.
    """
    from lm_eval.tasks import TaskManager

    class LoadingOnce(TaskManager):  # type: ignore[misc]  # is Any
        loaded: Any = None

        def load(self, *specs: Any, **options: Any) -> Any:
            self.loaded = self.loaded or super().load(*specs, **options)
            return self.loaded

    further = include_path if isinstance(include_path, (list, tuple)) else [include_path] if include_path else []
    names = [name for name in names if not name.endswith(".yaml")]  # else it is a file
    folder = write_task_folder()
    by_name = {path.stem: path.parent for path in folder.rglob("*.yaml")}
    folders = sorted({by_name.get(name, folder) for name in names})
    scopes = [(folders, False)] * (folder not in folders) + [([folder], False), ([folder], True)]
    # Upstream warns of each task that is read twice: what `nnd register` wrote is among lm-eval's own. Tags have no file.
    twice = re.compile(rf"from (None|{re.escape(str(folder))}\S*) overrides")
    logger, quietly = logging.getLogger("lm_eval.tasks._index"), lambda record: not twice.search(record.getMessage())
    logger.addFilter(quietly)
    try:
        for folders, defaults in scopes:
            manager = LoadingOnce(include_path=[*folders, *further], include_defaults=defaults, metadata=metadata)
            groups = {*manager.all_groups} if folders != [folder] else {*()}
            if {*names} <= {*manager.all_tasks} - groups:
                break
            if folders == [folder]:  # no task of lm-eval begins as ours do
                match_names(manager, [name for name in names if defaults or name.startswith("nnd_")])
    finally:
        logger.removeFilter(quietly)
    return manager


def match_names(manager: Any, names: Sequence[str]) -> list[str]:
    """List the tasks, groups and tags that names or patterns mean, and the YAMLs of folders.

    Ours are offered first for a name that there is not: among lm-eval's thousands some are like anything.

    Raises:
        NNDError: a name means none.
    """
    matches = dict[str, None]()
    for name in names:
        path = Path(name)
        files = path.glob("*.yaml") if path.is_dir() else path.parent.glob(path.name) if path.suffix == ".yaml" else ()
        found = manager.match_tasks([name]) or sorted(str(file.absolute()) for file in files)
        if not found:
            ours = [task for task in manager.all_tasks if task.startswith("nnd")]
            of_set = [task for task in ours if task.startswith(f"{name}_")]  # people look for the name of a set
            hint = (
                f"of this set there are {some_of(of_set, 6, str)}"
                if of_set
                else did_you_mean(name, ours, at_most=3, cutoff=0.7)
                or did_you_mean(name, manager.all_tasks, at_most=3, cutoff=0.8)
                or "`nnd list` lists the sets, `lm_eval ls tasks` lm-eval's tasks; --include_path FOLDER adds yours"
            )
            raise NNDError(f"there is no task {name!r}; {hint}")
        matches |= dict.fromkeys(found)
    return list(matches)


@contextmanager
def templates_filled_by(fill: Callable[[str, Mapping[str, Any]], str]) -> Iterator[None]:
    """Render the templates of lm-eval's tasks by a function of a template and a document.

    Upstream: `apply_template` (lm_eval/utils.py) renders without a sandbox.
    """
    with patch("lm_eval.utils.apply_template", fill):
        yield


# ---------------------------------------------------------------- the run


def simple_evaluate(**arguments: Any) -> Any:
    """Call lm-eval's own function, which takes seconds to import.

    Git prints no "fatal: not a git repository". Upstream: `get_git_commit_hash` (lm_eval/loggers/utils.py) asks it with
    `subprocess.check_output`.
    """
    from lm_eval import evaluator

    tasks = arguments["task_manager"].loaded["tasks"].values()
    quietly = partial(subprocess.check_output, stderr=subprocess.DEVNULL)
    with (
        patch.object(subprocess, "check_output", quietly),
        checked_servers(),
        _seeded_samples(),
        _forgetting_unread(arguments.get("use_cache"), tasks),
    ):
        return evaluator.simple_evaluate(**arguments)


@contextmanager
def _forgetting_unread(use_cache: str | None, tasks: Iterable[Any]) -> Iterator[None]:
    """Remove answers of servers that cannot be read from the cache after the block, as a server may be mended.

    Args:
        use_cache: the option; lm-eval adds the number of the process to it.
        tasks: that ran.
    """
    try:
        yield
    finally:
        readers = [task.reader for task in tasks if hasattr(task, "reader")]
        unread = {hash_args("generate_until", args) for reader in readers for args in getattr(reader, "unread", ())}
        if use_cache and unread:
            for path in Path(use_cache).parent.glob(f"{glob.escape(Path(use_cache).name)}_rank*.db"):
                with closing(sqlite3.connect(path)) as cache, cache:
                    cache.executemany("DELETE FROM unnamed WHERE key = ?", [(key,) for key in unread])
            logger.info(
                "%d answers that cannot be read are not kept in --use_cache: the next run asks again", len(unread)
            )


@contextmanager
def without_look_ups() -> Iterator[None]:
    """Run without lm-eval's look-ups of git and of the machine, which take a second each time.

    Upstream: `simple_evaluate` (lm_eval/evaluator.py).
    """
    with (
        patch("lm_eval.evaluator.add_env_info"),
        patch("lm_eval.evaluator.get_git_commit_hash", return_value=None),
    ):
        yield


@contextmanager
def _seeded_samples() -> Iterator[None]:
    """Begin each of several answers to a question with a seed of its own.

    Upstream: `HFLM._model_generate` (lm_eval/models/huggingface.py) draws all from one stream of random numbers. A run that goes
    on would draw for the answers that are missing what the others were drawn from.
    """
    import torch
    from lm_eval.models.huggingface import HFLM

    generate = HFLM._model_generate

    def generate_seeded(self: Any, **arguments: Any) -> Any:
        if any(text.startswith(SAMPLE) for text in arguments["stop"]):
            torch.manual_seed(int(digest([arguments["context"].tolist(), arguments["stop"]]), 16))
        return generate(self, **arguments)

    with patch.object(HFLM, "_model_generate", generate_seeded):
        yield


# ---------------------------------------------------------------- results


def check_output(output_path: str | None, arguments: Mapping[str, Any], tasks: Iterable[str]) -> str | None:
    """Write and remove a file of the longest name that the run will write, as lm-eval would only log an error, after the run.

    Args:
        output_path: the option.
        arguments: of the model.
        tasks: names of the tasks.

    Returns:
        Name of the folder that the model's results go to; None where lm-eval takes a random one.

    Raises:
        NNDError: a file cannot be written.
    """
    folder = _name_folder(arguments)
    if not output_path:
        return folder
    path, place = Path(output_path), results_folder(output_path, folder)
    results = path.stem if path.suffix == ".json" else "results"
    names = [f"{results}_{_SOME_TIME}.json", *(f"tokens_{task}_{_SOME_TIME}.parquet" for task in tasks)]
    with changing(f"--output_path {output_path}"):
        missing = [path for path in (place, *place.parents) if not path.exists()]
        place.mkdir(parents=True, exist_ok=True)
        try:
            with tempfile.TemporaryDirectory(dir=place) as beside:
                Path(beside, max(names, key=lambda name: len(os.fsencode(name)))).touch()
        finally:
            for path in missing:  # a run that ends with an error leaves no empty folders
                with suppress(OSError):
                    path.rmdir()
    return folder


def _name_folder(arguments: Mapping[str, Any]) -> str | None:
    """Name the folder that a model's results go to: that of lm-eval, shortened, without secrets.

    Args:
        arguments: of the model.

    Returns:
        The name; None where the arguments name no model, so that lm-eval takes a random one.
    """
    keys = ("peft", "delta", "pretrained", "model", "path", "engine")  # as `GeneralConfigTracker` of lm-eval 0.4.13
    name = next((bare_urls(str(arguments[key])) for key in keys if key in arguments), None)
    if name is None:
        return None
    folder = re.sub(r"[\"<>:/|\\?*\[\]]+", "__", name)  # as `lm_eval.utils.sanitize_model_name`
    if len(os.fsencode(folder)) <= _MOST_BYTES:
        return folder
    end = os.fsencode(folder)[-_MOST_BYTES + 14 :].decode("utf-8", "ignore")
    return f"{digest(name)}__{end}"


def results_folder(output_path: str, folder: str | None) -> Path:
    """Find the folder where lm-eval puts the files of a run.

    Args:
        output_path: the option; one that ends in ``.json`` names files in its folder.
        folder: see `check_output`.
    """
    path = Path(output_path)
    return path.parent if path.suffix == ".json" else path / (folder or "model")


def start_tracker(output_path: str | Path | None) -> Any:
    """Make lm-eval's `EvaluationTracker`, which writes results, and print its log lines and ours; None writes none."""
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.utils import setup_logging

    setup_logging()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # as `lm_eval` does: its threads do not survive a fork
    return EvaluationTracker(output_path=None if output_path is None else str(output_path))


@dataclass(frozen=True)
class SavedRun:
    """Where the files of a run are.

    Attributes:
        output_path: the option.
        folder: of the files.
        date: in their names.
    """

    output_path: Path
    folder: Path
    date: str


def save_results(
    tracker: Any, name: str | None, results: Any, samples: Mapping[str, Any] | None, tokens: Mapping[str, pa.Table]
) -> SavedRun:
    """Write the results, samples and token scores of a run, or none of them.

    Upstream: `EvaluationTracker` (lm_eval/loggers/evaluation_tracker.py) catches every error while it writes, and warns; a full
    disk leaves files that are cut off.

    Args:
        tracker: lm-eval's `EvaluationTracker`, which knows the model.
        name: of the folder that `check_output` tried; None where lm-eval takes a random one.
        results: those of lm-eval, without the samples.
        samples: of each task; None keeps none.
        tokens: token scores of the tasks that keep them.

    Raises:
        NNDError: a file could not be written.
    """
    samples, model = samples or {}, tracker.general_config_tracker
    model.model_name = bare_urls(model.model_name)
    model.model_name_sanitized = name or model.model_name_sanitized
    tracker.save_results_aggregated(results=results, samples=samples)
    for task in samples and results["configs"]:
        tracker.save_results_samples(task_name=task, samples=samples[task])
    folder = results_folder(tracker.output_path, model.model_name_sanitized)
    saved = SavedRun(Path(tracker.output_path), folder, str(getattr(tracker, "date_id", "")))
    try:
        if not _are_saved(folder, saved.date, {task: len(lines) for task, lines in samples.items()}):
            raise NNDError(
                f"--output_path {tracker.output_path}: the results could not be saved, as lm-eval says above; make room "
                "and run again (a run with --use_cache FILE keeps the model's answers)"
            )
        if tokens:
            _write_tokens(folder, saved.date, tokens)
    except NNDError:
        for path in folder.glob(f"*_{saved.date}.json*") if saved.date else ():
            with suppress(OSError):
                path.unlink()
        raise
    return saved


def _write_tokens(folder: Path, date: str, tables: Mapping[str, pa.Table]) -> None:
    """Write the token scores of each task beside the results.

    Raises:
        NNDError: a file cannot be written.
    """
    files = {folder / f"tokens_{task}_{date}.parquet": table for task, table in tables.items()}
    with writing_all(files, hint="no file of this run was kept") as new:
        for path, table in zip(new, files.values(), strict=True):
            pq.write_table(table, path, compression="zstd")


def _are_saved(folder: Path, date: str, samples: Mapping[str, int]) -> bool:
    """Tell whether lm-eval's files of a date are whole.

    Args:
        folder: of the files.
        date: in their names.
        samples: task -> number of documents in its file of samples.
    """
    try:
        [results] = folder.glob(f"*_{date}.json")
        json.loads(results.read_bytes())
        for task, count in samples.items():
            with (folder / f"samples_{task}_{date}.jsonl").open("rb") as lines:
                if sum(line.endswith(b"\n") for line in lines) != count:
                    return False
    except (OSError, ValueError):
        return False
    return True
