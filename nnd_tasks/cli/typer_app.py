"""The command line's root, and what its commands share: panels of the help, examples, ``--brief``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from typer.core import TyperGroup

from nnd_tasks import __version__
from nnd_tasks.errors import NNDError
from nnd_tasks.show import Form

#: Panels of `nnd --help`, in this order.
SETS, RUN, CONCLUSIONS, CONTRIBUTE = "Sets", "Run", "Conclusions", "Contribute"

Brief = Annotated[bool, typer.Option("--brief", help="Print the findings and one summary table.")]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out", file_okay=False, help="Folder for Markdown, JSON, CSV, LaTeX and HTML of the report, and its figures."
    ),
]
Format = Annotated[
    Form, typer.Option("--format", help="What to print; text is drawn on a terminal, Markdown in a pipe.")
]
#: The option ``--metrics``: those whose packages lm-eval brings.
METRICS_HELP = "Text metrics between commas; NAME=FOLDER for bartscore, bertscore and mauve, which need a model."
DEFAULT_METRICS = "bleu,chrf,rouge1,rouge2,rougel"


def examples(*lines: tuple[str, str]) -> str:
    """Return what stands below the help of a command.

    Args:
        lines: a command line that works as it stands, and a few words about it.
    """
    shown = [f"[dim]# {escape(words)}[/dim]\n[cyan]{escape(line)}[/cyan]" for line, words in lines]
    return "\n".join(["[bold]Examples[/bold]", *shown])


#: The beginning of examples that run a model.
RUN_GPT2 = "nnd run --model hf --model_args pretrained=gpt2,softmax_dtype=float32"


def parts_of(names: str) -> list[str]:
    """Return what stands between commas."""
    return [part.strip() for part in names.split(",") if part.strip()]


#: Verb of an earlier release -> what to type now.
OLD_VERBS = {
    "scaling": "nnd trend RESULTS",
    "curve": "nnd trend RESULTS --x step",
    "surprise": "nnd report RESULTS --out FOLDER",
    "board": "nnd report RESULTS --site FOLDER",
    "models": "nnd run: it says at its start whether a model shares prefixes",
    "unregister": "nnd register --undo",
    "tasks-dir": "nnd register --print",
}


class _Verbs(TyperGroup):
    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] in OLD_VERBS:
            raise NNDError(f"nnd {args[0]} is now: {OLD_VERBS[args[0]]}")
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="nnd",
    cls=_Verbs,
    help="Near-Negative Distinction: human evaluations as likelihood tests for language models.",
    epilog=examples(
        ("nnd build quiz_design", "a set, downloaded from its publisher"),
        (
            f"{RUN_GPT2} --tasks nnd_quiz_design --output_path out --log_samples",
            "a model",
        ),
        ("nnd compare out", "compare the runs"),
    ),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


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
    """Options shared by all commands."""
