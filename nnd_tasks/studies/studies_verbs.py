"""Commands of studies that repeat experiments of papers: verify, reproduce, stress."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, Option, Typer

from nnd_tasks.cli.typer_app import (
    DEFAULT_METRICS,
    Brief,
    Format,
    Metrics,
    Out,
    Replace,
    SetOut,
    announce_tasks,
    app,
    examples,
    parts_of,
    verb,
)
from nnd_tasks.errors import NNDError
from nnd_tasks.show.console import say, warn
from nnd_tasks.text import counted

if TYPE_CHECKING:
    from nnd_tasks.studies.stress.stress_set import StressSet


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
    from nnd_tasks.show.terminal import show_reports
    from nnd_tasks.studies.verify import verify_sets

    show_reports(verify_sets(name, source, metrics), out=out, form=form)


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
    from nnd_tasks.show.terminal import show_reports
    from nnd_tasks.studies.reproduce import list_experiments
    from nnd_tasks.studies.reproduce import reproduce as run_again

    if experiment is None:
        show_reports([list_experiments()])
        return
    report = run_again(experiment, weights or (), out=out, limit=limit)
    show_reports([report], out=out)
    if failed := report.facts["failed"]:
        raise NNDError("; ".join(failed))


# ---------------------------------------------------------------- nnd stress

Corpus = Annotated[str, Option(help="wikitext, cnndm, wmt, ted, or a file.")]
Source = Annotated[Path | None, Option(help="The paper's texts. Default: $NND_HOME/blindspot.")]
Errors = Annotated[str, Option(help="all, or names between commas.")]
Texts = Annotated[int, Option(help="Texts drawn at random; 0: all.")]

stress = Typer(
    help="Blind spots: synthetic errors as sets to test likelihoods with.",
    epilog=examples(
        "nnd stress build blindspot_wikitext --corpus wikitext  # 200 texts with every error",
        "nnd stress report out  # which errors the model does not see, after nnd run",
    ),
    no_args_is_help=True,
)
app.add_typer(stress, name="stress", rich_help_panel="Conclusions")


@verb(
    "Sets of synthetic errors",
    "nnd stress build blindspot_wikitext --corpus wikitext  # 200 texts, all errors, three levels",
    "nnd stress build typos --corpus texts.txt --errors token_drop  # texts of your own",
    name="build",
    group=stress,
)
def stress_build(
    name: Annotated[str, Argument(help="Name of the set; the tasks look for blindspot_CORPUS.")],
    corpus: Corpus,
    source: Source = None,
    errors: Errors = "all",
    levels: Annotated[Literal["three", "paper"], Option(help="Three of the paper's levels, or all.")] = "three",
    texts: Texts = 200,
    seeds: Annotated[int, Option(help="Times each error is made.")] = 1,
    spacy: Annotated[str | None, Option(help="Default: en_core_web_sm.")] = None,
    mlm: Annotated[str | None, Option(help="Masked language model, for bert_diverge.")] = None,
    out: SetOut = None,
    replace: Replace = False,
) -> None:
    """Build a set of gold texts against the same texts with one error.

    The paper's grid is --levels paper --texts 0 --seeds 5. N-grams are counted in texts_reference.txt beside texts.txt.
    """
    from nnd_tasks.studies.stress.stress_set import build_stress_set

    result = build_stress_set(
        name,
        corpus,
        folder=source,
        errors=errors,
        levels=levels,
        texts=texts,
        seeds=seeds,
        spacy=spacy,
        mlm=mlm,
        out=out,
        replace=replace,
    )
    say(f"{counted(result.summary.tests, 'test')} from {counted(result.summary.clusters, 'text')}")
    for error, what in result.report["left_out"].items():
        warn(f"left out: {error} needs {what}")
    _print_set(result)


def _print_set(result: StressSet) -> None:
    """Print the table of a set, and how to run its task."""
    from nnd_tasks.show.terminal import print_table

    print_table(result.table)
    say(f"written to {result.folder}")
    if result.task.edited:
        warn(f"note: {result.task.path} was kept as it is")
    announce_tasks([result.task.name])


@verb(
    "Sets of synthetic errors",
    "nnd stress attack found --models MODEL --corpus wikitext  # errors that a model prefers, as a set",
    "nnd stress attack found --models A,B,C --corpus texts.txt  # of several models",
    name="attack",
    group=stress,
)
def stress_attack(
    name: Annotated[str, Argument(help="Name of the set.")],
    models: Annotated[str, Option(help="Folders or names of models, separated by commas.")],
    corpus: Corpus,
    source: Source = None,
    errors: Errors = "all",
    texts: Texts = 50,
    out: SetOut = None,
    replace: Replace = False,
) -> None:
    """Search for errors, and edits of single words, that models prefer to the gold text."""
    from nnd_tasks.studies.stress.attack import build_attack_set

    result = build_attack_set(
        name,
        parts_of(models),
        corpus,
        folder=source,
        errors=errors,
        texts=texts,
        out=out,
        replace=replace,
    )
    _print_set(result)


@verb(
    "Verdicts",
    "nnd stress report out  # tables",
    "nnd stress report out --out figures  # and the paper's figure",
    name="report",
    group=stress,
)
def stress_report(
    results: Annotated[Path, Argument(help="What --output_path named, or one samples_*.jsonl.")],
    out: Out = None,
    form: Format = "text",
    brief: Brief = False,
) -> None:
    """Show per error whether the likelihood falls as the error grows, as in the paper, with intervals and pass rates."""
    from nnd_tasks.show.terminal import show_reports
    from nnd_tasks.studies.stress.stress_report import report_results

    show_reports(report_results(results), out=out, form=form, brief=brief)


@verb(
    "Verdicts",
    "nnd stress metrics blindspot_cnndm --corpus cnndm --metrics bleu,rouge2  # what text metrics do not see",
    name="metrics",
    group=stress,
)
def stress_metrics(
    name: Annotated[str, Argument(help="A set that `nnd stress build` made.")],
    corpus: Corpus,
    source: Source = None,
    metrics: Metrics = DEFAULT_METRICS,
    out: Out = None,
    form: Format = "text",
) -> None:
    """The same verdict for text metrics: does a metric's score fall as the error grows?

    The corpus is what the set was built from: the references are there.
    """
    from nnd_tasks.sets.first_use import provide_set
    from nnd_tasks.show.terminal import show_reports
    from nnd_tasks.studies.stress.corpora import read_corpus
    from nnd_tasks.studies.stress.stress_report import report_metric
    from nnd_tasks.studies.text_metrics import load_metrics

    folder, texts = provide_set(name), read_corpus(corpus, source)
    reports = [report_metric(part, metric, folder, texts) for part, metric in load_metrics(metrics).items()]
    show_reports(reports, out=out, form=form)


@verb(
    "Verdicts",
    "nnd stress self --models gpt2,gpt2-medium --corpus wikitext --judges facebook/opt-125m  # as in the paper",
    "nnd stress self --models ./small,./large --corpus texts.txt --texts 50  # from beginnings of texts of your own",
    name="self",
    group=stress,
)
def stress_self(
    models: Annotated[str, Option(help="Folders or names of models, separated by commas.")],
    corpus: Annotated[str, Option(help="As for `nnd stress build`, or a set that is built here.")],
    judges: Annotated[str, Option(help="Models that score only, separated by commas.")] = "",
    source: Source = None,
    texts: Texts = 100,
    words: Annotated[int, Option(min=0, help="Words of a text that are the prompt; 0 takes it whole.")] = 20,
    model_args: Annotated[
        str, Option("--model_args", help="As for lm_eval, of all models, such as dtype=float32.")
    ] = "",
    out: Out = Path("nnd_self"),
) -> None:
    """Let models write, and each score all texts: does it like its own best? The JSON keeps texts and scores."""
    from nnd_tasks.show.terminal import show_reports
    from nnd_tasks.studies.stress.scorers import score_own_texts

    report = score_own_texts(
        parts_of(models),
        corpus,
        source,
        texts=texts,
        words=words,
        judges=parts_of(judges),
        model_args=model_args,
    )
    show_reports([report], out=out)
