"""Excel files as tables."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from nnd_tasks.errors import NNDError, reason_of
from nnd_tasks.recipes.base_table import Batch, Table
from nnd_tasks.recipes.cells import Column
from nnd_tasks.recipes.recipe import FILE, FOLDER

#: Bytes that an Excel file unpacks to, at most.
MAX_SHEETS = 256 << 20
#: Cells of an Excel sheet, the empty ones up to the last column of each row included.
MAX_CELLS = 50_000_000


class Excel(Table):
    """The first sheet of an Excel file; rows count from 1 for the header."""

    header = ", row 1"

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), path)
        rows = _sheet(path)
        names = [_cell(cell) for cell in next(rows, ())]
        kept = [(place, str(name)) for place, name in enumerate(names) if name is not None]
        if not kept:
            raise NNDError(f"{path}: the first row of its first sheet is empty; it holds the names of the columns")
        self._numbers: list[int] = []
        self._columns: dict[str, list[Any]] = {}
        for _, name in kept:
            if name in self._columns:
                raise NNDError(f"{path}, row 1: two columns are called {name!r}; rename one")
            self._columns[name] = []
        for number, row in enumerate(rows, start=2):
            cells = [_cell(row[place]) if place < len(row) else None for place, _ in kept]
            if any(cell is not None for cell in cells):
                self._numbers.append(number)
                for cell, column in zip(cells, self._columns.values(), strict=True):
                    column.append(cell)
        self.known = [*self._columns, FILE, FOLDER]

    def read(self, columns: Sequence[str] | None = None) -> Iterator[Batch]:
        """Yield the rows, all at once."""
        cells: dict[str, Column] = {n: cells for n, cells in self._columns.items() if columns is None or n in columns}
        yield self.batch(self._numbers, cells)


def _sheet(path: Path) -> Iterator[tuple[Any, ...]]:
    """Return the rows of the first sheet of an Excel file."""
    try:
        import openpyxl
    except ImportError as error:
        raise NNDError(f"{path}: to read Excel files, run: pip install 'nnd-tasks[excel]' (openpyxl)") from error
    try:
        with zipfile.ZipFile(path) as bundle:
            size = sum(info.file_size for info in bundle.infolist())
        if size > MAX_SHEETS:
            raise NNDError(f"{path}: it unpacks to more than {MAX_SHEETS >> 20:,} MiB; save it as CSV")
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        try:
            sheet = book.worksheets[0]
            sheet.reset_dimensions()  # the size that a file gives may be wrong
            rows: list[tuple[Any, ...]] = []
            count = 0
            for row in sheet.iter_rows(values_only=True):
                count += len(row)  # a cell in the last column makes 16,384 of its row
                if count > MAX_CELLS:
                    raise NNDError(f"{path}: more than {MAX_CELLS:,} cells; save it as CSV")
                rows.append(row)
            return iter(rows)
        finally:
            book.close()
    except NNDError:
        raise
    except Exception as error:  # zipfile, its XML and openpyxl raise many kinds
        raise NNDError(f"{path}: cannot be read as Excel ({reason_of(error)}); is it the right file?") from error


def _cell(value: Any) -> Any:
    """Return a cell as text or number, None for an empty one; dates as text."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    text = str(value)
    return text if text.strip() else None
