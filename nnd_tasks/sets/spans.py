"""Error spans: the ranges of characters of a candidate that people marked as errors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pandas as pd

from nnd_tasks.schema import normalize
from nnd_tasks.sets.cells import is_missing, take_column, unpack
from nnd_tasks.sets.recipe import Spans

Span = dict[str, Any]


def find_marked(text: str, opening: str, closing: str) -> list[Span]:
    """Return the spans between marks, in characters of the text without marks; one that is not closed ends with the text."""
    spans: list[Span] = []
    start: int | None = None
    clean = 0
    for part in [*re.split(f"({re.escape(opening)}|{re.escape(closing)})", text), closing]:
        if part == opening:
            start = clean if start is None else start
        elif part == closing:
            if start is not None and clean > start:
                spans.append({"start": start, "end": clean})
            start = None
        else:
            clean += len(part)
    return spans


def find_words(words: str, text: str) -> Span | None:
    """Return the first place of words in a text, else the first but for case and white space; None if there is none."""
    words = normalize(words)
    if not words.strip():
        return None
    if (start := text.find(words)) >= 0:
        return {"start": start, "end": start + len(words)}
    places = [(place, char) for place, one in enumerate(text) if not one.isspace() for char in one.casefold()]
    wanted = "".join(char for one in words if not one.isspace() for char in one.casefold())
    start = "".join(char for _, char in places).find(wanted)
    return {"start": places[start][0], "end": places[start + len(wanted) - 1][0] + 1} if start >= 0 else None


def place_span(start: int, end: int, words: str | None, text: str) -> Span | None:
    """Return a span by its positions (end outside); where its words stand elsewhere, at the nearest place where they do.

    None where neither positions nor words lie in the text.
    """
    if words and words.strip() and text[max(start, 0) : end] != words:
        near = min(max(start, 0), len(text))
        places = text.rfind(words, 0, near + len(words)), text.find(words, near)
        start = min((place for place in places if place >= 0), key=lambda place: abs(place - near), default=-1)
        end = start + len(words)
    return {"start": start, "end": end} if 0 <= start < end <= len(text) else None


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
    """Return the spans of a cell that lie in a candidate, and how many do not.

    Raises:
        ValueError: an item of the cell is neither an object, a pair of positions nor words.
    """
    items = read_items(cell)
    placed = [span for item in items if (span := _locate(item, text, keys))]
    return placed, len(items) - len(placed)


def _locate(item: Any, text: str, keys: Spans) -> Span | None:
    if isinstance(item, str):
        return find_words(item, text)
    known = dict(zip((keys.start, keys.end), item, strict=True)) if _is_pair(item) else item
    if not isinstance(known, Mapping):
        raise ValueError(f"{item!r:.60} is no error span; write an object, a pair of positions, or words")
    start, end, words = _position(known.get(keys.start)), _position(known.get(keys.end)), known.get(keys.text)
    words = normalize(words) if isinstance(words, str) else None
    if start is None or end is None:
        span = find_words(words or "", text)
    else:
        span = place_span(start, end + keys.end_inside, words, text)
    named = {"category": keys.category, "severity": keys.severity}
    return span and span | {name: str(known[key] or "") for name, key in named.items() if key in known}


def span_cells(table: pd.DataFrame, keys: Spans) -> list[Any]:
    """Return the cell of each row that holds its spans; two columns of positions are one span."""
    if keys.column:
        return list(take_column(table, keys.column))
    places = zip(*(take_column(table, name) for name in (keys.start, keys.end)), strict=True)
    return [None if _position(start) is None else {keys.start: start, keys.end: end} for start, end in places]
