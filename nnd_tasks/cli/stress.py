"""Commands of ``nnd stress``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nnd_tasks.cli.app import app
from nnd_tasks.cli.console import check_folder, parts_of, say, show, warn
from nnd_tasks.errors import NNDError
from nnd_tasks.wording import counted

if TYPE_CHECKING:
    from nnd_tasks.harness.user_tasks import UserTask
    from nnd_tasks.stress.stress_report import StressReport

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
    from nnd_tasks.stress.stress_set import build_stress_set

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
    say(f"{counted(result.summary.tests, 'test')} from {counted(result.summary.clusters, 'text')}")
    for error, found in result.levels.items():
        same, again = result.unchanged.get(error, 0), result.repeated.get(error, 0)
        note = f"   {counted(same, 'time')} the text stayed as it was" if same else ""
        note += f"   {counted(again, 'time')} a level or seed gave nothing new" if again else ""
        say(f"  {error:<26}{result.summary.categories.get(error, 0):>8,}   levels {', '.join(found)}{note}")
    for error, what in result.left_out.items():
        warn(f"left out: {error} needs {what}")
    say(f"written to {result.folder}")
    _say_task(result.task)


def _say_task(task: UserTask) -> None:
    """Print how to run a task."""
    if task.kept:
        warn(f"note: {task.path} was kept as it is")
    say(f"score it: nnd run --model hf --model_args pretrained=MODEL --tasks {task.name}")


@stress.command("report")
def stress_report(
    results: Annotated[Path, typer.Argument(help="What --output_path named, or one samples_*.jsonl.")],
    out_dir: Annotated[Path | None, typer.Option("--out", help="Write tables and figures there.")] = None,
) -> None:
    """Show per error whether the likelihood falls as the error grows, as in the paper, beside pass rates."""
    from nnd_tasks.stress.stress_report import read_reports

    check_folder("--out", out_dir)
    _show_reports(read_reports(results), out_dir)


def _show_reports(reports: Sequence[StressReport], out_dir: Path | None) -> None:
    """Print reports and, where a folder is named, write them there."""
    from nnd_tasks.stress.stress_report import markdown, summary, write_reports

    if overview := summary(reports):
        show(overview)
    for report in reports:
        show(markdown(report))
    if out_dir is not None:
        for path in write_reports(reports, out_dir):
            say(f"written: {path}")


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
    from nnd_tasks.analysis.verify.text_metrics import find_metric
    from nnd_tasks.datasets import find_set
    from nnd_tasks.stress.corpora import read_corpus
    from nnd_tasks.stress.metric_scores import stress_metric

    check_folder("--out", out_dir)
    folder = find_set(name)
    found = read_corpus(corpus, source, reference)
    adapters = {part: find_metric(part, model, encoder) for part in parts_of(metrics)}
    if not adapters:
        raise NNDError("--metrics: none is named; take names separated by commas, such as rouge2,bleu")
    for part, metric in adapters.items():
        _show_reports([stress_metric(part, metric, folder, found)], out_dir)


@stress.command("errors")
def stress_errors() -> None:
    """Show every error type: what it does, what its levels count, what it needs."""
    from nnd_tasks.stress.registry import ERRORS, NEEDS
    from nnd_tasks.stress.synthesize import SynthesisPlan  # noqa: F401 - registers the errors

    for kind in ERRORS.values():
        say(f"{kind.name}  ({kind.kind}; levels: {kind.unit})")
        say(f"  {kind.definition}")
        if kind.example:
            say(f"  {kind.example[0]}  ->  {kind.example[1]}")
        for need in sorted(kind.needs):
            say(f"  needs {NEEDS[need]}")
