"""Error spans: where in a candidate people marked an error.

A recipe's ``spans`` is one of

- ``{marks: ["<v>", "</v>"]}``: inside marks in the text itself, which are taken out;
- ``{column: errors, start: startIndex, end: endIndex}``: by characters; a cell is an object or a list of them.
  ``end_inside: true`` where the end is the last character of the span, ``text: term`` where the object has the words too: where
  they do not stand at these places, the nearest place where they do is taken;
- ``{column: error_words}``: by the words of the span, the first place where they stand.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from nnd_tasks.errors import NNDError
from nnd_tasks.schema import normalize

KEYS = ("marks", "column", "start", "end", "end_inside", "text", "category", "severity")


def check_spans(spans: Mapping[str, Any], where: str) -> None:
    """Raise NNDError for settings of ``spans`` that say nothing."""
    for key in spans:
        if key not in KEYS:
            raise NNDError(f"{where}: spans: no such key {key!r}; there are {', '.join(KEYS)}")
    marks = spans.get("marks")
    if ("column" in spans) == (marks is not None):
        raise NNDError(f"{where}: spans: name either marks, such as ['<v>', '</v>'], or a column")
    if marks is not None and (not isinstance(marks, (list, tuple)) or len(marks) != 2 or not all(marks)):
        raise NNDError(f"{where}: spans: marks are two texts, one that opens and one that closes, not {marks!r}")
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


def located(cell: Any, text: str, spans: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the spans that a cell names in a candidate; what does not lie in it is left out."""
    items = cell if isinstance(cell, (list, tuple)) else [] if cell is None else [cell]
    found = []
    for item in items:
        span = _by_place(item, text, spans) if isinstance(item, Mapping) else _by_words(item, text)
        if span is not None:
            if isinstance(item, Mapping):
                span |= {key: str(item.get(spans[key]) or "") for key in ("category", "severity") if key in spans}
            found.append(span)
    return found


def _by_place(item: Mapping[str, Any], text: str, spans: Mapping[str, Any]) -> dict[str, Any] | None:
    start: Any = item.get(spans.get("start", "start"))
    end: Any = item.get(spans.get("end", "end"))
    words = item.get(spans.get("text", "text"))
    if not isinstance(start, int) or not isinstance(end, int):
        return _by_words(words, text)
    end += bool(spans.get("end_inside"))
    if isinstance(words, str) and words and text[start:end] != words:
        places = [i for i in range(len(text)) if text.startswith(words, i)]
        if places:
            start = min(places, key=lambda place: abs(place - start))
            end = start + len(words)
    return {"start": start, "end": end} if 0 <= start < end <= len(text) else None


def _by_words(words: Any, text: str) -> dict[str, Any] | None:
    if not isinstance(words, str) or not words:
        return None
    start = text.find(words)
    return {"start": start, "end": start + len(words)} if start >= 0 else None


def spans_json(cell: Any, candidate: str, recipe_spans: Mapping[str, Any], marks: Sequence[str]) -> str:
    """Return the spans of a candidate as JSON, in characters of the text that the set holds (NFC, without marks).

    Args:
        cell: what the column of spans says, or None.
        candidate: the text as published, marks included.
        recipe_spans: a recipe's ``spans``.
        marks: that are taken out of candidates.
    """
    if "marks" in recipe_spans:
        opening, closing = recipe_spans["marks"]
        other = [mark for mark in marks if mark not in (opening, closing)]
        found = marked(normalize(strip(candidate, other)), opening, closing)
    else:
        found = located(cell, normalize(strip(candidate, marks)), recipe_spans)
    return json.dumps(found) if found else ""
