"""Commands over sets: list, show, build."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nnd_tasks.cli import completion
from nnd_tasks.cli.console import say, show, table, warn
from nnd_tasks.cli.typer_app import SETS, Brief, app, examples
from nnd_tasks.errors import visible
from nnd_tasks.wording import counted

if TYPE_CHECKING:
    from nnd_tasks.sets.build import Made


@app.command(
    "list",
    rich_help_panel=SETS,
    epilog=examples(
        ("nnd list --brief", "which sets there are"),
        ("nnd list --task code", "sets of one task"),
        ("nnd list > sets.md", "everything, as Markdown"),
    ),
)
def list_sets(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
    brief: Brief = False,
    language: Annotated[str | None, typer.Option(help="Only sets with texts of this language, such as zh.")] = None,
    task: Annotated[str | None, typer.Option(help="Only sets of this task, such as code or summarization.")] = None,
) -> None:
    """Show every set and recipe: size, categories, licence, built or not and where.

    In parentheses: the smallest difference between two models that a category can be expected to show, in percentage points, if
    they decide 30% of its tests differently; ‡ marks what is too small to tell models apart.
    """
    from nnd_tasks.cli.catalogue import catalogue, listing, narrowed

    entries = narrowed(catalogue(), language, task)
    if as_json:
        typer.echo(json.dumps([asdict(entry) for entry in entries], indent=2))
    else:
        show(listing(entries, brief=brief))


@app.command(
    "show",
    rich_help_panel=SETS,
    epilog=examples(
        ("nnd show quiz_design --tests 2", "its card, its prompt and two tests"),
        ("nnd show summeval --config clean", "another config of it"),
    ),
)
def show_set(
    name: Annotated[
        str,
        typer.Argument(help="A set, as `nnd list` shows them.", autocompletion=completion.sets),
    ],
    config: Annotated[
        str | None,
        typer.Option(help="One of its configs. Default: its default.", autocompletion=completion.configs),
    ] = None,
    count: Annotated[int, typer.Option("--tests", min=0, help="How many tests to show.")] = 5,
    brief: Brief = False,
) -> None:
    """Show a set: the facts of its card, its prompt as a model reads it, and some of its tests."""
    from nnd_tasks.cli.catalogue import describe

    show("\n".join(describe(name, config, count, brief=brief)))


@app.command(
    rich_help_panel=SETS,
    epilog=examples(
        ("nnd build quiz_design", "downloads from the publisher"),
        ("nnd build challenge300 --source ~/data/challenge300-outputs.tsv", "from a file that you have"),
        ("nnd build mqm --source mqm_ted_zhen.tsv", "and a task with a prompt for its languages"),
        (
            "nnd build ./from_a_colleague --source ratings.csv --trust",
            "a set that somebody sent, whose prepare.py you read",
        ),
    ),
)
def build(
    name: Annotated[
        str,
        typer.Argument(
            help="A set, as `nnd list` shows them, or the path of a recipe (_recipe).", autocompletion=completion.sets
        ),
    ],
    source: Annotated[
        str | None,
        typer.Option(help="The publisher's file, a zip or tar, 'DIR/*.json', or a folder. Default: download it."),
    ] = None,
    out_dir: Annotated[
        Path | None, typer.Option("--out", help="The dataset folder to write. Default: $NND_HOME/nnd/NAME.")
    ] = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="Run the prepare.py of a recipe that somebody sent. Read it first.")
    ] = False,
    replace: Annotated[
        bool,
        typer.Option(
            "--replace",
            help="Replace a set of this name that another recipe made, its tasks, and its card.",
        ),
    ] = False,
    brief: Brief = False,
) -> None:
    """Build a set into a Hugging Face dataset folder."""
    from nnd_tasks.sets.build import build_set
    from nnd_tasks.sets.shelf import find_recipe
    from nnd_tasks.sets.tasks import write_tasks

    set_recipe = find_recipe(name)
    result = build_set(set_recipe, source, out_dir, trust=trust, replace=replace, progress=sys.stderr.isatty())
    tasks = [] if out_dir is not None else write_tasks(set_recipe, result, replace=replace)
    _print_build(result, brief)
    if tasks:
        names = ",".join(task.name for task in tasks)
        say(f"run it: nnd run --model hf --model_args pretrained=MODEL,softmax_dtype=float32 --tasks {names}")


def _print_build(result: Made, brief: bool) -> None:
    for summary in result.summaries.values():
        say(
            f"{summary.name}: {counted(summary.tests, 'test')}, {counted(summary.clusters, 'prompt')}, "
            f"{counted(summary.candidates, 'candidate')}"
        )
        if not brief:
            counts = [[visible(category), f"{count:,}"] for category, count in summary.categories.items()]
            show("\n" + table(["category", "tests"], counts, right=["tests"]) + "\n")
    if result.kept and not brief:
        say(f"kept as they were: {', '.join(result.kept)}")
    for note in result.notes:
        warn(f"note: {note}")
    say(f"written to {result.folder}")
