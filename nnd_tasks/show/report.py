"""What an analysis concludes: a title, sentences, tables and figures. `nnd_tasks.show` gives it every form."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import yaml

from nnd_tasks.show.values import MISSING, Cell, write_cell

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: What cells of numbers look like: 0.7§ [0.6, 0.8], +0.1 to +0.2, 7†, <0.001.
_NUMBERS = re.compile(r"(?:[-+\d.,%/ \[\]†‡§¶≠]|to|of|none|<(?=0\.))*")


@dataclass(eq=False)
class Table:
    """A table of plain values, and how its cells are written.

    Attributes:
        name: its key in JSON, and the end of its CSV file's name.
        data: what CSV and JSON hold.
        columns: heading -> how its cells are written. A heading with a field, such as ``"{model}"``, becomes one column per
            value of the field, and rows whose other cells are equal become one. A column without any value is not shown.
        caption: what one has to know to read it.
    """

    name: str
    data: pd.DataFrame
    columns: Mapping[str, Cell]
    caption: str = ""

    @cached_property
    def numeric(self) -> list[bool]:
        """Of each column of the cells, whether it holds numbers, which stand at the right."""
        return [all(map(_NUMBERS.fullmatch, self.cells[name])) for name in self.cells.columns]

    @cached_property
    def cells(self) -> pd.DataFrame:
        """The table as people see it: every cell a text; written when it is asked for, as many models have many rows."""
        fixed = {heading: cell for heading, cell in self.columns.items() if "{" not in heading}
        spread = {heading: cell for heading, cell in self.columns.items() if "{" in heading}
        rows: dict[Any, dict[str, str]] = {}
        headings: dict[str, dict[str, None]] = {heading: {} for heading in spread}
        for number, record in enumerate(self.data.to_dict("records")):
            row = {heading: write_cell(cell, record) for heading, cell in fixed.items()}
            row = rows.setdefault(tuple(row.values()) if spread else number, row)
            for heading, cell in spread.items():
                name = write_cell(heading, record)
                headings[heading][name] = None
                row[name] = write_cell(cell, record)
        names = [name for heading in self.columns for name in headings.get(heading, [heading])]
        table = pd.DataFrame(list(rows.values()), columns=names, dtype=object).fillna("")
        return table.loc[:, [bool(set(table[name]) - {MISSING, ""}) for name in names]]


@cache
def read_tables() -> dict[str, dict[str, Any]]:
    """Read the tables.yaml of all packages: table -> ``columns`` (not of baselines), and some have ``name`` and ``caption``."""
    paths = sorted(Path(__file__).parents[1].glob("*/tables.yaml"))
    return {key: table for path in paths for key, table in yaml.safe_load(path.read_text("utf-8")).items()}


def make_table(key: str, data: pd.DataFrame, columns: Mapping[str, Cell] | None = None, **numbers: object) -> Table:
    """Make a table of a tables.yaml.

    Args:
        key: of the table.
        data: a row per observation.
        columns: in the place of those of tables.yaml.
        numbers: for the fields of the caption.
    """
    table = read_tables()[key]
    return Table(table.get("name", key), data, columns or table["columns"], table.get("caption", "").format(**numbers))


@dataclass(frozen=True)
class Report:
    """The conclusion of an analysis.

    Attributes:
        name: stem of its files.
        title: one line.
        findings: sentences that say what was found.
        tables: in the order in which they are read.
        notes: what else one has to know.
        legend: mark -> what it means; said where a cell has the mark.
        brief: the tables that ``--brief`` prints after the findings.
        figures: name -> what draws it.
        facts: what only JSON holds, such as settings; and ``signatures``, model -> line, which stand in all files with notes.
    """

    name: str
    title: str
    findings: Sequence[str] = ()
    tables: Sequence[Table] = ()
    notes: Sequence[str] = ()
    legend: Mapping[str, str] = field(default_factory=dict)
    brief: Sequence[Table] = ()
    figures: Mapping[str, Callable[[], Figure]] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def signatures(self) -> list[str]:
        """A line for each model: how it was run."""
        return [f"{model}: {line}" for model, line in self.facts.get("signatures", {}).items()]


def file_stem(name: str) -> str:
    """Turn a name into one that names a file of a folder, and no hidden one."""
    return re.sub(r"[^\w.-]+", "_", name).strip("_.")[:200] or "report"
