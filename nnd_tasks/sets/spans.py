"""Error spans: the ranges of characters of a candidate that people marked as errors."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pandas as pd
import regex  # type: ignore[import-untyped]

from nnd_tasks.errors import NNDError
from nnd_tasks.schema import to_nfc
from nnd_tasks.sets.recipe import Recipe, Spans
from nnd_tasks.tables.cells import is_missing, list_items, place_of, render, take_column, traces_of, unpack

Span = dict[str, Any]


def take_marks(text: str, opening: str, closing: str) -> tuple[str, list[Span]]:
    """Take the marks out of a text.

    Returns:
        The text without marks, in NFC; and the spans that stood between marks, as positions in it. A span that is not closed
        ends with the text.
    """
    marked: list[tuple[int, int]] = []
    start: int | None = None
    plain = ""
    for piece in re.split(f"({re.escape(opening)}|{re.escape(closing)})", text):
        if piece == opening and start is None:
            start = len(plain)
        elif piece == closing and start is not None:
            marked.append((start, len(plain)))
            start = None
        elif piece not in (opening, closing):
            plain += piece
    if start is not None:
        marked.append((start, len(plain)))
    without = normalize_text(plain)
    spans = [{"start": without.starts[start], "end": without.ends[end]} for start, end in marked]
    return without.text, [span for span in spans if span["start"] < span["end"]]


def find_words(words: str, text: str) -> Span | None:
    """Find the first place of words in the NFC of a text, else the first but for case and white space; None without one."""
    words = to_nfc(words)
    text = to_nfc(text)
    if not words.strip():
        return None
    start = text.find(words)
    if start >= 0:
        return {"start": start, "end": start + len(words)}
    letters = [(i, letter) for i, character in enumerate(text) for letter in "".join(character.split()).casefold()]
    wanted = "".join(words.split()).casefold()
    start = "".join(letter for _, letter in letters).find(wanted)
    return {"start": letters[start][0], "end": letters[start + len(wanted) - 1][0] + 1} if start >= 0 else None


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
    length = len(published.starts) - 1
    span = None
    if 0 <= start < end <= length:
        span = {"start": published.starts[start], "end": published.ends[end]}
    if not words.strip():
        return span
    words = to_nfc(words)
    if span and published.text[span["start"] : span["end"]] == words:
        return span
    near = published.starts[min(max(start, 0), length)]
    before_and_after = (published.text.rfind(words, 0, near + len(words)), published.text.find(words, near))
    nearest = min((i for i in before_and_after if i >= 0), key=lambda i: abs(i - near), default=None)
    return None if nearest is None else {"start": nearest, "end": nearest + len(words)}


def read_items(cell: Any) -> list[Any]:
    """List the spans in a cell: objects, pairs of positions or words, one or a list, which may be a text as in CSV."""
    cell = unpack(cell)
    items = list(cell) if isinstance(cell, (list, tuple)) and not _is_pair(cell) else [cell]
    return [item for item in items if not is_missing(item) and str(item).strip()]


def _is_pair(item: Any) -> bool:
    return isinstance(item, (list, tuple)) and len(item) == 2 and all(_position(number) is not None for number in item)


def _position(value: Any) -> int | None:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return int(number) if number.is_integer() and not isinstance(value, bool) else None


def locate_spans(cell: Any, text: str, keys: Spans) -> tuple[list[Span], int]:
    """Locate the spans of a cell in a candidate, as positions in its NFC; and count those that do not lie in it.

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
    if keys.utf16:
        published = _count_utf16(published, text)
    placed = [span for item in items if (span := _locate(item, published, keys))]
    return placed, len(items) - len(placed)


def _locate(item: Any, published: NormalizedText, keys: Spans) -> Span | None:
    if isinstance(item, str):
        return find_words(item, published.text)
    fields = dict(zip((keys.start, keys.end), item, strict=True)) if _is_pair(item) else item
    if not isinstance(fields, Mapping):
        raise ValueError(f"{item!r:.60} is no error span; write an object, a pair of positions, or words")
    start = _position(fields.get(keys.start))
    end = _position(fields.get(keys.end))
    words = fields[keys.text] if isinstance(fields.get(keys.text), str) else ""
    if start is None or end is None:
        span = find_words(words, published.text)
    else:
        span = place_span(start, end + keys.end_inside, words, published)
    named = {"category": keys.category, "severity": keys.severity}
    return span and span | {
        name: "|".join(str(item) for item in list_items(fields[key]) if item)
        for name, key in named.items()
        if key in fields
    }


def span_cells(table: pd.DataFrame, keys: Spans) -> list[Any]:
    """Take the cell of each row that holds its spans; columns of positions and of what else is known of one are one span."""
    if keys.column:
        return list(take_column(table, keys.column))
    rows = zip(*(take_column(table, name) for name in keys.columns), strict=True)
    # A position that is no number lies nowhere, as one beyond the end of the text does.
    return [
        None
        if is_missing(row[0]) or row[0] == "" or {*map(_position, row[:2])} == {-1}
        else dict(zip(keys.columns, row, strict=True))
        for row in rows
    ]


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
        cuts = [i for i in range(1, len(cluster)) if to_nfc(cluster[:i]) + to_nfc(cluster[i:]) == changed]
        for start, end in pairwise([0, *cuts, len(cluster)]):
            piece = cluster[start:end]
            new = to_nfc(piece)
            length = len(normalized)
            normalized += new
            if piece == new:
                starts.extend(range(length, len(normalized)))
                ends.extend(range(length + 1, len(normalized) + 1))
            else:
                starts.extend([length] * len(piece))
                ends.extend([len(normalized)] * len(piece))
    return NormalizedText(normalized, [*starts, len(normalized)], ends)


def _count_utf16(published: NormalizedText, original: str) -> NormalizedText:
    """Let positions count the UTF-16 units of the original; one inside a character goes to its edge."""
    units = [unit for i, letter in enumerate(original) for unit in ((i, i), (i, i + 1))[: 1 + (letter > "\uffff")]]
    units.append((len(original), len(original)))
    starts, ends = (
        [places[unit] for unit in side]
        for places, side in zip((published.starts, published.ends), zip(*units, strict=True), strict=True)
    )
    return NormalizedText(published.text, starts, ends)


def count_astral(rows: pd.DataFrame, recipe: Recipe) -> int:
    """Count the rows whose spans count characters or UTF-16 units, which the recipe does not say, and so lie elsewhere.

    They have positions without words, in a text with characters beyond U+FFFF.
    """
    keys = recipe.spans
    if not keys or keys.marks or keys.utf16 is not None or "spans" not in rows:
        return 0
    texts = rows["rejected" if "rejected" in rows else "candidate"]
    return sum(
        isinstance(text, str)
        and max(text, default="") > "\uffff"
        and any(_is_pair(item) or (isinstance(item, Mapping) and not item.get(keys.text)) for item in read_items(cell))
        for text, cell in zip(texts, rows["spans"], strict=True)
    )


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
    span_cells = rows["spans"].to_numpy(object) if "spans" in rows else [None] * len(rows)
    traces = traces_of("spans", recipe)
    spans: list[list[Span]] = []
    nowhere: list[int] = []
    for i, cell in enumerate(span_cells):
        placed: list[Span] = []
        lost = 0
        try:
            text = render(texts[i]) or ""
        except ValueError:  # `clean_texts` names the row
            text = ""
        if text.strip() and keys.marks:
            texts[i], placed = take_marks(text, *keys.marks)
        elif text.strip():
            try:
                missing = isinstance(cell, str) and cell.strip() in traces
                placed, lost = locate_spans(None if missing else cell, text, keys)
            except ValueError as error:
                raise NNDError(f"{place_of(rows, i)}: {error}") from None
        spans.append(placed)
        nowhere.append(lost)
    columns = {role: pd.Series(texts, rows.index, dtype=object), "spans": pd.Series(spans, rows.index, dtype=object)}
    return rows.assign(**columns, spans_nowhere=nowhere)
