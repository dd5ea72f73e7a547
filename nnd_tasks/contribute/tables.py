"""Read a table of any common format in pieces: CSV, TSV, JSON Lines, JSON, parquet, or a path for `datasets`."""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from nnd_tasks.errors import NNDError, first_line
from nnd_tasks.files import expand, seems_to_be

#: Rows that are looked at to guess what a column holds.
HEAD = 2000
BATCH = 20_000
_WHOLE = 256 << 20  # bytes of JSON that are read at once only to explain an error
_BLOCK = 16 << 20  # bytes of CSV at a time; also the longest row
_DELIMITERS = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
_JSON = {".jsonl", ".ndjson", ".json"}


@dataclass(frozen=True)
class Batch:
    """Some rows of a table.

    Attributes:
        numbers: of the rows, as a person counts them in the file.
        columns: column -> one value per row; strings and numbers as an array, what is nested as Python objects.
    """

    numbers: Sequence[int]
    columns: Mapping[str, pa.Array | list[Any]]


class Table:
    """A table that is read in pieces.

    Attributes:
        name: what to call it in an error.
        path: its file, or None where it has none.
        unit: what its rows are called, ``row`` or ``line``.
    """

    unit = "row"

    def __init__(self, name: str, path: Path | None) -> None:
        self.name, self.path = name, path

    def read(self, columns: Sequence[str] | None = None) -> Iterator[Batch]:
        """Yield the rows in their order, with ``columns`` only; None takes all.

        Raises:
            NNDError: the file is not of its format; the row is named.
        """
        raise NotImplementedError

    def head(self) -> dict[str, list[Any]]:
        """Return column -> its values in the first `HEAD` rows, all of one length.

        Raises:
            NNDError: as `read`, or there is no row.
        """
        for batch in self.read():
            found = {
                name: (values[:HEAD] if isinstance(values, list) else values[:HEAD].to_pylist())
                for name, values in batch.columns.items()
            }
            if found and len(batch.numbers):
                return found
        raise NNDError(f"{self.name}: it holds no row")

    def where(self, number: int) -> str:
        """Return how to name a row in an error."""
        return f"{self.name}, {self.unit} {number}"


def open_table(source: str) -> Table:
    """Return the table in a file, in a folder that `datasets` wrote, or on the hub.

    Args:
        source: a file, or for a dataset ``PATH``, ``PATH:SPLIT`` or ``PATH:CONFIG:SPLIT``.

    Raises:
        NNDError: there is none, or it is of no known format.
    """
    path = expand(source)
    try:
        if path.is_file():
            if path.stat().st_size == 0:
                raise NNDError(f"{path}: the file is empty")
            suffix = path.suffix.lower()
            if suffix in _DELIMITERS:
                return _Delimited(path, _DELIMITERS[suffix])
            if suffix in _JSON:
                return _JSONLines(path)
            if suffix == ".parquet":
                return _Parquet(path)
            raise NNDError(f"{path}: a table is a file .csv, .tsv, .jsonl, .json or .parquet, or a path for `datasets`")
    except OSError as error:
        raise NNDError(f"{path}: cannot be read ({error.strerror or error})") from error
    if path.suffix.lower() in {*_DELIMITERS, *_JSON, ".parquet"}:
        raise NNDError(f"{path}: no such file")
    return _Dataset(source)


# ---------------------------------------------------------------- CSV and TSV


class _Delimited(Table):
    """A table with a header row; rows count from 1 for the header, as in a spreadsheet."""

    def __init__(self, path: Path, delimiter: str) -> None:
        super().__init__(str(path), path)
        with path.open("rb") as file:
            start = file.read(1 << 20)
        try:  # not final: the last character may be cut off
            text = codecs.getincrementaldecoder("utf-8-sig")().decode(start)
        except UnicodeDecodeError as error:
            number = start.count(b"\n", 0, error.start) + 1
            raise NNDError(f"{path}, line {number}: not UTF-8 text; {seems_to_be(start)}") from None
        if "\0" in text.split("\n", 1)[0]:
            raise NNDError(f"{path}, line 1: is no text; {seems_to_be(start)}")
        line = text.split("\n", 1)[0]
        if delimiter == "," and "," not in line:  # spreadsheets of some countries
            delimiter = next((other for other in (";", "\t") if other in line), delimiter)
        self._delimiter = delimiter
        # In tab-separated files quotes often mean nothing. They do where every field that begins with one ends with one.
        self._quotes = delimiter != "\t" or _is_quoted(text)
        rows = csv.reader(
            io.StringIO(text, newline=""),
            delimiter=delimiter,
            quoting=csv.QUOTE_MINIMAL if self._quotes else csv.QUOTE_NONE,
        )
        try:
            self._names = next(rows, [])
        except csv.Error as error:
            raise NNDError(f"{path}, row 1: no header of a table ({error})") from error
        while len(self._names) > 1 and not self._names[-1].strip():  # spreadsheets write commas after the last column
            self._names.pop()
        _check_distinct(f"{path}, row 1", self._names)

    def read(self, columns: Sequence[str] | None = None) -> Iterator[Batch]:
        import pyarrow.csv as pacsv

        names = list(self._names if columns is None else columns)
        number = 2
        wrong: list[tuple[int, int]] = []

        def stop(row: Any) -> str:
            wrong.append((row.expected_columns, row.actual_columns))
            return "error"

        try:
            reader = pacsv.open_csv(
                self.path,
                read_options=pacsv.ReadOptions(use_threads=False, block_size=_BLOCK),
                parse_options=pacsv.ParseOptions(
                    delimiter=self._delimiter,
                    quote_char='"' if self._quotes else False,
                    newlines_in_values=self._quotes,
                    invalid_row_handler=stop,
                ),
                convert_options=pacsv.ConvertOptions(
                    include_columns=names,
                    column_types={name: pa.string() for name in names},
                    strings_can_be_null=False,
                ),
            )
            for batch in reader:
                yield Batch(
                    range(number, number + batch.num_rows), {name: batch.column(name) for name in batch.schema.names}
                )
                number += batch.num_rows
        except pa.ArrowException as error:
            raise self._explain(first_line(error), wrong) from None
        except OSError as error:
            raise NNDError(f"{self.name}: cannot be read ({error.strerror or error})") from error

    def _explain(self, message: str, wrong: list[tuple[int, int]]) -> NNDError:
        row = re.search(r"Row #(\d+)", message)
        place = f"{self.name}, row {row[1]}" if row else self.name
        if wrong:
            return NNDError(f"{place}: {wrong[0][1]} columns, the header has {wrong[0][0]}")
        if "UTF8" in message and self.path is not None:
            with self.path.open("rb") as file:
                for number, line in enumerate(file, start=1):
                    try:
                        line.decode("utf-8")
                    except UnicodeDecodeError as error:
                        return NNDError(
                            f"{self.name}, line {number}: not UTF-8 text (byte {error.start}); {seems_to_be(line)}"
                        )
        return NNDError(f"{place}: not a valid table ({message})")


_QUOTED = re.compile(r'(?:^|[\t\n])"')
_QUOTED_WHOLE = re.compile(r'(?:^|(?<=[\t\n]))"(?:[^"]|"")*"(?=[\t\r\n]|$)')


def _is_quoted(text: str) -> bool:
    starts = len(_QUOTED.findall(text))
    cut = len(text) >= 1 << 19  # the last field of a long file may be cut off
    return 0 < starts <= len(_QUOTED_WHOLE.findall(text)) + cut


# ---------------------------------------------------------------- JSON


class _JSONLines(Table):
    """One JSON object per line, or one array of them."""

    unit = "line"

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), path)
        with path.open("rb") as file:
            self._array = file.read(1 << 16).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[")
        if self._array:
            self.unit = "item"

    def _items(self) -> Iterator[tuple[int, Any]]:
        assert self.path is not None
        number = rows = 0
        row: Any = None
        try:
            if self._array:
                text = self.path.read_text(encoding="utf-8-sig")
                yield from enumerate(json.loads(text), start=1)
                return
            with self.path.open("rb") as file:
                for number, line in enumerate(file, start=1):
                    if number == 1:
                        line = line.removeprefix(b"\xef\xbb\xbf")
                    if line.strip():
                        row = json.loads(line.decode("utf-8"))
                        rows += 1
                        yield number, row
            if rows == 1 and isinstance(row, Mapping) and _holds_rows(row):
                self._check_whole()
        except UnicodeDecodeError as error:
            place, hint = self.where(max(number, 1)), seems_to_be(error.object)
            raise NNDError(f"{place}: not UTF-8 text (byte {error.start}); {hint}") from None
        except RecursionError:
            raise NNDError(f"{self.where(max(number, 1))}: JSON nested too deeply") from None
        except ValueError as error:
            if not rows:
                self._check_whole()
            place = self.name if self._array else self.where(number)
            raise NNDError(f"{place}: not valid JSON ({error})") from None
        except OSError as error:
            raise NNDError(f"{self.name}: cannot be read ({error.strerror or error})") from error

    def _check_whole(self) -> None:
        """Raise NNDError for a file that is one JSON object around the rows, rather than a row per line."""
        assert self.path is not None
        if self.path.stat().st_size > _WHOLE:
            return
        try:
            found = json.loads(self.path.read_text(encoding="utf-8-sig"))
        except (ValueError, RecursionError):
            return
        if not isinstance(found, Mapping):
            return
        keys = ", ".join(map(repr, list(found)[:3])) + (", ..." if len(found) > 3 else "")
        lists = [key for key, value in found.items() if isinstance(value, list)]
        if len(lists) == 1 and len(found) < 20:
            how = f"its rows may be in {lists[0]!r}: json.dump(data[{lists[0]!r}], file)"
        elif found and all(isinstance(value, Mapping) for value in found.values()):
            how = "its rows have these keys: json.dump([{'id': key, **row} for key, row in data.items()], file)"
        else:
            how = "put it into [ ] if it is a row"
        raise NNDError(
            f"{self.name}: it is one JSON object with the keys {keys}, and a table is a list of rows; write it as a list "
            f"([{{...}}, ...]) or as a row per line; in Python, {how}"
        )

    def read(self, columns: Sequence[str] | None = None) -> Iterator[Batch]:
        numbers: list[int] = []
        rows: list[Mapping[str, Any]] = []
        for number, row in self._items():
            if not isinstance(row, Mapping):
                raise NNDError(f"{self.where(number)}: expected an object with named fields")
            numbers.append(number)
            rows.append(row if columns is None else {name: row.get(name) for name in columns})
            if len(rows) == BATCH:
                yield _of_rows(numbers, rows, columns)
                numbers, rows = [], []
        if rows:
            yield _of_rows(numbers, rows, columns)

    def head(self) -> dict[str, list[Any]]:
        rows = []
        for number, row in self._items():
            if not isinstance(row, Mapping):
                raise NNDError(f"{self.where(number)}: expected an object with named fields")
            rows.append(row)
            if len(rows) == HEAD:
                break
        if not rows:
            raise NNDError(f"{self.name}: it holds no row")
        return dict(_of_rows(range(len(rows)), rows, None).columns)


def _holds_rows(row: Mapping[str, Any]) -> bool:
    """Tell whether an object looks like rows by id, or like one list of rows, rather than like a row."""
    values = list(row.values())
    if len(values) == 1 and isinstance(values[0], list):
        return bool(values[0]) and all(isinstance(item, Mapping) for item in values[0])
    return bool(values) and all(isinstance(value, Mapping) for value in values)


def _of_rows(numbers: Sequence[int], rows: Sequence[Mapping[str, Any]], columns: Sequence[str] | None) -> Batch:
    names = columns if columns is not None else list(dict.fromkeys(name for row in rows for name in row))
    return Batch(numbers, {name: [row.get(name) for row in rows] for name in names})


# ---------------------------------------------------------------- parquet and datasets


def _plain(column: pa.Array) -> pa.Array | list[Any]:
    """Return a column as strings or numbers; what is nested as Python objects."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if pa.types.is_decimal(kind):
        return column.cast(pa.float64())
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return column.cast(pa.string())
    if pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return column
    return list(column.to_pylist())


def _of_arrow(table: Table, first: int, batch: pa.RecordBatch) -> Batch:
    names = batch.schema.names
    _check_distinct(table.name, names)
    for name in names:
        try:
            batch.column(name).validate(full=True)  # else a damaged text is found wherever it is first looked at
        except pa.ArrowInvalid as error:
            found = re.search(r"index (\d+)", str(error))
            place = table.where(first + int(found[1])) if found else table.name
            raise NNDError(f"{place}: column {name!r} is damaged ({first_line(error)}); get the file anew") from None
    return Batch(range(first, first + batch.num_rows), {name: _plain(batch.column(name)) for name in names})


def _check_distinct(place: str, names: Sequence[str]) -> None:
    """Raise NNDError for two columns of one name."""
    counts = Counter(names)
    twice = next((name for name in names if counts[name] > 1), None)
    if twice is not None:
        raise NNDError(f"{place}: two columns are called {twice!r}; rename one")


class _Parquet(Table):
    """A parquet file; rows count from 1."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), path)

    def read(self, columns: Sequence[str] | None = None) -> Iterator[Batch]:
        import pyarrow.parquet as pq

        number = 1
        try:
            with pq.ParquetFile(self.path) as file:
                _check_distinct(self.name, file.schema_arrow.names)
                for batch in file.iter_batches(BATCH, columns=columns):
                    yield _of_arrow(self, number, batch)
                    number += batch.num_rows
        except (OSError, ValueError, pa.ArrowException) as error:  # ValueError: names that are no UTF-8
            raise NNDError(f"{self.name}: cannot be read as parquet ({first_line(error)})") from None


class _Dataset(Table):
    """A dataset of the hub, or a folder that `datasets` can load; rows count from 1."""

    def __init__(self, source: str) -> None:
        import datasets

        super().__init__(source, None)
        path, *rest = source.split(":")
        if len(rest) > 2:
            raise NNDError(f"{source}: write PATH, PATH:SPLIT or PATH:CONFIG:SPLIT")
        try:
            if (expand(path) / "dataset_info.json").exists() or (expand(path) / "dataset_dict.json").exists():
                found = datasets.load_from_disk(str(expand(path)))
            else:
                found = datasets.load_dataset(path, rest[0] if len(rest) == 2 else None)
        except Exception as error:  # datasets and the hub raise many kinds
            raise NNDError(
                f"{source}: is no file, and could not be loaded as a dataset ({first_line(error)})"
            ) from error
        if isinstance(found, datasets.DatasetDict):
            split = rest[-1] if rest else "test" if "test" in found else next(iter(found))
            if split not in found or (not rest and len(found) > 1 and "test" not in found):
                raise NNDError(f"{source}: name one of its splits as PATH:SPLIT ({', '.join(found)})")
            found = found[split]
        self._rows = found

    def read(self, columns: Sequence[str] | None = None) -> Iterator[Batch]:
        rows = self._rows if columns is None else self._rows.select_columns(list(columns))
        number = 1
        for table in rows.with_format("arrow").iter(BATCH):
            for batch in table.combine_chunks().to_batches():
                yield _of_arrow(self, number, batch)
                number += batch.num_rows
