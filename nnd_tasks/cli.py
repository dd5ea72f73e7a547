"""The command line ``nnd``: thin verbs over the rest."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from nnd_tasks import __version__
from nnd_tasks.errors import NNDError

if TYPE_CHECKING:
    from nnd_tasks.build import BuildResult

app = typer.Typer(
    name="nnd",
    help="Near-Negative Distinction: human evaluations as likelihood tests for language models.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
out = Console(emoji=False)
err = Console(stderr=True, emoji=False)


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


@app.command()
def build(
    name: Annotated[str, typer.Argument(help="A set, as `nnd list` shows them.")],
    source: Annotated[
        Path | None, typer.Option(help="The publisher's file, or a folder that holds it. Default: download it.")
    ] = None,
    out_dir: Annotated[
        Path | None, typer.Option("--out", help="The dataset folder to write. Default: $NND_HOME/nnd/NAME.")
    ] = None,
    rows: Annotated[str | None, typer.Option(help="summeval only: half (the authors' cut) or all.")] = None,
    articles: Annotated[
        str | None,
        typer.Option(help="summeval only: dataset that holds the articles. Default: the hub's CNN/DailyMail."),
    ] = None,
) -> None:
    """Build a set into a Hugging Face dataset folder."""
    from nnd_tasks.build import build_set

    options = {key: value for key, value in {"rows": rows, "articles": articles}.items() if value is not None}
    _print_build(build_set(name, source, out_dir, options, progress=sys.stderr.isatty()))


def _say(text: str) -> None:
    """Print a line as it is: names from outside are no markup, and paths must not be wrapped."""
    out.print(text, markup=False, highlight=False, soft_wrap=True)


def _print_build(result: BuildResult) -> None:
    for summary in result.built:
        _say(
            f"{summary.name}: {summary.tests:,} tests, {summary.clusters:,} clusters, {summary.candidates:,} candidates"
        )
        for category, count in summary.categories.items():
            _say(f"  {category:<24}{count:>8,}")
    if result.kept:
        _say(f"kept as they were: {', '.join(result.kept)}")
    for note in result.notes:
        err.print(f"note: {note}", markup=False, highlight=False, soft_wrap=True)
    _say(f"written to {result.folder}")


@app.command("list")
def list_sets() -> None:
    """Show every set: size, categories, licence, built or not and where."""
    from nnd_tasks.datasets import dataset_folder, list_configs, read_table
    from nnd_tasks.sources import SOURCES
    from nnd_tasks.tables import summarize

    for source in SOURCES.values():
        folder = dataset_folder(source.name)
        where = f"not built; run: nnd build {source.name}"
        lines = [
            f"{config}: {count:,} tests of {', '.join(source.categories)}" for config, count in source.published.items()
        ] or [", ".join(source.categories)]
        if folder.exists():
            try:
                summaries = [summarize(config, read_table(folder, config)) for config in list_configs(folder)[0]]
            except NNDError as error:
                where = f"unreadable: {error}"
            else:
                where = f"built in {folder}"
                lines = [
                    f"{summary.name}: {summary.tests:,} tests = "
                    + " + ".join(f"{category} {count:,}" for category, count in summary.categories.items())
                    for summary in summaries
                ]
        _say(f"{source.name}  ({source.kind}; {source.licence})")
        for line in [*lines, where]:
            _say(f"  {line}")


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []})
def run(context: typer.Context) -> None:
    """Run lm-eval with our tasks included: everything after `run` goes to lm_eval as it is.

    Models of type hf read common beginnings of requests once; --no-shared-prefix turns that off.
    """
    from nnd_tasks.harness.run import run_lm_eval

    ours = {"--debug", "--no-shared-prefix"}
    run_lm_eval(
        [argument for argument in context.args if argument not in ours],
        shared_prefix="--no-shared-prefix" not in context.args,
    )


@app.command()
def register() -> None:
    """Make our tasks known to the literal command lm_eval of this environment."""
    from nnd_tasks.harness.register import register as make

    folder, count = make()
    _say(f"registered {count} tasks and groups in {folder}")


@app.command()
def unregister() -> None:
    """Undo `nnd register`."""
    from nnd_tasks.harness.register import unregister as undo

    folder = undo()
    _say(f"removed {folder}" if folder else "nothing was registered")


@app.command("tasks-dir")
def tasks_dir() -> None:
    """Print the folder of our task YAMLs, for lm_eval --include_path."""
    from nnd_tasks.harness.register import tasks_dir as find

    typer.echo(find())


@app.command()
def demo(
    folder: Annotated[Path, typer.Option("--dir", help="Where to put the demo's data, model and results.")] = Path(
        ".demo"
    ),
    no_shared_prefix: Annotated[
        bool, typer.Option("--no-shared-prefix", help="Read every request on its own, as plain hf does.")
    ] = False,
) -> None:
    """Run the whole chain offline on the embedded set with a tiny model."""
    from nnd_tasks.demo import run_demo

    run_demo(folder, shared_prefix=not no_shared_prefix)


def main() -> None:
    """Entry point: a user's mistake ends in one line and status 1, without a traceback."""
    debug = "--debug" in sys.argv or bool(os.environ.get("NND_DEBUG"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # names of files may hold what the terminal has no letters for
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except NNDError as error:
        if debug:
            raise
        err.print(f"nnd: error: {error}", markup=False, highlight=False, soft_wrap=True)
        sys.exit(1)
    except KeyboardInterrupt:
        if debug:
            raise
        err.print("nnd: interrupted", markup=False, highlight=False)
        sys.exit(130)


if __name__ == "__main__":
    main()
