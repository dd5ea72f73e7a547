"""The command line ``nnd``: thin verbs over the rest."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from nnd_tasks import __version__
from nnd_tasks.errors import NNDError

if TYPE_CHECKING:
    from nnd_tasks.analysis.curves import Chart
    from nnd_tasks.build import BuildResult
    from nnd_tasks.harness.user_tasks import UserTask
    from nnd_tasks.stress.report import Report

app = typer.Typer(
    name="nnd",
    help="Near-Negative Distinction: human evaluations as likelihood tests for language models.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
out = Console(emoji=False)
err = Console(stderr=True, emoji=False)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"nnd-tasks {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Hold the options of all commands."""


@app.command()
def build(
    name: Annotated[str, typer.Argument(help="A set, as `nnd list` shows them.")],
    source: Annotated[
        Path | None, typer.Option(help="The publisher's file, or a folder that holds it. Default: download it.")
    ] = None,
    out_dir: Annotated[
        Path | None, typer.Option("--out", help="The dataset folder to write. Default: $NND_HOME/nnd/NAME.")
    ] = None,
    rows: Annotated[str | None, typer.Option(help="summeval only: half (the authors' cut) or all.")] = None,
    articles: Annotated[
        str | None,
        typer.Option(help="summeval only: dataset that holds the articles. Default: the hub's CNN/DailyMail."),
    ] = None,
) -> None:
    """Build a set into a Hugging Face dataset folder."""
    from nnd_tasks.build import build_set

    options = {key: value for key, value in {"rows": rows, "articles": articles}.items() if value is not None}
    _print_build(build_set(name, source, out_dir, options, progress=sys.stderr.isatty()))


def _say(text: str) -> None:
    """Print a line as it is: names from outside are no markup, and paths must not be wrapped."""
    out.print(text, markup=False, highlight=False, soft_wrap=True)


def _print_build(result: BuildResult) -> None:
    for summary in result.built:
        _say(
            f"{summary.name}: {summary.tests:,} tests, {summary.clusters:,} clusters, {summary.candidates:,} candidates"
        )
        for category, count in summary.categories.items():
            _say(f"  {category:<24}{count:>8,}")
    if result.kept:
        _say(f"kept as they were: {', '.join(result.kept)}")
    for note in result.notes:
        err.print(f"note: {note}", markup=False, highlight=False, soft_wrap=True)
    _say(f"written to {result.folder}")


@app.command("list")
def list_sets() -> None:
    """Show every set: size, categories, licence, built or not and where.

    In brackets: the smallest difference between two models that a category can be expected to show, in percentage points, if
    they decide 30% of its tests differently; ‡ marks what is too small to tell models apart.
    """
    from nnd_tasks.datasets import dataset_folder
    from nnd_tasks.sources import SOURCES

    for source in SOURCES.values():
        folder = dataset_folder(source.name)
        where = f"not built; run: nnd build {source.name}"
        lines = [
            f"{config}: {count:,} tests of {', '.join(source.categories)}" for config, count in source.published.items()
        ] or [", ".join(source.categories)]
        if folder.exists():
            found, where = _built(folder)
            lines = found or lines
        _say(f"{source.name}  ({source.kind}; {source.licence})")
        for line in [*lines, where]:
            _say(f"  {line}")
    parent = dataset_folder("")
    for folder in sorted(parent.iterdir()) if parent.is_dir() else []:
        if folder.name not in SOURCES and not folder.name.startswith(".") and folder.is_dir():
            found, where = _built(folder)
            _say(f"{folder.name}  (your own)")
            for line in [*found, where]:
                _say(f"  {line}")


def _built(folder: Path) -> tuple[list[str], str]:
    """Return a line per config of a dataset folder, and where it is or what is wrong with it."""
    from nnd_tasks.analysis.power import planned_by_category, shown
    from nnd_tasks.datasets import list_configs, read_table
    from nnd_tasks.tables import summarize

    lines = []
    try:
        for config in list_configs(folder)[0]:
            table = read_table(folder, config)
            summary = summarize(config, table)
            found = planned_by_category(table["cluster_id"].to_pylist(), table["category"].to_pylist())
            parts = [
                f"{category} {count:,} [{shown(found, category)}]" for category, count in summary.categories.items()
            ]
            lines.append(f"{config}: {summary.tests:,} tests = {' + '.join(parts)}")
    except NNDError as error:
        return [], f"unreadable: {error}"
    return lines, f"built in {folder}"


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []})
def run(context: typer.Context) -> None:
    """Run lm-eval with our tasks included: everything after `run` goes to lm_eval as it is.

    Models of type hf read common beginnings of requests once; --no-shared-prefix turns that off.
    """
    from nnd_tasks.harness.run import run_lm_eval

    ours = {"--debug", "--no-shared-prefix"}
    run_lm_eval(
        [argument for argument in context.args if argument not in ours],
        shared_prefix="--no-shared-prefix" not in context.args,
    )


@app.command()
def compare(
    runs: Annotated[list[Path], typer.Argument(help="What --output_path named, or results_*.json files.")],
    out_dir: Annotated[Path | None, typer.Option("--out", help="Write Markdown, JSON, CSV and LaTeX there.")] = None,
    allow: Annotated[
        str, typer.Option(help="Parts of the protocol that may differ, separated by commas, such as prompt.")
    ] = "",
    resamples: Annotated[int, typer.Option(help="Of bootstrap and permutation.")] = 10_000,
    seed: Annotated[int, typer.Option(help="Of both.")] = 0,
    table: Annotated[Path | None, typer.Option(help="Write one row per model and test, as parquet.")] = None,
) -> None:
    """Compare models: rates, differences with intervals and tests, ranks, and what to know before reading them."""
    from nnd_tasks.analysis.compare import compare_runs
    from nnd_tasks.analysis.reading import reading_aid
    from nnd_tasks.analysis.results import read_runs, write_table
    from nnd_tasks.analysis.tables import file_name, markdown, write_comparison

    found = read_runs(runs)
    if table is not None:
        _say(f"written: {write_table(found, table)}")
    for comparison in compare_runs(found, _parts(allow), resamples, seed):
        aids = {run.model: reading_aid(run) for run in comparison.paired.runs}
        _say(markdown(comparison, aids))
        if out_dir is not None:
            for path in write_comparison(comparison, out_dir / file_name(comparison), aids):
                _say(f"written: {path}")


def _parts(names: str) -> list[str]:
    """Return what stands between commas."""
    return [part.strip() for part in names.split(",") if part.strip()]


@app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(help="What --output_path named, or results_*.json files.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path("report.html"),
    allow: Annotated[
        str, typer.Option(help="Parts of the protocol that may differ, separated by commas, such as prompt.")
    ] = "",
) -> None:
    """Write one HTML page: rates, differences, what to know before reading them, failed tests, signatures, commands."""
    from nnd_tasks.analysis.html_report import write_report

    _say(f"written: {write_report(runs, output, _parts(allow))}")


@app.command()
def scaling(
    runs: Annotated[list[Path], typer.Argument(help="What --output_path named, or results_*.json files.")],
    x: Annotated[str, typer.Option("--x", help="parameters, step, or a numeric column of --tags.")] = "parameters",
    tags: Annotated[
        Path | None, typer.Option(help="CSV, YAML or JSON: model, and where wanted family and numbers.")
    ] = None,
    allow: Annotated[
        str, typer.Option(help="Parts of the protocol that may differ, separated by commas, such as prompt.")
    ] = "",
    log: Annotated[
        bool | None, typer.Option("--log/--linear", help="Of the x axis. Default: log for parameters.")
    ] = None,
    out_dir: Annotated[Path | None, typer.Option("--out", help="Write tables and figures there.")] = None,
) -> None:
    """Show pass rates against the size of models, or another number, per family and category."""
    from nnd_tasks.analysis.curves import scaling as chart
    from nnd_tasks.analysis.results import read_runs
    from nnd_tasks.analysis.tags import read_tags

    known = None if tags is None else read_tags(tags)
    _show_charts(chart(read_runs(runs), x, known, _parts(allow)), log, out_dir)


@app.command()
def curve(
    runs: Annotated[
        list[Path], typer.Argument(help="What --output_path named, of each checkpoint; or what NNDCallback wrote.")
    ],
    x: Annotated[str, typer.Option("--x", help="step; epoch of a log; or a numeric column of --tags.")] = "step",
    tags: Annotated[Path | None, typer.Option(help="CSV, YAML or JSON: model, step and other numbers.")] = None,
    allow: Annotated[
        str, typer.Option(help="Parts of the protocol that may differ, separated by commas, such as prompt.")
    ] = "",
    panels: Annotated[
        str, typer.Option(help="What has a panel of its own: task, or category as in the paper's Figure 4.")
    ] = "task",
    log: Annotated[
        bool | None, typer.Option("--log/--linear", help="Of the x axis. Default: log where early steps crowd.")
    ] = None,
    out_dir: Annotated[Path | None, typer.Option("--out", help="Write tables and figures there.")] = None,
) -> None:
    """Show pass rates over the checkpoints of a training, or over the steps that NNDCallback logged."""
    from nnd_tasks.analysis.curve_log import read_curve

    _show_charts(read_curve(runs, x, tags, _parts(allow), panels), log, out_dir)


def _show_charts(charts: Sequence[Chart], log: bool | None, out_dir: Path | None) -> None:
    """Print the tables of charts and, where a folder is named, write them and the figures there."""
    from nnd_tasks.analysis.curve_report import markdown, write

    for chart in charts:
        _say(markdown(chart))
    if out_dir is not None:
        for path in write(charts, out_dir, log):
            _say(f"written: {path}")


stress = typer.Typer(help="Blind spots: synthetic errors, as sets to test likelihoods with.", no_args_is_help=True)
app.add_typer(stress, name="stress")


@stress.command("build")
def stress_build(
    name: Annotated[str, typer.Argument(help="Of the set; the tasks look for blindspot_CORPUS.")],
    corpus: Annotated[
        str,
        typer.Option(help="wikitext, cnndm, wmt or ted; a .txt or .jsonl file; or a path for `datasets` (PATH:SPLIT)."),
    ],
    source: Annotated[
        Path | None, typer.Option(help="Folder of the paper's texts. Default: $NND_HOME/blindspot.")
    ] = None,
    errors: Annotated[
        str, typer.Option(help="all, or names separated by commas; `nnd stress errors` lists them.")
    ] = "all",
    levels: Annotated[
        str | None,
        typer.Option(help="three, paper (all of the paper's), or numbers separated by commas.", show_default="three"),
    ] = None,
    texts: Annotated[
        int | None, typer.Option(help="How many gold texts, drawn at random; 0 takes all.", show_default="200")
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="How often each error is made anew.", show_default="1")] = None,
    paper: Annotated[
        bool, typer.Option("--paper", help="The paper's whole grid: all texts, all its levels, five seeds.")
    ] = False,
    spacy: Annotated[
        str | None, typer.Option(help="spaCy pipeline. Default: en_core_web_sm if it is installed.")
    ] = None,
    mlm: Annotated[str | None, typer.Option(help="Masked language model, for bert_diverge.")] = None,
    reference: Annotated[Path | None, typer.Option(help="Texts, one per line, to count n-grams in.")] = None,
    prompt: Annotated[
        str | None, typer.Option(help="Template of what a model reads before a text with source.")
    ] = None,
    out_dir: Annotated[
        Path | None, typer.Option("--out", help="The dataset folder to write. Default: $NND_HOME/nnd/NAME.")
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Give up a set of this name made otherwise.")] = False,
    workers: Annotated[int, typer.Option(help="Processes.")] = 1,
) -> None:
    """Build a set of gold texts against the same texts with one error. Interrupted, it goes on when run again."""
    from nnd_tasks.stress.build import build_stress_set

    if paper and any(value is not None for value in (levels, texts, seeds)):
        raise NNDError(
            "--paper sets levels, texts and seeds itself; leave --levels, --texts and --seeds out, or --paper"
        )
    result = build_stress_set(
        name,
        corpus,
        place=source,
        errors=errors,
        levels="paper" if paper else levels or "three",
        texts=None if paper or texts == 0 else 200 if texts is None else texts,
        seeds=5 if paper else 1 if seeds is None else seeds,
        spacy=spacy,
        mlm=mlm,
        reference=reference,
        prompt=None if prompt is None else prompt.replace("\\n", "\n"),
        out=out_dir,
        replace=replace,
        workers=workers,
        progress=sys.stderr.isatty(),
    )
    _say(f"{result.summary.tests:,} tests from {result.summary.clusters:,} texts")
    for error, found in result.levels.items():
        same, again = result.unchanged.get(error, 0), result.repeated.get(error, 0)
        note = f"   {same:,} times the text stayed as it was" if same else ""
        note += f"   {again:,} times a level or seed gave nothing new" if again else ""
        _say(f"  {error:<26}{result.summary.categories.get(error, 0):>8,}   levels {', '.join(found)}{note}")
    for error, what in result.left_out.items():
        err.print(f"left out: {error} needs {what}", markup=False, highlight=False, soft_wrap=True)
    _say(f"written to {result.folder}")
    _say_task(result.task)


def _say_task(task: UserTask) -> None:
    """Print how to run a task."""
    if task.kept:
        err.print(f"note: {task.path} was kept as it is", markup=False, highlight=False, soft_wrap=True)
    _say(f"score it: nnd run --model hf --model_args pretrained=MODEL --tasks {task.name}")


@stress.command("report")
def stress_report(
    results: Annotated[Path, typer.Argument(help="What --output_path named, or one samples_*.jsonl.")],
    out_dir: Annotated[Path | None, typer.Option("--out", help="Write tables and figures there.")] = None,
) -> None:
    """Show per error whether the likelihood falls as the error grows, as in the paper, beside pass rates."""
    from nnd_tasks.stress.report import read_reports

    _show_reports(read_reports(results), out_dir)


def _show_reports(reports: Sequence[Report], out_dir: Path | None) -> None:
    """Print reports and, where a folder is named, write them there."""
    from nnd_tasks.stress.report import markdown, write_reports

    for report in reports:
        _say(markdown(report))
    if out_dir is not None:
        for path in write_reports(reports, out_dir):
            _say(f"written: {path}")


@stress.command("metrics")
def stress_metrics(
    name: Annotated[str, typer.Argument(help="A set that `nnd stress build` made.")],
    corpus: Annotated[str, typer.Option(help="What it was built from: the references are there.")],
    source: Annotated[
        Path | None, typer.Option(help="Folder of the paper's texts. Default: $NND_HOME/blindspot.")
    ] = None,
    metrics: Annotated[str, typer.Option(help="Names separated by commas.")] = "bleu,chrf,rouge1,rouge2,rougel",
    model: Annotated[str | None, typer.Option(help="Encoder-decoder, for bartscore_p, _r, _f and _faithful.")] = None,
    encoder: Annotated[
        str | None, typer.Option(help="Model for bertscore and mauve. Default: the package's, and gpt2-large.")
    ] = None,
    reference: Annotated[
        Path | None, typer.Option(help="Texts, one per line, for mauve. Default: the references of the corpus.")
    ] = None,
    out_dir: Annotated[Path | None, typer.Option("--out", help="Write tables and figures there.")] = None,
) -> None:
    """The same verdict for text metrics: does a metric's score fall as the error grows?"""
    from nnd_tasks.analysis.text_metrics import find_metric
    from nnd_tasks.datasets import find_dataset, how_to_build
    from nnd_tasks.stress.corpora import read_corpus
    from nnd_tasks.stress.text_metrics import stress_metric

    folder = find_dataset(f"nnd/{name}") or find_dataset(name)
    if folder is None:
        raise NNDError(f"set {name!r} is not built here; run: {how_to_build(name)}")
    found = read_corpus(corpus, source, reference)
    adapters = {part: find_metric(part, model, encoder) for part in _parts(metrics)}
    if not adapters:
        raise NNDError("--metrics: none is named; take names separated by commas, such as rouge2,bleu")
    for part, metric in adapters.items():
        _show_reports([stress_metric(part, metric, folder, found)], out_dir)


@stress.command("errors")
def stress_errors() -> None:
    """Show every error type: what it does, what its levels count, what it needs."""
    from nnd_tasks.stress.registry import ERRORS, NEEDS
    from nnd_tasks.stress.synthesize import Plan  # noqa: F401 - registers the errors

    for kind in ERRORS.values():
        _say(f"{kind.name}  ({kind.kind}; levels: {kind.unit})")
        _say(f"  {kind.definition}")
        if kind.example:
            _say(f"  {kind.example[0]}  ->  {kind.example[1]}")
        for need in sorted(kind.needs):
            _say(f"  needs {NEEDS[need]}")


@app.command()
def verify(
    name: Annotated[str, typer.Argument(metavar="[quiz_design|summeval|all]", help="What to verify on.")] = "all",
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
) -> None:
    """Hold NND rates and text metrics against human scores, beside the paper's Table 1."""
    from nnd_tasks.analysis.verify_report import markdown, write_reports
    from nnd_tasks.analysis.verify_sets import Metrics, verify_sets

    names = None if metrics is None else [part for part in map(str.strip, metrics.split(",")) if part]
    reports = verify_sets(name, source, Metrics(names, model, encoder), progress=sys.stderr.isatty())
    _say(markdown(reports))
    if out_dir is not None:
        for path in write_reports(reports, out_dir):
            _say(f"written: {path}")


@app.command()
def reproduce(
    experiment: Annotated[str | None, typer.Argument(help="Leave it out to see all of them and their models.")] = None,
    only: Annotated[str | None, typer.Option(help="Names of models, separated by commas.")] = None,
    limit: Annotated[int | None, typer.Option(help="Contexts; the published rates are over all of them.")] = None,
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
    from nnd_tasks.analysis.recipes import listing

    if experiment is None:
        _say(listing())
        return
    from nnd_tasks.analysis.reproduce import Options
    from nnd_tasks.analysis.reproduce import reproduce as run_recipes

    options = Options(limit=limit, device=device, batch_size=batch_size)
    report = run_recipes(
        experiment, out=out_dir, only=only, models=models, folders=model or [], options=options, say=_say
    )
    _say(f"written: {report}")


@app.command()
def register() -> None:
    """Make our tasks known to the literal command lm_eval of this environment."""
    from nnd_tasks.harness.register import register as make

    folder, count = make()
    _say(f"registered {count} tasks and groups in {folder}")


@app.command()
def unregister() -> None:
    """Undo `nnd register`."""
    from nnd_tasks.harness.register import unregister as undo

    folder = undo()
    _say(f"removed {folder}" if folder else "nothing was registered")


@app.command("tasks-dir")
def tasks_dir() -> None:
    """Print the folder of our task YAMLs, for lm_eval --include_path."""
    from nnd_tasks.harness.register import tasks_dir as find

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


def main() -> None:
    """Entry point: a user's mistake ends in one line and status 1, without a traceback."""
    debug = "--debug" in sys.argv or bool(os.environ.get("NND_DEBUG"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # names of files may hold what the terminal has no letters for
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except NNDError as error:
        if debug:
            raise
        err.print(f"nnd: error: {error}", markup=False, highlight=False, soft_wrap=True)
        sys.exit(1)
    except KeyboardInterrupt:
        if debug:
            raise
        err.print("nnd: interrupted", markup=False, highlight=False)
        sys.exit(130)


if __name__ == "__main__":
    main()
