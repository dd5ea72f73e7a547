"""Commands for sets and for lm-eval: build, list, run, register, demo."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nnd_tasks.cli.app import app
from nnd_tasks.cli.console import say, warn
from nnd_tasks.errors import NNDError, first_line, visible
from nnd_tasks.wording import counted

if TYPE_CHECKING:
    from nnd_tasks.build import BuildResult


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


def _print_build(result: BuildResult) -> None:
    for summary in result.built:
        say(
            f"{summary.name}: {counted(summary.tests, 'test')}, {counted(summary.clusters, 'cluster')}, "
            f"{counted(summary.candidates, 'candidate')}"
        )
        for category, count in summary.categories.items():
            say(f"  {visible(category):<24}{count:>8,}")
    if result.kept:
        say(f"kept as they were: {', '.join(result.kept)}")
    for note in result.notes:
        warn(f"note: {note}")
    say(f"written to {result.folder}")


@app.command("list")
def list_sets() -> None:
    """Show every set: size, categories, licence, built or not and where.

    In brackets: the smallest difference between two models that a category can be expected to show, in percentage points, if
    they decide 30% of its tests differently; ‡ marks what is too small to tell models apart.
    """
    say(
        "[points]: smallest difference between two models that a category can show; ‡: too few tests to tell models apart; "
        "none: they can show none"
    )
    say()
    from nnd_tasks.datasets import built_sets, dataset_folder
    from nnd_tasks.sources import SOURCES

    present = built_sets()

    for source in SOURCES.values():
        where = f"not built; run: nnd build {source.name}"
        lines = [
            f"{config}: {counted(count, 'test')} of {', '.join(source.categories)}"
            for config, count in source.published.items()
        ] or [", ".join(source.categories)]
        if source.name in present:
            found, where = _built(dataset_folder(source.name))
            lines = found or lines
        say(f"{source.name}  ({source.kind}; {source.licence})")
        for line in [*lines, where]:
            say(f"  {line}")
    for name in present:
        if name not in SOURCES:
            found, where = _built(dataset_folder(name))
            say(f"{name}  (your own)")
            for line in [*found, where]:
                say(f"  {line}")


def _built(folder: Path) -> tuple[list[str], str]:
    """Return a line per config of a dataset folder, and where it is or what is wrong with it."""
    from nnd_tasks.analysis.power import planned_by_category, shown
    from nnd_tasks.datasets import list_configs, read_table
    from nnd_tasks.tables import summarize

    lines = []
    try:
        for config in list_configs(folder)[0]:
            table = read_table(folder, config)
            summary = summarize(config, table)
            found = planned_by_category(table["cluster_id"].to_pylist(), table["category"].to_pylist())
            parts = [
                f"{category} {count:,} [{shown(found, category)}]" for category, count in summary.categories.items()
            ]
            lines.append(f"{config}: {counted(summary.tests, 'test')} = {' + '.join(parts)}")
    except NNDError as error:
        return [], f"unreadable: {error}"
    except Exception as error:  # whatever a damaged set brings up, it must not hide the others
        return (
            [],
            f"unreadable: {folder}: cannot be read ({type(error).__name__}: {first_line(error)}); build the set again",
        )
    return lines, f"built in {folder}"


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []})
def run(context: typer.Context) -> None:
    """Run lm-eval with our tasks included: everything after `run` goes to lm_eval.

    Models of type hf read common beginnings of requests once; --no-shared-prefix turns that off. --cache_requests is refused.
    """
    from nnd_tasks.harness.run import run_lm_eval

    ours = {"--debug", "--no-shared-prefix"}
    if {"--help", "-h"} & set(context.args):
        say("nnd run: lm_eval with the tasks nnd_* and without --cache_requests; of its own it has one option")
        say("  --no-shared-prefix   for --model hf: read every request on its own, as lm_eval does")
        say()
    run_lm_eval(
        [argument for argument in context.args if argument not in ours],
        shared_prefix="--no-shared-prefix" not in context.args,
    )


@app.command()
def register() -> None:
    """Make our tasks known to the literal command lm_eval of this environment."""
    from nnd_tasks.harness.register import register as make

    folder, count = make()
    say(f"registered {counted(count, 'task or group', 'tasks and groups')} in {folder}")


@app.command()
def unregister() -> None:
    """Undo `nnd register`."""
    from nnd_tasks.harness.register import unregister as undo

    folder = undo()
    say(f"removed {folder}" if folder else "nothing was registered")


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
