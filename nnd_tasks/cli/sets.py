"""Commands over sets: list, show, build."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nnd_tasks.cli.typer_app import SETS, Brief, Format, app, examples
from nnd_tasks.show.console import say, say_lines, warn
from nnd_tasks.wording import counted

if TYPE_CHECKING:
    from nnd_tasks.sets.build import Made


@app.command(
    "list",
    rich_help_panel=SETS,
    epilog=examples(
        ("nnd list --brief", "which sets there are"),
        ("nnd list --task code --format json", "sets of one task, for a program"),
    ),
)
def list_sets(
    language: Annotated[str | None, typer.Option(help="Only sets with texts of this language, such as zh.")] = None,
    task: Annotated[str | None, typer.Option(help="Only sets of this task, such as code or summarization.")] = None,
    form: Format = "text",
    brief: Brief = False,
) -> None:
    """Show every set and recipe: size, categories, licence, built or not and where.

    In parentheses: the smallest difference between two models that a category can be expected to show, in percentage points, if
    they decide 30% of its tests differently; ‡ marks what is too small to tell models apart.
    """
    from nnd_tasks.cli.catalogue import list_sets as find
    from nnd_tasks.cli.catalogue import report_sets
    from nnd_tasks.show.terminal import show_reports

    show_reports([report_sets(find(language, task))], form=form, brief=brief)


@app.command(
    "show",
    rich_help_panel=SETS,
    epilog=examples(
        ("nnd show quiz_design --tests 2", "its card, its prompt and two tests"),
        ("nnd show summeval --config clean", "another config of it"),
    ),
)
def show_set(
    name: Annotated[str, typer.Argument(help="A set, as `nnd list` shows them.")],
    config: Annotated[str | None, typer.Option(help="One of its configs. Default: its default.")] = None,
    count: Annotated[int, typer.Option("--tests", min=0, help="How many tests to show.")] = 5,
) -> None:
    """Show a set: the facts of its card, its prompt as a model reads it, and some of its tests."""
    from nnd_tasks.cli.catalogue import report_set
    from nnd_tasks.show.terminal import show_reports

    report = report_set(name, config, count)
    show_reports([report])
    if report.facts["prompt"]:
        say()
        say("What a model reads:")
        say()
        say_lines(report.facts["prompt"])


@app.command(
    rich_help_panel=SETS,
    epilog=examples(
        ("nnd build quiz_design", "downloads from the publisher"),
        ("nnd build mqm --source mqm_ted_zhen.tsv", "and a task with a prompt for its languages"),
    ),
)
def build(
    name: Annotated[
        str,
        typer.Argument(help="A set, as `nnd list` shows them, or the path of a recipe (_recipe)."),
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
) -> None:
    """Build a set into a Hugging Face dataset folder."""
    from nnd_tasks.sets.build import build_set
    from nnd_tasks.sets.shelf import find_recipe
    from nnd_tasks.sets.tasks import write_tasks

    set_recipe = find_recipe(name)
    result = build_set(set_recipe, source, out_dir, trust=trust, replace=replace, progress=sys.stderr.isatty())
    tasks = [] if out_dir is not None else write_tasks(set_recipe, result, replace=replace)
    _print_build(result)
    if tasks:
        names = ",".join(task.name for task in tasks)
        say(f"run it: nnd run --model hf --model_args pretrained=MODEL,softmax_dtype=float32 --tasks {names}")


def _print_build(result: Made) -> None:
    from nnd_tasks.show.terminal import print_counts

    for summary in result.summaries.values():
        say(
            f"{summary.name}: {counted(summary.tests, 'test')}, {counted(summary.clusters, 'prompt')}, "
            f"{counted(summary.candidates, 'candidate')}"
        )
        print_counts(summary.categories)
    if result.kept:
        say(f"kept as they were: {', '.join(result.kept)}")
    for note in result.notes:
        warn(f"note: {note}")
    say(f"written to {result.folder}")
