"""Error spans: the ranges of characters of a candidate that people marked as errors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pandas as pd

from nnd_tasks.schema import normalize
from nnd_tasks.sets.cells import is_missing, take_column, unpack
from nnd_tasks.sets.positions import ChangedText, normalize_text, replace_text
from nnd_tasks.sets.recipe import Spans

Span = dict[str, Any]


def take_marks(text: str, opening: str, closing: str) -> tuple[str, list[Span]]:
    """Take the marks out of a text.

    Returns:
        The text without marks, in NFC; and the spans that stood between marks, as positions in it. A span that is not closed
        ends with the text.
    """
    marked: list[tuple[int, int]] = []
    start: int | None = None
    position = 0
    either = f"{re.escape(opening)}|{re.escape(closing)}"
    for piece in re.split(f"({either})", text):
        if piece == opening and start is None:
            start = position + len(piece)
        elif piece == closing and start is not None:
            marked.append((start, position))
            start = None
        position += len(piece)
    if start is not None:
        marked.append((start, position))
    without = replace_text(text, either)
    without = without.then(normalize_text(without.text))
    spans = [{"start": without.starts[start], "end": without.ends[end]} for start, end in marked]
    return without.text, [span for span in spans if span["start"] < span["end"]]


def find_words(words: str, text: str) -> Span | None:
    """Return the first place of words in the NFC of a text, else the first but for case and white space; None without one."""
    words = normalize(words)
    text = normalize(text)
    if not words.strip():
        return None
    if (start := text.find(words)) >= 0:
        return {"start": start, "end": start + len(words)}
    places = [(place, char) for place, one in enumerate(text) if not one.isspace() for char in one.casefold()]
    wanted = "".join(char for one in words if not one.isspace() for char in one.casefold())
    start = "".join(char for _, char in places).find(wanted)
    return {"start": places[start][0], "end": places[start + len(wanted) - 1][0] + 1} if start >= 0 else None


def place_span(start: int, end: int, words: str | None, published: ChangedText) -> Span | None:
    """Return a span of a published text as positions in its NFC.

    Args:
        start: its first character in the text as published.
        end: the character after its last.
        words: what it marks. Where that does not stand there, the nearest place where it does is taken.
        published: the text, as `normalize_text` changed it.

    Returns:
        ``start`` and ``end``; None where neither the positions nor the words lie in the text.
    """
    length = len(published.starts) - 1
    span = None
    if 0 <= start < end <= length:
        span = {"start": published.starts[start], "end": published.ends[end]}
    if not words or not words.strip():
        return span
    words = normalize(words)
    if span and published.text[span["start"] : span["end"]] == words:
        return span
    near = published.starts[min(max(start, 0), length)]
    places = [published.text.rfind(words, 0, near + len(words)), published.text.find(words, near)]
    nearest = min((place for place in places if place >= 0), key=lambda place: abs(place - near), default=None)
    return None if nearest is None else {"start": nearest, "end": nearest + len(words)}


def read_items(cell: Any) -> list[Any]:
    """Return the spans in a cell: objects, pairs of positions or words, one or a list, which may be a text as in CSV."""
    cell = unpack(cell)
    items = list(cell) if isinstance(cell, (list, tuple)) and not _is_pair(cell) else [cell]
    return [item for item in items if not is_missing(item) and str(item).strip()]


def _is_pair(item: Any) -> bool:
    return isinstance(item, (list, tuple)) and len(item) == 2 and all(_position(one) is not None for one in item)


def _position(value: Any) -> int | None:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return int(number) if number.is_integer() and not isinstance(value, bool) else None


def locate_spans(cell: Any, text: str, keys: Spans) -> tuple[list[Span], int]:
    """Return the spans of a cell that lie in a candidate, as positions in its NFC, and how many do not.

    Args:
        cell: of the table; its positions count the characters of ``text``.
        text: the candidate as published.
        keys: what the parts of a span are called.

    Raises:
        ValueError: an item of the cell is neither an object, a pair of positions nor words.
    """
    items = read_items(cell)
    if not items:
        return [], 0
    published = normalize_text(text)
    placed = [span for item in items if (span := _locate(item, published, keys))]
    return placed, len(items) - len(placed)


def _locate(item: Any, published: ChangedText, keys: Spans) -> Span | None:
    if isinstance(item, str):
        return find_words(item, published.text)
    fields = dict(zip((keys.start, keys.end), item, strict=True)) if _is_pair(item) else item
    if not isinstance(fields, Mapping):
        raise ValueError(f"{item!r:.60} is no error span; write an object, a pair of positions, or words")
    start, end, words = _position(fields.get(keys.start)), _position(fields.get(keys.end)), fields.get(keys.text)
    words = words if isinstance(words, str) else None
    if start is None or end is None:
        span = find_words(words or "", published.text)
    else:
        span = place_span(start, end + keys.end_inside, words, published)
    named = {"category": keys.category, "severity": keys.severity}
    return span and span | {name: str(fields[key] or "") for name, key in named.items() if key in fields}


def span_cells(table: pd.DataFrame, keys: Spans) -> list[Any]:
    """Return the cell of each row that holds its spans; two columns of positions are one span."""
    if keys.column:
        return list(take_column(table, keys.column))
    places = zip(*(take_column(table, name) for name in (keys.start, keys.end)), strict=True)
    return [None if _position(start) is None else {keys.start: start, keys.end: end} for start, end in places]
