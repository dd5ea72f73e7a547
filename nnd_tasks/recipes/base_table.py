"""A table that is read in pieces, whatever its file format: the base of all readers, and tables that have no file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from nnd_tasks.errors import NNDError
from nnd_tasks.judgements import Dropped
from nnd_tasks.recipes.cells import Column, Where, listed, root
from nnd_tasks.recipes.recipe import FILE, FOLDER

#: Rows that are looked at to guess what a column holds.
HEAD = 2000
#: Rows that are read at a time.
BATCH = 20_000


@dataclass(frozen=True)
class Batch:
    """Some rows of a table.

    Attributes:
        numbers: number of each row, as a person counts rows in the file; see `FILE_STEP`.
        columns: column -> one value per row. Strings and numbers are an Arrow array, nested values are Python objects.
        place: position of a row in the batch -> its place in the file, for an error.
        named: (position of a row, column) -> the name of that column in the file, where the batch gives it another name.
        dropped: rows of the file that were left out on the way to these.
    """

    numbers: Sequence[int]
    columns: Mapping[str, Column]
    place: Where
    named: Callable[[int, str], str] | None = None
    dropped: Dropped = field(default_factory=Dropped)

    def where(self, column: str) -> Where:
        """Return a function: position of a row -> the place of its cell in ``column``, for an error."""
        return lambda i: f"{self.place(i)}, column {(self.named(i, column) if self.named else column)!r}"


class Table:
    """A table that is read in pieces.

    Attributes:
        name: its name in errors.
        path: its file, or None where it has none.
        unit: what one row is called: ``row``, ``line`` or ``item``.
        header: follows the name in an error about the names of columns; says where these are.
        known: its columns, where they are known before the table is read, else None.
        notes: what the user should know about how it was read.
    """

    unit = "row"
    header = ""
    known: Sequence[str] | None = None

    def __init__(self, name: str, path: Path | None) -> None:
        self.name, self.path = name, path
        self.notes: list[str] = []

    def read(self, columns: Sequence[str] | None = None) -> Iterator[Batch]:
        """Yield the rows in the order of the file, with only ``columns``; None takes all columns.

        Raises:
            NNDError: the file does not follow its format; the error names the row.
        """
        raise NotImplementedError

    def needed(self, names: Iterable[str]) -> list[str]:
        """Return the columns to read for ``names``, some of which may be nested; each column once."""
        columns: dict[str, None] = {}
        for name in names:
            if self.known is None:
                columns |= {name: None, root(name): None}
            else:
                columns[name if name in self.known else root(name)] = None
        return list(columns)

    def head(self) -> dict[str, list[Any]]:
        """Return column -> its values in the first `HEAD` rows; all lists have one length.

        Raises:
            NNDError: as `read`, or there is no row.
        """
        for batch in self._start():
            columns = {name: listed(values[:HEAD]) for name, values in batch.columns.items()}
            if columns and len(batch.numbers):
                return columns
        raise self.empty()

    def _start(self) -> Iterator[Batch]:
        """Yield batches for `head`, which takes the first one with a row."""
        return self.read()

    def batch(self, numbers: Sequence[int], columns: Mapping[str, Column]) -> Batch:
        """Return a batch of rows of this table, with the columns that every table of a file has."""
        return Batch(
            numbers,
            {**columns, **file_columns(self.path, len(numbers))},
            lambda i: self.place(numbers[i]),
        )

    def place(self, number: int) -> str:
        """Return the place of the row with a number of `Batch.numbers`, for an error."""
        return f"{self.name}, {self.unit} {number}"

    def shown(self, number: int) -> int | str:
        """Return the number of a row as a report names it."""
        return number

    def empty(self) -> NNDError:
        """Return the error that the table has no row."""
        return NNDError(f"{self.name}: it holds no row; is it the right file?")


#: The number of a row of several files is that in its file plus this times the position of the file.
FILE_STEP = 1 << 40


class Several(Table):
    """The tables of several files, one after another."""

    def __init__(self, tables: Sequence[Table]) -> None:
        names = [table.name for table in tables]
        more = [f"{len(names) - 3:,} more files"] if len(names) > 3 else []
        super().__init__(", ".join([*names[:3], *more]), None)
        self.tables = tables
        self.unit = tables[0].unit
        known = [table.known for table in tables]
        self.known = None if None in known else list(dict.fromkeys(name for names in known for name in names or ()))
        self.notes = [note for table in tables for note in table.notes]

    def read(self, columns: Sequence[str] | None = None) -> Iterator[Batch]:
        """Yield the rows of each table in turn."""
        for table in self.tables:
            yield from table.read(columns)

    def place(self, number: int) -> str:
        """Return the place of a row, which names its file alone."""
        file, row = divmod(number, FILE_STEP)
        return self.tables[file].place(row)

    def shown(self, number: int) -> str:
        """Return the number of a row and its file, without the folder that holds all files."""
        file, row = divmod(number, FILE_STEP)
        folder = os.path.commonpath([Path(table.name).parent for table in self.tables])
        return f"{row} of {Path(self.tables[file].name).relative_to(folder).as_posix()}"


class Rows(Table):
    """Rows that were computed; a row may name the place that it was computed from under ``@where``."""

    def __init__(self, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
        super().__init__(name, None)
        self._rows = rows

    def read(self, columns: Sequence[str] | None = None) -> Iterator[Batch]:
        """Yield the rows; computing them may raise NNDError."""
        rows = self._rows = self._rows if isinstance(self._rows, list) else list(self._rows)  # it may be read again
        names = dict.fromkeys(name for row in rows for name in row)
        cells = {name: [row.get(name) for row in rows] for name in names if columns is None or name in columns}
        yield Batch(range(1, len(rows) + 1), cells, lambda i: str(rows[i].get("@where", self.name)))


def file_columns(path: Path | None, count: int) -> dict[str, Column]:
    """Return the columns that every file has: its name without ending, and the name of its folder, ``count`` times."""
    if path is None:
        return {}
    names = {FILE: path.name.split(".")[0], FOLDER: path.absolute().parent.name}
    return {column: pa.array([name] * count, pa.string()) for column, name in names.items()}
