"""Error spans as tables hold them: cells of objects, positions or words, columns of positions, marks in a text."""

from __future__ import annotations

import re
from typing import Any, TypeAlias

import pandas as pd
import regex  # type: ignore[import-untyped]

from nnd_tasks.schema import to_nfc
from nnd_tasks.tables.cells import is_missing, take_column, unpack
from nnd_tasks.tables.columns import Spans

#: Where a span starts and ends, and what it is.
Span: TypeAlias = dict[str, Any]


def take_marks(text: str, opening: str, closing: str) -> tuple[str, list[Span]]:
    """Take the marks out of a text.

    Returns:
        The text without marks; and the spans that stood between marks, as positions in it. A span that is not closed ends with
        the text.
    """
    spans: list[Span] = []
    start: int | None = None
    plain = ""
    for piece in [*re.split(f"({re.escape(opening)}|{re.escape(closing)})", text), closing]:
        if piece == opening and start is None:
            start = len(plain)
        elif piece == closing and start is not None:
            spans += [{"start": start, "end": len(plain)}] if start < len(plain) else []
            start = None
        elif piece not in (opening, closing):
            plain += piece
    return plain, spans


def find_words(words: str, text: str) -> Span | None:
    """Find the first place of words in the NFC of a text, else the first but for case and white space; None without one."""
    words, text = to_nfc(words), to_nfc(text)
    if not words.strip():
        return None
    if words in text:
        start = text.index(words)
        return {"start": start, "end": start + len(words)}
    letters = "".join(words.split())
    if letters.casefold() not in "".join(text.split()).casefold():  # the search below takes longer
        return None
    match = regex.search(r"\s*".join(map(regex.escape, letters)), text, regex.IGNORECASE | regex.FULLCASE)
    return match and {"start": match.start(), "end": match.end()}


def read_items(cell: Any) -> list[Any]:
    """List the spans in a cell: objects, pairs of positions or words, one or a list, which may be a text as in CSV."""
    cell = unpack(cell)
    items = list(cell) if isinstance(cell, (list, tuple)) and not is_pair(cell) else [cell]
    return [item for item in items if not is_missing(item) and str(item).strip()]


def is_pair(item: Any) -> bool:
    """Tell whether an item is a pair of positions."""
    return (
        isinstance(item, (list, tuple)) and len(item) == 2 and all(read_position(number) is not None for number in item)
    )


def read_position(value: Any) -> int | None:
    """Read a position, which is a whole number; None for anything else."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return int(number) if number.is_integer() and not isinstance(value, bool) else None


def take_spans(table: pd.DataFrame, keys: Spans) -> list[Any]:
    """Take the cell of each row that holds its spans; columns of positions and of what else is known of one are one span."""
    if keys.column:
        return list(take_column(table, keys.column))
    rows = zip(*(take_column(table, name) for name in keys.columns), strict=True)
    # A position that is no number lies nowhere, as one beyond the end of the text does.
    return [
        None
        if is_missing(row[0]) or row[0] == "" or {*map(read_position, row[:2])} == {-1}
        else dict(zip(keys.columns, row, strict=True))
        for row in rows
    ]
