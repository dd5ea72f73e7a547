"""Markdown in which text from data is shown as it is: no character of it becomes markup, a link or a new line."""

from __future__ import annotations

import re

from nnd_tasks.errors import visible

#: Characters that may begin markup in CommonMark, in GitHub's extensions of it, or in HTML; _ between letters begins none.
_MEANT = re.compile(
    r"(?P<entity>[\\`|<>&]|\A[-+=#]|(?<=\A\d)[.)](?=\s|\Z))|(?P<escape>[*~\[\]$]|(?<![^\W_])_|_(?![^\W_]))"
)

#: The part of an address that makes a renderer turn it into a link.
_ADDRESS = re.compile(r":(?=//)|(?<=www)\.", re.IGNORECASE)
#: On GitHub also mentions and references to issues, which it looks for in the rendered text, where &#35; is a # and the #
#: of an entity is none.
_MENTION = re.compile(rf"@|&#35;|(?<!&)#|(?<=gh)-|{_ADDRESS.pattern}", re.IGNORECASE)

_ENTITIES = {"<": "&lt;", ">": "&gt;", "&": "&amp;", "\\": "&#92;", "`": "&#96;", "|": "&#124;"}


def plain(text: str) -> str:
    """Return text on one line in which no character is markup, also in a cell of a table."""
    return _MEANT.sub(lambda m: f"\\{m[0]}" if m["escape"] else _ENTITIES.get(m[0], f"&#{ord(m[0])};"), visible(text))


def cell(text: str) -> str:
    """Return `plain` of text with each stretch of white space, such as a line break, as one space."""
    return plain(" ".join(text.split()))


def unlinked(text: str, *, mentions: bool = False) -> str:
    """Return `plain` of text in which no address becomes a link: a character without width breaks each.

    Args:
        text: any.
        mentions: treat what GitHub links (@name, #1, gh-1) in the same way.
    """
    pattern = _MENTION if mentions else _ADDRESS
    return pattern.sub(lambda m: f"{m[0] if len(m[0]) > 1 else f'&#{ord(m[0])};'}&#8203;", plain(text))


def code(text: str, *, in_table: bool = True) -> str:
    """Return text as code, on one line, however many backticks it holds.

    Args:
        text: any.
        in_table: replace |, which ends a cell of a table even inside code.
    """
    text = visible(text).replace("|", "\u2502") if in_table else visible(text)
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    pad = " " if text[:1] in ("`", " ", "") or text[-1:] in ("`", " ") else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def fenced(kind: str, *texts: str) -> list[str]:
    """Return the lines of a block of code whose fence is longer than any in its texts."""
    fence = "```"
    while any(fence in text for text in texts):
        fence += "`"
    return [f"{fence}{kind}", *texts, fence]
