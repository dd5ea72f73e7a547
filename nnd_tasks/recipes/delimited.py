"""CSV and TSV files as tables."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import count, islice
from pathlib import Path

import pyarrow as pa

from nnd_tasks.errors import NNDError, reason_of
from nnd_tasks.files import reading
from nnd_tasks.recipes.base_table import Batch, Table
from nnd_tasks.recipes.decoding import decode, encoding_of, undecodable
from nnd_tasks.recipes.headers import read_header
from nnd_tasks.recipes.recipe import FILE, FOLDER, Recipe
from nnd_tasks.wording import counted

#: Ending of a file -> what separates its cells.
DELIMITERS = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
_START = 1 << 20  # bytes of a file that say what its header means
_BLOCK = 16 << 20  # bytes of CSV at a time; also the longest row


class Delimited(Table):
    """A table with a header row; rows count from 1 for the header, as in a spreadsheet."""

    header = ", row 1"

    def __init__(self, path: Path, recipe: Recipe) -> None:
        super().__init__(str(path), path)
        self._path = path
        self._encoding = encoding_of(path, recipe, self.notes)
        with path.open("rb") as file:
            start = file.read(_START)
        text = start.decode(self._encoding, errors="replace").removeprefix("\ufeff")
        delimiter = DELIMITERS[path.suffix.lower()]
        self._head = read_header(
            text, str(path), recipe.columns(), None if delimiter == "," else delimiter, recipe.quotes,
            cut=len(start) == _START,
        )  # fmt: skip
        self.notes += [f"{path.name}: {note}" for note in self._head.notes]
        self.header = f", row {self._head.before + 1}"
        self._check_rows = recipe.quotes is not None
        self._names = self._head.names
        self.known = [*self._names, FILE, FOLDER]

    def read(self, columns: Sequence[str] | None = None) -> Iterator[Batch]:
        """Yield the rows; where the recipe says what quotes mean they must be right, else `pyarrow` takes any."""
        names = [name for name in self._names if columns is None or name in columns]
        return self._checked(names) if self._check_rows else self._streamed(names)

    def _checked(self, names: Sequence[str]) -> Iterator[Batch]:
        """Yield all rows in one batch, read by Python's `csv`; cells beyond the columns of the header are ignored."""
        head = self._head
        text = decode(self._path, self._encoding).split("\n", head.before)[-1]
        lines: Iterable[list[str]]
        if head.quotes:
            lines = head.split(text, strict=True)
        else:
            lines = (line.removesuffix("\r").split(head.delimiter) for line in text.split("\n"))
        numbers: list[int] = []
        rows: list[list[str]] = []
        number = head.before
        try:
            for number, cells in enumerate(lines, start=head.before + 1):
                if number == head.before + 1 or not any(cells):
                    continue
                if len(cells) < len(self._names):
                    raise NNDError(
                        f"{self.name}, row {number}: {counted(len(cells), 'column')}, the header has {len(self._names)}"
                    )
                numbers.append(number)
                rows.append(cells)
        except csv.Error as error:
            raise NNDError(
                f"{self.name}, row {number + 1}: not a valid table ({error}); is it the right file?"
            ) from None
        places = {name: self._names.index(name) for name in names}
        yield self.batch(
            numbers, {name: pa.array([row[place] for row in rows], pa.string()) for name, place in places.items()}
        )

    def _row_numbers(self) -> Iterator[int]:
        """Yield the number of the header and of each row: `pyarrow` skips blank lines, which a spreadsheet counts."""
        before = number = self._head.before
        with self._path.open("rb") as raw:
            blank = any(not line.strip(b"\0\r\n") for line in raw)  # \0 is half of a character in UTF-16
        if blank:
            with (
                self._path.open(encoding=self._encoding, errors="replace", newline="") as file,
                suppress(csv.Error),
            ):
                for _ in range(before):
                    file.readline()
                for number, cells in enumerate(self._head.split(file), start=before + 1):
                    if cells:
                        yield number
        yield from count(number + 1)

    def _streamed(self, names: list[str]) -> Iterator[Batch]:
        """Yield the rows as `pyarrow` reads them, in blocks."""
        import pyarrow.csv as pacsv

        head = self._head
        numbers = self._row_numbers()
        next(numbers)
        every = [*head.names, *(f"\0{place}" for place in range(len(head.names), head.width))]
        with reading(self.name):
            try:
                reader = pacsv.open_csv(
                    self._path,
                    read_options=pacsv.ReadOptions(
                        use_threads=False,
                        block_size=_BLOCK,
                        encoding="utf8" if self._encoding.startswith("utf-8") else self._encoding,
                        skip_rows=head.before + (head.lines if head.commented else 0),
                        column_names=every if head.commented else None,
                    ),
                    parse_options=pacsv.ParseOptions(
                        delimiter=head.delimiter,
                        quote_char='"' if head.quotes else False,
                        newlines_in_values=head.quotes,
                    ),
                    convert_options=pacsv.ConvertOptions(
                        include_columns=names,
                        column_types={name: pa.string() for name in names},
                        strings_can_be_null=False,
                    ),
                )
                for batch in reader:
                    cells = {name: batch.column(name) for name in batch.schema.names}
                    yield self.batch(list(islice(numbers, batch.num_rows)), cells)
            except pa.ArrowException as error:
                raise self._explain(reason_of(error)) from None
            except UnicodeDecodeError:
                raise undecodable(self._path, self._encoding) from None

    def _explain(self, message: str) -> NNDError:
        """Return the error for what `pyarrow` says of the file."""
        columns = _COLUMNS.search(message)
        if not columns and ("UTF8" in message or "Row #" not in message):
            decode(self._path, self._encoding)  # raises where the file is not text: that is the better explanation
        if "Empty CSV" in message:
            return self.empty()
        row = re.search(r"Row #(\d+)", message)
        place = self.name
        if row:
            place += f", row {next(islice(self._row_numbers(), int(row[1]) - self._head.before - 1, None))}"
        if columns:
            hint = "; is a quote not closed?" if self._head.quotes and message.count('"') % 2 else ""
            return NNDError(f"{place}: {counted(int(columns[2]), 'column')}, the header has {columns[1]}{hint}")
        return NNDError(f"{place}: not a valid table ({message}); is it the right file?")


#: What `pyarrow` says of a row with too many or too few cells. Its callback for them would run in a thread that may outlive us.
_COLUMNS = re.compile(r"Expected (\d+) columns, got (\d+)")
