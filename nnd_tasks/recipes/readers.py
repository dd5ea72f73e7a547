"""Read a table of any common format in pieces: CSV, TSV, JSON Lines, JSON, parquet, Excel, or a path for `datasets`."""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from nnd_tasks.errors import NNDError, reason_of
from nnd_tasks.files import expand, reading
from nnd_tasks.recipes.cells import Column, Where, kind, root
from nnd_tasks.recipes.recipe import FILE, FOLDER, KEY, Recipe

#: Rows that are looked at to guess what a column holds.
HEAD = 2000
BATCH = 20_000
#: Bytes of a human evaluation; of more it is some other file.
MAX_BYTES = 4 << 30
#: Bytes that an Excel file unpacks to, at most.
MAX_SHEETS = 256 << 20
#: Cells of an Excel sheet, the empty ones up to the last column of each row included.
MAX_CELLS = 50_000_000
#: Bytes of a file that is read as a whole, as JSON that is one list must be, and characters of a line of JSON Lines.
MAX_WHOLE, MAX_LINE = 1 << 29, 1 << 28
_BLOCK = 16 << 20  # bytes of CSV at a time; also the longest row
_DELIMITERS = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
_JSON = {".jsonl", ".ndjson", ".json"}
_EXCEL = {".xlsx", ".xlsm"}
SUFFIXES = {*_DELIMITERS, *_JSON, *_EXCEL, ".parquet"}


@dataclass(frozen=True)
class Batch:
    """Some rows of a table.

    Attributes:
        numbers: of the rows, as a person counts them in the file.
        columns: column -> one value per row; strings and numbers as an array, what is nested as Python objects.
        place: names the row at a position, for an error.
        named: what the file calls a column in the row at a position, where that is another name.
    """

    numbers: Sequence[int]
    columns: Mapping[str, Column]
    place: Where
    named: Callable[[int, str], str] | None = None

    def where(self, column: str) -> Where:
        """Return what names a cell of ``column`` in an error."""
        return lambda i: f"{self.place(i)}, column {(self.named(i, column) if self.named else column)!r}"


class Table:
    """A table that is read in pieces.

    Attributes:
        name: what to call it in an error.
        path: its file, or None where it has none.
        unit: what its rows are called, ``row``, ``line`` or ``item``.
        header: where the names of its columns are, to go on with the name in an error.
        known: its columns where they are known before it is read, else None.
        notes: what the user should know of how it was read.
    """

    unit = "row"
    header = ""
    known: Sequence[str] | None = None

    def __init__(self, name: str, path: Path | None) -> None:
        self.name, self.path = name, path
        self.notes: list[str] = []

    def read(self, columns: Sequence[str] | None = None) -> Iterator[Batch]:
        """Yield the rows in their order, with ``columns`` only; None takes all.

        Raises:
            NNDError: the file is not of its format; the row is named.
        """
        raise NotImplementedError

    def needed(self, names: Iterable[str]) -> list[str]:
        """Return the columns that hold what ``names``, some of them nested, stand for; each once."""
        found: dict[str, None] = {}
        for name in names:
            whole = name if self.known is None or name in self.known else root(name)
            found[whole] = None
            if self.known is None:
                found[root(name)] = None
        return list(found)

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
        raise NNDError(f"{self.name}: it holds no row; is it the right file?")

    def batch(self, numbers: Sequence[int], columns: Mapping[str, Column]) -> Batch:
        """Return some of its rows."""
        return Batch(numbers, columns, lambda i: f"{self.name}, {self.unit} {numbers[i]}")


def open_table(source: str, recipe: Recipe | None = None) -> Table:
    """Return the table in a file, in a folder that `datasets` wrote, or on the hub.

    Args:
        source: a file, or for a dataset ``PATH``, ``PATH:SPLIT`` or ``PATH:CONFIG:SPLIT``.
        recipe: says how it is read where that is not found out: its encoding and quotes.

    Raises:
        NNDError: there is none, or it is of no known format.
    """
    path = expand(source)
    recipe = recipe or Recipe()
    with reading(path):
        if path.is_file():
            return _open_file(path, recipe)
    if path.suffix.lower() in SUFFIXES:
        raise NNDError(f"{path}: {'a folder, not a file' if path.is_dir() else 'no such file'}")
    return _Dataset(source)


def _open_file(path: Path, recipe: Recipe) -> Table:
    size = path.stat().st_size
    if size == 0 or (size < 4096 and not path.read_bytes().strip()):
        raise NNDError(f"{path}: the file is empty")
    if size > MAX_BYTES:
        raise NNDError(f"{path}: larger than {MAX_BYTES >> 30} GiB, this cannot be the file of judgements")
    suffix = path.suffix.lower()
    if suffix in _DELIMITERS:
        return _Delimited(path, _DELIMITERS[suffix], recipe)
    if suffix in _JSON:
        return _JSONLines(path, recipe)
    if suffix == ".parquet":
        return _Parquet(path)
    if suffix in _EXCEL:
        return _Excel(path)
    raise NNDError(f"{path}: a table is a file .csv, .tsv, .jsonl, .json, .parquet or .xlsx, or a path for `datasets`")


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
        """Yield the rows of one after another."""
        for table in self.tables:
            yield from table.read(columns)


class Rows(Table):
    """Rows that were computed; each may say under ``@where`` where it comes from."""

    def __init__(self, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
        super().__init__(name, None)
        self._rows = rows

    def read(self, columns: Sequence[str] | None = None) -> Iterator[Batch]:
        """Yield the rows; computing them may raise NNDError."""
        rows = self._rows = self._rows if isinstance(self._rows, list) else list(self._rows)  # it may be read again
        names = list(dict.fromkeys(name for row in rows for name in row))
        found = {name: [row.get(name) for row in rows] for name in names if columns is None or name in columns}
        yield Batch(range(1, len(rows) + 1), found, lambda i: str(rows[i].get("@where", self.name)))


def file_columns(path: Path | None, count: int) -> dict[str, Column]:
    """Return the columns that every table has: the name of its file and of the folder."""
    if path is None:
        return {}
    stem = path.name.split(".")[0]
    return {
        FILE: pa.array([stem] * count, pa.string()),
        FOLDER: pa.array([path.absolute().parent.name] * count, pa.string()),
    }


# ---------------------------------------------------------------- encodings

_BOMS = {
    "utf-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
    "utf-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
}
_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


def find_encoding(path: Path) -> str:
    """Return the encoding of a text file: by its byte order mark, else UTF-8 where it is that, else UTF-16 or cp1252.

    A file with letters in UTF-8 before the first byte that is none is a damaged one, and still UTF-8.
    """
    with path.open("rb") as file:
        start = file.read(4096)
        for mark, encoding in _MARKS.items():
            if start.startswith(mark):
                return encoding
        if start[1::2].count(0) > len(start) // 8:
            return "utf-16-le"
        if start[::2].count(0) > len(start) // 8:
            return "utf-16-be"
        decoder = codecs.getincrementaldecoder("utf-8")()
        piece, letters = start, False
        try:
            while piece:
                letters = not decoder.decode(piece).isascii() or letters
                piece = file.read(1 << 20)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError as error:
            letters = letters or not error.object[: error.start].isascii()
            return "utf-8" if letters else "cp1252"
    return "utf-8"


def _encoding(path: Path, recipe: Recipe, notes: list[str]) -> str:
    """Return the encoding that the recipe names, or that was found; other than UTF-8 it is noted."""
    if recipe.encoding:
        named = codecs.lookup(recipe.encoding).name  # `make_recipe` looked at it
        if named not in ("utf-16", "utf-32"):
            return named
        with path.open("rb") as file:
            marked = file.read(4).startswith(_BOMS[named])
        found = named if marked else find_encoding(path)
        if not found.startswith(named):
            raise NNDError(f"{path}: not {named.upper()} text; is it the right file? If so, leave --encoding out")
        return found
    found = find_encoding(path)
    if found not in ("utf-8", "utf-8-sig"):
        shown = "UTF-16" if found.startswith("utf-16") else "cp1252 (Windows, Western Europe)"
        notes.append(
            f"{path.name} is no UTF-8; it is read as {shown}. If letters look wrong, name the encoding with --encoding"
        )
    return found


def _decode(path: Path, encoding: str) -> str:
    with reading(path):
        if path.stat().st_size > MAX_WHOLE:
            raise NNDError(
                f"{path}: larger than {MAX_WHOLE >> 20} MiB, which cannot be read as a whole; save it as JSON Lines or plain CSV"
            )
        data = path.read_bytes()
    try:
        return data.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = data[: error.start].decode(encoding, errors="replace").count("\n") + 1
        shown = encoding.upper().removesuffix("-SIG")
        raise NNDError(
            f"{path}, line {line}: not {shown} text (byte {error.start}); is it the right file? If so, name its encoding with "
            "--encoding"
        ) from None


def _undecodable(path: Path, encoding: str) -> NNDError:
    """Return the error of a file that is not text of an encoding; it names the line."""
    try:
        _decode(path, encoding)
    except NNDError as error:
        return error
    return NNDError(f"{path}: not {encoding} text; name its encoding with --encoding")


# ---------------------------------------------------------------- CSV and TSV


class _Delimited(Table):
    """A table with a header row; rows count from 1 for the header, as in a spreadsheet."""

    header = ", row 1"

    def __init__(self, path: Path, delimiter: str, recipe: Recipe) -> None:
        super().__init__(str(path), path)
        self._encoding = _encoding(path, recipe, self.notes)
        with path.open("rb") as file:
            start = file.read(1 << 20)
        text = start.decode(self._encoding, errors="replace").removeprefix("\ufeff")
        line = text.split("\n", 1)[0]
        if re.fullmatch(r"sep=.\s*", line, re.IGNORECASE):
            raise NNDError(f"{path}, row 1: {line.strip()!r} is a line for Excel and no header; delete it")
        if delimiter == ",":  # spreadsheets of some countries write semicolons
            bare = re.sub(r'"[^"]*"', "", line)
            delimiter = max((",", ";", "\t"), key=bare.count)
        self._delimiter = delimiter
        # In tab-separated files quotes often mean nothing. They do where every field that begins with one ends with one.
        self._quotes = recipe.quotes if recipe.quotes is not None else delimiter != "\t" or _is_quoted(text)
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
        written = len(self._names)
        # MQM side by side: the last cell is a comment
        while len(self._names) > 1 and self._names[-1].lstrip().startswith("#"):
            self._names.pop()
        self._commented = len(self._names) < written
        seen: set[str] = set()
        for name in self._names:
            if name in seen:
                raise NNDError(
                    f"{path}, row 1: two columns are called {name!r}; rename one, or is it not the right file?"
                )
            seen.add(name)
        self.known = [*self._names, FILE, FOLDER]
        self._one_by_one = recipe.quotes is not None

    def _read_rows(self, columns: Sequence[str] | None) -> Iterator[Batch]:
        """Yield the rows of a file of which a recipe says what quotes mean: of a row with more cells than names the first count.

        Where they mean something they must be right; `pyarrow` takes any.
        """
        assert self.path is not None
        text = _decode(self.path, self._encoding)
        lines: Iterable[list[str]]
        if self._quotes:
            lines = csv.reader(io.StringIO(text, newline=""), delimiter=self._delimiter, strict=True)
        else:
            lines = (line.removesuffix("\r").split(self._delimiter) for line in text.split("\n"))
        numbers: list[int] = []
        rows: list[list[str]] = []
        number = 0
        try:
            for number, cells in enumerate(lines, start=1):
                if number == 1 or not any(cells):
                    continue
                if len(cells) < len(self._names):
                    raise NNDError(
                        f"{self.name}, row {number}: {len(cells)} columns, the header has {len(self._names)}"
                    )
                numbers.append(number)
                rows.append(cells)
        except csv.Error as error:
            raise NNDError(
                f"{self.name}, row {number + 1}: not a valid table ({error}); is it the right file?"
            ) from None
        found = {
            name: pa.array([row[place] for row in rows], pa.string())
            for place, name in enumerate(self._names)
            if columns is None or name in columns
        }
        yield self.batch(numbers, {**found, **file_columns(self.path, len(rows))})

    def read(self, columns: Sequence[str] | None = None) -> Iterator[Batch]:
        import pyarrow.csv as pacsv

        if self._one_by_one:
            yield from self._read_rows(columns)
            return
        assert self.path is not None
        names = list(self._names if columns is None else [name for name in columns if name in self._names])
        number = 2
        try:
            reader = pacsv.open_csv(
                self.path,
                read_options=pacsv.ReadOptions(
                    use_threads=False,
                    block_size=_BLOCK,
                    encoding="utf8" if self._encoding.startswith("utf-8") else self._encoding,
                    **({"column_names": self._names, "skip_rows": 1} if self._commented else {}),
                ),
                parse_options=pacsv.ParseOptions(
                    delimiter=self._delimiter,
                    quote_char='"' if self._quotes else False,
                    newlines_in_values=self._quotes,
                ),
                convert_options=pacsv.ConvertOptions(
                    include_columns=names,
                    column_types={name: pa.string() for name in names},
                    strings_can_be_null=False,
                ),
            )
            for batch in reader:
                found = {name: batch.column(name) for name in batch.schema.names}
                yield self.batch(
                    range(number, number + batch.num_rows), {**found, **file_columns(self.path, batch.num_rows)}
                )
                number += batch.num_rows
        except pa.ArrowException as error:
            message = reason_of(error)
            # What is no text at all has an odd header too.
            if not _COLUMNS.search(message) and ("UTF8" in message or "Row #" not in message):
                _decode(self.path, self._encoding)
            if "Empty CSV" in message:
                raise NNDError(f"{self.name}: it holds no row; is it the right file?") from None
            raise self._explain(message) from None
        except UnicodeDecodeError:
            raise _undecodable(self.path, self._encoding) from None
        except OSError as error:
            raise NNDError(f"{self.name}: cannot be read ({reason_of(error)})") from error

    def _explain(self, message: str) -> NNDError:
        row = re.search(r"Row #(\d+)", message)
        place = f"{self.name}, row {row[1]}" if row else self.name
        if columns := _COLUMNS.search(message):
            hint = "; is a quote not closed?" if self._quotes and message.count('"') % 2 else ""
            return NNDError(f"{place}: {columns[2]} columns, the header has {columns[1]}{hint}")
        return NNDError(f"{place}: not a valid table ({message}); is it the right file?")


#: What `pyarrow` says of a row with too many or too few cells. Its callback for them would run in a thread that may outlive us.
_COLUMNS = re.compile(r"Expected (\d+) columns, got (\d+)")
_QUOTED = re.compile(r'(?:^|[\t\n])"')
_QUOTED_WHOLE = re.compile(r'(?:^|(?<=[\t\n]))"(?:[^"]|"")*"(?=[\t\r\n]|$)')


def _is_quoted(text: str) -> bool:
    starts = len(_QUOTED.findall(text))
    cut = len(text) >= 1 << 19  # the last field of a long file may be cut off
    return 0 < starts <= len(_QUOTED_WHOLE.findall(text)) + cut


# ---------------------------------------------------------------- JSON


class _JSONLines(Table):
    """One JSON object per line, an array of them, one object, or an object of them or of lists of them, keyed by id."""

    unit = "line"

    def __init__(self, path: Path, recipe: Recipe) -> None:
        super().__init__(str(path), path)
        self._encoding = _encoding(path, recipe, self.notes)
        self._rows = recipe.rows
        self._keyed = KEY in recipe.columns()
        with path.open(encoding=self._encoding, errors="replace", newline="\n") as file:
            lines = (text for line in _lines(file) if (text := line.strip("\ufeff \t\r\n")))
            start, more = next(lines, ""), next(lines, None)
        alone = more is None and path.suffix.lower() == ".json"  # else one object per line
        self._whole = start.startswith("[") or (start.startswith("{") and (alone or not _is_json(start)))
        if self._whole:
            self.unit = "item"

    def _items(self) -> Iterator[tuple[int, Any, Any]]:
        """Yield the number, the key (None without one) and the object of each row."""
        assert self.path is not None
        number = 0
        try:
            if self._whole:
                yield from self._entries(json.loads(_decode(self.path, self._encoding)))
                return
            with self.path.open(encoding=self._encoding, newline="\n") as file:
                for number, line in enumerate(_lines(file), start=1):
                    if len(line) > MAX_LINE:
                        raise NNDError(f"{self._where(number)}: longer than {MAX_LINE >> 20} million characters")
                    if line.strip("\ufeff \t\r\n"):
                        yield number, None, json.loads(line.removeprefix("\ufeff"))
        except UnicodeDecodeError:
            raise _undecodable(self.path, self._encoding) from None
        except RecursionError:
            raise NNDError(f"{self._where(number)}: JSON nested too deeply; is it the right file?") from None
        except ValueError as error:
            raise NNDError(f"{self._where(number)}: not valid JSON ({error}); is it the right file?") from None
        except OSError as error:
            raise NNDError(f"{self.name}: cannot be read ({reason_of(error)})") from error

    def _entries(self, content: Any) -> Iterator[tuple[int, Any, Any]]:
        if isinstance(content, list) and not self._keyed:
            yield from ((number, None, item) for number, item in enumerate(content, start=1))
        elif not isinstance(content, dict):
            if self._keyed:
                raise NNDError(f"{self.name}: expected an object with named fields, found {kind(content)}")
            yield 1, None, content
        elif content and all(
            isinstance(item, list) and item and isinstance(item[0], Mapping) for item in content.values()
        ):
            if self._rows and root(self._rows) in content:
                yield 1, None, content
                return
            for key, items in content.items():  # {"data": [...]}, or a list of rows of each system
                yield from ((number, key, item) for number, item in enumerate(items, start=1))
        elif self._keyed or all(isinstance(item, Mapping) for item in content.values()):
            if not self._keyed and self._rows and root(self._rows) in content:
                yield 1, None, content
                return
            yield from ((number, key, item) for number, (key, item) in enumerate(content.items(), start=1))
        else:
            yield 1, None, content

    def _objects(self) -> Iterator[tuple[int, Any, Mapping[str, Any]]]:
        """Yield the number, key and object of each row; raise NNDError where it is none."""
        for number, key, row in self._items():
            if not isinstance(row, Mapping):
                place = f"{self.unit} {number}" if key is None else f"entry {key!r}"
                raise NNDError(f"{self.name}, {place}: expected an object with named fields, found {kind(row)}")
            yield number, key, row

    def _where(self, number: int) -> str:
        return self.name if self._whole else f"{self.name}, {self.unit} {max(number, 1)}"

    def read(self, columns: Sequence[str] | None = None) -> Iterator[Batch]:
        numbers: list[int] = []
        keys: list[Any] = []
        rows: list[Mapping[str, Any]] = []
        for number, key, row in self._objects():
            numbers.append(number)
            keys.append(key)
            rows.append(row)
            if len(rows) == BATCH:
                yield self._batch(numbers, keys, rows, columns)
                numbers, keys, rows = [], [], []
        if rows:
            yield self._batch(numbers, keys, rows, columns)

    def _batch(
        self, numbers: list[int], keys: list[Any], rows: list[Mapping[str, Any]], columns: Sequence[str] | None
    ) -> Batch:
        present = dict.fromkeys(name for row in rows for name in row)
        names = present if columns is None else [name for name in columns if name in present]
        found: dict[str, Column] = {name: [row.get(name) for row in rows] for name in names}
        found |= file_columns(self.path, len(rows))
        if keys[0] is None:
            return self.batch(numbers, found)
        listed = len(set(keys)) < len(keys)
        return Batch(
            numbers,
            {KEY: keys, **found},
            lambda i: f"{self.name}, entry {keys[i]!r}" + (f", item {numbers[i]}" if listed else ""),
        )

    def head(self) -> dict[str, list[Any]]:
        """Return column -> its values in the first `HEAD` rows, without reading the rest."""
        numbers, keys, rows = [], [], []
        for number, key, row in self._objects():
            numbers.append(number)
            keys.append(key)
            rows.append(row)
            if len(rows) == HEAD:
                break
        if not rows:
            raise NNDError(f"{self.name}: it holds no row; is it the right file?")
        found = self._batch(numbers, keys, rows, None).columns
        return {name: values if isinstance(values, list) else values.to_pylist() for name, values in found.items()}


def _lines(file: IO[str]) -> Iterator[str]:
    """Yield the lines of a file; one that is too long comes in pieces, each longer than `MAX_LINE`."""
    while line := file.readline(MAX_LINE + 1):
        yield line


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


# ---------------------------------------------------------------- parquet and datasets


def _plain(column: pa.Array) -> pa.Array | list[Any]:
    """Return a column as strings or numbers; what is nested as Python objects."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    sort = column.type
    if pa.types.is_decimal(sort):
        return column.cast(pa.float64())
    if pa.types.is_large_string(sort) or pa.types.is_string_view(sort):
        return column.cast(pa.string())
    if pa.types.is_string(sort) or pa.types.is_integer(sort) or pa.types.is_floating(sort):
        return column
    return list(column.to_pylist())


class _Arrow(Table):
    """A table whose rows come as Arrow batches; rows count from 1."""

    def _batches(self, columns: list[str] | None) -> Iterator[pa.RecordBatch]:
        raise NotImplementedError

    def read(self, columns: Sequence[str] | None = None) -> Iterator[Batch]:
        own = None if columns is None else [name for name in columns if name in (self.known or ()) and name[0] != "@"]
        number = 1
        for batch in self._batches(own):
            self._check(number, batch)
            found = {name: _plain(batch.column(name)) for name in batch.schema.names}
            yield self.batch(
                range(number, number + batch.num_rows), {**found, **file_columns(self.path, batch.num_rows)}
            )
            number += batch.num_rows

    def _check(self, first: int, batch: pa.RecordBatch) -> None:
        """Raise NNDError for a damaged text, which else is found wherever it is first looked at."""
        for name in batch.schema.names:
            try:
                batch.column(name).validate(full=True)
            except pa.ArrowInvalid as error:
                found = re.search(r"index (\d+)", str(error))
                place = f"{self.name}, row {first + int(found[1])}" if found else self.name
                raise NNDError(f"{place}: column {name!r} is damaged ({reason_of(error)}); get the file anew") from None


class _Parquet(_Arrow):
    """A parquet file."""

    def __init__(self, path: Path) -> None:
        import pyarrow.parquet as pq

        super().__init__(str(path), path)
        try:
            names = pq.read_schema(path).names
        except (OSError, ValueError, pa.ArrowException) as error:
            raise self._unreadable(error) from None
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise NNDError(f"{path}: two columns are called {twice[0]!r}; rename one")
        self.known = [*names, FILE, FOLDER]

    def _unreadable(self, error: BaseException) -> NNDError:
        return NNDError(f"{self.name}: cannot be read as parquet ({reason_of(error)})")

    def _batches(self, columns: list[str] | None) -> Iterator[pa.RecordBatch]:
        import pyarrow.parquet as pq

        try:
            with pq.ParquetFile(self.path) as file:
                yield from file.iter_batches(BATCH, columns=columns)
        except (OSError, ValueError, pa.ArrowException) as error:  # ValueError: names that are no UTF-8
            raise self._unreadable(error) from None


class _Excel(Table):
    """The first sheet of an Excel file; rows count from 1 for the header."""

    header = ", row 1"

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), path)
        rows = _sheet(path)
        names = [_cell(cell) for cell in next(rows, ())]
        while names and names[-1] is None:
            names.pop()
        if not names:
            raise NNDError(f"{path}: the first row of its first sheet is empty; it holds the names of the columns")
        kept = [(place, str(name)) for place, name in enumerate(names) if name is not None]
        twice = [name for i, (_, name) in enumerate(kept) if name in [other for _, other in kept[:i]]]
        if twice:
            raise NNDError(f"{path}, row 1: two columns are called {twice[0]!r}; rename one")
        self._numbers: list[int] = []
        self._columns: dict[str, list[Any]] = {name: [] for _, name in kept}
        for number, row in enumerate(rows, start=2):
            cells = [_cell(row[place]) if place < len(row) else None for place, _ in kept]
            if any(cell is not None for cell in cells):
                self._numbers.append(number)
                for cell, column in zip(cells, self._columns.values(), strict=True):
                    column.append(cell)
        self.known = [*self._columns, FILE, FOLDER]

    def read(self, columns: Sequence[str] | None = None) -> Iterator[Batch]:
        """Yield the rows, all at once."""
        found: dict[str, Column] = {n: cells for n, cells in self._columns.items() if columns is None or n in columns}
        yield self.batch(self._numbers, {**found, **file_columns(self.path, len(self._numbers))})


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
            sheet.reset_dimensions()  # what a file says of its size may be wrong
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
    """Return a cell of Excel as text or number, None for an empty one; dates as text."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    text = str(value)
    return text if text.strip() else None


class _Dataset(_Arrow):
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
                f"{source}: is no file, and could not be loaded as a dataset ({reason_of(error)})"
            ) from error
        if isinstance(found, datasets.DatasetDict):
            split = rest[-1] if rest else "test" if "test" in found else next(iter(found))
            if split not in found or (not rest and len(found) > 1 and "test" not in found):
                raise NNDError(f"{source}: name one of its splits as PATH:SPLIT ({', '.join(found)})")
            found = found[split]
        self._rows = found
        self.known = found.column_names

    def _batches(self, columns: list[str] | None) -> Iterator[pa.RecordBatch]:
        rows = self._rows if columns is None else self._rows.select_columns(columns)
        for table in rows.with_format("arrow").iter(BATCH):
            yield from table.combine_chunks().to_batches()
