"""Commands of ``nnd stress``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nnd_tasks.cli import completion
from nnd_tasks.cli.console import check_folder, parts_of, say, show, table, warn
from nnd_tasks.cli.typer_app import CONCLUSIONS, RUN_GPT2, Brief, app, examples
from nnd_tasks.errors import NNDError
from nnd_tasks.wording import counted

if TYPE_CHECKING:
    from nnd_tasks.sets.tasks import UserTask
    from nnd_tasks.stress.stress_report import StressReport

#: Panels of `nnd stress --help`.
_SETS, _VERDICTS = "Sets of synthetic errors", "Verdicts"
_CORPORA = completion.choices("wikitext", "cnndm", "wmt", "ted")

stress = typer.Typer(
    help="Blind spots: synthetic errors, as sets to test likelihoods with.",
    epilog=examples(
        ("nnd stress build blindspot_wikitext --corpus wikitext", "200 texts with every error"),
        (
            f"{RUN_GPT2} --tasks nnd_blindspot_wikitext --output_path out --log_samples",
            "score",
        ),
        ("nnd stress report out", "which errors the model does not see"),
    ),
    no_args_is_help=True,
)
app.add_typer(stress, name="stress", rich_help_panel=CONCLUSIONS)


@stress.command(
    "build",
    rich_help_panel=_SETS,
    epilog=examples(
        ("nnd stress build blindspot_wikitext --corpus wikitext", "200 texts, all errors, three levels"),
        ("nnd stress build mine --corpus texts.txt --errors truncation,token_drop --texts 50", "texts of your own"),
    ),
)
def stress_build(
    name: Annotated[str, typer.Argument(help="Name of the set; the tasks look for blindspot_CORPUS.")],
    corpus: Annotated[
        str,
        typer.Option(
            help="wikitext, cnndm, wmt or ted; a .txt or .jsonl file; or a path for `datasets` (PATH:SPLIT).",
            autocompletion=_CORPORA,
        ),
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
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace a set of this name that was made in another way.")
    ] = False,
    workers: Annotated[int, typer.Option(help="Number of processes.")] = 1,
    brief: Brief = False,
) -> None:
    """Build a set of gold texts against the same texts with one error."""
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
    if not brief:
        rows = [
            [
                error,
                f"{result.summary.categories.get(error, 0):,}",
                ", ".join(levels),
                f"{result.unchanged.get(error, 0):,}",
                f"{result.repeated.get(error, 0):,}",
            ]
            for error, levels in result.levels.items()
        ]
        numbers = ["tests", "texts left as they were", "levels or seeds that gave nothing new"]
        show("\n" + table(["error", numbers[0], "levels", *numbers[1:]], rows, numbers) + "\n")
    for error, what in result.left_out.items():
        warn(f"left out: {error} needs {what}")
    say(f"written to {result.folder}")
    _say_task(result.task)


def _say_task(task: UserTask) -> None:
    """Print how to run a task."""
    if task.kept:
        warn(f"note: {task.path} was kept as it is")
    arguments = f"--model hf --model_args pretrained=MODEL,softmax_dtype=float32 --tasks {task.name}"
    say(f"score it: nnd run {arguments} --output_path results --log_samples")
    say("then:     nnd stress report results")


@stress.command(
    "attack",
    rich_help_panel=_SETS,
    epilog=examples(
        ("nnd stress attack found --models MODEL --corpus wikitext", "errors that a model prefers, as a set"),
        ("nnd stress attack found --models A,B,C --corpus texts.txt", "and which models they fool too"),
    ),
)
def stress_attack(
    name: Annotated[str, typer.Argument(help="Name of the set.")],
    models: Annotated[str, typer.Option(help="Folders or names of models to attack, separated by commas.")],
    corpus: Annotated[
        str,
        typer.Option(help="As for `nnd stress build`; texts with sources allow more edits.", autocompletion=_CORPORA),
    ],
    source: Annotated[
        Path | None, typer.Option(help="Folder of the paper's texts. Default: $NND_HOME/blindspot.")
    ] = None,
    searches: Annotated[
        str, typer.Option("--search", help="errors (error types), edits (single words), or both.")
    ] = "errors,edits",
    errors: Annotated[str, typer.Option(help="Error types for the search `errors`: all, or names.")] = "all",
    steps: Annotated[int, typer.Option(help="Most changes of a text, one after the other.")] = 3,
    texts: Annotated[int, typer.Option(help="How many gold texts, drawn at random; 0 takes all.")] = 50,
    spacy: Annotated[
        str | None, typer.Option(help="spaCy pipeline. Default: en_core_web_sm if it is installed.")
    ] = None,
    prompt: Annotated[
        str | None, typer.Option(help="Template of what a model reads before a text with source.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="Such as cuda or cpu. Default: cuda if it is there.")] = None,
    batch_size: Annotated[str, typer.Option("--batch_size", help="As lm-eval's.")] = "1",
    out_dir: Annotated[
        Path | None, typer.Option("--out", help="The dataset folder to write. Default: $NND_HOME/nnd/NAME.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace a set of this name that was made in another way.")
    ] = False,
) -> None:
    """Search for errors that models prefer to the gold text."""
    from nnd_tasks.stress.attack_set import build_attack_set
    from nnd_tasks.stress.attack_tables import attack_table, transfer_table

    if not batch_size.isdigit() and batch_size.partition(":")[0] != "auto":
        raise NNDError(f"--batch_size {batch_size}: expected a number, or auto")
    result = build_attack_set(
        name,
        parts_of(models),
        corpus,
        place=source,
        searches=parts_of(searches),
        errors=errors,
        steps=steps,
        texts=texts or None,
        spacy=spacy,
        prompt=None if prompt is None else prompt.replace("\\n", "\n"),
        device=device,
        batch_size=int(batch_size) if batch_size.isdigit() else batch_size,
        out=out_dir,
        replace=replace,
        progress=sys.stderr.isatty(),
    )
    head, rows = attack_table(result.attacks)
    show("\n" + table(head, rows, head[2:7]) + "\n")
    if len({attack.model for attack in result.attacks}) > 1:
        say("Share of the errors found against a model (rows) that a model (columns) prefers too:")
        head, rows = transfer_table(result.transfer, list(dict.fromkeys(attack.model for attack in result.attacks)))
        show("\n" + table(head, rows, head[1:]) + "\n")
    say(f"written to {result.folder}")
    _say_task(result.task)


@stress.command(
    "report",
    rich_help_panel=_VERDICTS,
    epilog=examples(
        ("nnd stress report out", "tables"),
        ("nnd stress report out --brief", "one row per error"),
        ("nnd stress report out --out figures", "and the paper's figure"),
    ),
)
def stress_report(
    results: Annotated[Path, typer.Argument(help="What --output_path named, or one samples_*.jsonl.")],
    out_dir: Annotated[Path | None, typer.Option("--out", help="Write tables and figures there.")] = None,
    brief: Brief = False,
) -> None:
    """Show per error whether the likelihood falls as the error grows, as in the paper, with intervals and pass rates."""
    from nnd_tasks.stress.stress_report import read_reports

    check_folder("--out", out_dir)
    _show_reports(read_reports(results), out_dir, brief)


def _show_reports(reports: Sequence[StressReport], out_dir: Path | None, brief: bool) -> None:
    """Print reports and, where a folder is named, write them there."""
    from nnd_tasks.stress.stress_report import markdown, summary, write_reports

    if overview := summary(reports, least=1 if brief else 2):
        show(overview)
    for report in reports if not brief else ():
        show(markdown(report))
    if out_dir is not None:
        for path in write_reports(reports, out_dir):
            say(f"written: {path}")


@stress.command(
    "metrics",
    rich_help_panel=_VERDICTS,
    epilog=examples(
        ("nnd stress metrics blindspot_cnndm --corpus cnndm --metrics bleu,rouge2", "what text metrics do not see"),
    ),
)
def stress_metrics(
    name: Annotated[str, typer.Argument(help="A set that `nnd stress build` made.", autocompletion=completion.built)],
    corpus: Annotated[
        str, typer.Option(help="What it was built from: the references are there.", autocompletion=_CORPORA)
    ],
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
    brief: Brief = False,
) -> None:
    """The same verdict for text metrics: does a metric's score fall as the error grows?"""
    from nnd_tasks.analysis.verify.text_metrics import find_metric
    from nnd_tasks.datasets import find_set
    from nnd_tasks.stress.corpora import read_corpus
    from nnd_tasks.stress.metric_scores import stress_metric

    check_folder("--out", out_dir)
    folder = find_set(name)
    texts = read_corpus(corpus, source, reference)
    adapters = {part: find_metric(part, model, encoder) for part in parts_of(metrics)}
    if not adapters:
        raise NNDError("--metrics: empty; give names separated by commas, such as rouge2,bleu")
    for part, metric in adapters.items():
        _show_reports([stress_metric(part, metric, folder, texts)], out_dir, brief)


@stress.command(
    "self",
    rich_help_panel=_VERDICTS,
    epilog=examples(
        ("nnd stress self --models gpt2,gpt2-medium --corpus wikitext --judges facebook/opt-125m", "as in the paper"),
        (
            "nnd stress self --models ./small,./large --corpus texts.txt --texts 50",
            "from beginnings of texts of your own",
        ),
        ("nnd stress self --models ./small,./large --corpus quiz_design --words 0", "from whole contexts of a set"),
    ),
)
def stress_self(
    models: Annotated[str, typer.Option(help="Models that write and score, separated by commas: folders, or names.")],
    corpus: Annotated[
        str,
        typer.Option(
            help="Where prompts are taken from: as for `nnd stress build`, or a set that is built here.",
            autocompletion=_CORPORA,
        ),
    ],
    judges: Annotated[str, typer.Option(help="Models that score only, separated by commas.")] = "",
    source: Annotated[
        Path | None, typer.Option(help="Folder of the paper's texts. Default: $NND_HOME/blindspot.")
    ] = None,
    texts: Annotated[int, typer.Option(help="Number of prompts.")] = 100,
    words: Annotated[int, typer.Option(help="Words of a text that are the prompt; 0 takes it whole.")] = 20,
    tokens: Annotated[int, typer.Option(help="Most tokens that a model writes.")] = 64,
    temperature: Annotated[float, typer.Option(help="0 takes the likeliest token each time.")] = 1.0,
    top_k: Annotated[int, typer.Option(help="Tokens that are sampled from.")] = 50,
    seed: Annotated[int, typer.Option(help="Seed of the sampling.")] = 0,
    model_args: Annotated[
        str,
        typer.Option("--model_args", help="Further arguments of all models, as for lm_eval, such as dtype=float32."),
    ] = "",
    device: Annotated[str | None, typer.Option(help="As for lm_eval, such as cuda or cpu.")] = None,
    batch_size: Annotated[
        str, typer.Option("--batch_size", help="As for lm_eval; another one draws other texts.")
    ] = "8",
    out_dir: Annotated[Path, typer.Option("--out", help="Keep texts, scores and tables there.")] = Path("nnd_self"),
) -> None:
    """Let models write, and each score all texts: does it like its own best? Interrupted, it goes on when run again."""
    from nnd_tasks.stress.self_report import markdown, self_report, write_self_report
    from nnd_tasks.stress.self_texts import SelfPlan, self_scores

    check_folder("--out", out_dir)
    plan = SelfPlan(
        models=tuple(parts_of(models)),
        corpus=corpus,
        judges=tuple(parts_of(judges)),
        source=source,
        texts=texts,
        words=words,
        tokens=tokens,
        temperature=temperature,
        top_k=top_k,
        seed=seed,
        model_args=model_args,
        device=device,
        batch_size=batch_size,
    )
    report = self_report(self_scores(plan, out_dir, progress=sys.stderr.isatty()))
    show(markdown(report))
    for path in write_self_report(report, out_dir):
        say(f"written: {path}")


@stress.command(
    "errors",
    rich_help_panel=_SETS,
    epilog=examples(
        ("nnd stress errors", "with an example of each"),
        ("nnd stress errors --brief", "their names"),
    ),
)
def stress_errors(brief: Brief = False) -> None:
    """Show every error type: what it does, what its levels count, what it needs."""
    from nnd_tasks.stress.registry import ERRORS, NEEDS
    from nnd_tasks.stress.synthesize import SynthesisPlan  # noqa: F401 - registers the errors

    rows = [
        [
            error.name,
            error.kind,
            error.unit,
            error.definition,
            f"{error.example[0]} → {error.example[1]}" if error.example else "",
            ", ".join(NEEDS[need] for need in sorted(error.needs)),
        ]
        for error in ERRORS.values()
    ]
    head = ["error", "kind", "levels", "what it does", "example", "needs"]
    columns = 2 if brief else len(head)
    show(table(head[:columns], [row[:columns] for row in rows]))
