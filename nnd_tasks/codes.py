"""Columns as numbers: each distinct text has a code, so that a column of a million rows is one array of integers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from nnd_tasks.schema import fold, normalize

Codes = NDArray[np.int32]
Floats = NDArray[np.float64]
Index = NDArray[np.int64]
Mask = NDArray[np.bool_]


class Texts:
    """Numbers distinct texts (in Unicode NFC) in the order of their first appearance.

    Args:
        strip: remove the white space around each text, as for names.
        blank: give blank texts a code too; else their code is -1, as that of a cell without a text always is.
        missing: texts that get the code -1 too; the case of letters does not count.
        same: text in lower case -> the text that is stored in its place.
        fold_space: whether texts that differ only in white space are equal; see `shared`.

    Attributes:
        texts: text of each code.
    """

    def __init__(
        self,
        *,
        strip: bool = False,
        blank: bool = False,
        missing: Sequence[str] = (),
        same: Mapping[str, str] | None = None,
        fold_space: bool = False,
    ) -> None:
        self.texts: list[str] = []
        self._codes: dict[str, int] = {}
        self._strip, self._blank, self._missing = strip, blank, frozenset(text.strip().casefold() for text in missing)
        self._same = same or {}
        self._fold_space = fold_space

    def code(self, text: str) -> int:
        """Return the code of a text that is in NFC."""
        code = self._codes.setdefault(text, len(self.texts))
        if code == len(self.texts):
            self.texts.append(text)
        return code

    def find(self, text: str) -> int | None:
        """Return the code of a text, or None where it does not occur."""
        return self._codes.get(text)

    def add(self, values: pa.Array) -> Codes:
        """Return the codes of a column of strings, shape (rows,)."""
        distinct = values.dictionary_encode()
        local = np.full(len(distinct.dictionary) + 1, -1, dtype=np.int32)  # the last for no value
        for i, value in enumerate(distinct.dictionary.to_pylist()):
            text = normalize(value)
            if self._strip:
                text = text.strip()
            if self._same:
                text = self._same.get(text.casefold(), text)
            if (self._blank or text.strip()) and not (self._missing and text.strip().casefold() in self._missing):
                local[i] = self.code(text)
        places = pc.fill_null(distinct.indices, len(local) - 1).to_numpy(zero_copy_only=False)
        return np.asarray(local[places], dtype=np.int32)

    def shared(self, codes: NDArray[Any]) -> Index:
        """Return ``codes`` with one code for all texts that are equal under ``fold_space``; -1 stays."""
        if not self._fold_space:
            return codes.astype(np.int64)
        first: dict[str, int] = {}
        folded = [first.setdefault(fold(text), code) for code, text in enumerate(self.texts)]
        shared: Index = np.array([*folded, -1], dtype=np.int64)[codes]
        return shared


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


def occurrence(numbers: Index) -> Index:
    """Return for each entry how many equal ones stand at or before it, shape as ``numbers``."""
    order = np.argsort(numbers, kind="stable")
    sizes = np.bincount(numbers)
    starts = np.cumsum(sizes) - sizes
    turn = np.empty(len(numbers), dtype=np.int64)
    turn[order] = np.arange(len(numbers)) - starts[numbers[order]] + 1
    return turn
