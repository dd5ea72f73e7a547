"""The command line's root."""

from __future__ import annotations

from typing import Annotated

import typer

from nnd_tasks import __version__

app = typer.Typer(
    name="nnd",
    help="Near-Negative Distinction: human evaluations as likelihood tests for language models.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"nnd-tasks {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Hold the options of all commands."""
