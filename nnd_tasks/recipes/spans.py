"""Error spans: the ranges of characters of a candidate that people marked as errors.

A recipe's ``spans`` has one of these forms:

- ``{marks: ["<v>", "</v>"]}``: a span stands between marks in the text itself; the marks are taken out;
- ``{column: errors, start: startIndex, end: endIndex}``: a cell is an object with two character positions, or a list of such
  objects. ``end_inside: true`` says that the end is the last character of the span. ``text: term`` names the field with the
  words of the span: where these do not stand at its positions, the nearest place where they stand is taken,
  and none where they stand nowhere;
- ``{column: offsets}``: a cell is a pair of positions, or a list of pairs;
- ``{start: error_start, end: error_end}``: the same, where each position has a column of its own, or a list in one;
- ``{column: error_words}``: a cell holds the words of the span, or a list of them; the first place where they stand is taken.
  If they stand nowhere, differences of case and white space do not count;
- ``{columns: {factuality: wrong_words, relevance: idle_words}}``: a column for each category of errors;
- ``{column: error_steps, items: true}``: a cell holds numbers, counted from 1, of the items of a candidate that is a list, or of
  its lines.

Names may be nested. With ``either: true`` the spans of ready-made pairs are those of both texts: taken are spans whose words
stand in the worse text only.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from nnd_tasks.codes import Codes, Texts
from nnd_tasks.errors import NNDError
from nnd_tasks.recipes.cells import AbsentError, listed, render, short_repr, unpacked, walk
from nnd_tasks.schema import normalize
from nnd_tasks.wording import counted

if TYPE_CHECKING:
    from nnd_tasks.recipes.base_table import Batch, Table

#: Spans that a candidate may have.
MAX_SPANS = 1000
#: Keys of ``spans`` that name a column of the table, or a field of the objects in one.
_NAMES = ("start", "end", "text", "category", "severity")
_KEYS = ("marks", "column", "columns", "either", "end_inside", "items", *_NAMES)


def check_spans(spans: Mapping[str, Any], where: str, *, pairs: bool) -> None:
    """Raise NNDError if ``spans`` has none of the forms above; ``pairs``: whether the table holds ready-made pairs."""
    for key in spans:
        if key not in _KEYS:
            raise NNDError(f"{where}: spans: no such key {short_repr(key)}; there are {', '.join(_KEYS)}")
    marks = spans.get("marks")
    if (marks is not None) == ("column" in spans or "columns" in spans or "start" in spans):
        raise NNDError(f"{where}: spans: name either marks, such as ['<v>', '</v>'], or a column")
    texts = isinstance(marks, (list, tuple)) and all(isinstance(mark, str) and mark for mark in marks)
    if marks is not None and not (texts and len(marks) == 2):
        raise NNDError(
            f"{where}: spans: marks are two texts, one that opens and one that closes, not {short_repr(marks)}"
        )
    for key, value in spans.items():
        if key not in ("marks", "columns", "either", "end_inside", "items") and not (isinstance(value, str) and value):
            raise NNDError(f"{where}: spans: {key} is a name, not {short_repr(value)}")
    columns = spans.get("columns", {})
    if not isinstance(columns, Mapping) or not all(isinstance(name, str) and name for name in columns.values()):
        raise NNDError(f"{where}: spans: columns is a mapping of categories to columns, not {short_repr(columns)}")
    if "columns" in spans and (not columns or {"column", "category"} & {*spans}):
        raise NNDError(f"{where}: spans: columns names the categories and their columns; leave column and category out")
    for key in ("either", "end_inside", "items"):
        if not isinstance(spans.get(key, False), bool):
            raise NNDError(f"{where}: spans: {key} is true or false, not {short_repr(spans[key])}")
    if spans.get("items") and {*spans} != {"column", "items"}:
        raise NNDError(f"{where}: spans: items goes with column alone, which holds the numbers of items")
    if ("start" in spans) != ("end" in spans):
        raise NNDError(f"{where}: spans: start and end go together")
    if spans.get("either") and not (
        pairs and {*spans} <= {"either", "column", "columns", "text", "severity", "category"}
    ):
        raise NNDError(f"{where}: spans: either is for the words of spans in a column, of ready-made pairs")


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


def _is_place(item: Any) -> bool:
    """Tell whether an item is a pair of positions."""
    if not isinstance(item, (list, tuple)) or len(item) != 2:
        return False
    return all(isinstance(one, (int, float)) and _number(one) is not None for one in item)


def _items(cell: Any, *, numbers: bool = False) -> list[Any]:
    """Return the spans that a cell holds: an object, two positions, or the words of each; or ``numbers`` of items."""
    if isinstance(cell, str) and (text := cell.strip())[:1] in ("[", "{", "("):
        read = unpacked(text)
        items = read if isinstance(read, (list, tuple)) and not _is_place(read) else [read]
        kinds = (int, float) if numbers else (str, dict)
        if all(isinstance(item, kinds) or (not numbers and _is_place(item)) for item in items):
            cell = items
    if not numbers and _is_place(cell):
        cell = [cell]
    spans = cell if isinstance(cell, (list, tuple)) else [cell]
    return [item for item in spans if item is not None and str(item).strip()]


def columns_of(spans: Mapping[str, Any]) -> list[str]:
    """Return the columns of a table that ``spans`` names."""
    if "column" in spans or "columns" in spans:
        return [spans["column"]] if "column" in spans else [*spans["columns"].values()]
    return [spans[key] for key in _NAMES if key in spans]


def _row_cell(spans: Mapping[str, Any], values: Sequence[Any]) -> Any:
    """Return the span of a row as an object, or a list of them, from its value in each of `columns_of`; None for no position.

    Raises:
        ValueError: lists of positions have different lengths.
    """
    if lengths := {len(value) for value in values if isinstance(value, (list, tuple))}:
        if len(lengths) > 1:
            raise ValueError("its lists of error spans have different lengths")
        count = lengths.pop()
        lists = (value if isinstance(value, (list, tuple)) else [value] * count for value in values)
        return [_row_cell(spans, row) for row in zip(*lists, strict=True)]
    span = dict(zip(columns_of(spans), values, strict=True))
    ends = [span[spans[key]] for key in ("start", "end")]
    empty = all(_number(value) is None and not str("" if value is None else value).strip() for value in ends)
    return None if empty else span


def _field(item: Mapping[str, Any], name: str) -> Any:
    """Return a field of a span, by a name that may be nested; None where it has none."""
    if name in item:
        return item[name]
    try:
        return walk(item, f".{name}")
    except AbsentError:
        return None


def _number(value: Any) -> int | None:
    """Return a position in a text, which a table may hold as text or as 3.0; None if the value is not a whole number."""
    try:
        number = float(value)
        return int(number) if number.is_integer() and not isinstance(value, bool) else None
    except (TypeError, ValueError, OverflowError):
        return None


def _located(items: Sequence[Any], text: str, spans: Mapping[str, Any], category: str) -> list[dict[str, Any]]:
    """Return where the spans of a cell are in a candidate; spans that do not lie in it are left out."""
    placed = []
    for item in items:
        span = _by_words(item, text) if isinstance(item, str) else _by_place(item, text, spans)
        if span is not None:
            if isinstance(item, Mapping):
                span |= {k: str(_field(item, spans[k]) or "") for k in ("category", "severity") if k in spans}
            placed.append(span | {"category": category} if category else span)
    return placed


def _by_place(item: Any, text: str, spans: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a span by its positions, corrected by its words; None where it does not lie in the text."""
    if not isinstance(item, Mapping):
        item = dict(zip(("start", "end"), item, strict=True)) if _is_place(item) else {}
        spans = {"end_inside": spans.get("end_inside")}
    start, end = (_number(_field(item, spans.get(key, key))) for key in ("start", "end"))
    words = _words(item, spans)
    if start is None or end is None:
        return _by_words(words, text)
    end += bool(spans.get("end_inside"))
    if isinstance(words, str) and words.strip() and text[start:end] != words:
        place = _nearest(words, text, start)
        if place is None:  # the positions are those of another text
            return None
        start, end = place, place + len(words)
    return {"start": start, "end": end} if 0 <= start < end <= len(text) else None


def _words(item: Any, spans: Mapping[str, Any]) -> Any:
    """Return the words of a span."""
    return _field(item, spans.get("text", "text")) if isinstance(item, Mapping) else item


def _nearest(words: str, text: str, place: int) -> int | None:
    """Return the place of ``words`` in ``text`` that is nearest to ``place``; None if they do not stand in it."""
    place = min(max(place, 0), len(text))
    places = text.rfind(words, 0, place + len(words)), text.find(words, place)
    return min((start for start in places if start >= 0), key=lambda start: abs(start - place), default=None)


def _by_words(words: Any, text: str) -> dict[str, Any] | None:
    """Return the first place of the words of a span, else the first but for case and white space; None if there is none."""
    if not isinstance(words, str) or not words.strip():
        return None
    words = normalize(words)
    start = text.find(words)
    if start >= 0:
        return {"start": start, "end": start + len(words)}
    folded, places = _folded(text)
    wanted, _ = _folded(words)
    start = folded.find(wanted)
    return {"start": places[start], "end": places[start + len(wanted) - 1] + 1} if start >= 0 else None


@lru_cache(maxsize=4)
def _folded(text: str) -> tuple[str, list[int]]:
    """Return a text without white space and differences of case, and where each of its characters stands in the text."""
    pieces = [(place, char) for place, one in enumerate(text) if not one.isspace() for char in one.casefold()]
    return "".join(char for _, char in pieces), [place for place, _ in pieces]


def _by_items(numbers: Sequence[Any], items: Sequence[str]) -> list[dict[str, Any]]:
    """Return where the items with these numbers stand in their text, in which each item is a line."""
    ends = list(accumulate(len(item) + 1 for item in items))
    wanted = [number for one in numbers if (number := _number(one)) is not None and 1 <= number <= len(items)]
    return [{"start": ends[n - 1] - len(items[n - 1]) - 1, "end": ends[n - 1] - 1} for n in wanted if items[n - 1]]


def find_spans(
    cell: Any,
    candidate: Any,
    recipe_spans: Mapping[str, Any],
    marks: Sequence[str],
    *,
    better: Any = None,
    category: str = "",
    lost: Counter[str] | None = None,
) -> list[dict[str, Any]]:
    """Return the spans of a candidate, in characters of the text that the set holds (NFC, without marks).

    Args:
        cell: the cell of the column of spans, or None.
        candidate: the text as published, with its marks; or the list that it is made of.
        recipe_spans: a recipe's ``spans``.
        marks: marks that are taken out of candidates.
        better: the better text of a pair, with ``either``.
        category: of the spans, where their column names it.
        lost: counts why spans are left out.

    Raises:
        ValueError: there are too many spans.
    """
    lost = Counter() if lost is None else lost
    of_spans = recipe_spans.get("marks", ())

    def plain(text: str) -> str:
        for mark in marks:
            if mark not in of_spans:
                text = text.replace(mark, "")
        return normalize(text)

    if recipe_spans.get("items"):
        of_list = isinstance(candidate, (list, tuple))
        parts = [render([item]) or "" for item in candidate] if of_list else (render(candidate) or "").split("\n")
        numbers = _items(cell, numbers=True)
        placed = _by_items(numbers, [plain(part) for part in parts])
        lost["nowhere"] += len(numbers) - len(placed)
        return placed
    text = plain(render(candidate) or "")
    if of_spans:
        return _marked(text, *of_spans)
    items = _items(cell)
    if len(items) > MAX_SPANS:  # each is looked for in the whole text
        raise ValueError(f"{len(items):,} spans; a candidate may have {MAX_SPANS:,}")
    if recipe_spans.get("either"):
        other, known = plain(render(better) or ""), items
        items = []
        for item in known:
            words = _words(item, recipe_spans)
            here, there = (_by_words(words, one) is not None for one in (text, other))
            lost["better"] += there and not here
            lost["both"] += there and here
            items += [] if there else [item]
    placed = _located(items, text, recipe_spans, category)
    lost["nowhere"] += len(items) - len(placed)
    return placed


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
        self._taken, self._lost = 0, Counter[str]()

    def add(self, batch: Batch, column: str, better: str = "") -> None:
        """Read the spans of a batch whose candidates are in ``column``, and the better texts of pairs in ``better``.

        Raises:
            NNDError: a candidate has too many spans.
        """
        if not self._spans:
            return
        texts = []
        others = listed(batch.columns[better]) if better else [None] * len(batch.numbers)
        rows = zip(*(listed(batch.columns[name]) for name in columns_of(self._spans)), strict=True)
        for i, (text, other) in enumerate(zip(listed(batch.columns[column]), others, strict=True)):
            placed: list[dict[str, Any]] = []
            try:
                for category, cell in self._cells(next(rows, ())):
                    placed += find_spans(
                        cell, text, self._spans, self._marks, better=other, category=category, lost=self._lost
                    )
            except ValueError as error:
                raise NNDError(f"{batch.where(columns_of(self._spans)[0])(i)}: {error}") from None
            texts.append(json.dumps(placed) if placed else "")
            self._taken += len(placed)
        self._codes.append(self.texts.add(pa.array(texts, pa.string())))

    def _cells(self, row: Sequence[Any]) -> list[tuple[str, Any]]:
        """Return the cells of a row that hold spans, each with the category of its column."""
        if "columns" in self._spans:
            return list(zip(self._spans["columns"], row, strict=True))
        if "start" in self._spans and "column" not in self._spans:
            return [("", _row_cell(self._spans, row))]
        return [("", row[0] if row else None)]

    def codes(self) -> Codes:
        """Return the codes of all rows."""
        return np.concatenate(self._codes)

    def note_lost(self, table: Table) -> None:
        """Add a note to a table that says how many spans do not lie in their candidates."""
        whole = counted(self._taken + self._lost.total(), "error span")
        for why, text in (
            ("nowhere", "as they do not lie in their candidate"),
            ("better", "as they are of the better text"),
            ("both", "as their words stand in both texts"),
        ):
            if count := self._lost[why]:
                if why == "nowhere" and not self._taken:
                    text += " (not one does: are the names in `spans` those of the table?)"
                note = f"left out, {text}: {count:,} of {whole}"
                table.notes = [*(one for one in table.notes if one != note), note]
