"""Text that people read: counts, lists of names, names that were meant."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence


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
