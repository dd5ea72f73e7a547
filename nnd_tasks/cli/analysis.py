"""Commands over results: compare, report, surprise, board, scaling, curve, signal, familiarity, verify, reproduce."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nnd_tasks.analysis.selecting import HELP as SELECT
from nnd_tasks.cli import completion
from nnd_tasks.cli.console import check_folder, parts_of, say, show, show_lines, warn
from nnd_tasks.cli.typer_app import CONCLUSIONS, Brief, app, examples

if TYPE_CHECKING:
    from nnd_tasks.analysis.curves.charts import Chart

_X = completion.choices("parameters", "step", "epoch")
Runs = Annotated[list[Path], typer.Argument(help="What --output_path named, or results_*.json files.")]
Allow = Annotated[str, typer.Option(help="Parts of the protocol that may differ, separated by commas, such as prompt.")]
Select = Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help=SELECT)]


@app.command(
    rich_help_panel=CONCLUSIONS,
    epilog=examples(
        ("nnd compare results", "every pair of models below results/"),
        ("nnd compare results --brief", "one line per pair: difference, interval, verdict"),
        (
            "nnd compare results/small results/large --select shots=0 --out tables",
            "two runs, as Markdown, JSON, CSV and LaTeX too",
        ),
        ("nnd compare results --adjust", "with length and word frequency taken out"),
    ),
)
def compare(
    runs: Runs,
    out_dir: Annotated[Path | None, typer.Option("--out", help="Write Markdown, JSON, CSV and LaTeX there.")] = None,
    allow: Allow = "",
    select: Select = None,
    resamples: Annotated[int, typer.Option(help="Sign flips drawn for p values.")] = 10_000,
    seed: Annotated[int, typer.Option(help="Seed of the sign flips.")] = 0,
    adjust: Annotated[
        bool, typer.Option("--adjust", help="Also rates with length and word frequency taken out.")
    ] = False,
    brief: Brief = False,
) -> None:
    """Compare models: rates, differences with intervals and tests, ranks, and what to know before reading them."""
    from nnd_tasks.analysis.compare.adjusted import with_adjusted
    from nnd_tasks.analysis.compare.diagnostics import diagnostics_of
    from nnd_tasks.analysis.compare.margin_parts import margin_parts
    from nnd_tasks.analysis.compare.output import file_names, markdown, write_comparison
    from nnd_tasks.analysis.compare.paired import compare_runs
    from nnd_tasks.analysis.results import read_results
    from nnd_tasks.cli.brief import brief_comparisons

    check_folder("--out", out_dir)
    chosen = read_results(runs, select or ())
    comparisons = compare_runs(chosen, parts_of(allow), resamples, seed)
    if adjust:
        comparisons = [with_adjusted(comparison) for comparison in comparisons]
    if brief:
        show(brief_comparisons(comparisons))
    for comparison, name in zip(comparisons, file_names(comparisons), strict=True):
        if out_dir is not None or not brief:
            comparison = replace(comparison, parts=margin_parts(comparison.paired))
        diagnostics = {run.model: diagnostics_of(run) for run in comparison.paired.runs}
        if not brief:
            show(markdown(comparison, diagnostics, signatures=False))
        if out_dir is not None:
            for path in write_comparison(comparison, out_dir / name, diagnostics):
                say(f"written: {path}")
    for line in comparisons[0].not_compared:
        warn(f"note: {line}")


@app.command(
    rich_help_panel=CONCLUSIONS,
    epilog=examples(
        ("nnd report results -o report.html", "with the failed tests to look at"),
    ),
)
def report(
    runs: Runs,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path("report.html"),
    allow: Allow = "",
    select: Select = None,
) -> None:
    """Write one HTML page: rates, differences, what to know before reading them, failed tests, signatures, commands."""
    from nnd_tasks.analysis.report.html_report import write_report

    say(f"written: {write_report(runs, output, parts_of(allow), select=select or ())}")


@app.command(
    rich_help_panel=CONCLUSIONS,
    epilog=examples(
        ("nnd surprise results --out figures", "of runs with --metadata '{\"tokens\": true}'"),
    ),
)
def surprise(
    runs: Runs,
    select: Select = None,
    out_dir: Annotated[Path | None, typer.Option("--out", help="Write tables and figures there.")] = None,
) -> None:
    """Show how surprising the tokens before, in and after marked errors are to each model."""
    from nnd_tasks.analysis.curves.around_errors import around_errors, markdown, write
    from nnd_tasks.analysis.results import read_results

    check_folder("--out", out_dir)
    places = around_errors(read_results(runs, select or ()))
    show(markdown(places))
    for path in write(places, out_dir) if out_dir is not None else ():
        say(f"written: {path}")


@app.command(
    rich_help_panel=CONCLUSIONS,
    epilog=examples(
        ("nnd board results --out site", "pages that any static host can serve"),
        ("nnd board anna ben --out site --select limit=all", "whole sets only, of two people"),
    ),
)
def board(
    runs: Runs,
    out_dir: Annotated[Path, typer.Option("--out", help="The folder to write, or an earlier board to replace.")],
    select: Select = None,
    texts: Annotated[
        str,
        typer.Option(
            help="Texts of failed tests to show: free (those that anyone may publish), all or none.",
            autocompletion=completion.choices("free", "all", "none"),
        ),
    ] = "free",
) -> None:
    """Write a static site of all models and sets, from result folders of many people."""
    from nnd_tasks.analysis.board.board_pages import write_board

    page, skipped = write_board(runs, out_dir, select or (), texts)
    for line in skipped:
        warn(f"left out: {line}")
    say(f"written: {page}")


@app.command(
    rich_help_panel=CONCLUSIONS,
    epilog=examples(
        ("nnd scaling results --out figures", "against the number of parameters"),
        ("nnd scaling results --x year --tags models.csv", "against a number of your own"),
    ),
)
def scaling(
    runs: Runs,
    x: Annotated[
        str, typer.Option("--x", help="parameters, step, or a numeric column of --tags.", autocompletion=_X)
    ] = "parameters",
    tags: Annotated[Path | None, typer.Option(help="CSV or JSON: model, and where wanted family and numbers.")] = None,
    allow: Allow = "",
    select: Select = None,
    log: Annotated[
        bool | None, typer.Option("--log/--linear", help="Scale of the x axis. Default: log for parameters.")
    ] = None,
    out_dir: Annotated[Path | None, typer.Option("--out", help="Write tables and figures there.")] = None,
    brief: Brief = False,
) -> None:
    """Show pass rates against the size of models, or another number, per family and category."""
    from nnd_tasks.analysis.curves.charts import scaling as chart
    from nnd_tasks.analysis.results import read_results
    from nnd_tasks.analysis.tags import read_tags

    check_folder("--out", out_dir)
    known = None if tags is None else read_tags(tags)
    _show_charts(chart(read_results(runs, select or ()), x, known, parts_of(allow)), log, out_dir, brief)


@app.command(
    rich_help_panel=CONCLUSIONS,
    epilog=examples(
        ("nnd curve results --out figures", "over the checkpoints of a training run"),
        ("nnd curve results --panels category", "as in the paper's Figure 4"),
    ),
)
def curve(
    runs: Annotated[
        list[Path], typer.Argument(help="What --output_path named, of each checkpoint; or what NNDCallback wrote.")
    ],
    x: Annotated[
        str, typer.Option("--x", help="step; epoch of a log; or a numeric column of --tags.", autocompletion=_X)
    ] = "step",
    tags: Annotated[Path | None, typer.Option(help="CSV or JSON: model, step and other numbers.")] = None,
    allow: Allow = "",
    select: Select = None,
    panels: Annotated[
        str, typer.Option(help="What has a panel of its own: task, or category as in the paper's Figure 4.")
    ] = "task",
    log: Annotated[
        bool | None, typer.Option("--log/--linear", help="Scale of the x axis. Default: log where early steps crowd.")
    ] = None,
    out_dir: Annotated[Path | None, typer.Option("--out", help="Write tables and figures there.")] = None,
    brief: Brief = False,
) -> None:
    """Show pass rates over the checkpoints of a training, or over the steps that NNDCallback logged."""
    from nnd_tasks.analysis.curves.curve_log import read_curve

    check_folder("--out", out_dir)
    _show_charts(read_curve(runs, x, tags, parts_of(allow), panels, select or ()), log, out_dir, brief)


def _show_charts(charts: Sequence[Chart], log: bool | None, out_dir: Path | None, brief: bool) -> None:
    """Print the tables of charts and, where a folder is named, write them and the figures there."""
    from nnd_tasks.analysis.curves.curve_report import markdown, write
    from nnd_tasks.cli.brief import brief_chart

    for chart in charts:
        show(brief_chart(chart) if brief else markdown(chart))
    if out_dir is not None:
        for path in write(charts, out_dir, log):
            say(f"written: {path}")


@app.command(
    rich_help_panel=CONCLUSIONS,
    epilog=examples(
        ("nnd signal results", "checkpoints of a training, or sizes of a family"),
        ("nnd signal results --brief", "which categories are worth running, on how many prompts"),
    ),
)
def signal(
    runs: Runs,
    tags: Annotated[
        Path | None,
        typer.Option(help="CSV or JSON: model, and where wanted family, training, step and parameters."),
    ] = None,
    allow: Allow = "",
    select: Select = None,
    out_dir: Annotated[Path | None, typer.Option("--out", help="Write Markdown, CSV and JSON there.")] = None,
    brief: Brief = False,
) -> None:
    """Show which categories tell better models from worse ones, by which measure, and on how few prompts."""
    from nnd_tasks.analysis.results import read_results
    from nnd_tasks.analysis.signal.signal_report import markdown, write_signals
    from nnd_tasks.analysis.signal.signals import find_signals
    from nnd_tasks.analysis.tags import read_tags
    from nnd_tasks.cli.brief import brief_signals

    check_folder("--out", out_dir)
    known = None if tags is None else read_tags(tags)
    found = find_signals(read_results(runs, select or ()), known, parts_of(allow))
    show(brief_signals(found) if brief else "\n".join(map(markdown, found)))
    for path in write_signals(found, out_dir) if out_dir is not None else ():
        say(f"written: {path}")


@app.command(
    rich_help_panel=CONCLUSIONS,
    epilog=examples(
        ("nnd familiarity results", "nats per token by system, for each model and set"),
        ("nnd familiarity results --own mixqg", "and how much of the pass rate comes from texts of mixqg"),
        ("nnd familiarity results --own small=gpt2b_sup,gpt2m_sup --brief", "texts of the family of the model small"),
    ),
)
def familiarity(
    runs: Runs,
    own: Annotated[
        list[str] | None,
        typer.Option(metavar="[MODEL=]SYSTEM,...", help="Systems that the model, or its family, is; repeatable."),
    ] = None,
    allow: Allow = "",
    select: Select = None,
    out_dir: Annotated[Path | None, typer.Option("--out", help="Write Markdown, CSV and JSON there.")] = None,
    brief: Brief = False,
) -> None:
    """Show whose texts a model likes among texts that people judged alike, and what comes from its own ones.

    The sets must be built here, as results do not say who wrote a text.
    """
    from nnd_tasks.analysis.familiarity.familiarity import find_familiarity
    from nnd_tasks.analysis.familiarity.familiarity_report import markdown, write_familiarity
    from nnd_tasks.analysis.results import read_results
    from nnd_tasks.cli.brief import brief_familiarity

    check_folder("--out", out_dir)
    found = find_familiarity(read_results(runs, select or ()), own or (), parts_of(allow))
    show(brief_familiarity(found) if brief else "\n".join(map(markdown, found)))
    for path in write_familiarity(found, out_dir) if out_dir is not None else ():
        say(f"written: {path}")


@app.command(
    rich_help_panel=CONCLUSIONS,
    epilog=examples(
        ("nnd verify", "on both sets, downloaded"),
        ("nnd verify summeval --source data --metrics rouge2,bleu --brief", "averages only"),
    ),
)
def verify(
    name: Annotated[
        str,
        typer.Argument(
            metavar="[quiz_design|summeval|all]",
            help="What to verify on.",
            autocompletion=completion.choices("quiz_design", "summeval", "all"),
        ),
    ] = "all",
    source: Annotated[
        Path | None,
        typer.Option(help="Folder that holds quiz_design/ and summeval/, or one set's file. Default: download."),
    ] = None,
    metrics: Annotated[
        str | None, typer.Option(help="Text metrics separated by commas. Default: those at hand.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Encoder-decoder, for BARTScore.")] = None,
    encoder: Annotated[str | None, typer.Option(help="Encoder, for BERTScore.")] = None,
    out_dir: Annotated[Path | None, typer.Option("--out", help="Write Markdown, JSON and CSV there.")] = None,
    brief: Brief = False,
) -> None:
    """Hold NND rates and text metrics against human scores, beside the paper's Table 1."""
    from nnd_tasks.analysis.verify.verify_report import markdown, write_reports
    from nnd_tasks.analysis.verify.verify_sets import Metrics, verify_sets
    from nnd_tasks.cli.brief import brief_verification

    check_folder("--out", out_dir)
    names = None if metrics is None else [part for part in map(str.strip, metrics.split(",")) if part]
    reports = verify_sets(name, source, Metrics(names, model, encoder), progress=sys.stderr.isatty())
    show(brief_verification(reports) if brief else markdown(reports))
    if out_dir is not None:
        for path in write_reports(reports, out_dir):
            say(f"written: {path}")


@app.command(
    rich_help_panel=CONCLUSIONS,
    epilog=examples(
        ("nnd reproduce", "which experiments and models there are"),
        ("nnd reproduce quiz_design --only mixqg --limit 50", "one model, on 50 prompts"),
        ("nnd reproduce quiz_design --model mixqg=checkpoints/mixqg", "of a folder that you have"),
    ),
)
def reproduce(
    experiment: Annotated[
        str | None,
        typer.Argument(help="Leave it out to see all of them and their models.", autocompletion=completion.experiments),
    ] = None,
    only: Annotated[str | None, typer.Option(help="Names of models, separated by commas.")] = None,
    limit: Annotated[
        int | None, typer.Option(help="Number of prompts; the published rates are over all of them.")
    ] = None,
    models: Annotated[Path | None, typer.Option(help="Folder whose subfolders are named like the models.")] = None,
    model: Annotated[
        list[str] | None, typer.Option(help="NAME=FOLDER of one model, or of what stands in for it; repeatable.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="As for lm_eval, such as cuda or cpu.")] = None,
    batch_size: Annotated[str, typer.Option("--batch_size", help="As for lm_eval.")] = "8",
    out_dir: Annotated[Path, typer.Option("--out", help="Keep results there; what is there is not run again.")] = Path(
        "nnd_reproduce"
    ),
) -> None:
    """Run the paper's models that you have (folders, or the hub) and show published beside measured pass rates."""
    from nnd_tasks.analysis.reproduce.experiments import listing

    if experiment is None:
        show_lines(listing())
        return
    from nnd_tasks.analysis.reproduce.reproduction import Options
    from nnd_tasks.analysis.reproduce.reproduction import reproduce as run_recipes

    options = Options(limit=limit, device=device, batch_size=batch_size)
    report = run_recipes(
        experiment, out=out_dir, only=only, models=models, folders=model or [], options=options, say=show
    )
    say(f"written: {report}")
