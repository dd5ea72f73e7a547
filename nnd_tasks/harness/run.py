"""Run lm-eval's own command line with our task folders included."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from nnd_tasks.harness.register import include_paths


@contextmanager
def _with_our_tasks() -> Iterator[None]:
    """Let every `TaskManager` of this process search our folders before those that it is given.

    lm-eval 0.4.13 takes one ``--include_path``, which must stay the user's.
    """
    from lm_eval.tasks import TaskManager

    original = TaskManager.__init__

    def init(self: Any, *args: Any, include_path: Any = None, **kwargs: Any) -> None:
        given = (
            [] if not include_path else [include_path] if isinstance(include_path, (str, Path)) else list(include_path)
        )
        original(self, *args, include_path=[*include_paths(), *given], **kwargs)

    with patch.object(TaskManager, "__init__", init):
        yield


def run_lm_eval(arguments: Sequence[str]) -> None:
    """Run ``lm_eval`` in this process with ``arguments``, our tasks known to it.

    Args:
        arguments: as one would type them after ``lm_eval``; ``run`` may be left out.

    Raises:
        SystemExit: as lm-eval's command line does.
    """
    from lm_eval.__main__ import cli_evaluate

    with patch.object(sys, "argv", ["lm_eval", *arguments]), _with_our_tasks():
        cli_evaluate()
