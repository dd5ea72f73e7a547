"""Columns as numbers: distinct texts get a code each, so that a million rows are a few arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from nnd_tasks.contribute.chat import is_chat, render_chat
from nnd_tasks.errors import NNDError
from nnd_tasks.schema import normalize

Codes = NDArray[np.int32]
Floats = NDArray[np.float64]
Index = NDArray[np.int64]
#: What a cell of numbers says where nobody judged.
_NO_NUMBER = {"", "na", "n/a", "nan", "none", "null", "-"}


def render(value: Any) -> str | None:
    """Return a cell as text; of a list each item is a line, an inner list one line between bars; messages as a chat.

    Raises:
        ValueError: it has no such form.
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return None if math.isnan(value) else str(int(value)) if value.is_integer() else repr(value)
    if is_chat(value):
        return render_chat(value)
    if isinstance(value, (list, tuple)):
        lines = []
        for item in value:
            inner = item if isinstance(item, (list, tuple)) else [item]
            lines.append(" | ".join(render(part) or "" for part in inner))
        return "\n".join(lines)
    raise ValueError(f"expected text, found {'an object' if isinstance(value, dict) else type(value).__name__}")


class Texts:
    """Numbers distinct texts (in Unicode NFC) in the order of their first appearance; blank ones are -1.

    Attributes:
        texts: text of each code.
    """

    def __init__(self, *, strip: bool = False) -> None:
        self.texts: list[str] = []
        self._codes: dict[str, int] = {}
        self._strip = strip

    def code(self, text: str) -> int:
        """Return the code of a text that is in NFC."""
        found = self._codes.setdefault(text, len(self.texts))
        if found == len(self.texts):
            self.texts.append(text)
        return found

    def find(self, text: str) -> int | None:
        """Return the code of a text, or None where it does not occur."""
        return self._codes.get(text)

    def add(self, values: pa.Array | list[Any], where: Callable[[int], str]) -> Codes:
        """Return the codes of a column, shape (rows,).

        Args:
            values: of the column.
            where: names the cell at a position, for an error.

        Raises:
            NNDError: a cell is no text.
        """
        found = (values if isinstance(values, pa.Array) else _strings(values, where)).dictionary_encode()
        local = np.full(len(found.dictionary) + 1, -1, dtype=np.int32)  # the last for no value
        for i, value in enumerate(found.dictionary.to_pylist()):
            text = normalize(render(value) or "")
            if self._strip:
                text = text.strip()
            if text.strip():
                local[i] = self.code(text)
        places = pc.fill_null(found.indices, len(local) - 1).to_numpy(zero_copy_only=False)
        return np.asarray(local[places], dtype=np.int32)

    def folded(self) -> Codes:
        """Return, per code, a code that texts share which differ in white space only; shape (texts,)."""
        codes = np.arange(len(self.texts), dtype=np.int32)
        extra: dict[str, int] = {}
        for i, text in enumerate(self.texts):
            short = " ".join(text.split())
            if short != text:
                known = self._codes.get(short)
                codes[i] = extra.setdefault(short, len(self.texts) + len(extra)) if known is None else known
        return codes


def _strings(values: list[Any], where: Callable[[int], str]) -> pa.Array:
    """Return Python values as an array of strings."""
    texts: list[str | None] = []
    for i, value in enumerate(values):
        try:
            texts.append(render(value))
        except ValueError as error:
            raise NNDError(f"{where(i)}: {error}") from None
    try:
        return pa.array(texts, pa.string())
    except (UnicodeEncodeError, pa.ArrowException):
        for i, text in enumerate(texts):
            try:
                (text or "").encode("utf-8")
            except UnicodeEncodeError as error:
                raise NNDError(f"{where(i)}: it holds half a surrogate pair at character {error.start}") from None
        raise


def spread(values: pa.Array | list[Any]) -> tuple[Index, pa.Array | list[Any]]:
    """Return the cells of a column with each item of a list as a cell of its own, and the position of each in the column."""
    if isinstance(values, pa.Array) or not any(isinstance(value, (list, tuple)) for value in values):
        return np.arange(len(values), dtype=np.int64), values
    places: list[int] = []
    cells: list[Any] = []
    for i, value in enumerate(values):
        items = value if isinstance(value, (list, tuple)) else [value]
        places += [i] * len(items)
        cells += items
    return np.array(places, dtype=np.int64), cells


def numbers(values: pa.Array | list[Any], where: Callable[[int], str]) -> Floats:
    """Return a column of numbers, nan where nobody judged; shape (rows,).

    Raises:
        NNDError: a cell holds something else, or no finite number.
    """
    if isinstance(values, pa.Array) and not pa.types.is_string(values.type):
        found = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
        bad = np.isinf(found)
        if bad.any():
            raise NNDError(f"{where(int(bad.argmax()))}: expected a finite number")
        return np.asarray(found, dtype=np.float64)
    cells: Sequence[Any] = values.to_pylist() if isinstance(values, pa.Array) else values
    known: dict[Any, float] = {}
    result = np.empty(len(cells))
    for i, cell in enumerate(cells):
        value = known.get(cell) if isinstance(cell, str) else None
        if value is None:
            try:
                value = _number(cell)
            except (TypeError, ValueError, OverflowError):
                shown = repr(cell) if len(repr(cell)) <= 60 else repr(cell)[:57] + "..."
                raise NNDError(f"{where(i)}: expected a number, found {shown}") from None
            if isinstance(cell, str):
                known[cell] = value
        result[i] = value
    return result


def as_number(cell: Any) -> float | None:
    """Return a cell as a number, nan where it is empty, None where it is something else."""
    try:
        return _number(cell)
    except (TypeError, ValueError, OverflowError):
        return None


def _number(cell: Any) -> float:
    if cell is None or (isinstance(cell, str) and cell.strip().lower() in _NO_NUMBER):
        return math.nan
    if isinstance(cell, bool) or not isinstance(cell, (int, float, str)):
        raise TypeError
    value = float(cell)
    if math.isinf(value):
        raise ValueError
    return value


def combine(*columns: NDArray[Any]) -> tuple[Index, Index]:
    """Number the distinct rows of some columns of codes in the order of their first appearance.

    Returns:
        The number of each row, and the first row of each number.
    """
    import pandas as pd

    key = columns[0].astype(np.int64)
    for column in columns[1:]:
        size = int(column.max(initial=0)) + 2
        key = pd.factorize(key)[0].astype(np.int64) * size + (column.astype(np.int64) + 1)
    codes, distinct = pd.factorize(key)
    first = np.full(len(distinct), len(codes), dtype=np.int64)
    np.minimum.at(first, codes, np.arange(len(codes), dtype=np.int64))
    return codes.astype(np.int64), first
