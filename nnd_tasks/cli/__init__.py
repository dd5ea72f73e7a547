"""The command line ``nnd``: thin verbs over the rest."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable

from nnd_tasks.cli import sets  # noqa: F401 - these add their commands, in this order

# isort: split
from nnd_tasks.cli import analysis, check, contribute, publish, stress  # noqa: F401
from nnd_tasks.cli.app import app
from nnd_tasks.cli.console import err, warn
from nnd_tasks.errors import NNDError

__all__ = ["app", "main"]


def main(command: Callable[[], object] = app) -> None:
    """Entry point: a user's mistake ends in one line and status 1, without a traceback."""
    debug = "--debug" in sys.argv or bool(os.environ.get("NND_DEBUG"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # names of files may hold what the terminal has no letters for
            stream.reconfigure(errors="backslashreplace")
    try:
        command()
    except NNDError as error:
        if debug:
            raise
        warn(f"nnd: error: {error}")
        sys.exit(1)
    except KeyboardInterrupt:
        if debug:
            raise
        err.print("nnd: interrupted", markup=False, highlight=False)
        sys.exit(130)
