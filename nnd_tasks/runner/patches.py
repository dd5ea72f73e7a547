"""Every place where a run of ours changes lm-eval 0.4.13; each says the upstream line that it works around.

`nnd_tasks.check` changes more for its trials, in processes of their own. All are context
managers: outside of them lm-eval is as it was.
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

from nnd_tasks.errors import NNDError, reason_of
from nnd_tasks.runner.caching import JSONCachingLM
from nnd_tasks.runner.register import FOLDER, include_paths, is_current, lm_eval_tasks_dir
from nnd_tasks.runner.saving import remove_results, results_are_whole, samples_are_whole
from nnd_tasks.secrets import Veiled, secret_values


@contextmanager
def our_tasks(requested: set[str] | None, check_name: Callable[[str, Any], None]) -> Iterator[None]:
    """Let every `TaskManager` of this process search our folders before those that it is given.

    Upstream: `TaskManager.__init__` (lm_eval/tasks/manager.py:53) takes one ``--include_path``, which must stay the user's, and
    `match_tasks` (:309) says of an unknown name no more than that it is unknown.

    Args:
        requested: names of the tasks that will be asked for, if they are known. Where ours and the user's folders have
            them all, lm-eval's own thousands of YAMLs are not read, which takes 8 seconds.
        check_name: called with a name that is not found and the manager; raises NNDError.
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
        found: list[str] = match(self, task_list)
        if not found:
            for name in task_list:
                if not Path(name).exists():  # a folder or a YAML file may be named too
                    check_name(name, self)
        return found

    with (
        stubs_give_way(),
        patch.object(TaskManager, "__init__", init),
        patch.object(TaskManager, "match_tasks", match_tasks),
    ):
        yield


@contextmanager
def stubs_give_way() -> Iterator[None]:
    """Keep lm-eval from warning when a YAML of ours overrides its stub, which is intended.

    Upstream: lm_eval/tasks/_index.py:71.
    """
    stubs, ours = lm_eval_tasks_dir() / FOLDER, include_paths()

    def wanted(record: logging.LogRecord) -> bool:
        places = [Path(place) for place in record.args if isinstance(place, (str, Path))][-2:] if record.args else []
        if "overrides existing task" not in str(record.msg) or len(places) < 2:
            return True
        return not (places[1].is_relative_to(stubs) and any(places[0].is_relative_to(folder) for folder in ours))

    logger = logging.getLogger("lm_eval.tasks._index")
    logger.addFilter(wanted)
    try:
        yield
    finally:
        logger.removeFilter(wanted)


def _git_commit() -> str | None:
    """Return what lm-eval's `get_git_commit_hash` does; git's complaint where there is no repository stays unseen."""
    from lm_eval.loggers.utils import get_commit_from_path

    try:
        done = subprocess.run(["git", "describe", "--always"], capture_output=True, check=True)  # noqa: S607
        return done.stdout.strip().decode()
    except (subprocess.CalledProcessError, FileNotFoundError):
        commit: str | None = get_commit_from_path(Path.cwd())
        return commit


def as_list(include_path: Any) -> list[Any]:
    """Return what ``include_path`` names as a list."""
    if not include_path:
        return []
    return [include_path] if isinstance(include_path, (str, Path)) else list(include_path)


@contextmanager
def loaded_once(manager: Any, loaded: Any) -> Iterator[None]:
    """Let lm-eval take tasks that are loaded already.

    Upstream: `simple_evaluate` (lm_eval/evaluator.py:302) loads tasks after the model, so a mistake in one would cost the loading
    of the model.
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
    """Ask git for the commit without showing its complaint.

    Upstream: `get_git_commit_hash` (lm_eval/loggers/utils.py:87) lets git write "fatal: not a git repository" to the terminal.
    """
    with patch("lm_eval.evaluator.get_git_commit_hash", _git_commit):
        yield


@contextmanager
def command_line(arguments: list[str], simple_evaluate: Callable[..., Any]) -> Iterator[None]:
    """Let lm-eval's command line read these arguments, and call our `simple_evaluate`.

    Upstream: `cli_evaluate` (lm_eval/__main__.py) reads ``sys.argv``, and imports the function by name (lm_eval/_cli/run.py:361).
    """
    import lm_eval

    with patch.object(sys, "argv", arguments), patch.object(lm_eval, "simple_evaluate", simple_evaluate):
        yield


@contextmanager
def whole_results() -> Iterator[None]:
    """Look at each file of results that lm-eval writes; where one is not whole, remove those of the run.

    Upstream: `EvaluationTracker` (lm_eval/loggers/evaluation_tracker.py:312, :403 and :418) catches whatever goes wrong while it
    writes, logs it, and the run ends with status 0; a full disk leaves files that are cut off. The error comes at the end of the
    block: the table of results is printed before.

    Raises:
        NNDError: results or samples could not be written.
    """
    from lm_eval.loggers import evaluation_tracker as module

    tracker_class, warn = module.EvaluationTracker, module.eval_logger.warning
    caught: list[BaseException] = []
    lost: list[NNDError] = []

    def warning(*args: Any, **kwargs: Any) -> None:
        if (error := sys.exc_info()[1]) is not None:  # lm-eval warns where it has caught an exception
            caught.append(error)
        warn(*args, **kwargs)

    def checked(save: Callable[..., None], is_whole: Callable[..., bool]) -> Callable[..., None]:
        def run(tracker: Any, **what: Any) -> None:
            if lost:  # what else there is to write would be half of a run
                return
            caught.clear()
            save(tracker, **what)
            if tracker.output_path and not is_whole(tracker, **what):
                remove_results(tracker)
                reason = reason_of(caught[-1]) if caught else "a file is not whole"
                lost.append(
                    NNDError(
                        f"--output_path {tracker.output_path}: the results could not be saved ({reason}), and no file of "
                        "this run was kept; make room and run again (a run with --use_cache FILE keeps the model's answers)"
                    )
                )

        return run

    with (
        patch.object(module.eval_logger, "warning", warning),
        patch.object(
            tracker_class, "save_results_aggregated", checked(tracker_class.save_results_aggregated, results_are_whole)
        ),
        patch.object(
            tracker_class, "save_results_samples", checked(tracker_class.save_results_samples, samples_are_whole)
        ),
    ):
        yield
    if lost:
        raise lost[0]


@contextmanager
def veiled_config(secrets: set[str]) -> Iterator[None]:
    """Let lm-eval's configuration hold its secrets without showing them.

    Upstream: `EvaluatorConfig._configure` (lm_eval/config/evaluate_config.py:277) prints the arguments, and those of a file.

    Args:
        secrets: takes those that are found in it.
    """
    from lm_eval.config.evaluate_config import DICT_KEYS, EvaluatorConfig

    configure = EvaluatorConfig._configure

    def veiled(self: Any) -> Any:
        configure(self)
        for name in DICT_KEYS:
            if isinstance(given := getattr(self, name), dict):
                secrets.update(secret_values(given))
                setattr(self, name, Veiled(given))
        return self

    with patch.object(EvaluatorConfig, "_configure", veiled):
        yield


@contextmanager
def quiet() -> Iterator[None]:
    """Run without progress bars, and without lm-eval's probes of git and of the machine, which take a second each time.

    Upstream: the bar of lm_eval/api/task.py:332, the probes of lm_eval/evaluator.py:419 and :421, the warning about every
    ready-made model of lm_eval/models/huggingface.py:220.
    """

    def plain(items: Iterable[Any], **kwargs: Any) -> Iterable[Any]:
        return items

    def wanted(record: logging.LogRecord) -> bool:
        return "`pretrained`" not in record.getMessage()

    of_models = logging.getLogger("lm_eval.models.huggingface")
    with ExitStack() as stack:
        stack.enter_context(patch("lm_eval.api.task.tqdm", plain))
        for name in ("add_env_info", "get_git_commit_hash"):
            stack.enter_context(patch(f"lm_eval.evaluator.{name}", _nothing))
        of_models.addFilter(wanted)
        stack.callback(of_models.removeFilter, wanted)
        yield


def _nothing(*args: Any, **kwargs: Any) -> None:
    pass
