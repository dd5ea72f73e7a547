"""The command nnd rules."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from nnd_tasks.cli.typer_app import Brief, Format, Out, Results, Select, parts_of, verb


@verb(
    "Conclusions",
    "nnd rules results  # runs with --metadata '{\"tokens\": true}' and token_stats=True in --model_args",
    "nnd rules results/large --amateur results/small --rules contrast,sum,byte  # with a weaker model",
)
def rules(
    runs: Results = None,
    amateur: Annotated[
        Path | None, Option(metavar="RESULTS", help="Token scores of a weaker model on the same tests, for contrast.")
    ] = None,
    names: Annotated[str, Option("--rules", help="Names between commas. Default: all.")] = "",
    select: Select = None,
    out: Out = None,
    form: Format = "text",
    brief: Brief = False,
) -> None:
    """Compare readings of a likelihood, such as sum, PMI or Min-K%, with the mean per token, and choose one honestly."""
    from nnd_tasks.likelihood.rules_report import report_rules
    from nnd_tasks.results.read_runs import load_runs
    from nnd_tasks.show.terminal import show_reports

    chosen, _ = load_runs(runs, select)
    amateurs = load_runs([amateur], select)[0] if amateur else []
    show_reports([report_rules(run, parts_of(names), amateurs) for run in chosen], out=out, form=form, brief=brief)
