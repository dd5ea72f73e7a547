"""Where a run meets lm-eval: what it calls, and every patch of it, each with what upstream does otherwise.

All patches are context managers, and outside of them lm-eval is unchanged. It works with the releases 0.4.13 and 0.5.
"""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.metadata import entry_points
from inspect import signature
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
from lm_eval.api.model import LM

from nnd_tasks.errors import NNDError
from nnd_tasks.files import changing, read_text
from nnd_tasks.measures import MEASURES
from nnd_tasks.redact import bare_urls
from nnd_tasks.servers.client import checked_servers
from nnd_tasks.task.metrics import NORMALIZATIONS, PROMPT_RATES
from nnd_tasks.task.settings import SAMPLE
from nnd_tasks.task.signature import digest
from nnd_tasks.task.task_files import INDEX, write_task_folder
from nnd_tasks.text import did_you_mean, some_of

__all__ = ["LM"]

#: Bytes that the name of a folder of results may have; file systems allow 255.
_MOST_BYTES = 200


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

    Lm-eval's own thousands take 8 seconds to read, so they are read only for a name that is none of ours.

    It loads tasks once. Upstream: `simple_evaluate` (lm_eval/evaluator.py) asks for them after it has loaded the model, so the
    user would wait for the model before hearing of a mistake in a task.

    Args:
        include_path: further folders: one, several or None.
        names: of the tasks that will be asked for.
        metadata: of all tasks.

    Raises:
        NNDError: there is no task, group or tag of a name.
    """
    from lm_eval.tasks import TaskManager, _index

    class LoadingOnce(TaskManager):  # type: ignore[misc]  # is Any
        loaded: Any = None

        def load(self, *specs: Any, **options: Any) -> Any:
            self.loaded = self.loaded or super().load(*specs, **options)
            return self.loaded

    further = include_path if isinstance(include_path, (list, tuple)) else [include_path] if include_path else []
    if lost := [path for path in further if not Path(path).is_dir()]:
        raise NNDError(f"include_path={lost[0]}: there is no such folder")
    names = [name for name in names if not name.endswith(".yaml")]  # else it is a file
    folder = write_task_folder()
    # Upstream warns of each task that is read twice: what `nnd register` wrote is among lm-eval's own, and a folder may hold
    # copies of all of ours. Tags have no file. Only who asks for a task wants to know.
    twice = re.compile(rf"from (None|{re.escape(str(folder))}\S*) overrides")
    logger = logging.getLogger("lm_eval.tasks._index")

    def quietly(record: logging.LogRecord) -> bool:
        message = record.getMessage()
        return not twice.search(message) and any(f"'{name}'" in message for name in names)

    index = json.loads(read_text(folder / INDEX))
    known, load_yaml = {folder / name: keys for name, keys in index.items()}, _index.load_yaml

    def load_known(path: Path, **options: Any) -> Any:
        return known.get(path) or load_yaml(path, **options)

    logger.addFilter(quietly)
    try:
        for defaults in (False, True):
            # Upstream parses each YAML of a folder, with all that it includes, to find the names of tasks.
            with patch.object(_index, "load_yaml", load_known):
                manager = LoadingOnce(include_path=[folder, *further], include_defaults=defaults, metadata=metadata)
            others = [name for name in names if not manager.match_tasks([name])]
            match_names(
                manager, [name for name in others if defaults or name.startswith("nnd_")]
            )  # no task of lm-eval does
            if not others:
                break
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
            # People look for the name of a set.
            of_set = [task for task in ours if f"{task}_".startswith((f"{name}_", f"nnd_{name}_"))]
            hint = (
                f"of this set there are {some_of(of_set, 6, str)}"
                if of_set
                else did_you_mean(name, ours, at_most=3, cutoff=0.7)
                or did_you_mean(name, manager.all_tasks, at_most=3, cutoff=0.8)
                or "`nnd list` lists the sets, `lm_eval ls tasks` lm-eval's tasks; include_path=FOLDER adds yours"
            )
            raise NNDError(f"there is no task {name!r}; {hint}")
        matches |= dict.fromkeys(found)
    return list(matches)


# ---------------------------------------------------------------- the run


def simple_evaluate(**arguments: Any) -> Any:
    """Call lm-eval's own function, which takes seconds to import.

    Git prints no "fatal: not a git repository". Upstream: `get_git_commit_hash` (lm_eval/loggers/utils.py) asks it with
    `subprocess.check_output`.
    """
    from lm_eval import evaluator

    quietly = partial(subprocess.check_output, stderr=subprocess.DEVNULL)
    with (
        patch.object(subprocess, "check_output", quietly),
        checked_servers(),
        _seeded_samples(),
        _listing_packages_alone(),
    ):
        return evaluator.simple_evaluate(**arguments)


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


@contextmanager
def _listing_packages_alone() -> Iterator[None]:
    """List the installed packages as upstream's `add_env_info` (lm_eval/loggers/utils.py) does, without its process of pip.

    That process takes more than a second.
    """
    from torch.utils import collect_env

    read = collect_env.run_and_read_all

    def read_packages(run: Any, command: Any) -> Any:
        if "-mpip" not in command:
            return read(run, command)
        folders = (folder.stem for path in sys.path for folder in Path(path).glob("*.dist-info"))
        return "\n".join(sorted(name.replace("-", "==", 1) for name in folders))

    with patch.object(collect_env, "run_and_read_all", read_packages):
        yield


# ---------------------------------------------------------------- results


def start_tracker(output_path: str | Path | None) -> Any:
    """Make lm-eval's `EvaluationTracker`, which writes results, and print its log lines and ours; None writes none.

    Raises:
        NNDError: no file can be written there, which lm-eval would only log, after the run.
    """
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.utils import setup_logging

    if output_path:
        path = Path(output_path).absolute()
        folders = [path, *path.parents][path.suffix == ".json" :]
        with changing(
            f"--output_path {output_path}"
        ):  # a folder that is not there yet is tried by the one that will hold it
            tempfile.TemporaryFile(dir=next(folder for folder in folders if folder.exists())).close()
    setup_logging()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # as `lm_eval` does: its threads do not survive a fork
    return EvaluationTracker(output_path=output_path and str(output_path))


#: Counts that warn where they are not 0.
_WARNINGS = ("ties", "unscored", "truncated_contexts")
#: Metrics of our tasks that are printed on request.
_FURTHER = {*NORMALIZATIONS, *PROMPT_RATES, "candidates", "no_context"} - {"pass_rate"}
_FURTHER_KINDS = (*(f"{name}_" for name in MEASURES), "span_")


def write_table(results: Mapping[str, Any], *, all_metrics: bool = False) -> str:
    """Write the metrics of all tasks and groups as lm-eval does: those that one looks for first, and the rest on request.

    Args:
        results: those of lm-eval.
        all_metrics: also likelihoods in bits, margins, other rates, and counts that are 0.
    """
    from lm_eval import utils

    shown: dict[str, dict[str, Any]] = {}
    for task, metrics in results["results"].items():
        brief = not all_metrics and "nnd" in results["configs"].get(task, {}).get("metadata", {})
        shown[task] = {}
        for key, value in metrics.items():
            name = key.partition(",")[0]
            further = name in _FURTHER or f"{name}_".startswith(_FURTHER_KINDS) or (name in _WARNINGS and not value)
            if not (brief and further):
                shown[task][key] = value
    return str(utils.make_table({**results, "results": shown}))


def save_results(
    tracker: Any,
    results: Any,
    samples: Mapping[str, Any],
    tokens: Mapping[str, pa.Table],
) -> Path:
    """Write the results, samples and token scores of a run, or none of them; return the folder.

    Upstream: `EvaluationTracker` (lm_eval/loggers/evaluation_tracker.py) catches every error while it writes, and warns.

    Args:
        tracker: lm-eval's `EvaluationTracker`, which knows the model.
        results: those of lm-eval, without the samples.
        samples: of each task.
        tokens: token scores of the tasks that keep them.

    Raises:
        NNDError: a file could not be written.
    """
    from lm_eval.loggers import evaluation_tracker

    def raise_again(*args: Any) -> None:
        raise

    output, model = Path(tracker.output_path), tracker.general_config_tracker
    model.model_name = bare_urls(model.model_name)
    model.model_name_sanitized = _name_folder(model.model_name)
    folder = output.parent if output.suffix == ".json" else output / model.model_name_sanitized
    hint = "make room and run again (a run with --use_cache FILE keeps the model's answers)"
    try:
        with (
            changing(f"--output_path {output}", hint=hint),
            patch.object(evaluation_tracker.eval_logger, "warning", raise_again),
        ):
            tracker.save_results_aggregated(results=results, samples=samples)
            for task in results["configs"]:
                tracker.save_results_samples(task_name=task, samples=samples[task])
            for task, table in tokens.items():
                path, numbers = folder / f"tokens_{task}_{tracker.date_id}.parquet", table.column_names[7:]
                packed = [f"{name}.list.element" for name in numbers]  # floats, whose bytes are alike place by place
                pq.write_table(table, path, compression="zstd", use_dictionary=False, use_byte_stream_split=packed)
    except BaseException:
        for path in folder.glob(f"*_{tracker.date_id}.*"):
            path.unlink()
        raise
    return folder


def _name_folder(model_name: str) -> str:
    """Name the folder of a model's results as lm-eval does, but with at most `_MOST_BYTES`."""
    from lm_eval.utils import sanitize_model_name

    name = os.fsencode(sanitize_model_name(model_name))
    if len(name) <= _MOST_BYTES:
        return os.fsdecode(name)
    return f"{digest(model_name)}__{name[-_MOST_BYTES + 14 :].decode('utf-8', 'ignore')}"
