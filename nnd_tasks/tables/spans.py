"""Error spans, the ranges of characters of a candidate that people marked as errors, and their positions in its NFC.

Tables hold them as cells of objects, positions or words, as columns of positions, or as marks in a text.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import pandas as pd
import regex  # type: ignore[import-untyped]

from nnd_tasks.errors import NNDError
from nnd_tasks.schema import to_nfc
from nnd_tasks.show.values import is_missing
from nnd_tasks.tables.cells import list_items, place_of, render, take_column, traces_of, unpack
from nnd_tasks.tables.columns import Spans

if TYPE_CHECKING:
    from nnd_tasks.sets.recipe import Recipe

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
    """List the spans in a cell: objects, pairs of positions or words, one or a list, which may be a text as in CSV.

    A list may hold a list for each of several people.
    """
    cell = unpack(cell)
    items = list(cell) if isinstance(cell, (list, tuple)) and not is_pair(cell) else [cell]
    if any(isinstance(item, (list, tuple)) and not is_pair(item) for item in items):
        items = [span for item in items for span in read_items(item)]
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
        return list(take_column(table, keys.column, each=True))
    rows = zip(*(take_column(table, name) for name in keys.columns), strict=True)
    # A position that is no number lies nowhere, as one beyond the end of the text does.
    return [
        None
        if is_missing(row[0]) or row[0] == "" or {*map(read_position, row[:2])} == {-1}
        else dict(zip(keys.columns, row, strict=True))
        for row in rows
    ]


# ---------------------------------------------------------------- places in a candidate


def place_span(start: int, end: int, words: str, published: NormalizedText) -> Span | None:
    """Place a span of a published text as positions in its NFC.

    Args:
        start: its first character in the text as published.
        end: the character after its last.
        words: what it marks. Where that does not stand there, the nearest place where it does is taken.
        published: the text, as `normalize_text` changed it.

    Returns:
        ``start`` and ``end``; None where neither the positions nor the words lie in the text.
    """
    span = None
    if 0 <= start < end < len(published.starts):
        span = {"start": published.starts[start], "end": published.ends[end]}
    words = to_nfc(words)
    if not words.strip() or (span and published.text[span["start"] : span["end"]] == words):
        return span
    near = published.starts[min(max(start, 0), len(published.starts) - 1)]
    starts = [match.start() for match in re.finditer(f"(?={re.escape(words)})", published.text)]
    nearest = min(starts, key=lambda place: abs(place - near), default=None)
    return None if nearest is None else {"start": nearest, "end": nearest + len(words)}


def locate_spans(cell: Any, text: str, keys: Spans) -> tuple[list[Span], int]:
    """Locate the spans of a cell in a candidate, as positions in its NFC; and count those that do not lie in it.

    Args:
        cell: of the table; its positions count the characters of ``text``, or its UTF-16 units.
        text: the candidate as published.
        keys: what the parts of a span are called.

    Raises:
        ValueError: an item of the cell is neither an object, a pair of positions nor words.
    """
    items = read_items(cell)
    published = normalize_text(text) if items else None
    placed = [span for item in items if published and (span := _locate(item, text, published, keys))]
    return placed, len(items) - len(placed)


def _locate(item: Any, text: str, published: NormalizedText, keys: Spans) -> Span | None:
    fields = {keys.text: item} if isinstance(item, str) else item
    fields = dict(zip((keys.start, keys.end), item, strict=True)) if is_pair(item) else fields
    if not isinstance(fields, Mapping):
        raise ValueError(f"{item!r:.60} is no error span; write an object, a pair of positions, or words")
    start = read_position(fields.get(keys.start))
    end = read_position(fields.get(keys.end))
    words = fields[keys.text] if isinstance(fields.get(keys.text), str) else ""
    if start is None or end is None:
        span = find_words(words, published.text)
    else:
        end += keys.end_inside
        if keys.utf16:  # a position inside a character goes to its edge
            start, end = _count_characters(start, text, "ignore"), _count_characters(end, text, "replace")
        span = place_span(start, end, words, published)
    named = {"category": keys.category, "severity": keys.severity}
    return span and span | {
        name: "|".join(str(item) for item in list_items(fields[key]) if item)
        for name, key in named.items()
        if key in fields
    }


def _count_characters(position: int, text: str, errors: str) -> int:
    """Count the characters before a position that counts UTF-16 units; one outside the text stays as it is."""
    units = text.encode("utf-16-le", "surrogatepass")
    inside = 0 <= 2 * position <= len(units)
    return len(units[: 2 * position].decode("utf-16-le", errors)) if inside else position


@dataclass(frozen=True)
class NormalizedText:
    """A text in NFC, and where positions of the original are in it.

    Attributes:
        text: in NFC.
        starts: for each position of the original, 0 to its length, where what begins there begins now.
        ends: likewise, where what ends there ends now. A position inside a changed piece goes to the edge of the piece, so
            that a span never loses a character.
    """

    text: str
    starts: Sequence[int]
    ends: Sequence[int]


def normalize_text(text: str) -> NormalizedText:
    """Change a text to Unicode NFC."""
    if unicodedata.is_normalized("NFC", text):
        every = range(len(text) + 1)
        return NormalizedText(text, every, every)
    starts: list[int] = []
    ends = [0]
    normalized = ""
    for cluster in regex.findall(r"\X", text):  # no letter composes with one of another cluster
        changed = to_nfc(cluster)
        cuts = [i for i in range(len(cluster) + 1) if to_nfc(cluster[:i]) + to_nfc(cluster[i:]) == changed]
        places = [len(normalized) + len(to_nfc(cluster[:i])) for i in cuts]
        starts += [places[bisect_right(cuts, i) - 1] for i in range(len(cluster))]
        ends += [places[bisect_left(cuts, i)] for i in range(1, len(cluster) + 1)]
        normalized += changed
    return NormalizedText(normalized, [*starts, len(normalized)], ends)


def place_spans(rows: pd.DataFrame, recipe: Recipe) -> pd.DataFrame:
    """Place the spans of each row in its candidate.

    Positions count characters of the candidate as published, so this comes before `clean_texts`. Spans of ``prepare.py`` are
    objects with the keys that `Spans` has by default.

    Returns:
        The rows with ``spans``, a list of those within the candidate; ``spans_nowhere``, the number of the others; and
        candidates without marks.
    """
    if not recipe.spans and "spans" not in rows:
        return rows
    keys = recipe.spans or Spans()
    role = "rejected" if "rejected" in rows else "candidate"
    texts = rows[role].to_numpy(object).copy()
    cells = rows["spans"].to_numpy(object) if "spans" in rows else [None] * len(rows)
    traces = traces_of("spans", recipe)
    spans: list[list[Span]] = []
    nowhere: list[int] = []
    for i, cell in enumerate(cells):
        try:
            text = render(texts[i]) or ""
        except ValueError:  # `clean_texts` names the row
            text = ""
        if keys.marks and text:
            text, cell = take_marks(text, *keys.marks)
            texts[i] = text
        missing = not text.strip() or (isinstance(cell, str) and cell.strip() in traces)
        try:
            placed, lost = locate_spans(None if missing else cell, text, keys)
        except ValueError as error:
            raise NNDError(f"{place_of(rows, i)}: {error}") from None
        spans.append(placed)
        nowhere.append(lost)
    columns = {role: pd.Series(texts, rows.index, dtype=object), "spans": pd.Series(spans, rows.index, dtype=object)}
    return rows.assign(**columns, spans_nowhere=nowhere)
