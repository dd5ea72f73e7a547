"""Error spans: the ranges of characters of a candidate that people marked as errors.

A recipe's ``spans`` has one of these forms:

- ``{marks: ["<v>", "</v>"]}``: a span stands between marks in the text itself; the marks are taken out;
- ``{column: errors, start: startIndex, end: endIndex}``: a cell is an object with two character positions, or a list of such
  objects. ``end_inside: true`` says that the end is the last character of the span. ``text: term`` names the field with the
  words of the span: where these do not stand at its positions, the nearest place where they stand is taken,
  and none where they stand nowhere;
- ``{start: error_start, end: error_end}``: the same, where each position has a column of its own;
- ``{column: error_words}``: a cell holds the words of the span; the first place where they stand is taken;
- ``{column: error_steps, items: true}``: a cell holds numbers, counted from 1, of the items of a candidate that is a list, or of
  its lines.

In a file format without lists a cell may hold them as JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from nnd_tasks.codes import Codes, Texts
from nnd_tasks.errors import NNDError
from nnd_tasks.recipes.cells import listed, render, short_repr
from nnd_tasks.schema import normalize
from nnd_tasks.wording import counted

if TYPE_CHECKING:
    from nnd_tasks.recipes.base_table import Batch, Table

#: Spans that a candidate may have.
MAX_SPANS = 1000
#: Keys of ``spans`` that name a column of the table, or a field of the objects in one.
_NAMES = ("start", "end", "text", "category", "severity")
_KEYS = ("marks", "column", "end_inside", "items", *_NAMES)


def check_spans(spans: Mapping[str, Any], where: str) -> None:
    """Raise NNDError if ``spans`` has none of the forms above."""
    for key in spans:
        if key not in _KEYS:
            raise NNDError(f"{where}: spans: no such key {short_repr(key)}; there are {', '.join(_KEYS)}")
    marks = spans.get("marks")
    if (marks is not None) == ("column" in spans or "start" in spans):
        raise NNDError(f"{where}: spans: name either marks, such as ['<v>', '</v>'], or a column")
    texts = isinstance(marks, (list, tuple)) and all(isinstance(mark, str) and mark for mark in marks)
    if marks is not None and not (texts and len(marks) == 2):
        raise NNDError(
            f"{where}: spans: marks are two texts, one that opens and one that closes, not {short_repr(marks)}"
        )
    for key, value in spans.items():
        if key not in ("marks", "end_inside", "items") and not (isinstance(value, str) and value):
            raise NNDError(f"{where}: spans: {key} is a name, not {short_repr(value)}")
    for key in ("end_inside", "items"):
        if not isinstance(spans.get(key, False), bool):
            raise NNDError(f"{where}: spans: {key} is true or false, not {short_repr(spans[key])}")
    if spans.get("items") and {*spans} != {"column", "items"}:
        raise NNDError(f"{where}: spans: items goes with column alone, which holds the numbers of items")
    if ("start" in spans) != ("end" in spans):
        raise NNDError(f"{where}: spans: start and end go together")


def _marked(text: str, opening: str, closing: str) -> list[dict[str, Any]]:
    """Return the spans between marks, in characters of the text without marks; one that is not closed ends with the text."""
    spans: list[dict[str, Any]] = []
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


def _items(cell: Any) -> list[Any]:
    """Return the spans that a cell holds: an object or the words of each."""
    if isinstance(cell, str) and cell.strip()[:1] in ("[", "{"):
        try:
            read = json.loads(cell)
        except (ValueError, RecursionError):
            read = None
        items = read if isinstance(read, list) else [read]
        if all(isinstance(item, (str, dict)) for item in items):
            cell = items
    spans = cell if isinstance(cell, (list, tuple)) else [cell]
    return [item for item in spans if item is not None and str(item).strip()]


def columns_of(spans: Mapping[str, Any]) -> list[str]:
    """Return the columns of a table that ``spans`` names."""
    if "column" in spans:
        return [spans["column"]]
    return [spans[key] for key in _NAMES if key in spans]


def _row_cell(spans: Mapping[str, Any], values: Sequence[Any]) -> Any:
    """Return the span of a row as an object, from its value in each of `columns_of`; None if it has no start and no end."""
    span = dict(zip(columns_of(spans), values, strict=True))
    ends = [span[spans[key]] for key in ("start", "end")]
    empty = all(_number(value) is None and not str(value or "").strip() for value in ends)
    return None if empty else span


def _number(value: Any) -> int | None:
    """Return a position in a text, which a table may hold as text or as 3.0; None if the value is not a whole number."""
    try:
        number = float(value)
        return int(number) if number.is_integer() and not isinstance(value, bool) else None
    except (TypeError, ValueError, OverflowError):
        return None


def _located(items: Sequence[Any], text: str, spans: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return where the spans of a cell are in a candidate; spans that do not lie in it are left out.

    Raises:
        ValueError: there are too many spans.
    """
    if len(items) > MAX_SPANS:  # each is looked for in the whole text
        raise ValueError(f"{len(items):,} spans; a candidate may have {MAX_SPANS:,}")
    placed = []
    for item in items:
        span = _by_place(item, text, spans) if isinstance(item, Mapping) else _by_words(item, text)
        if span is not None:
            if isinstance(item, Mapping):
                span |= {key: str(item.get(spans[key]) or "") for key in ("category", "severity") if key in spans}
            placed.append(span)
    return placed


def _by_place(item: Mapping[str, Any], text: str, spans: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a span by its positions, corrected by its words; None where it does not lie in the text."""
    start, end = (_number(item.get(spans.get(key, key))) for key in ("start", "end"))
    words = item.get(spans.get("text", "text"))
    if start is None or end is None:
        return _by_words(words, text)
    end += bool(spans.get("end_inside"))
    if isinstance(words, str) and words.strip() and text[start:end] != words:
        place = _nearest(words, text, start)
        if place is None:  # the positions are those of another text
            return None
        start, end = place, place + len(words)
    return {"start": start, "end": end} if 0 <= start < end <= len(text) else None


def _nearest(words: str, text: str, place: int) -> int | None:
    """Return the place of ``words`` in ``text`` that is nearest to ``place``; None if they do not stand in it."""
    place = min(max(place, 0), len(text))
    places = text.rfind(words, 0, place + len(words)), text.find(words, place)
    return min((start for start in places if start >= 0), key=lambda start: abs(start - place), default=None)


def _by_words(words: Any, text: str) -> dict[str, Any] | None:
    """Return the first place of the words of a span; None if they do not stand in the text."""
    if not isinstance(words, str) or not words:
        return None
    start = text.find(words)
    return {"start": start, "end": start + len(words)} if start >= 0 else None


def _by_items(numbers: Sequence[Any], items: Sequence[str]) -> list[dict[str, Any]]:
    """Return where the items with these numbers stand in their text, in which each item is a line."""
    ends = list(accumulate(len(item) + 1 for item in items))
    wanted = [number for one in numbers if (number := _number(one)) is not None and 1 <= number <= len(items)]
    return [{"start": ends[n - 1] - len(items[n - 1]) - 1, "end": ends[n - 1] - 1} for n in wanted if items[n - 1]]


def find_spans(
    cell: Any, candidate: Any, recipe_spans: Mapping[str, Any], marks: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the spans of a candidate, in characters of the text that the set holds (NFC, without marks).

    Args:
        cell: the cell of the column of spans, or None.
        candidate: the text as published, with its marks; or the list that it is made of.
        recipe_spans: a recipe's ``spans``.
        marks: marks that are taken out of candidates.

    Raises:
        ValueError: there are too many spans.
    """
    of_spans = recipe_spans.get("marks", ())

    def plain(text: str) -> str:
        for mark in marks:
            if mark not in of_spans:
                text = text.replace(mark, "")
        return normalize(text)

    if recipe_spans.get("items"):
        of_list = isinstance(candidate, (list, tuple))
        parts = [render([item]) or "" for item in candidate] if of_list else (render(candidate) or "").split("\n")
        return _by_items(_items(cell), [plain(part) for part in parts])
    text = plain(render(candidate) or "")
    return _marked(text, *of_spans) if of_spans else _located(_items(cell), text, recipe_spans)


class SpanReader:
    """Gathers the error spans of the batches of a table, as JSON.

    Args:
        spans: a recipe's ``spans``; empty where it names none.
        marks: marks that are taken out of candidates.

    Attributes:
        texts: the spans of candidates, as JSON.
    """

    def __init__(self, spans: Mapping[str, Any], marks: Sequence[str]) -> None:
        self._spans, self._marks = spans, marks
        self.texts = Texts()
        self._codes: list[Codes] = []
        self._count = self._lost = 0

    def add(self, batch: Batch, column: str) -> None:
        """Read the spans of a batch whose candidates are in ``column``.

        Raises:
            NNDError: a candidate has too many spans.
        """
        if not self._spans:
            return
        columns = columns_of(self._spans)
        cells: list[Any] = [None] * len(batch.numbers)
        if columns:
            parts = [listed(batch.columns[name]) for name in columns]
            own = "column" in self._spans
            cells = parts[0] if own else [_row_cell(self._spans, row) for row in zip(*parts, strict=True)]
        texts = []
        for i, (cell, text) in enumerate(zip(cells, listed(batch.columns[column]), strict=True)):
            try:
                placed = find_spans(cell, text, self._spans, self._marks)
            except ValueError as error:
                raise NNDError(f"{batch.where(columns[0])(i)}: {error}") from None
            texts.append(json.dumps(placed) if placed else "")
            if columns:
                count = len(_items(cell))
                self._count, self._lost = self._count + count, self._lost + count - len(placed)
        self._codes.append(self.texts.add(pa.array(texts, pa.string())))

    def codes(self) -> Codes:
        """Return the codes of all rows."""
        return np.concatenate(self._codes)

    def note_lost(self, table: Table) -> None:
        """Add a note to a table that says how many spans do not lie in their candidates."""
        if self._lost:
            note = f"left out, as they do not lie in their candidate: {self._lost:,} of {counted(self._count, 'error span')}"
            table.notes = [*(one for one in table.notes if one != note), note]
