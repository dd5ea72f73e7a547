"""Commands over sets: list, show, build."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from nnd_tasks.cli.typer_app import Brief, Format, Replace, SetOut, announce_tasks, complete_set, verb
from nnd_tasks.packages import need_package
from nnd_tasks.show.console import say, say_lines, warn
from nnd_tasks.text import counted

if TYPE_CHECKING:
    from nnd_tasks.sets.build import BuiltSet


@verb(
    "Sets",
    "nnd list --brief  # which sets there are",
    "nnd list --task code --format json  # sets of one task, for a program",
    name="list",
)
def show_sets(
    language: Annotated[str | None, Option(help="Only sets with texts of this language, such as zh.")] = None,
    task: Annotated[str | None, Option(help="Only sets of this task, such as code or summarization.")] = None,
    where: Annotated[
        bool, Option("--where", help="Show where all files are, how large, and how to remove them.")
    ] = False,
    form: Format = "text",
    brief: Brief = False,
) -> None:
    """Show every set: size, categories, licence, and where it is."""
    from nnd_tasks.cli.listing import report_places, report_sets
    from nnd_tasks.show.terminal import show_reports

    show_reports([report_places() if where else report_sets(language, task)], form=form, brief=brief)


@verb(
    "Sets",
    "nnd show quiz_design --tests 2  # its card, its prompt and two tests",
    "nnd show summeval --config clean  # another config of it",
    name="show",
)
def show_set(
    name: Annotated[str, Argument(help="A set, as `nnd list` shows them.", autocompletion=complete_set)],
    config: Annotated[str | None, Option(help="One of its configs. Default: its default.")] = None,
    count: Annotated[int, Option("--tests", min=0, help="How many tests to show.")] = 5,
) -> None:
    """Show a set: its card, its prompt and some of its tests."""
    from nnd_tasks.cli.listing import report_set
    from nnd_tasks.show.terminal import show_reports

    report = report_set(name, config, count)
    show_reports([report])
    if report.facts["prompt"]:
        say_lines(f"\nWhat a model reads:\n\n{report.facts['prompt']}")


@verb(
    "Sets",
    "nnd build quiz_design  # now, and not on its first use",
    "nnd build mqm --source mqm_ted_zhen.tsv  # and a task with a prompt for its languages",
)
def build(
    name: Annotated[
        str,
        Argument(
            help="A set, as `nnd list` shows them, or the path of a recipe (_recipe).", autocompletion=complete_set
        ),
    ],
    source: Annotated[
        str | None,
        Option(
            help="The publisher's file, a zip or tar, 'DIR/*.json', or a folder. Default: from NND_SOURCES, or downloaded."
        ),
    ] = None,
    out: SetOut = None,
    trust: Annotated[
        bool, Option("--trust", help="Run the prepare.py of a recipe that somebody sent. Read it first.")
    ] = False,
    replace: Replace = False,
    preference: Annotated[
        bool, Option("--preference", help="Add preference data: prompt, chosen, rejected, in splits by source.")
    ] = False,
    chat: Annotated[bool, Option("--chat", help="Add preference data as messages of a chat.")] = False,
) -> None:
    """Build a set into a Hugging Face dataset folder."""
    from nnd_tasks.sets.build import build_set
    from nnd_tasks.sets.catalogue import find_recipe
    from nnd_tasks.sets.tasks import write_tasks

    if preference or chat:
        need_package("training", "--preference")
    set_recipe = find_recipe(name)
    result = build_set(set_recipe, source, out, trust=trust, replace=replace, progress=sys.stderr.isatty())
    tasks = [] if out is not None else write_tasks(set_recipe, result, replace=replace)
    _print_build(result)
    if preference or chat:
        from nnd_tasks.training.training_pairs import add_preferences

        for config, sizes in add_preferences(result.folder, chat=chat).items():
            parts = [f"{counted(size, 'pair')} in {split}" for split, size in sizes.items()]
            say(f"{config}: {', '.join(parts)}")
    if tasks:
        announce_tasks([task.name for task in tasks])


def _print_build(result: BuiltSet) -> None:
    from nnd_tasks.sets.account import describe_accounts
    from nnd_tasks.show.terminal import print_counts

    for summary in result.summaries.values():
        say(
            f"{summary.name}: {counted(summary.tests, 'test')}, {counted(summary.clusters, 'prompt')}, "
            f"{counted(summary.candidates, 'candidate')}"
        )
        print_counts(summary.categories)
        accounts = result.report[summary.name].get("accounts")
        for line in describe_accounts(accounts) if accounts else ():
            say(f"{summary.name}: {line}")
    if result.other_configs:
        say(f"kept as they were: {', '.join(result.other_configs)}")
    for note in result.notes:
        warn(f"note: {note}")
    say(f"written to {result.folder}")
