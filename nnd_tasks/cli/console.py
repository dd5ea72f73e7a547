"""What all commands share: where output goes and in which form, and lists between commas.

On a terminal, tables are drawn and colours used. Everywhere else (a pipe, a file, TERM=dumb) output has the form of Markdown,
with texts from data as they are, and no character that steers a terminal. FORCE_COLOR asks for the form of a terminal in a pipe
too; NO_COLOR for tables without colours. A terminal's width is COLUMNS, where that is set.
"""

from __future__ import annotations

import html
import os
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar

from rich.console import Console, ConsoleOptions, RenderResult

from nnd_tasks import markdown as md
from nnd_tasks.errors import NNDError, visible

#: What a line begins with -> its style on a terminal.
_STYLES = {
    "nnd: error:": "bold red",
    "error:": "bold red",
    "warning:": "yellow",
    "left out:": "yellow",
    "note:": "cyan",
}
#: A character of Markdown that is written as its number.
_ENTITY = re.compile(r"&#(?:(\d{1,7})|[xX]([0-9a-fA-F]{1,6}));")
#: Code, in which each character means itself, or a character that `nnd_tasks.markdown.plain` wrote otherwise.
_WRITTEN = re.compile(r"(?P<run>`+)(?!`).*?(?<!`)(?P=run)(?!`)|&(?:#\d+|lt|gt|amp);|\\(?P<meant>[*~\[\]$_])", re.DOTALL)
#: Without width: they keep a reader of the Markdown from seeing a link, which a terminal does not look for.
_ZERO_WIDTH = "\u200b"


def on_terminal(*, stderr: bool = False) -> bool:
    """Tell whether output goes to a terminal that can draw, or is to look as if it did."""
    if os.environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    stream = sys.stderr if stderr else sys.stdout
    return stream.isatty() and os.environ.get("TERM", "").lower() not in ("dumb", "unknown")


def console(*, stderr: bool = False) -> Console:
    """Return the console for output, or for errors and notes; it reads the environment each time."""
    drawn = on_terminal(stderr=stderr)
    coloured = drawn and not os.environ.get("NO_COLOR")
    return Console(
        stderr=stderr,
        emoji=False,
        markup=False,
        highlight=False,
        force_terminal=drawn,
        no_color=not coloured,
        color_system="auto" if coloured else None,
    )


def lines_of(text: str) -> str:
    """Return ``text`` with its line breaks, and all else that a terminal would obey or hide written out."""
    return "\n".join(visible(line) for line in text.split("\n"))


def _print(lines: Iterable[str], to: Console) -> None:
    """Print lines that nothing on a terminal obeys; the word that an error or a note begins with has a colour there."""
    for line in lines:
        begin = next((begin for begin in _STYLES if line.startswith(begin)), "")
        to.print(begin, style=_STYLES.get(begin), end="", soft_wrap=True)
        to.print(line[len(begin) :], soft_wrap=True)


def say(line: str = "") -> None:
    """Print one line: names from outside are no markup, no terminal escapes and no further lines; nothing is wrapped."""
    _print([visible(line)], console())


def warn(line: str) -> None:
    """Print one line on standard error, as `say` does."""
    _print([visible(line)], console(stderr=True))


def show_lines(text: str) -> None:
    """Print a text of several lines that is not Markdown, such as JSON, as it is."""
    _print(lines_of(text).split("\n"), console())


def show(markdown: str) -> None:
    """Print Markdown: as it is, or drawn on a terminal. Names from outside must be escaped in it already."""
    text = lines_of(markdown)
    if not on_terminal():
        console().print("\n".join(map(visible, _as_meant(text).split("\n"))), soft_wrap=True)
        return
    from rich.markdown import Markdown, TableElement
    from rich.table import Table

    class FoldedTable(TableElement):
        """A table that breaks what is too wide for its column, such as a path, where rich would leave out its end."""

        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            for part in super().__rich_console__(console, options):
                for column in part.columns if isinstance(part, Table) else ():
                    column.overflow = "fold"
                yield part

    class Drawn(Markdown):
        elements: ClassVar = {**Markdown.elements, "table_open": FoldedTable}

    console().print(Drawn(_harmless(text), hyperlinks=False, code_theme="ansi_dark"))


def _as_meant(markdown: str) -> str:
    """Return Markdown with the characters of its texts instead of what stands for them; in a table | stays escaped."""

    def character(match: re.Match[str]) -> str:
        if match["run"] or match["meant"]:
            return match["meant"] or match[0]
        in_table = markdown.startswith("|", markdown.rfind("\n", 0, match.start()) + 1)
        return {"|": r"\|" if in_table else "|", _ZERO_WIDTH: "", "\n": " "}.get(one := html.unescape(match[0]), one)

    return _WRITTEN.sub(character, markdown)


def _harmless(markdown: str) -> str:
    """Replace references to control or invisible characters, such as ``&#27;``, in Markdown."""

    def replace(match: re.Match[str]) -> str:
        number = int(match[1]) if match[1] else int(match[2], 16)
        if number == ord(_ZERO_WIDTH):
            return ""
        return match[0] if number < sys.maxunicode and chr(number).isprintable() else f"&amp;{match[0][1:]}"

    return _ENTITY.sub(replace, markdown)


def table(head: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[str] = ()) -> str:
    """Return a table as Markdown, to be printed by `show`; cells are escaped.

    Args:
        head: names of the columns.
        rows: cells.
        right: names of the columns that stand at the right, such as numbers.
    """
    cells = ([md.table_cell(cell) for cell in row] for row in rows)
    return "\n".join(md.table([md.table_cell(name) for name in head], cells, right=[*map(md.table_cell, right)]))


def parts_of(names: str) -> list[str]:
    """Return what stands between commas."""
    return [part.strip() for part in names.split(",") if part.strip()]


def check_folder(option: str, folder: Path | None) -> None:
    """Raise NNDError for an output folder that is a file: before the work, not after it."""
    if folder is not None and folder.expanduser().is_file():
        raise NNDError(f"{option} {folder}: is a file; name a folder")
