"""Error spans: where in a candidate people marked an error.

A recipe's ``spans`` is one of

- ``{marks: ["<v>", "</v>"]}``: inside marks in the text itself, which are taken out;
- ``{column: errors, start: startIndex, end: endIndex}``: by characters; a cell is an object or a list of them.
  ``end_inside: true`` where the end is the last character of the span, ``text: term`` where the object has the words too: where
  they do not stand at these places, the nearest place where they do is taken;
- ``{start: error_start, end: error_end}``: the same, where each is a column of the table;
- ``{column: error_words}``: by the words of the span, the first place where they stand.

A cell of a file that knows no lists may hold them as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from nnd_tasks.errors import NNDError
from nnd_tasks.recipes.cells import shown
from nnd_tasks.schema import normalize

#: Spans that a candidate may have.
MAX_SPANS = 1000
KEYS = ("marks", "column", "start", "end", "end_inside", "text", "category", "severity")


def check_spans(spans: Mapping[str, Any], where: str) -> None:
    """Raise NNDError for settings of ``spans`` that say nothing."""
    for key in spans:
        if key not in KEYS:
            raise NNDError(f"{where}: spans: no such key {shown(key)}; there are {', '.join(KEYS)}")
    marks = spans.get("marks")
    if (marks is not None) == ("column" in spans or "start" in spans):
        raise NNDError(f"{where}: spans: name either marks, such as ['<v>', '</v>'], or a column")
    texts = isinstance(marks, (list, tuple)) and all(isinstance(mark, str) and mark for mark in marks)
    if marks is not None and not (texts and len(marks) == 2):
        raise NNDError(f"{where}: spans: marks are two texts, one that opens and one that closes, not {shown(marks)}")
    for key, value in spans.items():
        if key not in ("marks", "end_inside") and not (isinstance(value, str) and value):
            raise NNDError(f"{where}: spans: {key} is a name, not {shown(value)}")
    if not isinstance(spans.get("end_inside", False), bool):
        raise NNDError(f"{where}: spans: end_inside is true or false, not {shown(spans['end_inside'])}")
    if ("start" in spans) != ("end" in spans):
        raise NNDError(f"{where}: spans: start and end go together")


def strip(text: str, marks: Sequence[str]) -> str:
    """Return ``text`` without ``marks``."""
    for mark in marks:
        text = text.replace(mark, "")
    return text


def marked(text: str, opening: str, closing: str) -> list[dict[str, Any]]:
    """Return the spans between marks, in characters of the text without them; one that is not closed ends with the text."""
    spans: list[dict[str, Any]] = []
    clean = 0
    start: int | None = None
    place = 0
    while place < len(text):
        if text.startswith(opening, place):
            start = clean if start is None else start
            place += len(opening)
        elif text.startswith(closing, place):
            if start is not None and clean > start:
                spans.append({"start": start, "end": clean})
            start = None
            place += len(closing)
        else:
            clean += 1
            place += 1
    if start is not None and clean > start:
        spans.append({"start": start, "end": clean})
    return spans


def named(cell: Any) -> list[Any]:
    """Return the spans that a cell names: objects, or the words of each."""
    if isinstance(cell, str) and cell.strip()[:1] in ("[", "{"):
        try:
            read = json.loads(cell)
        except (ValueError, RecursionError):
            read = None
        items = read if isinstance(read, list) else [read]
        if all(isinstance(item, (str, dict)) for item in items):
            cell = items
    found = cell if isinstance(cell, (list, tuple)) else [cell]
    return [item for item in found if item is not None and str(item).strip()]


def columns_of(spans: Mapping[str, Any]) -> list[str]:
    """Return the columns of a table that ``spans`` names."""
    if "column" in spans:
        return [spans["column"]]
    return [spans[key] for key in _OWN if key in spans]


_OWN = ("start", "end", "text", "category", "severity")


def row_cell(spans: Mapping[str, Any], values: Sequence[Any]) -> Any:
    """Return the span of a row of which each of `columns_of` holds a part; None where it has no start and no end."""
    found = dict(zip(columns_of(spans), values, strict=True))
    empty = all(
        _number(found[spans[key]]) is None and not str(found[spans[key]] or "").strip() for key in ("start", "end")
    )
    return None if empty else found


def _number(value: Any) -> int | None:
    """Return a place in a text, which a table may hold as text or as 3.0; None where it is none."""
    try:
        number = float(value)
        return int(number) if number.is_integer() and not isinstance(value, bool) else None
    except (TypeError, ValueError, OverflowError):
        return None


def located(cell: Any, text: str, spans: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the spans that a cell names in a candidate; what does not lie in it is left out.

    Raises:
        ValueError: there are too many.
    """
    items = named(cell)
    if len(items) > MAX_SPANS:  # each is looked for in the whole text
        raise ValueError(f"{len(items):,} spans; a candidate may have {MAX_SPANS:,}")
    found = []
    for item in items:
        span = _by_place(item, text, spans) if isinstance(item, Mapping) else _by_words(item, text)
        if span is not None:
            if isinstance(item, Mapping):
                span |= {key: str(item.get(spans[key]) or "") for key in ("category", "severity") if key in spans}
            found.append(span)
    return found


def _by_place(item: Mapping[str, Any], text: str, spans: Mapping[str, Any]) -> dict[str, Any] | None:
    start, end = (_number(item.get(spans.get(key, key))) for key in ("start", "end"))
    words = item.get(spans.get("text", "text"))
    if start is None or end is None:
        return _by_words(words, text)
    end += bool(spans.get("end_inside"))
    if isinstance(words, str) and words and text[start:end] != words:
        place = _nearest(words, text, start)
        if place is not None:
            start, end = place, place + len(words)
    return {"start": start, "end": end} if 0 <= start < end <= len(text) else None


def _nearest(words: str, text: str, place: int) -> int | None:
    """Return where ``words`` stand in ``text``, next to ``place``; None where they do not stand in it."""
    place = min(max(place, 0), len(text))
    before, after = text.rfind(words, 0, place + len(words)), text.find(words, place)
    found = [one for one in (before, after) if one >= 0]
    return min(found, key=lambda one: abs(one - place), default=None)


def _by_words(words: Any, text: str) -> dict[str, Any] | None:
    if not isinstance(words, str) or not words:
        return None
    start = text.find(words)
    return {"start": start, "end": start + len(words)} if start >= 0 else None


def find_spans(
    cell: Any, candidate: str, recipe_spans: Mapping[str, Any], marks: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the spans of a candidate, in characters of the text that the set holds (NFC, without marks).

    Args:
        cell: what the column of spans says, or None.
        candidate: the text as published, marks included.
        recipe_spans: a recipe's ``spans``.
        marks: that are taken out of candidates.

    Raises:
        ValueError: there are too many.
    """
    if "marks" in recipe_spans:
        opening, closing = recipe_spans["marks"]
        other = [mark for mark in marks if mark not in (opening, closing)]
        return marked(normalize(strip(candidate, other)), opening, closing)
    return located(cell, normalize(strip(candidate, marks)), recipe_spans)
