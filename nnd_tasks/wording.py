"""Text that people read: counts of things, and names from outside in Markdown, in spreadsheets and in figures."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from nnd_tasks.errors import visible


def counted(number: int, thing: str, things: str = "") -> str:
    """Return a number with what it counts: ``1 test``, ``2,884 tests``.

    Args:
        number: how many.
        thing: the word for one.
        things: the word for more, where it is not ``thing`` with an s.
    """
    return f"{number:,} {thing if number == 1 else things or f'{thing}s'}"


# ---------------------------------------------------------------- Markdown

#: What may begin something in CommonMark, in GitHub's extensions of it, or in HTML; an underscore within a word does not.
#: Addresses are looked for in the rendered text too: a character without width keeps them from being seen.
_MEANT = (
    r"(?P<entity>[\\`|<>&])|"
    r"(?P<escape>\A[-+=]|\A#(?!\w)|(?<=\A\d)[.)](?=\s|\Z)|[*~\[\]$]|(?<![^\W_])_|_(?![^\W_]))|"
    r"(?P<broken>:(?=//)|(?<=www)\.)"
)
_IN_FILES = re.compile(_MEANT, re.I)
#: In what is posted there are mentions and references to issues, too.
_IN_POSTS = re.compile(_MEANT.replace("<broken>", "<broken>[@#]|(?<=gh)-|"), re.I)


def plain(value: str, *, posted: bool = False) -> str:
    """Return text for Markdown whose characters mean themselves, on one line; backticks make no code.

    Args:
        value: the text.
        posted: it will stand in a comment on GitHub.
    """

    def meant(match: re.Match[str]) -> str:
        if match["escape"]:
            return f"\\{match[0]}"
        return f"&#{ord(match[0])};{'&#8203;' if match['broken'] else ''}"

    return (_IN_POSTS if posted else _IN_FILES).sub(meant, visible(value))


def code(value: str, *, cell: bool = True) -> str:
    """Return text as code for Markdown, on one line, however many backticks it holds.

    Args:
        value: the text.
        cell: it may stand in a table, whose cells end at |, even in code.
    """
    value = visible(value)
    if cell:
        value = value.replace("|", "\u2502")
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", value)), default=0))
    pad = " " if value[:1] in ("`", " ", "") or value[-1:] in ("`", " ") else ""
    return f"{fence}{pad}{value}{pad}{fence}"


def cell(value: str) -> str:
    """Return `plain` of text whose white space is folded: in a table, line breaks are no part of a name."""
    return plain(" ".join(value.split()))


def fenced(kind: str, *texts: str) -> list[str]:
    """Return the lines of a block of code, which no text in it can end."""
    fence = "```"
    while any(fence in text for text in texts):
        fence += "`"
    return [f"{fence}{kind}", *texts, fence]


#: What our own cells of numbers look like: 0.7 [0.6, 0.8], +0.1 to +0.2, 7†, <0.001.
_NUMBERS = re.compile(r"(?:[-+\d.,% \[\]†‡]|to|<(?=0\.))*")


def table_row(cells: Sequence[str]) -> str:
    """Return a row of a Markdown table; numbers and intervals stay as they are, names mean themselves."""
    return f"| {' | '.join(cell if _NUMBERS.fullmatch(cell) else plain(cell) for cell in cells)} |"


# ---------------------------------------------------------------- spreadsheets, programs and figures


def csv_cell(value: Any) -> Any:
    """Return a cell for CSV: a text that a spreadsheet would take for a formula gets an apostrophe, numbers stay numbers."""
    if isinstance(value, str):
        value = visible(value)
        return f"'{value}" if value[:1] in ("=", "+", "-", "@") else value
    return "" if value is None or value != value else value


def json_text(value: Any) -> str:
    """Return JSON in which everything that a terminal would obey or hide is written out, as JSON does it."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return "".join(c if c == "\n" or c.isprintable() else json.dumps(c)[1:-1] for c in text)


def figure_text(value: str) -> str:
    """Return a label for matplotlib, which would read what stands between two dollar signs as a formula."""
    return visible(value).replace("$", r"\$")
