"""Where a run meets lm-eval: what it calls, and every patch of it, each with what upstream does otherwise.

All patches are context managers, and outside of them lm-eval is unchanged. It works with the releases 0.4.13 and 0.5.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any
from unittest.mock import patch

from lm_eval.api.model import LM, CacheHook, CachingLM
from lm_eval.utils import sanitize_model_name, simple_parse_args_string

from nnd_tasks.datasets import is_hidden
from nnd_tasks.errors import NNDError, reason_of
from nnd_tasks.runner.register import include_paths, is_current
from nnd_tasks.runner.saving import remove_results, results_are_whole, samples_are_whole, write_tokens
from nnd_tasks.secrets import Veiled

__all__ = ["LM", "sanitize_model_name"]


def parsed(model_args: str | Mapping[str, Any] | None) -> dict[str, Any]:
    """Return ``--model_args`` as a dictionary."""
    return dict(simple_parse_args_string(model_args) if isinstance(model_args, str) else model_args or {})


def simple_evaluate() -> Callable[..., Any]:
    """Return lm-eval's own function, which takes seconds to import."""
    import lm_eval

    return lm_eval.simple_evaluate  # type: ignore[no-any-return]


def model_types() -> list[str]:
    """Return the names that ``--model`` may have, those of lm-eval and of imported modules of ours."""
    import lm_eval.models  # noqa: F401 - registers lm-eval's
    from lm_eval.api.registry import model_registry

    return list(model_registry.keys())


def task_manager(include_path: Any, names: Sequence[str] | None = None, metadata: Any = None) -> Any:
    """Return a `TaskManager` that knows our folders and ``include_path``.

    Args:
        include_path: further folders: one, several or None.
        names: of the tasks that will be asked for. Only if one of them is in none of the folders, lm-eval's own thousands of
            YAMLs are read, which takes long; with None, never.
        metadata: of all tasks.
    """
    from lm_eval.tasks import TaskManager

    settings = {"include_path": [*include_paths(), *as_list(include_path)], "metadata": metadata}
    with reading_tasks():
        manager = TaskManager(include_defaults=False, **settings)
        if set(names or ()) <= set(manager.all_tasks):
            return manager
        return TaskManager(**settings)


@contextmanager
def our_tasks(requested: set[str] | None, check_name: Callable[[str, Any], None]) -> Iterator[None]:
    """Let every `TaskManager` of this process search our folders before those that it is given.

    Upstream: `TaskManager.__init__` (lm_eval/tasks/manager.py) takes one ``--include_path``, which the user may need.
    `match_tasks` does not say which known name an unknown one resembles.

    Args:
        requested: names of the tasks that will be asked for, if they are known. If our folders and the user's have them all,
            lm-eval's own thousands of YAMLs are not read, which would take 8 seconds.
        check_name: called with an unknown name and the manager; raises NNDError.
    """
    from lm_eval.tasks import TaskManager

    make, match = TaskManager.__init__, TaskManager.match_tasks
    ours = [] if is_current() else include_paths()  # registered tasks would only be reported as overridden

    def init(self: Any, *args: Any, include_path: Any = None, **kwargs: Any) -> None:
        if requested:
            folders = [*include_paths(), *as_list(include_path)]
            make(self, *args, include_path=folders, **{**kwargs, "include_defaults": False})
            if requested <= set(self.all_tasks):
                return
        make(self, *args, include_path=[*ours, *as_list(include_path)], **kwargs)

    def match_tasks(self: Any, task_list: list[str]) -> list[str]:
        matches: list[str] = match(self, task_list)
        if not matches:
            for name in task_list:
                if not Path(name).exists():  # the user may also name a folder or a YAML file
                    check_name(name, self)
        return matches

    with (
        reading_tasks(),
        patch.object(TaskManager, "__init__", init),
        patch.object(TaskManager, "match_tasks", match_tasks),
    ):
        yield


@contextmanager
def reading_tasks() -> Iterator[None]:
    """Take no hidden file for a task.

    Upstream: `TaskIndex._iter_yaml_files` (lm_eval/tasks/_index.py).
    """
    from lm_eval.tasks._index import TaskIndex

    find = TaskIndex._iter_yaml_files
    seen = staticmethod(lambda root: (path for path in find(root) if not is_hidden(path.relative_to(root))))
    with patch.object(TaskIndex, "_iter_yaml_files", seen):
        yield


def as_list(include_path: Any) -> list[Any]:
    """Return the folders of ``include_path``, which may be one, several or None, as a list."""
    if not include_path:
        return []
    return [include_path] if isinstance(include_path, (str, Path)) else list(include_path)


@contextmanager
def loaded_once(manager: Any, loaded: Any) -> Iterator[None]:
    """Give lm-eval tasks that are loaded already.

    Upstream: `simple_evaluate` (lm_eval/evaluator.py) loads tasks after the model, so the user would wait for the model
    before hearing of a mistake in a task.
    """
    with patch.object(manager, "load", lambda task_list: loaded):
        yield


class JSONCachingLM(CachingLM):  # type: ignore[misc]
    """lm-eval's cache of answers, stored as JSON, so that reading a cache file cannot run code.

    Of several processes, each has a file of its own, ``..._rank0.db`` and so on.
    """

    def __init__(self, lm: Any, cache_db: str) -> None:
        """Open the cache at ``cache_db``, or create it.

        Raises:
            NNDError: it cannot be opened.
        """
        from sqlitedict import SqliteDict

        from nnd_tasks.models.token_scores import from_json, to_json

        def decode(value: Any) -> Any:
            try:
                return from_json(value)
            except (ValueError, TypeError) as error:
                raise NNDError(f"--use_cache: {cache_db} holds something that is not an answer; delete it") from error

        self.lm, self.cache_db = lm, cache_db
        try:
            Path(cache_db).parent.mkdir(parents=True, exist_ok=True)
            self.dbdict = SqliteDict(cache_db, autocommit=True, encode=to_json, decode=decode)
        except Exception as error:  # sqlite3 and sqlitedict raise many kinds
            raise NNDError(f"--use_cache: {cache_db} cannot be opened ({error}); name another place") from error
        lm.set_cache_hook(CacheHook(self))


@contextmanager
def json_cache() -> Iterator[None]:
    """Store ``--use_cache`` as JSON.

    Upstream: `CachingLM` (lm_eval/api/model.py) pickles answers, and reading a pickle runs code.
    """
    with patch("lm_eval.api.model.CachingLM", JSONCachingLM):
        yield


def run_command_line(arguments: list[str], evaluate: Callable[..., Any]) -> None:
    """Let lm-eval's command line read ``arguments``, and call ``evaluate`` in place of its `simple_evaluate`.

    Upstream: `cli_evaluate` (lm_eval/__main__.py) reads ``sys.argv``, and imports the function by name (lm_eval/_cli/run.py).
    """
    import lm_eval
    from lm_eval.__main__ import cli_evaluate

    with patch.object(sys, "argv", arguments), patch.object(lm_eval, "simple_evaluate", evaluate):
        cli_evaluate()


@contextmanager
def whole_results() -> Iterator[None]:
    """Check each results file that lm-eval writes; if one is incomplete, remove all files of the run. Add the token scores.

    Upstream: `EvaluationTracker` (lm_eval/loggers/evaluation_tracker.py) catches and logs every error while
    it writes, and the run ends with status 0. A full disk leaves files that are cut off. Here the error is raised at the end
    of the context, after the table of results is printed.

    Raises:
        NNDError: results or samples could not be written.
    """
    from lm_eval.loggers import evaluation_tracker as module

    tracker_class, warn = module.EvaluationTracker, module.eval_logger.warning
    save_results = tracker_class.save_results_aggregated
    caught: list[BaseException] = []
    lost: list[NNDError] = []

    def warning(*args: Any, **kwargs: Any) -> None:
        if (error := sys.exc_info()[1]) is not None:  # lm-eval warns where it has caught an exception
            caught.append(error)
        warn(*args, **kwargs)

    def checked(save: Callable[..., None], is_whole: Callable[..., bool]) -> Callable[..., None]:
        def run(tracker: Any, **what: Any) -> None:
            if lost:  # the files still to come would be only a part of a run
                return
            caught.clear()
            save(tracker, **what)
            if not tracker.output_path:
                return
            if not is_whole(tracker, **what):
                remove_results(tracker)
                reason = reason_of(caught[-1]) if caught else "a file is not whole"
                lost.append(
                    NNDError(
                        f"--output_path {tracker.output_path}: the results could not be saved ({reason}), and no file of "
                        "this run was kept; make room and run again (a run with --use_cache FILE keeps the model's answers)"
                    )
                )
            elif save is save_results:
                write_tokens(tracker)

        return run

    with (
        patch.object(module.eval_logger, "warning", warning),
        patch.object(tracker_class, "save_results_aggregated", checked(save_results, results_are_whole)),
        patch.object(
            tracker_class, "save_results_samples", checked(tracker_class.save_results_samples, samples_are_whole)
        ),
    ):
        yield
    if lost:
        raise lost[0]


@contextmanager
def veiled_config() -> Iterator[None]:
    """Keep lm-eval's configuration from showing the secrets in it.

    Upstream: `EvaluatorConfig._configure` (lm_eval/config/evaluate_config.py) prints the arguments, and those of a file.
    """
    from lm_eval.config.evaluate_config import EvaluatorConfig

    configure = EvaluatorConfig._configure

    def veiled(self: Any) -> Any:
        configure(self)
        for field in fields(self):
            if isinstance(given := getattr(self, field.name), dict):
                setattr(self, field.name, Veiled(given))
        return self

    with patch.object(EvaluatorConfig, "_configure", veiled):
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
