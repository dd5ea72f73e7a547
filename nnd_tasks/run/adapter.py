"""Where a run meets lm-eval: what it calls, and every patch of it, each with what upstream does otherwise.

All patches are context managers, and outside of them lm-eval is unchanged. It works with the releases 0.4.13 and 0.5.
"""

from __future__ import annotations

import glob
import json
import logging
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import fields
from functools import partial
from importlib.metadata import entry_points
from inspect import signature
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
from lm_eval.api.model import LM, hash_args
from lm_eval.utils import simple_parse_args_string
from sqlitedict import SqliteDict

from nnd_tasks.errors import NNDError
from nnd_tasks.files import changing, write_text, writing_all
from nnd_tasks.redact import Veiled, bare_urls
from nnd_tasks.task.request import engine_errors
from nnd_tasks.task.settings import SAMPLE
from nnd_tasks.task.signature import digest
from nnd_tasks.task.task_files import registered_folder, write_task_folder
from nnd_tasks.text import did_you_mean
from shared_prefix.servers import checked_servers

__all__ = ["LM"]

logger = logging.getLogger("lm_eval.nnd")

#: Bytes that the name of a folder of results may have; file systems allow 255.
_MOST_BYTES = 200
#: Stands for the time in the names of files.
_SOME_TIME = "2000-01-01T00-00-00.000000"


def parse_model_args(model_args: str | Mapping[str, Any] | None) -> dict[str, Any]:
    """Read ``--model_args`` as lm-eval does."""
    return dict(simple_parse_args_string(model_args) if isinstance(model_args, str) else model_args or {})


def model_types() -> list[str]:
    """List the names that ``--model`` may have: models of lm-eval, and of packages that declare theirs, as ours does."""
    import lm_eval.models  # noqa: F401 - registers lm-eval's
    from lm_eval.api.registry import model_registry

    return sorted({*model_registry.keys(), *entry_points(group="lm_eval.models").names})


def model_parameters(model: str) -> set[str]:
    """List the names of arguments that a type of model and its base classes take."""
    from lm_eval.api.registry import get_model

    return {name for base in get_model(model).__mro__ for name in signature(base.__init__).parameters}


def words_by_option(arguments: Sequence[str]) -> dict[str, list[list[str]]]:
    """Group the words of lm-eval's command line by the options that they belong to.

    Args:
        arguments: as one would type them after ``lm_eval run``; options may be shortened as `argparse` allows it.

    Returns:
        Long name of an option -> its values, for each time that it is given.
    """
    from lm_eval._cli import HarnessCLI

    options = HarnessCLI()._subparsers.choices["run"]._option_string_actions
    given: dict[str, list[list[str]]] = {}
    values: list[str] = []
    for word in arguments:
        name, equals, value = word.partition("=")
        matches = {options[name].dest} if name in options else set()
        if not matches and name.startswith("--"):
            matches = {action.dest for option, action in options.items() if option.startswith(name)}
        if len(matches) == 1:
            values = [value] if equals else []
            given.setdefault(matches.pop(), []).append(values)
        else:
            values.append(word)
    return given


# ---------------------------------------------------------------- the command line


def run_command_line(
    arguments: list[str],
    evaluate: Callable[..., Any],
    complete: Callable[[Any], list[str]],
) -> list[Any]:
    """Let lm-eval's command line read ``arguments``, with our tasks, and call ``evaluate`` in place of its `simple_evaluate`.

    Upstream: `cli_evaluate` (lm_eval/__main__.py) reads ``sys.argv``, and imports the function by name (lm_eval/_cli/run.py).

    Args:
        arguments: the verb and what follows.
        evaluate: takes the arguments of `simple_evaluate`.
        complete: of the verb ``run``, called with lm-eval's configuration before the evaluator is imported; it may change it,
            and returns the names of the tasks.

    Returns:
        The writers of results that have saved some.

    Raises:
        NNDError: there is no task of a name, or results, samples or token scores could not be written.
    """
    import lm_eval
    from lm_eval.__main__ import cli_evaluate

    trackers: list[Any] = []
    # `patch.object` would ask for upstream's function, which takes seconds to import before a wrong option is noticed.
    with (
        patch.object(sys, "argv", ["lm_eval", *arguments]),
        patch.dict(vars(lm_eval), simple_evaluate=evaluate),
        ExitStack() as patches,
    ):

        def begin(options: Any) -> None:
            patches.enter_context(_our_tasks(complete(options)))
            patches.enter_context(_failing_on_unsaved(trackers))

        patches.enter_context(_configured_by(begin) if arguments[0] == "run" else _our_tasks())
        cli_evaluate()
    return trackers


@contextmanager
def _configured_by(begin: Callable[[Any], None]) -> Iterator[None]:
    """Call ``begin`` with lm-eval's configuration when it is complete, and keep it from showing the secrets in it.

    Upstream: `EvaluatorConfig._configure` (lm_eval/config/evaluate_config.py) prints the arguments, and those of a file. It
    runs before the evaluator is imported.
    """
    from lm_eval.config.evaluate_config import EvaluatorConfig

    configure = EvaluatorConfig._configure

    def configure_and_begin(self: Any) -> Any:
        configure(self)
        begin(self)
        for field in fields(self):
            if isinstance(given := getattr(self, field.name), dict):
                setattr(self, field.name, Veiled(given))
        return self

    with patch.object(EvaluatorConfig, "_configure", configure_and_begin):
        yield


# ---------------------------------------------------------------- tasks


def task_manager(include_path: Any, names: Sequence[str], metadata: Any = None) -> Any:
    """Make a `TaskManager` that knows tasks of ours, of ``include_path`` and, where one is asked for, of lm-eval.

    Args:
        include_path: further folders: one, several or None.
        names: of the tasks that will be asked for.
        metadata: of all tasks.

    Raises:
        NNDError: there is no task, group or tag of a name.
    """
    from lm_eval.tasks import TaskManager

    with _our_tasks(names):
        return TaskManager(include_path=include_path, metadata=metadata)


@contextmanager
def _our_tasks(names: Sequence[str] = ()) -> Iterator[None]:
    """Let each `TaskManager` that is made within this context know our tasks.

    Reading all of our YAMLs takes half a second, and lm-eval's own thousands 8 seconds. So all of ours are read only for a
    group, which may have tasks of any folder, and for a name that is none of ours; lm-eval's only for one that is neither.

    Upstream: `TaskManager.__init__` (lm_eval/tasks/manager.py) reads all YAMLs of lm-eval, those of `nnd register` among them,
    and one ``--include_path``, which the user may need. It does not say which known name an unknown one resembles.

    Args:
        names: of the tasks that will be asked for; none stands for all tasks.
    """
    from lm_eval.tasks import TaskManager
    from lm_eval.tasks._index import TaskIndex

    make, list_files = TaskManager.__init__, TaskIndex._iter_yaml_files
    asked = [name for name in names if not name.endswith(".yaml")]  # else it is a file
    ours = [name for name in asked if name.startswith("nnd_")]  # no task of lm-eval begins so
    folder, registered = write_task_folder(), registered_folder()
    by_name = {path.stem: path.parent for path in folder.rglob("*.yaml")}
    folders = {by_name.get(name, folder) for name in asked} or {folder}

    def list_unregistered(root: Path) -> Iterator[Path]:
        return (path for path in list_files(root) if registered not in path.parents)

    def init(self: Any, *args: Any, include_path: Any = None, **kwargs: Any) -> None:
        further = include_path if isinstance(include_path, (list, tuple)) else [include_path] if include_path else []

        def read(folders: Iterable[Path], **options: Any) -> None:
            make(self, *args, include_path=[*folders, *further], **{**kwargs, **options})

        if folder not in folders:
            read(sorted(folders), include_defaults=False)
            if {*asked} <= {*self.all_tasks} - {*self.all_groups}:
                return
        if names:
            read([folder], include_defaults=False)
            if {*asked} <= {*self.all_tasks}:
                return
            _check_names(ours, self.all_tasks)
        read([folder])
        _check_names(asked, self.all_tasks)

    with (
        patch.object(TaskManager, "__init__", init),
        patch.object(TaskIndex, "_iter_yaml_files", staticmethod(list_unregistered)),
    ):
        yield


def _check_names(asked: Sequence[str], names: Sequence[str]) -> None:
    """Raise NNDError for what names no task, group or tag, and is no pattern, folder or file either.

    Ours are offered first: among lm-eval's thousands some are like anything.
    """
    ours = [task for task in names if task.startswith("nnd")]
    for name in asked:
        if name not in names and not re.search(r"[*?[]", name) and not Path(name).exists():
            hint = did_you_mean(name, ours, at_most=3, cutoff=0.7) or did_you_mean(name, names, at_most=3, cutoff=0.8)
            instead = "`nnd run ls tasks` lists them, --include_path FOLDER adds yours"
            raise NNDError(f"there is no task {name!r}; {hint or instead}")


@contextmanager
def templates_filled_by(fill: Callable[[str, Mapping[str, Any]], str]) -> Iterator[None]:
    """Render the templates of lm-eval's tasks by a function of a template and a document.

    Upstream: `apply_template` (lm_eval/utils.py) renders without a sandbox.
    """
    with patch("lm_eval.utils.apply_template", fill):
        yield


# ---------------------------------------------------------------- the run


def simple_evaluate(manager: Any, loaded: Any, **arguments: Any) -> Any:
    """Call lm-eval's own function, which takes seconds to import, for tasks that are loaded already.

    Upstream: `simple_evaluate` (lm_eval/evaluator.py) loads tasks after the model, so the user would wait for the model
    before hearing of a mistake in a task.

    Args:
        manager: lm-eval's `TaskManager`.
        loaded: what it loaded.
        **arguments: of lm-eval's function.
    """
    from lm_eval import evaluator

    with (
        patch.object(manager, "load", lambda task_list: loaded),
        _git_asked_quietly(),
        checked_servers(),
        _seeded_samples(),
        _forgetting_unread(arguments.get("use_cache"), loaded["tasks"].values()),
    ):
        return evaluator.simple_evaluate(task_manager=manager, **arguments)


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
                with SqliteDict(str(path), autocommit=True) as cache:
                    for key in unread:
                        cache.pop(key, None)
            logger.info(
                "%d answers that cannot be read are not kept in --use_cache: the next run asks again", len(unread)
            )


@contextmanager
def _git_asked_quietly() -> Iterator[None]:
    """Keep git from printing "fatal: not a git repository".

    Upstream: `get_git_commit_hash` (lm_eval/loggers/utils.py) asks it with `subprocess.check_output`.
    """
    from lm_eval import evaluator

    look_up, ask = evaluator.get_git_commit_hash, subprocess.check_output

    def look_up_quietly() -> Any:
        with patch.object(subprocess, "check_output", partial(ask, stderr=subprocess.DEVNULL)):
            return look_up()

    with patch.object(evaluator, "get_git_commit_hash", look_up_quietly):
        yield


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


def check_output(output_path: str | None, model: Any, arguments: Mapping[str, Any], tasks: Iterable[str]) -> str | None:
    """Write and remove a file of each name that the run will write, as lm-eval would only log an error, after the run.

    Args:
        output_path: the option.
        model: what ``--model`` names, or a ready-made model.
        arguments: of the model.
        tasks: names of the tasks.

    Returns:
        Name of the folder that the model's results go to; None where lm-eval takes a random one.

    Raises:
        NNDError: a file cannot be written.
    """
    folder = _name_folder(model, arguments)
    if not output_path:
        return folder
    path, place = Path(output_path), results_folder(output_path, folder)
    results = path.stem if path.suffix == ".json" else "results"
    longest = [f"{results}_{_SOME_TIME}.json", *(f"tokens_{task}_{_SOME_TIME}.parquet" for task in tasks)]
    with changing(f"--output_path {output_path}"):
        missing = [path for path in (place, *place.parents) if not path.exists()]
        place.mkdir(parents=True, exist_ok=True)
        try:
            for name in longest:
                with tempfile.TemporaryDirectory(dir=place) as beside:
                    Path(beside, name).touch()
        finally:
            for path in missing:  # a run that ends with an error leaves no empty folders
                with suppress(OSError):
                    path.rmdir()
    return folder


def _name_folder(model: Any, arguments: Mapping[str, Any]) -> str | None:
    """Name the folder that a model's results go to: that of lm-eval, shortened, without secrets.

    Args:
        model: what ``--model`` names, or a ready-made model; the file of scores of ``nnd_file`` names the model.
        arguments: of the model.

    Returns:
        The name; None where the arguments name no model, so that lm-eval takes a random one.

    Raises:
        NNDError: the file of scores cannot be read.
    """
    from shared_prefix.lengths import name_engine
    from shared_prefix.score_file import FILE  # imports torch

    if model == FILE:
        with engine_errors():
            arguments = {"model": name_engine(arguments)[1]}
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


def saved_folder(tracker: Any) -> Path:
    """Find the folder in which lm-eval's `EvaluationTracker` has saved the results of a run."""
    return results_folder(tracker.output_path, tracker.general_config_tracker.model_name_sanitized)


@contextmanager
def _failing_on_unsaved(trackers: list[Any]) -> Iterator[None]:
    """Raise when lm-eval could not save its files, and remove those that are cut off; else write the token scores.

    Upstream: `EvaluationTracker` (lm_eval/loggers/evaluation_tracker.py) catches every error while it writes, warns, and the
    run ends with status 0. A full disk leaves files that are cut off. Here the error is raised at the end of the context,
    after the table of results is printed.

    Args:
        trackers: gets the writers of results that have saved some. `nnd_tasks.run.run` left with them ``nnd_tokens``, tables of
            token scores by task, and ``nnd_mark``, the file that tells that a command has its results.
    """
    from lm_eval.loggers import EvaluationTracker

    save, save_samples = EvaluationTracker.save_results_aggregated, EvaluationTracker.save_results_samples
    counts: dict[str, int] = {}

    def save_noted(tracker: Any, **results: Any) -> None:
        trackers.append(tracker)
        save(tracker, **results)

    def save_samples_noted(tracker: Any, task_name: str, samples: Sequence[Any]) -> None:
        counts[task_name] = len(samples)
        save_samples(tracker, task_name=task_name, samples=samples)

    with (
        patch.object(EvaluationTracker, "save_results_aggregated", save_noted),
        patch.object(EvaluationTracker, "save_results_samples", save_samples_noted),
    ):
        yield
    for tracker in trackers:
        if not tracker.output_path:
            continue
        folder = saved_folder(tracker)
        try:
            if not _are_saved(folder, tracker.date_id, counts):
                raise NNDError(
                    f"--output_path {tracker.output_path}: the results could not be saved, as lm-eval says above; make room "
                    "and run again (a run with --use_cache FILE keeps the model's answers)"
                )
            _write_tokens(folder, tracker.date_id, getattr(tracker, "nnd_tokens", {}))
        except NNDError:
            for path in folder.glob(f"*_{tracker.date_id}.json*"):
                with suppress(OSError):
                    path.unlink()
            raise
        if mark := getattr(tracker, "nnd_mark", None):
            write_text(mark, tracker.date_id)


def _write_tokens(folder: Path, date: str, tables: Mapping[str, pa.Table]) -> None:
    """Write the token scores of each task beside the results.

    Raises:
        NNDError: a file cannot be written.
    """
    files = {folder / f"tokens_{task}_{date}.parquet": table for task, table in tables.items()}
    if files:
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
