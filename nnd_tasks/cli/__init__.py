"""The command line ``nnd``: thin verbs over the rest.

Importing this imports next to nothing: what takes time is imported by `main`, where an interruption is caught.
"""

from __future__ import annotations

import gc
import io
import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from nnd_tasks.errors import NNDError, cut_middle
from nnd_tasks.models.model_error import ModelError

if TYPE_CHECKING:
    from nnd_tasks.cli.typer_app import app as app

__all__ = ["app", "main"]


def __getattr__(name: str) -> Any:
    """Return ``app``, with all its commands, on first use."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    for part in ("sets", "runs", "results", "stress", "contribute", "check", "publish"):
        import_module(f"nnd_tasks.cli.{part}")  # adds its commands; their order here is that of the help
    return import_module("nnd_tasks.cli.typer_app").app


def main(command: Callable[[], object] | None = None) -> None:
    """Entry point: a user's mistake ends in one line and status 1, without a traceback.

    Args:
        command: what to run, which imports what it needs; None runs `app`.
    """
    # torch and transformers make a million objects that stay: looking through them would be a fifth of their import.
    gc.set_threshold(100_000, 50, 100)
    debug = "--debug" in sys.argv or bool(os.environ.get("NND_DEBUG"))
    try:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):  # names of files may hold what the terminal has no letters for
                stream.reconfigure(errors="backslashreplace")
        (command or __getattr__("app"))()
    except (NNDError, ModelError) as error:
        if debug:
            raise
        from nnd_tasks.show.console import warn

        warn(f"nnd: error: {cut_middle(str(error))}")
        sys.exit(1)
    except KeyboardInterrupt:
        if debug:
            raise
        if os.environ.get("RANK", "0") == "0":  # the first of several processes speaks
            print("nnd: interrupted", file=sys.stderr)
        sys.exit(130)
