"""The commands of `nnd stress`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option, Typer

from nnd_tasks.cli.typer_app import (
    Brief,
    Format,
    Out,
    Replace,
    SetOut,
    announce_tasks,
    app,
    examples,
    verb,
)
from nnd_tasks.show.console import say, warn
from nnd_tasks.text import counted

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
    from nnd_tasks.show.terminal import print_table
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
    print_table(result.table)
    say(f"written to {result.folder}")
    if result.task.edited:
        warn(f"note: {result.task.path} was kept as it is")
    announce_tasks([result.task.name])


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
