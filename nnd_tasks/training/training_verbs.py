"""The command nnd trend."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from nnd_tasks.cli.typer_app import (
    Allow,
    Brief,
    Category,
    Cluster,
    Format,
    Out,
    Results,
    Select,
    verb,
)
from nnd_tasks.errors import NNDError

Tags = Annotated[
    Path | None,
    Option(help="CSV, Excel, JSON or parquet: model, and where wanted family, training, step, other numbers."),
]


@verb(
    "Conclusions",
    "nnd trend results --out figures  # sizes of models, or checkpoints of a training",
    "nnd trend results --x year --tags models.csv  # against a number of your own",
)
def trend(
    runs: Results = None,
    x: Annotated[
        str | None,
        Option(
            "--x",
            help="parameters, step, or a numeric column of --tags. Default: step for checkpoints, else parameters.",
        ),
    ] = None,
    decide: Annotated[bool, Option("--decide", help="How early each measure orders several trainings.")] = False,
    series: Annotated[
        str | None,
        Option(metavar="REGEX", help="What names the training in a path, for --decide."),
    ] = None,
    tags: Tags = None,
    cluster: Cluster = None,
    category: Category = None,
    allow: Allow = "",
    select: Select = None,
    out: Out = None,
    form: Format = "text",
    brief: Brief = False,
) -> None:
    """Show pass rates and likelihoods against size, training step or another number.

    It also reads the file that NNDCallback wrote.
    """
    if decide and x:
        raise NNDError("--decide: goes by the step of checkpoints; leave --x out")
    if series is not None and not decide:
        raise NNDError("--series: says which checkpoints belong together with --decide; add it")
    from nnd_tasks.results.read_runs import load_runs, locate_results
    from nnd_tasks.show.terminal import show_reports
    from nnd_tasks.training.model_tags import read_tags
    from nnd_tasks.training.trend import read_trend, report_decisions, report_trend

    fields = {"cluster": cluster, "category": category}
    if decide:
        columns = None if tags is None else read_tags(tags)
        reports = report_decisions(load_runs(runs, select, allow, **fields)[0], series, columns, allow=allow)
    else:
        reports = [report_trend(read_trend(locate_results(runs), x, tags, allow, select or (), **fields))]
    show_reports(reports, out=out, form=form, brief=brief)
