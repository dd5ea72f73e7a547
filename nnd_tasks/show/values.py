"""How values are written, in a cell of a table or in a sentence."""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import pandas as pd

#: How a cell is written: a template over the row's values, ``"{rate:.3f} [{low:.3f}, {high:.3f}]"``, or a function of the row.
Cell: TypeAlias = str | Callable[[Mapping[str, Any]], str]
#: What stands where a value is missing, and where it is infinite (an MDE above any possible difference).
MISSING, INFINITE = "-", "none"


class _Writer(string.Formatter):
    """Writes a cell: a missing value as `MISSING`, a truth value as its mark, p by ``:p``, a share in points by ``:points``."""

    def format_field(self, value: Any, spec: str) -> str:
        if isinstance(value, bool):
            return spec if value else ""
        if is_missing(value):
            return MISSING
        if isinstance(value, float) and math.isinf(value):
            return INFINITE
        if spec == "p":
            return "<0.001" if value < 0.001 else f"{value:.3f}"
        if spec.endswith("points"):
            return format(100 * value, spec.replace("points", ".1f"))
        return format(value, spec)


_WRITER = _Writer()


def write_cell(cell: Cell, row: Mapping[str, Any]) -> str:
    """Write a cell; `MISSING` where none of its values is there."""
    if callable(cell):
        return cell(row)
    fields = [(row[name], spec) for _, name, spec, _ in _WRITER.parse(cell) if name]
    values = [value for value, _ in fields if not isinstance(value, bool)]
    if values and all(map(is_missing, values)):
        return MISSING + "".join(spec or "" for value, spec in fields if value is True)
    return _WRITER.vformat(cell, (), row)


def is_missing(value: Any) -> bool:
    """Tell whether a value is None, nan or pandas' NA."""
    return value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value))
