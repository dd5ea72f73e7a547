"""Commands for sets and for lm-eval: build, list, run, register, demo."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nnd_tasks.cli.app import app
from nnd_tasks.cli.console import say, warn
from nnd_tasks.errors import visible
from nnd_tasks.wording import counted

if TYPE_CHECKING:
    from nnd_tasks.build import BuildResult


@app.command()
def build(
    name: Annotated[str, typer.Argument(help="A set, as `nnd list` shows them, or the path of a recipe (_recipe).")],
    source: Annotated[
        Path | None,
        typer.Option(help="The publisher's file, a zip or tar, or a folder that holds it. Default: download it."),
    ] = None,
    out_dir: Annotated[
        Path | None, typer.Option("--out", help="The dataset folder to write. Default: $NND_HOME/nnd/NAME.")
    ] = None,
    rows: Annotated[str | None, typer.Option(help="summeval only: half (the authors' cut) or all.")] = None,
    articles: Annotated[
        str | None,
        typer.Option(help="summeval only: dataset that holds the articles. Default: the hub's CNN/DailyMail."),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace a set of this name that another recipe made.")
    ] = False,
) -> None:
    """Build a set into a Hugging Face dataset folder.

    nnd build quiz_design

    nnd build challenge300 --source ~/data/challenge300-outputs.tsv

    nnd build ./from_a_colleague/_recipe --source ratings.csv
    """
    from nnd_tasks.new.keep import build_recipe

    options = {key: value for key, value in {"rows": rows, "articles": articles}.items() if value is not None}
    result, task = build_recipe(name, source, out_dir, options, progress=sys.stderr.isatty(), replace=replace)
    _print_build(result)
    if task is not None:
        say(f"run it: nnd run --model hf --model_args pretrained=MODEL,softmax_dtype=float32 --tasks {task.name}")


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
def list_sets(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Show every set and recipe: size, categories, licence, built or not and where.

    In brackets: the smallest difference between two models that a category can be expected to show, in percentage points, if
    they decide 30% of its tests differently; ‡ marks what is too small to tell models apart.
    """
    from nnd_tasks.cli.catalogue import catalogue

    if as_json:
        typer.echo(json.dumps([asdict(entry) for entry in catalogue()], indent=2))
        return
    say(
        "[points]: smallest difference between two models that a category can show; ‡: too few tests to tell models apart; "
        "none: they can show none; ?: not known"
    )
    say()
    for entry in catalogue():
        said = ["" if entry.shipped else "your own", visible(entry.kind or ""), visible(entry.license or "")]
        say(f"{visible(entry.name)}  ({'; '.join(part for part in said if part)})")
        for config in entry.configs:
            parts = [
                f"{visible(category)} {count:,} [{config.points[category]}]"
                for category, count in config.categories.items()
            ]
            say(f"  {visible(config.name)}: {counted(config.tests, 'test')} = {' + '.join(parts)}")
        if not entry.configs:
            for config_name, tests in entry.published.items():
                say(f"  {config_name}: {counted(tests, 'test')}")
        say(f"  {visible(entry.state)}")


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="A set, as `nnd list` shows them.")],
    config: Annotated[str | None, typer.Option(help="One of its configs. Default: its default.")] = None,
    count: Annotated[int, typer.Option("--tests", min=0, help="How many tests to show.")] = 5,
) -> None:
    """Show a set: the facts of its card, its prompt as a model reads it, and some of its tests.

    nnd show quiz_design --tests 2
    """
    from nnd_tasks.cli.catalogue import describe

    for line in describe(name, config, count):
        say(line)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []})
def run(context: typer.Context) -> None:
    """Run lm-eval with our tasks included: everything after `run` goes to lm_eval.

    Models of type hf read common beginnings of requests once; --no-shared-prefix turns that off. --cache_requests is refused.
    """
    from nnd_tasks.runner.run import run_lm_eval

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
    from nnd_tasks.runner.register import register as make

    folder, count = make()
    say(f"registered {counted(count, 'task or group', 'tasks and groups')} in {folder}")


@app.command()
def unregister() -> None:
    """Undo `nnd register`."""
    from nnd_tasks.runner.register import unregister as undo

    folder = undo()
    say(f"removed {folder}" if folder else "nothing was registered")


@app.command("tasks-dir")
def tasks_dir() -> None:
    """Print the folder of our task YAMLs, for lm_eval --include_path."""
    from nnd_tasks.datasets import tasks_dir as find

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
