"""Run lm-eval with our task folders included: its own command line, or one call from Python."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from nnd_tasks.harness.register import include_paths, is_current

_VERBS = ("run", "ls", "validate")


@contextmanager
def _with_our_tasks() -> Iterator[None]:
    """Let every `TaskManager` of this process search our folders before those that it is given.

    lm-eval 0.4.13 takes one ``--include_path``, which must stay the user's.
    """
    from lm_eval.tasks import TaskManager

    original = TaskManager.__init__
    ours = [] if is_current() else include_paths()  # registered tasks would only be reported as overridden

    def init(self: Any, *args: Any, include_path: Any = None, **kwargs: Any) -> None:
        original(self, *args, include_path=[*ours, *_as_list(include_path)], **kwargs)

    with patch.object(TaskManager, "__init__", init):
        yield


def _as_list(include_path: Any) -> list[Any]:
    if not include_path:
        return []
    return [include_path] if isinstance(include_path, (str, Path)) else list(include_path)


def run_lm_eval(arguments: Sequence[str]) -> None:
    """Run ``lm_eval`` in this process with ``arguments``, our tasks known to it.

    Args:
        arguments: as one would type them after ``lm_eval``; the verb ``run`` may be left out.

    Raises:
        SystemExit: as lm-eval's command line does.
    """
    from lm_eval.__main__ import cli_evaluate

    verb = [] if arguments and arguments[0] in _VERBS else ["run"]
    with patch.object(sys, "argv", ["lm_eval", *verb, *(arguments or ["--help"])]), _with_our_tasks():
        cli_evaluate()


def evaluate(
    tasks: str | Sequence[str],
    model: Any = "hf",
    model_args: str | Mapping[str, Any] | None = None,
    *,
    metadata: Mapping[str, Any] | None = None,
    include_path: str | Path | Sequence[str | Path] | None = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """Evaluate a model on our tasks, and any others, from Python.

    `lm_eval.simple_evaluate` with a task manager that knows our folders and how the model tokenizes.

    Args:
        tasks: names of tasks or groups.
        model: a name that lm-eval knows, or a ready-made ``LM`` object.
        model_args: arguments of the model, as for ``--model_args``.
        metadata: settings of the tasks, as for ``--metadata``, such as ``{"append_eos": True}``.
        include_path: further folders of task YAMLs.
        **kwargs: passed on to `lm_eval.simple_evaluate`.

    Returns:
        lm-eval's results: ``results``, ``configs``, ``samples`` and so on.

    Raises:
        NNDError: a set is not built, or the tokenizer of the model is not known.
    """
    from lm_eval import simple_evaluate
    from lm_eval.tasks import TaskManager
    from lm_eval.utils import simple_parse_args_string

    names = [tasks] if isinstance(tasks, str) else list(tasks)
    arguments = simple_parse_args_string(model_args) if isinstance(model_args, str) else dict(model_args or {})
    known = dict(arguments)
    if not isinstance(model, str):  # a ready-made model says itself how it tokenizes
        for name in ("tokenizer", "backend", "add_bos_token", "custom_prefix_token_id"):
            if getattr(model, name, None) is not None:
                known[name] = getattr(model, name)
    folders = [*include_paths(), *_as_list(include_path)]
    settings = {"include_path": folders, "metadata": {**known, **(metadata or {})}}
    manager = TaskManager(include_defaults=False, **settings)
    if not set(names) <= set(manager.all_tasks):  # reading the YAMLs of lm-eval's own tasks takes long
        manager = TaskManager(**settings)
    return dict(
        simple_evaluate(model=model, model_args=arguments or None, tasks=names, task_manager=manager, **kwargs) or {}
    )
