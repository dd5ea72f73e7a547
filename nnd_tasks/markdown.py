"""Markdown: text from data stands in it as it is, and neither page nor reader obeys it."""

from __future__ import annotations

import re

from nnd_tasks.errors import visible

#: What may begin something in CommonMark, in GitHub's extensions of it, or in HTML; _ between letters begins nothing.
_MEANT = re.compile(r"(?P<entity>[\\`|<>&])|(?P<escape>[*~\[\]$]|(?<![^\W_])_|_(?![^\W_]))")

_ENTITIES = {"<": "&lt;", ">": "&gt;", "&": "&amp;", "\\": "&#92;", "`": "&#96;", "|": "&#124;"}


def plain(text: str) -> str:
    """Return text on one line whose characters mean themselves, in a cell of a table too."""
    return _MEANT.sub(lambda m: f"\\{m[0]}" if m["escape"] else _ENTITIES[m[0]], visible(text))


def cell(text: str) -> str:
    """Return `plain` of text whose white space is folded: in a table, line breaks are no part of a name."""
    return plain(" ".join(text.split()))


def code(text: str) -> str:
    """Return text as code, on one line, however many backticks it holds."""
    text = visible(text).replace("|", "\u2502")  # a table cell ends at |, even in code
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    pad = " " if text[:1] in ("`", " ", "") or text[-1:] in ("`", " ") else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def fenced(kind: str, *texts: str) -> list[str]:
    """Return the lines of a block of code, which no text in it can end."""
    fence = "```"
    while any(fence in text for text in texts):
        fence += "`"
    return [f"{fence}{kind}", *texts, fence]
