"""Text that people and programs read: counts of things, cells of spreadsheets, JSON."""

from __future__ import annotations

import json
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


def some_of(names: Sequence[str]) -> str:
    """Return the first twelve names, quoted, with commas between them, for an error."""
    return ", ".join(map(repr, names[:12])) + (", ..." if len(names) > 12 else "")


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
