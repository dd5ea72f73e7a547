"""Text that people read: counts, lists of names, names that were meant, labels of figures, and Markdown.

In the Markdown, text from data is shown as it is: no character of it becomes markup, a link or a new line.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Sequence

from nnd_tasks.errors import visible


def counted(number: int, thing: str, things: str = "") -> str:
    """Word a number with what it counts: ``1 test``, ``2,884 tests``.

    Args:
        number: how many.
        thing: the word for one.
        things: the word for more, where it is not ``thing`` with an s.
    """
    return f"{number:,} {thing if number == 1 else things or f'{thing}s'}"


def some_of(names: Sequence[str], at_most: int = 12, show: Callable[[str], str] = repr) -> str:
    """Word a list of names by the first of them and how many more there are: ``'a', 'b' and 1,204 more``.

    Args:
        names: all of them.
        at_most: how many are named.
        show: returns a name as it is to stand there.
    """
    ending = f" and {len(names) - at_most:,} more" if len(names) > at_most else ""
    return ", ".join(map(show, names[:at_most])) + ending


def did_you_mean(name: str, names: Iterable[str], *, at_most: int = 1, cutoff: float = 0.6, end: str = "") -> str:
    """Ask ``did you mean 'a' or 'b'?`` with the names that are nearest to one that there is not.

    Args:
        name: what the user wrote; case makes no difference.
        names: those that there are.
        at_most: how many names are offered.
        cutoff: similarity that a name must have to be offered, from 0 to 1, as in `difflib.get_close_matches`.
        end: follows the question mark.

    Returns:
        The question, or ``""`` where no name is near.
    """
    spelling_of: dict[str, str] = {}
    for spelling in names:
        spelling_of.setdefault(spelling.casefold(), spelling)
    near = difflib.get_close_matches(name[:100].casefold(), spelling_of, n=at_most, cutoff=cutoff)
    return f"did you mean {' or '.join(repr(spelling_of[folded]) for folded in near)}?{end}" if near else ""


def figure_text(value: str) -> str:
    """Escape the dollar signs of a label for matplotlib: text between two of them would be a formula."""
    return visible(value).replace("$", r"\$")


# ---------------------------------------------------------------- Markdown

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
