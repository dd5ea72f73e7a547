"""What a table of a stranger holds: its columns by the names that files give them, and what their cells hold."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd

from nnd_tasks.files import read_yaml
from nnd_tasks.show.values import is_missing
from nnd_tasks.tables.cells import FILE, KEY, PATH, ROW, list_items, split_column, take_column, unpack

COLUMN_NAMES = read_yaml(Path(__file__).with_name("column_names.yaml"))
#: Role -> names of columns that are taken for it where no option says it, the likelier first.
NAMES: Mapping[str, Sequence[str]] = COLUMN_NAMES["roles"]
#: Distinct values that a column of judgements has at most.
MOST_VALUES = 8


def list_file_columns(table: pd.DataFrame) -> list[str]:
    """List the columns of a file itself; of rows of a ``prepare.py`` without the place of each."""
    places = (PATH, ROW, FILE, KEY) if ROW in table else (PATH, "where")
    return [name for name in table.columns if name not in places]


def name_columns(table: pd.DataFrame) -> dict[str, str]:
    """Map the name in small letters to the column: ``Input.question`` is also called ``question``, if no other column is.

    ``Worker ID`` and ``worker_id`` are also called ``workerid``.
    """
    names = {name.casefold(): name for name in list_file_columns(table)}
    last = [re.split("[.:]", name.casefold())[-1] for name in names.values()]  # INPUT:question of Toloka
    short = {word: name for word, name in zip(last, names.values(), strict=True) if last.count(word) == 1}
    joined = {re.sub(r"[\s_-]", "", word): name for word, name in (short | names).items()}
    return joined | short | names


def take_cells(table: pd.DataFrame, column: str) -> list[Any]:
    """Take the cells of a column, or of a dotted name, that hold something; those that are one object, as equal texts, once."""
    return [*filter(holds_something, {id(cell): cell for cell in take_column(table, column, each=True)}.values())]


def take_items(table: pd.DataFrame, column: str) -> Iterable[Any]:
    """Take what the cells of a column hold, and each item of a list."""
    return chain(*map(list_items, take_cells(table, column)))


def list_fields(cells: Iterable[Any]) -> list[str]:
    """List the fields of objects among cells."""
    return [*dict.fromkeys(chain(*(cell for cell in map(unpack, cells) if isinstance(cell, Mapping))))]


def take_fields(table: pd.DataFrame, used: Iterable[str | None]) -> dict[str, list[str]]:
    """Take the texts in each field of the lists of objects that used columns lead into: ``responses.status``."""
    roots = {root for name in used if name for root, path in [split_column(table, name)] if root and path}
    fields: dict[str, list[str]] = {}
    for root in sorted(roots):
        for item in chain(*(cell for cell in map(unpack, table[root]) if isinstance(cell, (list, tuple)))):
            for field, value in item.items() if isinstance(item, Mapping) else ():
                if isinstance(value, (str, bool)):
                    fields.setdefault(f"{root}.{field}", []).append(str(value).strip())
    return fields


def is_blank(cells: pd.Series[Any]) -> pd.Series[bool]:
    """Tell which cells of a column hold nothing."""
    return cells.isna() | cells.eq("")


def holds_something(cell: Any) -> bool:
    """Tell whether a cell holds something but white space."""
    return not is_missing(cell) and bool(str(cell).strip())
