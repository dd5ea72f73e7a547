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
from nnd_tasks.packages import need_package
from shared_prefix.model_error import ModelError

if TYPE_CHECKING:
    from typer import Typer

    from nnd_tasks.cli.typer_app import app as app

__all__ = ["COMMANDS", "app", "load_app", "main"]

#: Module -> the commands that it adds, in the order of the help. An optional package holds its own.
COMMANDS = {
    "nnd_tasks.cli.sets": ("list", "show", "build"),
    "nnd_tasks.ceiling.ceiling_verbs": ("ceiling",),
    "nnd_tasks.cli.running": ("run", "register"),
    "nnd_tasks.page.demo": ("demo",),
    "nnd_tasks.cli.results": ("compare", "runs"),
    "nnd_tasks.page.page_verbs": ("report",),
    "nnd_tasks.likelihood.likelihood_verbs": ("rules",),
    "nnd_tasks.training.training_verbs": ("trend",),
    "nnd_tasks.studies.studies_verbs": ("stress",),
    "nnd_tasks.contribute.contribute_verbs": ("new", "check", "publish"),
}


def load_app(command: str = "") -> Typer:
    """Import the command line with one of its commands; with all of them for any other word, such as ``--help``.

    The help leaves out the commands of optional packages that are not installed.

    Raises:
        NNDError: the command is of such a package.
    """
    modules = [module for module, names in COMMANDS.items() if command in names]
    for module in modules or COMMANDS:
        try:
            import_module(module)
        except ModuleNotFoundError as error:
            if not module.startswith(str(error.name)):
                raise
            if modules:
                need_package(module.split(".")[1], f"nnd {command}")
    root: Typer = import_module("nnd_tasks.cli.typer_app").app
    # A module may have been imported before those whose commands come first.
    order = [name for names in COMMANDS.values() for name in names]
    root.registered_commands.sort(key=lambda command: order.index(str(command.name)))
    return root


def __getattr__(name: str) -> Any:
    """Load ``app``, with all its commands, on first use."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return load_app()


def main(command: Callable[[], object] | None = None) -> None:
    """Entry point: a user's mistake ends in one line and status 1, without a traceback.

    Args:
        command: what to run, which imports what it needs; None runs the command that ``sys.argv`` names.
    """
    # torch and transformers make a million objects that stay: looking through them would be a fifth of their import.
    gc.set_threshold(100_000, 50, 100)
    debug = "--debug" in sys.argv or bool(os.environ.get("NND_DEBUG"))
    try:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):  # names of files may hold what the terminal has no letters for
                stream.reconfigure(errors="backslashreplace")
        (command or load_app(*sys.argv[1:2]))()
    except (NNDError, ModelError) as error:
        if debug:
            raise
        from nnd_tasks.show.console import warn

        warn(f"nnd: error: {cut_middle(str(error))}")
        sys.exit(1)
    except KeyboardInterrupt:
        if debug:
            raise
        say_interrupted()
        sys.exit(130)


def say_interrupted(of_run: bool = False) -> None:
    """Say that a command was interrupted, and of a run how it could go on."""
    if os.environ.get("RANK", "0") == "0":  # the first of several processes speaks
        hint = "; with --use_cache FILE the same command goes on where it stopped" * of_run
        print(f"nnd: interrupted{hint}", file=sys.stderr)
