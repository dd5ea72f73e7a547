"""Text that people read: counts of things, labels of figures."""

from __future__ import annotations

from nnd_tasks.errors import visible


def counted(number: int, thing: str, things: str = "") -> str:
    """Return a number with what it counts: ``1 test``, ``2,884 tests``.

    Args:
        number: how many.
        thing: the word for one.
        things: the word for more, where it is not ``thing`` with an s.
    """
    return f"{number:,} {thing if number == 1 else things or f'{thing}s'}"


def figure_text(value: str) -> str:
    """Return a label for matplotlib with its dollar signs escaped: text between two of them would be a formula."""
    return visible(value).replace("$", r"\$")
