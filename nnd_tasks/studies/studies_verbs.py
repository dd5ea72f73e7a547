"""Commands of studies that repeat experiments of papers: signal, familiarity, verify, reproduce."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from nnd_tasks.cli.typer_app import (
    DEFAULT_METRICS,
    Allow,
    Brief,
    Format,
    Metrics,
    Out,
    Results,
    Select,
    Tags,
    load_runs,
    show,
    verb,
)
from nnd_tasks.errors import NNDError


@verb(
    "Conclusions",
    "nnd signal results  # checkpoints of a training, or sizes of a family",
    "nnd signal results --brief  # which categories are worth running, on how many prompts",
)
def signal(
    runs: Results = None,
    tags: Tags = None,
    allow: Allow = "",
    select: Select = None,
    out: Out = None,
    form: Format = "text",
    brief: Brief = False,
) -> None:
    """Show which categories tell better models from worse ones.

    It says by which measure, and on how few prompts.
    """
    from nnd_tasks.results.model_names import read_tags
    from nnd_tasks.studies.signal import report_signals

    columns = None if tags is None else read_tags(tags)
    reports = report_signals(load_runs(runs, select), columns, allow=allow)
    show(reports, out, form, brief)


@verb(
    "Conclusions",
    "nnd familiarity results  # nats per token by system, for each model and set",
    "nnd familiarity results --own mixqg  # and pass rates by whether the better text is of mixqg",
)
def familiarity(
    runs: Results = None,
    own: Annotated[
        list[str] | None,
        Option(metavar="[MODEL=]SYSTEM,...", help="Systems that the model, or its family, is; repeatable."),
    ] = None,
    select: Select = None,
    out: Out = None,
    form: Format = "text",
) -> None:
    """Show whose texts a model likes among those judged alike.

    It also says what comes from its own ones. The sets must be built here, as results do not say who wrote a text.
    """
    from nnd_tasks.studies.familiarity import report_familiarity

    reports = report_familiarity(load_runs(runs, select), own or ())
    show(reports, out, form)


@verb(
    "Conclusions",
    "nnd verify  # on both sets, downloaded",
    "nnd verify summeval --source data --metrics rouge2,bartscore=bart-large-cnn  # one set, two metrics",
)
def verify(
    name: Annotated[
        str,
        Argument(
            metavar="[quiz_design|summeval|all]",
            help="What to verify on.",
        ),
    ] = "all",
    source: Annotated[
        Path | None,
        Option(help="Folder that holds quiz_design/ and summeval/, or one set's file. Default: download."),
    ] = None,
    metrics: Metrics = DEFAULT_METRICS,
    out: Out = None,
    form: Format = "text",
) -> None:
    """Hold NND rates and text metrics against human scores.

    The numbers of the paper's Table 1 stand beside them.
    """
    from nnd_tasks.studies.verify import verify_sets

    show(verify_sets(name, source, metrics), out, form)


@verb(
    "Conclusions",
    "nnd reproduce  # which experiments and models there are",
    "nnd reproduce quiz_design --weights mixqg --limit 50  # one model, on 50 prompts",
)
def reproduce(
    experiment: Annotated[
        str | None,
        Argument(help="Leave it out to see all of them and their models."),
    ] = None,
    weights: Annotated[
        list[str] | None,
        Option(metavar="NAME[=FOLDER]", help="A model, and a folder in place of the hub's; repeatable. Default: all."),
    ] = None,
    limit: Annotated[
        int | None, Option(min=1, help="Number of prompts; the published rates are over all of them.")
    ] = None,
    out: Annotated[
        Path, Option("--out", help="Folder for the report and each model's result, which is not run again.")
    ] = Path("nnd_reproduce"),
) -> None:
    """Run the paper's models; show published beside measured rates.

    The models are folders that you have, or the hub's.
    """
    from nnd_tasks.studies.reproduce import list_experiments
    from nnd_tasks.studies.reproduce import reproduce as run_again

    if experiment is None:
        show([list_experiments()])
        return
    report = run_again(experiment, weights or (), out=out, limit=limit)
    show([report], out)
    if failed := report.facts["failed"]:
        raise NNDError("; ".join(failed))
