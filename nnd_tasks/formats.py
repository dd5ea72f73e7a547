"""Tables and values in the forms that people and programs read: Markdown, LaTeX, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nnd_tasks.errors import visible
from nnd_tasks.markdown import code, table, table_cell


@dataclass(frozen=True)
class TextTable:
    """A table whose cells are texts, ready to be shown in any form.

    Attributes:
        head: names of the columns.
        rows: one text per column.
        names: how many columns at the left hold names; the others hold numbers, and are aligned right in Markdown.
        coded: the first column is shown as code in Markdown.
        bold: words that are bold in Markdown where a cell begins with them.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    names: int = 1
    coded: bool = False
    bold: Collection[str] = ()

    def markdown(self) -> list[str]:
        """Return the lines of a Markdown table, an empty one after them."""
        rows = [[self._markdown_cell(i, cell) for i, cell in enumerate(row)] for row in self.rows]
        return [*table([table_cell(name) for name in self.head], rows, names=self.names), ""]

    def _markdown_cell(self, column: int, cell: str) -> str:
        if column == 0 and self.coded and cell:
            return code(cell)
        word, space, rest = cell.partition(" ")
        return f"**{word}**{space}{table_cell(rest)}" if word in self.bold else table_cell(cell)

    def latex(self) -> list[str]:
        """Return the lines of a LaTeX table (it needs the package booktabs), an empty one after them."""
        columns = "l" + "r" * (len(self.head) - 1)
        head = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", _latex_row(self.head), r"\midrule"]
        return [*head, *map(_latex_row, self.rows), r"\bottomrule", r"\end{tabular}", ""]


def number(value: float, digits: int = 3, *, signed: bool = False, undefined: str = "-") -> str:
    """Return a number for a table; ``undefined`` for nan, and ``none`` for infinity, an MDE that no difference reaches."""
    if not math.isfinite(value):
        return undefined if math.isnan(value) else "none"
    return f"{value:{'+' if signed else ''}.{digits}f}"


def p_value(value: float) -> str:
    """Return a p value for a table."""
    return "<0.001" if value < 0.001 else number(value)


# ---------------------------------------------------------------- LaTeX

_MINUS = "\u2212"
_LATEX = str.maketrans(
    {
        **{char: "\\" + char for char in "&%$#_{}"},
        **{"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"},
        **{_MINUS: r"$-$", "†": r"$\dagger$", "‡": r"$\ddagger$", "≠": r"$\neq$"},
        **{char: f"${char}$" for char in "<>|"},
    }
)


def _latex_row(cells: Sequence[str]) -> str:
    # The minus sign of a number becomes a real minus; the hyphen of a name, a date or a range stays one.
    escaped = [re.sub(r"(?<![\w.])-(?=\d)", _MINUS, visible(cell)).translate(_LATEX) for cell in cells]
    # LaTeX would read a bracket or a star after the end of a row as an argument of that end.
    return " & ".join(f"{{{cell[0]}}}{cell[1:]}" if cell[:1] in ("[", "*") else cell for cell in escaped) + r" \\"


# ---------------------------------------------------------------- CSV and JSON


def csv_cell(value: Any) -> Any:
    """Return a cell for CSV: a text that a spreadsheet would take for a formula gets an apostrophe, numbers stay numbers."""
    if isinstance(value, str):
        value = visible(value)
        return f"'{value}" if value[:1] in ("=", "+", "-", "@") else value
    return "" if value is None or value != value else value


def csv_text(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] = ()) -> str:
    """Return rows as CSV; None and nan are empty cells.

    Args:
        rows: column -> value; a row may lack columns that others have.
        columns: the header when there are no rows; otherwise the columns are those of the rows, in order of appearance.
    """
    text = io.StringIO()
    names = list(dict.fromkeys(name for row in rows for name in row)) or list(columns)
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: csv_cell(value) for name, value in row.items()} for row in rows)
    return text.getvalue()


def json_text(value: Any) -> str:
    """Return a value as indented JSON.

    Numbers that JSON lacks (nan and infinity) become null. Characters that a terminal would obey or hide are escaped.
    """
    text = json.dumps(_finite(value), indent=2, ensure_ascii=False, allow_nan=False)
    return "".join(c if c == "\n" or c.isprintable() else json.dumps(c)[1:-1] for c in text)


def _finite(value: Any) -> Any:
    """Return plain data with None in the place of nan and infinity."""
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
