"""The command nnd ceiling."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from nnd_tasks.cli.typer_app import Brief, Format, Out, complete_set, verb


@verb(
    "Sets",
    "nnd ceiling summeval  # one expert left out, and the crowd on the experts' tests",
    "nnd ceiling mqm --config newstest2021_ende --judged-by ted_ende  # raters of another config on the same texts",
)
def ceiling(
    name: Annotated[str, Argument(help="A set, as `nnd list` shows them.", autocompletion=complete_set)],
    config: Annotated[str | None, Option(help="One of its configs. Default: its default.")] = None,
    judged_by: Annotated[
        str | None,
        Option(
            metavar="CONFIG_OR_SET", help="Also ask other raters of the same texts: a config, a set, or SET:CONFIG."
        ),
    ] = None,
    out: Out = None,
    form: Format = "text",
    brief: Brief = False,
) -> None:
    """Show what a person passes of a set's tests: each rater in turn is asked the tests that the others make."""
    from nnd_tasks.ceiling.ceiling import human_ceiling
    from nnd_tasks.ceiling.ceiling_report import report_ceiling
    from nnd_tasks.show.terminal import show_reports

    show_reports([report_ceiling(human_ceiling(name, config, judged_by))], out=out, form=form, brief=brief)
