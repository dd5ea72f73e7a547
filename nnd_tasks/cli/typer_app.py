"""The command line's root, and what its commands share: panels of the help, examples, options.

The commands of optional packages import only this of ``nnd_tasks.cli``, and `nnd report` what `nnd compare` reports.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from inspect import cleandoc
from pathlib import Path
from typing import Annotated, Any, TypeVar

from rich.markup import escape
from typer import Argument, Exit, Option, Typer, echo
from typer.core import TyperCommand, TyperOption

from nnd_tasks import __version__
from nnd_tasks.cli import say_interrupted
from nnd_tasks.errors import NNDError
from nnd_tasks.show import Form
from nnd_tasks.show.console import say, warn


def parts_of(names: str) -> list[str]:
    """Split a list at its commas."""
    return [name.strip() for name in names.split(",") if name.strip()]


Brief = Annotated[bool, Option("--brief", help="Print the findings and one summary table.")]
Out = Annotated[
    Path | None, Option("--out", file_okay=False, help="Folder for the report in every form, and its figures.")
]
Format = Annotated[Form, Option("--format", metavar="FORM", help="text, markdown, csv, json, latex or html, to print.")]
SetOut = Annotated[Path | None, Option("--out", help="The dataset folder to write. Default: $NND_HOME/nnd/NAME.")]
Replace = Annotated[bool, Option("--replace", help="Replace a set of this name that was made in another way.")]
Results = Annotated[
    list[Path] | None,
    Argument(help="What --output_path named, or results_*.json files. Default: $NND_HOME/results.", show_default=False),
]
Allow = Annotated[
    Sequence[str],
    Option(parser=parts_of, metavar="<str>", help="Parts of the protocol that may differ, such as prompt,shots."),
]
Cluster = Annotated[
    str | None,
    Option(metavar="FIELD", help="Field of other tasks' documents, such as a passage, to cluster errors by."),
]
Category = Annotated[str | None, Option(metavar="FIELD", help="Field of other tasks' documents that gives categories.")]
Select = Annotated[
    list[str] | None,
    Option(metavar="KEY=VALUE", help="Take only runs of this protocol, such as shots=0,limit=all."),
]


def examples(*lines: str) -> str:
    """Write the examples below the help of a command.

    Args:
        lines: ``COMMAND  # a few words``; the command works as it stands.
    """
    text = ["[bold]Examples[/bold]"]
    for line in lines:
        command, _, words = line.partition("  # ")
        text += [f"[dim]# {escape(words)}[/dim]", f"[cyan]{escape(command)}[/cyan]"]
    return "\n".join(text)


#: The beginning of examples that run a model.
RUN_GPT2 = "nnd run --model hf --model_args pretrained=gpt2"


def announce_tasks(names: Sequence[str]) -> None:
    """Say how to run new tasks, and make them known to ``lm_eval`` where the others are."""
    from nnd_tasks.task.task_files import update_registration

    try:
        update_registration()
    except NNDError as error:
        warn(f"note: lm_eval does not know the new tasks: {error}")
    say(f"run it: nnd run --model hf --model_args pretrained=MODEL --tasks {','.join(names)}")


def complete_set(incomplete: str) -> list[str]:
    """List the sets that an unfinished word may mean, for the shell (``nnd --install-completion``)."""
    from nnd_tasks.sets.catalogue import list_recipes
    from nnd_tasks.store import built_sets

    return [name for name in dict.fromkeys([*list_recipes(), *built_sets()]) if name.startswith(incomplete)]


class Verb(TyperCommand):
    """A command."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Refuse an option that is given twice, of which only the last would count."""
        _, _, parameters = self.make_parser(ctx).parse_args(args=list(args))
        for parameter, count in Counter(parameters).items():
            takes_one_value = isinstance(parameter, TyperOption) and not (parameter.multiple or parameter.is_flag)
            if count > 1 and takes_one_value:
                hint = ", with commas between its values" if "--allow" in parameter.opts else ""
                raise NNDError(f"{parameter.opts[0]} is given {count} times; give it once{hint}")
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command. Typer would end an interrupted one without a word."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:
            say_interrupted("use_cache" in ctx.params)
            raise Exit(130) from stop


#: Options of `lm_eval run` whose value may be left out; then they are true.
_OPTIONAL_VALUE = {"--apply_chat_template", "--fewshot_as_multiturn"}


class LMEvalVerb(Verb):
    """A command with the options of `lm_eval run`."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Read options whose value may be left out."""
        return super().parse_args(
            ctx,
            [
                f"{word}=true" if word in _OPTIONAL_VALUE and following.startswith("-") else word
                for word, following in zip(args, [*args[1:], "-"], strict=False)
            ],
        )


app = Typer(
    name="nnd",
    help="Near-Negative Distinction: human evaluations as likelihood tests for language models.",
    epilog=examples(
        f"{RUN_GPT2} --tasks nnd_quiz_design  # a model on a set",
    ),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


Function = TypeVar("Function", bound=Callable[..., None])


def verb(
    panel: str, *lines: str, name: str | None = None, group: Typer = app, cls: type[Verb] = Verb, **settings: Any
) -> Callable[[Function], Function]:
    """Make a decorator that turns a function into a command, with its docstring as help.

    Args:
        panel: of the help.
        lines: examples, as for `examples`.
        name: where it is not that of the function.
        group: that it belongs to.
        cls: what reads its words.
        settings: those of typer.
    """

    def add(function: Function) -> Function:
        # Typer keeps the line breaks of a docstring, which are those of our editors.
        text = re.sub(r"(?<!\n)\n(?!\n)", " ", cleandoc(function.__doc__ or ""))
        settings.update(help=text, rich_help_panel=panel, epilog=examples(*lines))
        return group.command(name or function.__name__, cls=cls, **settings)(function)

    return add


def _version(value: bool) -> None:
    if value:
        echo(f"nnd-tasks {__version__}")
        raise Exit


@app.callback()
def _main(
    version: Annotated[bool, Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
    debug: Annotated[bool, Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Options shared by all commands."""
