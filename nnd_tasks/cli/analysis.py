"""Commands over results: compare, report, board, trend, signal, familiarity, verify, reproduce."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nnd_tasks.analysis.selecting import HELP as SELECT
from nnd_tasks.cli.typer_app import (
    CONCLUSIONS,
    DEFAULT_METRICS,
    METRICS_HELP,
    Brief,
    Format,
    Out,
    app,
    examples,
    parts_of,
)
from nnd_tasks.errors import NNDError
from nnd_tasks.show.console import say, warn

Runs = Annotated[list[Path], typer.Argument(help="What --output_path named, or results_*.json files.")]
Allow = Annotated[str, typer.Option(help="Parts of the protocol that may differ, separated by commas, such as prompt.")]
Tags = Annotated[
    Path | None,
    typer.Option(help="CSV, YAML or JSON: model, and where wanted family, training, step and other numbers."),
]
Select = Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help=SELECT)]


@app.command(
    rich_help_panel=CONCLUSIONS,
    epilog=examples(
        (
            "nnd compare results --brief",
            "every pair of models below results/, one line per pair: difference, interval, verdict",
        ),
        (
            "nnd compare results/small results/large --select shots=0 --adjust --out tables",
            "two runs, and files of all tables",
        ),
    ),
)
def compare(
    runs: Runs,
    out: Out = None,
    allow: Allow = "",
    select: Select = None,
    adjust: Annotated[
        bool, typer.Option("--adjust", help="Also rates with length and word frequency taken out.")
    ] = False,
    form: Format = "text",
    brief: Brief = False,
) -> None:
    """Compare models: rates, differences with intervals and tests, ranks, and what to know before reading them."""
    from nnd_tasks.analysis.compare import compare_runs, report_comparison
    from nnd_tasks.analysis.results import read_results
    from nnd_tasks.show.terminal import show_reports

    comparisons = compare_runs(read_results(runs, select or ()), parts_of(allow))
    reports = [report_comparison(one, adjusted=adjust) for one in comparisons]
    show_reports(reports, out=out, form=form, brief=brief)


@app.command(
    rich_help_panel=CONCLUSIONS,
    epilog=examples(
        ("nnd report results -o report.html", "a page with every test to look at"),
        ("nnd report anna ben --site site --select limit=all", "a site of two people's runs, on whole sets"),
    ),
)
def report(
    runs: Runs,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path("report.html"),
    site: Annotated[
        Path | None,
        typer.Option(file_okay=False, help="Folder for a site instead: a front page, and a page per set."),
    ] = None,
    test: Annotated[str | None, typer.Option(metavar="TEST_ID", help="Print one test, and write its page.")] = None,
    allow: Allow = "",
    select: Select = None,
    out: Out = None,
) -> None:
    """Write a page: rates, differences, what to know before reading them, all tests, signatures, commands.

    With --out it gives the same numbers as files, with surprise around marked errors.
    """
    from nnd_tasks.analysis.results import read_results
    from nnd_tasks.files import expand, write_text

    if site is not None:
        from nnd_tasks.analysis.site import write_site

        front, skipped = write_site(runs, site, select or ())
        for line in skipped:
            warn(f"left out: {line}")
        say(f"written: {front}")
        return
    from nnd_tasks.analysis.one_test import find_test, render_test, report_test
    from nnd_tasks.analysis.page import render_report, report_pages
    from nnd_tasks.analysis.side_by_side import pair
    from nnd_tasks.show.terminal import show_reports

    path = expand(output)
    if path.is_dir():
        raise NNDError(f"--output {path}: is a folder; name a file, such as {path / 'report.html'}")
    chosen = read_results(runs, select or ())
    if test is not None:
        pairs = find_test(test, chosen, parts_of(allow))
        show_reports([report_test(test, paired) for paired in pairs], out=out)
        page = render_test(test, pairs)
    else:
        if out is not None:
            show_reports(report_pages(pair(chosen, parts_of(allow))), out=out, brief=True)
        page = render_report(chosen, parts_of(allow))
    write_text(path, page)
    warn(f"written: {path}")


@app.command(
    rich_help_panel=CONCLUSIONS,
    epilog=examples(
        ("nnd trend results --out figures", "sizes of models, or checkpoints of a training"),
        ("nnd trend results --x year --tags models.csv", "against a number of your own"),
        ("nnd trend out/nnd.jsonl", "what NNDCallback wrote"),
    ),
)
def trend(
    runs: Annotated[
        list[Path], typer.Argument(help="What --output_path named, results_*.json files, or what NNDCallback wrote.")
    ],
    x: Annotated[
        str | None,
        typer.Option(
            "--x",
            help="parameters, step, or a numeric column of --tags. Default: step for checkpoints, else parameters.",
        ),
    ] = None,
    tags: Tags = None,
    allow: Allow = "",
    select: Select = None,
    out: Out = None,
    form: Format = "text",
    brief: Brief = False,
) -> None:
    """Show pass rates against the size of models, the step of a training, or another number."""
    from nnd_tasks.analysis.trend import read_trend, report_trend
    from nnd_tasks.show.terminal import show_reports

    found = read_trend(runs, x, tags, parts_of(allow), select or ())
    show_reports([report_trend(found)], out=out, form=form, brief=brief)


@app.command(
    rich_help_panel=CONCLUSIONS,
    epilog=examples(
        ("nnd signal results", "checkpoints of a training, or sizes of a family"),
        ("nnd signal results --brief", "which categories are worth running, on how many prompts"),
    ),
)
def signal(
    runs: Runs,
    tags: Tags = None,
    select: Select = None,
    out: Out = None,
    form: Format = "text",
    brief: Brief = False,
) -> None:
    """Show which categories tell better models from worse ones, by which measure, and on how few prompts."""
    from nnd_tasks.analysis.results import read_results
    from nnd_tasks.analysis.signal import report_signals
    from nnd_tasks.analysis.tags import read_tags
    from nnd_tasks.show.terminal import show_reports

    known = None if tags is None else read_tags(tags)
    reports = report_signals(read_results(runs, select or ()), known)
    show_reports(reports, out=out, form=form, brief=brief)


@app.command(
    rich_help_panel=CONCLUSIONS,
    epilog=examples(
        ("nnd familiarity results", "nats per token by system, for each model and set"),
        ("nnd familiarity results --own mixqg", "and pass rates by whether the better text is of mixqg"),
        ("nnd familiarity results --own small=gpt2b_sup,gpt2m_sup", "texts of the family of the model small"),
    ),
)
def familiarity(
    runs: Runs,
    own: Annotated[
        list[str] | None,
        typer.Option(metavar="[MODEL=]SYSTEM,...", help="Systems that the model, or its family, is; repeatable."),
    ] = None,
    select: Select = None,
    out: Out = None,
    form: Format = "text",
) -> None:
    """Show whose texts a model likes among texts that people judged alike, and how it does on tests of its own.

    The sets must be built here, as results do not say who wrote a text.
    """
    from nnd_tasks.analysis.familiarity import report_familiarity
    from nnd_tasks.analysis.results import read_results
    from nnd_tasks.show.terminal import show_reports

    reports = report_familiarity(read_results(runs, select or ()), own or ())
    show_reports(reports, out=out, form=form)


@app.command(
    rich_help_panel=CONCLUSIONS,
    epilog=examples(
        ("nnd verify", "on both sets, downloaded"),
        ("nnd verify summeval --source data --metrics rouge2,bartscore=bart-large-cnn", "one set, two metrics"),
    ),
)
def verify(
    name: Annotated[
        str,
        typer.Argument(
            metavar="[quiz_design|summeval|all]",
            help="What to verify on.",
        ),
    ] = "all",
    source: Annotated[
        Path | None,
        typer.Option(help="Folder that holds quiz_design/ and summeval/, or one set's file. Default: download."),
    ] = None,
    metrics: Annotated[str, typer.Option(help=METRICS_HELP)] = DEFAULT_METRICS,
    out: Out = None,
    form: Format = "text",
) -> None:
    """Hold NND rates and text metrics against human scores, beside the paper's Table 1."""
    from nnd_tasks.analysis.verify import verify_sets
    from nnd_tasks.show.terminal import show_reports

    show_reports(verify_sets(name, source, metrics), out=out, form=form)


@app.command(
    rich_help_panel=CONCLUSIONS,
    epilog=examples(
        ("nnd reproduce", "which experiments and models there are"),
        ("nnd reproduce quiz_design --weights mixqg --limit 50", "one model, on 50 prompts"),
        ("nnd reproduce quiz_design --weights dgpt2_sup=checkpoints/dgpt2", "of a folder that you have"),
    ),
)
def reproduce(
    experiment: Annotated[
        str | None,
        typer.Argument(help="Leave it out to see all of them and their models."),
    ] = None,
    weights: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[=FOLDER]", help="A model, and a folder in place of the hub's; repeatable. Default: all."
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Number of prompts; the published rates are over all of them.")
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", help="Folder for the report and each model's result, which is not run again.")
    ] = Path("nnd_reproduce"),
) -> None:
    """Run the paper's models that you have (folders, or the hub) and show published beside measured pass rates."""
    from nnd_tasks.analysis.reproduce import list_experiments
    from nnd_tasks.analysis.reproduce import reproduce as run_again
    from nnd_tasks.show.terminal import show_reports

    if experiment is None:
        show_reports([list_experiments()])
        return
    report = run_again(experiment, weights or (), out=out, limit=limit)
    show_reports([report], out=out)
    if failed := report.facts["failed"]:
        raise NNDError("; ".join(failed))
