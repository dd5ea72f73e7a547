"""Text that people read: counts, lists of names, names that were meant, labels of figures."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence

from nnd_tasks.errors import visible


def counted(number: int, thing: str, things: str = "") -> str:
    """Return a number with what it counts: ``1 test``, ``2,884 tests``.

    Args:
        number: how many.
        thing: the word for one.
        things: the word for more, where it is not ``thing`` with an s.
    """
    return f"{number:,} {thing if number == 1 else things or f'{thing}s'}"


def some_of(names: Sequence[str], at_most: int = 12, show: Callable[[str], str] = repr) -> str:
    """Return the first names with commas between them, and how many more there are: ``'a', 'b' and 1,204 more``.

    Args:
        names: all of them.
        at_most: how many are named.
        show: returns a name as it is to stand there.
    """
    more = f" and {len(names) - at_most:,} more" if len(names) > at_most else ""
    return ", ".join(map(show, names[:at_most])) + more


def did_you_mean(name: str, known: Iterable[str], *, at_most: int = 1, cutoff: float = 0.6, end: str = "") -> str:
    """Return ``did you mean 'a' or 'b'?`` with the known names that are nearest to one that is not known.

    Args:
        name: what the user wrote; case makes no difference.
        known: the names that there are.
        at_most: how many names are offered.
        cutoff: similarity that a name must have to be offered, from 0 to 1, as in `difflib.get_close_matches`.
        end: follows the question mark.

    Returns:
        The question, or ``""`` where no name is near.
    """
    folded: dict[str, str] = {}
    for one in known:
        folded.setdefault(one.casefold(), one)
    near = difflib.get_close_matches(name[:100].casefold(), folded, n=at_most, cutoff=cutoff)
    return f"did you mean {' or '.join(repr(folded[one]) for one in near)}?{end}" if near else ""


def figure_text(value: str) -> str:
    """Return a label for matplotlib with its dollar signs escaped: text between two of them would be a formula."""
    return visible(value).replace("$", r"\$")
