"""Every patch of lm-eval 0.4.13 in a run, each with the upstream line that it works around.

All are context managers, and outside of them lm-eval is unchanged.
"""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from nnd_tasks.datasets import is_hidden
from nnd_tasks.errors import NNDError, reason_of
from nnd_tasks.runner.caching import JSONCachingLM
from nnd_tasks.runner.register import FOLDER, include_paths, is_current, lm_eval_tasks_dir
from nnd_tasks.runner.saving import remove_results, results_are_whole, samples_are_whole, write_tokens
from nnd_tasks.secrets import Veiled


@contextmanager
def our_tasks(requested: set[str] | None, check_name: Callable[[str, Any], None]) -> Iterator[None]:
    """Let every `TaskManager` of this process search our folders before those that it is given.

    Upstream: `TaskManager.__init__` (lm_eval/tasks/manager.py:53) takes one ``--include_path``, which the user may need.
    `match_tasks` (:309) does not say which known name an unknown one resembles.

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


#: Tags of our tasks.
_TAGS = ("nnd_task_", "nnd_language_")


@contextmanager
def reading_tasks() -> Iterator[None]:
    """Take no hidden file for a task, and do not warn where one of our YAMLs, or a tag in it, overrides its own stub.

    Upstream: `TaskIndex._iter_yaml_files` and `build` (lm_eval/tasks/_index.py:82 and 71).
    """
    from lm_eval.tasks._index import TaskIndex

    find = TaskIndex._iter_yaml_files
    seen = staticmethod(lambda root: (path for path in find(root) if not is_hidden(path.relative_to(root))))
    stubs, ours = lm_eval_tasks_dir() / FOLDER, include_paths()

    def wanted(record: logging.LogRecord) -> bool:
        if "overrides existing task" not in str(record.msg) or not record.args:
            return True
        name, *_ = arguments = list(record.args)  # a tag has no place
        places = [Path(place) for place in arguments if isinstance(place, (str, Path))][-2:]
        if len(places) < 2:
            return not str(name).startswith(_TAGS)
        return not (places[1].is_relative_to(stubs) and any(places[0].is_relative_to(folder) for folder in ours))

    logger = logging.getLogger("lm_eval.tasks._index")
    logger.addFilter(wanted)
    try:
        with patch.object(TaskIndex, "_iter_yaml_files", seen):
            yield
    finally:
        logger.removeFilter(wanted)


def _git_commit() -> str | None:
    """Return what lm-eval's `get_git_commit_hash` returns, without showing git's error outside of a repository."""
    from lm_eval.loggers.utils import get_commit_from_path

    try:
        done = subprocess.run(["git", "describe", "--always"], capture_output=True, check=True)  # noqa: S607
        return done.stdout.strip().decode()
    except (subprocess.CalledProcessError, FileNotFoundError):
        commit: str | None = get_commit_from_path(Path.cwd())
        return commit


def as_list(include_path: Any) -> list[Any]:
    """Return the folders of ``include_path``, which may be one, several or None, as a list."""
    if not include_path:
        return []
    return [include_path] if isinstance(include_path, (str, Path)) else list(include_path)


@contextmanager
def loaded_once(manager: Any, loaded: Any) -> Iterator[None]:
    """Give lm-eval tasks that are loaded already.

    Upstream: `simple_evaluate` (lm_eval/evaluator.py:302) loads tasks after the model, so the user would wait for the model
    before hearing of a mistake in a task.
    """
    with patch.object(manager, "load", lambda task_list: loaded):
        yield


@contextmanager
def json_cache() -> Iterator[None]:
    """Store ``--use_cache`` as JSON.

    Upstream: `CachingLM` (lm_eval/api/model.py:275) pickles answers, and reading a pickle runs code.
    """
    with patch("lm_eval.api.model.CachingLM", JSONCachingLM):
        yield


@contextmanager
def quiet_git() -> Iterator[None]:
    """Ask git for the commit without showing its error.

    Upstream: `get_git_commit_hash` (lm_eval/loggers/utils.py:87) lets git write "fatal: not a git repository" to the terminal.
    """
    with patch("lm_eval.evaluator.get_git_commit_hash", _git_commit):
        yield


@contextmanager
def command_line(arguments: list[str], simple_evaluate: Callable[..., Any]) -> Iterator[None]:
    """Let lm-eval's command line read ``arguments`` and call our ``simple_evaluate``.

    Upstream: `cli_evaluate` (lm_eval/__main__.py) reads ``sys.argv``, and imports the function by name (lm_eval/_cli/run.py:361).
    """
    import lm_eval

    with patch.object(sys, "argv", arguments), patch.object(lm_eval, "simple_evaluate", simple_evaluate):
        yield


@contextmanager
def whole_results() -> Iterator[None]:
    """Check each results file that lm-eval writes; if one is incomplete, remove all files of the run. Add the token scores.

    Upstream: `EvaluationTracker` (lm_eval/loggers/evaluation_tracker.py:312, :403 and :418) catches and logs every error while
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

    Upstream: `EvaluatorConfig._configure` (lm_eval/config/evaluate_config.py:277) prints the arguments, and those of a file.
    """
    from lm_eval.config.evaluate_config import DICT_KEYS, EvaluatorConfig

    configure = EvaluatorConfig._configure

    def veiled(self: Any) -> Any:
        configure(self)
        for name in DICT_KEYS:
            if isinstance(given := getattr(self, name), dict):
                setattr(self, name, Veiled(given))
        return self

    with patch.object(EvaluatorConfig, "_configure", veiled):
        yield


@contextmanager
def quiet() -> Iterator[None]:
    """Run without a progress bar, and without lm-eval's look-ups of git and of the machine, which take a second each time.

    Upstream: the progress bar of lm_eval/api/task.py:332, the look-ups of lm_eval/evaluator.py:419 and :421, and the warning
    about every ready-made model of lm_eval/models/huggingface.py:220.
    """

    def plain(items: Iterable[Any], **kwargs: Any) -> Iterable[Any]:
        return items

    def wanted(record: logging.LogRecord) -> bool:
        return "`pretrained`" not in record.getMessage()

    logger = logging.getLogger("lm_eval.models.huggingface")
    with ExitStack() as stack:
        stack.enter_context(patch("lm_eval.api.task.tqdm", plain))
        for name in ("add_env_info", "get_git_commit_hash"):
            stack.enter_context(patch(f"lm_eval.evaluator.{name}", _nothing))
        logger.addFilter(wanted)
        stack.callback(logger.removeFilter, wanted)
        yield


def _nothing(*args: Any, **kwargs: Any) -> None:
    pass
