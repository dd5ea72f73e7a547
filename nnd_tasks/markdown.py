"""Text as Markdown: text from data is shown as it is, and no character of it becomes markup, a link or a new line."""

from __future__ import annotations

import re

from nnd_tasks.errors import visible

#: What is markup in CommonMark, in GitHub's extensions of it, or in HTML. ``[0.1, 0.2]``, ``< 0`` and ``pass_rate``
#: are none, and stay readable where Markdown is not rendered.
_MARKUP = re.compile(r"[`|*~$]|\\(?![^\W_]|\s)|\](?=[\[(:])|<(?=[A-Za-z/!?])|&(?=#?\w+;)|(?<![^\W_])_|_(?![^\W_])")
#: What begins a heading, a list, a quote or a rule at the start of a line, and what ends a link where more text follows.
_EDGE = re.compile(r"\A(?:[>#]|[-+](?=\s|\Z)|[-=](?=[-=\s]*\Z))|(?<=\A\d)[.)](?=\s|\Z)|\]\Z")
#: Those that a backslash does not hide from what looks for HTML.
_ENTITIES = {"<": "&lt;", "&": "&amp;"}


def on_one_line(text: str) -> str:
    """Write text on one line, without what a terminal would obey."""
    return visible(" ".join(text.split()))


def escape_cell(text: str) -> str:
    """Escape text for a cell of a table, so that no character is markup; white space becomes single spaces."""
    return _MARKUP.sub(lambda match: _ENTITIES.get(match[0], f"\\{match[0]}"), on_one_line(text))


def escape_markdown(text: str) -> str:
    """Do what `escape_cell` does, also for text at the start or end of a line."""
    return _EDGE.sub(r"\\\g<0>", escape_cell(text))


def code(text: str, *, in_table: bool = True) -> str:
    """Write text as code, on one line, however many backticks it holds.

    Args:
        text: any.
        in_table: replace |, which ends a cell of a table even inside code.
    """
    text = visible(text).replace("|", "\u2502") if in_table else visible(text)
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    pad = " " if text[:1] in ("`", " ", "") or text[-1:] in ("`", " ") else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def fenced(language: str, *texts: str) -> list[str]:
    """List the lines of a block of code whose fence is longer than any in its texts."""
    fence = "```"
    while any(fence in text for text in texts):
        fence += "`"
    return [f"{fence}{language}", *texts, fence]
