"""Read tables strictly into pandas: cells are counted, texts and numbers stay as written, errors name file and row."""

from __future__ import annotations

import csv
import json
import re
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from io import BytesIO, StringIO
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa

from nnd_tasks.errors import NNDError, reason_of
from nnd_tasks.files import DECODER, parse_json, read_bytes, reading_json
from nnd_tasks.schema import is_text, list_texts
from nnd_tasks.tables.cells import FILE, KEY, PATH, ROW, SHEET, kind_of
from nnd_tasks.tables.decode import (
    COMPRESSIONS,
    MAX_BYTES,
    check_unpacked,
    read_text,
    split_ending,
    strip_ending,
    warn_once,
)
from nnd_tasks.text import counted, some_of

if TYPE_CHECKING:
    from nnd_tasks.tables.columns import Columns

_DELIMITED = (".csv", ".tsv", ".tab", ".txt")
_RECORDS = (".json", ".jsonl", ".ndjson")
_RECORD_FILES = tuple(f"{ending}{packed}" for ending in _RECORDS for packed in ("", *COMPRESSIONS))
#: Endings of the tables that are texts.
TEXTS = (*_DELIMITED, *_RECORDS)
#: Endings of the files that hold tables; those of text may be compressed: ``.csv.gz``.
SUFFIXES = (*_DELIMITED, ".xlsx", *_RECORDS, ".parquet")
_HINT = "; is it the right file, and whole?"
_HEAD_ROWS = 20  # rows that tell which character separates cells
_PIECE, _PIECE_ROWS = 1 << 20, 5_000  # characters and rows that are taken at a time


class Record(dict[str, Any]):
    """One object of a JSON file; ``where`` is its place, for errors."""

    where: str = ""


class Progress:
    """The place that was read last, for the error of a ``prepare.py`` that fails there."""

    last_row = ""


# ---------------------------------------------------------------- files


def read_table(path: Path, recipe: Columns | None = None, most: int | None = None) -> pd.DataFrame:
    """Read the table in a file: one row per row, cells as objects, None for nothing.

    Besides the file's columns there are ``@file`` (its name without the ending), ``@key`` (where the file is an object keyed by
    id, or holds several lists of rows), ``@sheet`` (of a workbook with several sheets), and ``@path`` and ``@row``, which say
    where a row is: as a spreadsheet counts rows, a JSON Lines file lines, and a JSON file items from 1. Of several columns of
    one name the later ones are called ``name.1``, ``name.2``.

    Args:
        path: the file.
        recipe: how it is read; without one, as its bytes say.
        most: how many rows of a table of text are read; None for all.

    Raises:
        NNDError: it is no such table; a row has too many or too few cells; the recipe names a column whose name two columns
            have, or that one of several sheets lacks. The error names file and row.
    """
    ending, compression = split_ending(path)
    if ending not in SUFFIXES or (compression and ending not in TEXTS):
        raise NNDError(
            f"{path}: a table ends in one of {', '.join(SUFFIXES)}; those of text may be packed: .csv.gz; for any "
            "other file write a prepare.py (docs/contribute.md)"
        )
    if ending == ".xlsx":
        table = _read_excel(path, recipe)
    else:
        table = _read_again(path, _stamp(path), recipe.encoding if recipe else None, most)
    if not len(table):
        raise NNDError(f"{path}: no row is in it")
    if repeated := [name for name in table.attrs.get("repeated", ()) if name in named_columns(recipe)]:
        raise NNDError(f"{path}, row 1: two columns are called {repeated[0]!r}; rename one")
    # As objects, of which all rows have the same one.
    names = {FILE: strip_ending(path), PATH: str(path)}
    return table.assign(**{name: pd.Series(text, table.index, dtype=object) for name, text in names.items()})


def _stamp(path: Path) -> tuple[int, ...]:
    """What tells that a file is still the one that it was."""
    state = path.stat() if path.is_file() else None
    return (state.st_ino, state.st_size, state.st_mtime_ns) if state else ()


@lru_cache(maxsize=1)
def _read_again(path: Path, _: tuple[int, ...], encoding: str | None, most: int | None) -> pd.DataFrame:
    """Read a table of text or parquet, or give the one that was read last if it is that: `nnd new` looks at it several times."""
    ending = split_ending(path)[0]
    if ending in _DELIMITED:
        return read_delimited(path, encoding=encoding, most=most)
    return _read_parquet(path) if ending == ".parquet" else _read_objects(path, encoding)


def forget_table() -> None:
    """Let go of the table that was read last, and of a text that was kept."""
    _read_again.cache_clear()
    _kept.clear()


_kept: dict[tuple[Any, ...], str] = {}  # the text of the file whose first rows were read last


def _take_text(path: Path, encoding: str | None, *, keep: bool) -> str:
    """Read the text of a file; with ``keep`` the next call may have it again, as the first rows of a file tell how it is read."""
    key = (path, *_stamp(path), encoding)
    text = _kept.pop(key, None)
    _kept.clear()
    if text is None:
        text = read_text(path, encoding)
    if keep:
        _kept[key] = text
    return text


def read_tables(paths: Iterable[Path], recipe: Columns) -> pd.DataFrame:
    """Read the tables in files as one table, but for the files whose names ``leave_out`` has; the first one, if it has all."""
    left_out = [name.strip().casefold() for name in recipe.leave_out.get(FILE, ())]
    paths = [*paths]
    used = [path for path in paths if strip_ending(path).casefold() not in left_out] or paths[:1]
    return pd.concat([read_table(path, recipe) for path in used], ignore_index=True)


def check_reading(recipe: Columns, files: Iterable[str]) -> None:
    """Raise NNDError where the recipe names the encoding of files of text, and there are none."""
    if recipe.encoding and all(split_ending(Path(file))[0] not in TEXTS for file in files):
        raise NNDError(f"encoding: used for {', '.join(TEXTS)} only; leave it out")


def named_columns(recipe: Columns | None) -> list[str]:
    """List the names of all columns that a recipe names, each once."""
    if recipe is None:
        return []
    columns = [column for _, column in recipe.list_columns()]
    columns += recipe.spans.columns if recipe.spans else []
    return list(dict.fromkeys([*columns, *recipe.group, *recipe.systems, *recipe.field.values(), *recipe.leave_out]))


# ---------------------------------------------------------------- tables of text


def read_delimited(
    path: Path,
    delimiter: str | None = None,
    *,
    quotes: bool | None = None,
    encoding: str | None = "utf-8",
    most: int | None = None,
) -> pd.DataFrame:
    """Read a CSV or TSV file with a header; all cells are texts, and ``@row`` counts rows as a spreadsheet does.

    Line ends within quotes stay as they are, as positions of error spans count them.

    Args:
        path: the file.
        delimiter: None takes what a first line ``sep=;`` names, else whichever of ``, ; | tab`` splits the first rows into as
            many cells as the header.
        quotes: whether quotes enclose cells; None: they do, unless the rows of a tab-separated file fit only without.
        encoding: None recognises it.
        most: how many rows are read, the header and empty ones included; None for all.

    Raises:
        NNDError: a row has other cells than the header, or a quote is not closed.
    """
    text, delimiter = _read_lines(path, delimiter, encoding, keep=most is not None)

    def split(*, quotes: bool) -> pd.DataFrame:
        return _to_table(path, islice(_split_rows(text, delimiter, quotes=quotes), most), texts=True)

    if quotes is not None or delimiter != "\t" or '"' not in text:
        return split(quotes=quotes is not False)
    fitting = []
    for enclosing in (True, False):
        with suppress(NNDError):
            fitting.append(split(quotes=enclosing))
    if not fitting:
        return split(quotes=False)
    if len(fitting[0]) != len(fitting[-1]) and most is None:
        raise NNDError(
            f'{path}: a " may enclose cells of several lines, or be a character; say which in a prepare.py: '
            "read_delimited(path, quotes=True) or quotes=False"
        )
    return fitting[0]


def _read_lines(path: Path, delimiter: str | None, encoding: str | None, *, keep: bool) -> tuple[str, str]:
    """Read the text of a CSV or TSV file, and which character separates its cells."""
    csv.field_size_limit(MAX_BYTES)  # the module's own, 131,072 characters, is less than long documents have
    Progress.last_row = str(path)
    text = _take_text(path, encoding, keep=keep)
    if "\n" not in text:
        text = text.replace("\r", "\n")  # the line ends of old Macs
    first_line = re.match(r'"?sep=(.)"?\r?\n', text, re.IGNORECASE)
    if first_line:  # written for Excel, which does not show it as a row
        text = text[first_line.end() :]
        delimiter = delimiter or first_line[1]
    return text, delimiter or _find_delimiter(path, text)


def read_cells(path: Path) -> Iterator[tuple[int, list[Any]]]:
    """Yield the number and the cells of each row of a CSV, TSV or XLSX file that is not empty, the header like all others.

    Of a workbook it is the first sheet; `read_sheets` reads all.

    Raises:
        NNDError: it cannot be read as such a file.
    """
    yield from next(iter(read_sheets(path).values()))


def read_sheets(path: Path) -> dict[str, Iterator[tuple[int, list[Any]]]]:
    """Read the rows of each sheet of a workbook by its name, as `read_cells` gives them; a text is one sheet without a name."""
    if split_ending(path)[0] == ".xlsx":
        sheets: Mapping[str, Iterable[list[Any]]] = _read_sheets(path)
    else:
        text, delimiter = _read_lines(path, None, None, keep=True)
        sheets = {"": _split_rows(text, delimiter, strict=False)}
    return {
        name: ((number, cells) for number, cells in enumerate(rows, start=1) if any(cell != "" for cell in cells))
        for name, rows in sheets.items()
    }


def _find_delimiter(path: Path, text: str) -> str:
    """Find the character that splits most of the first rows into as many cells as the header, and the header into most."""
    delimiters = ",;|\t" if split_ending(path)[0] == ".csv" else "\t,;|"

    def rate(delimiter: str) -> tuple[float, int]:
        reader = _split_rows(text, delimiter, strict=False)
        header, *rows = [row for row in islice(reader, _HEAD_ROWS) if row] or [[]]
        names = header[:-1] if header and header[-1].startswith("# ") else header
        fitting = [row for row in rows if len(row) >= len(names) and not any(row[len(header) :])]
        return (len(fitting) / max(len(rows), 1), len(header)) if len(header) > 1 else (0, 0)

    rates = {delimiter: rate(delimiter) for delimiter in delimiters}
    best = max(rates, key=lambda delimiter: rates[delimiter])
    if not rates[best][1] and split_ending(path)[0] == ".txt":
        raise NNDError(
            f"{path}: no table, as no tab, comma, semicolon or | separates its first line; is it the right file?"
        )
    return best


def _split_rows(text: str, delimiter: str, *, quotes: bool = True, strict: bool = True) -> Iterator[list[str]]:
    """Yield the cells of each row; of a long text only a piece is split at a time."""
    if quotes:
        # StringIO, as str.splitlines knows more line breaks than tables have; it takes four bytes for each character.
        lines = chain.from_iterable(StringIO(piece, newline="") for piece in _pieces(text))
        return csv.reader(lines, delimiter=delimiter, strict=strict)
    pieces = (re.split("\r?\n", piece.removesuffix("\n").removesuffix("\r")) for piece in _pieces(text))
    return (line.split(delimiter) for line in chain.from_iterable(pieces))


def _pieces(text: str) -> Iterator[str]:
    """Yield a text in pieces of whole lines."""
    start = 0
    while start < len(text):
        end = text.find("\n", start + _PIECE) + 1 or len(text)
        yield text[start:end]
        start = end


def _to_table(path: Path, rows: Iterable[list[Any]], *, texts: bool = False) -> pd.DataFrame:
    """Make a table of rows of cells; the first that is not empty holds the names of columns.

    Args:
        path: for errors.
        rows: all of one kind.
        texts: whether all cells are texts; equal ones that stand near each other become one object.
    """
    names: list[str] = []
    numbers: list[int] = []
    columns: list[list[Any]] = []
    once: dict[Any, Any] = {}
    number = header = 0
    try:
        for number, cells in enumerate(rows, start=1):
            if cells.count("") == len(cells):
                continue
            if not names:
                names = [str(name).strip() for name in cells]
                columns = [[] for _ in names]
                header = number
                continue
            if cells == names and len(names) > 1:
                raise NNDError(f"{path}, row {number}: the header again, as where files are joined; delete this row")
            if len(cells) != len(names):
                if names[-1].startswith("# ") and len(cells) == len(names) - 1:
                    cells = [*cells, ""]  # it may be a comment, which no row has a cell for
                if len(cells) < len(names) or any(cells[len(names) :]):
                    raise NNDError(f"{path}, row {number}: {counted(len(cells), 'cell')}, the header has {len(names)}")
            numbers.append(number)
            for column, cell in zip(columns, cells, strict=False):
                column.append(once.setdefault(cell, cell) if texts else cell)
            if number % _PIECE_ROWS == 0:
                once.clear()
    except csv.Error as error:
        raise NNDError(f"{path}, row {number + 1}: not a valid table ({error}); is a quote not closed?") from None
    if names and names[-1].startswith("# ") and not any(columns[-1]):
        names.pop()
        columns.pop()
    # The first column may be an index, which pandas writes without a name.
    nameless = [i for i, name in enumerate(names) if i and not name and any(cell != "" for cell in columns[i])]
    if nameless and 2 * len(nameless) >= len(names):
        raise NNDError(
            f"{path}, row {header}: {counted(len(nameless), 'column')} without a name; the first row names all columns, so "
            "delete titles above it"
        )
    return _name_columns(names, columns, numbers)


def _name_columns(names: Sequence[str], columns: Sequence[Sequence[Any]], row_numbers: Sequence[int]) -> pd.DataFrame:
    """Make a table of named columns, with ``@row``; ``attrs["repeated"]`` has the names that several columns have.

    The later columns of one name are called as pandas does: ``name.1``. Columns without a name are left out.
    """
    total, seen = Counter(names), Counter[str]()
    cells: dict[str, Any] = {}
    for name, column in zip(names, columns, strict=True):
        if name:
            later = f"{name}.{seen[name]}" if seen[name] else name
            cells.setdefault(later, pd.Series(column, dtype=object))
            seen[name] += 1
    table = pd.DataFrame({**cells, ROW: pd.Series(row_numbers, dtype=object)})
    table.attrs["repeated"] = [name for name in seen if total[name] > 1]
    return table


# ---------------------------------------------------------------- workbooks and parquet


def _read_sheets(path: Path) -> dict[str, list[list[Any]]]:
    """Read the cells of each sheet of a workbook; what rows share in merged cells, each of them has."""
    try:
        with zipfile.ZipFile(BytesIO(read_bytes(path, limit=MAX_BYTES))) as bundle:
            check_unpacked(path, sum(info.file_size for info in bundle.infolist()))
        with pd.ExcelFile(path, engine_kwargs={"read_only": False}) as book:
            sheets = book.book.worksheets
            names = [sheet.title for sheet in sheets]
            cells = pd.read_excel(book, names, dtype=object, keep_default_na=False, na_filter=False, header=None)
            for sheet in sheets:
                for merged in sheet.merged_cells.ranges:
                    rows, column = slice(merged.min_row - 1, merged.max_row), merged.min_col - 1
                    cells[sheet.title].iloc[rows, column] = cells[sheet.title].iat[rows.start, column]
    except ImportError as error:
        raise NNDError(f"{path}: reading .xlsx needs openpyxl: pip install openpyxl") from error
    except NNDError:
        raise
    except Exception as error:  # openpyxl raises many kinds for a file that is no workbook
        raise NNDError(f"{path}: is cut short, or no .xlsx file ({reason_of(error)}); save it again") from error
    return {name: sheet.to_numpy(object).tolist() for name, sheet in cells.items()}


def _read_excel(path: Path, recipe: Columns | None) -> pd.DataFrame:
    sheets = {name: _to_table(path, rows) for name, rows in _read_sheets(path).items()}
    sheets = {name: sheet for name, sheet in sheets.items() if len(sheet)} or sheets
    return next(iter(sheets.values())) if len(sheets) == 1 else _join_sheets(path, sheets, recipe)


def _join_sheets(path: Path, sheets: Mapping[str, pd.DataFrame], recipe: Columns | None) -> pd.DataFrame:
    """Join the rows of several sheets, with the sheet's name in ``@sheet`` and in ``@row``.

    Raises:
        NNDError: a sheet lacks a column that the recipe names and another has, and the recipe does not leave the sheet out.
    """
    all_names = {name for sheet in sheets.values() for name in sheet}
    left_out = [value.strip().casefold() for value in (recipe.leave_out if recipe else {}).get(SHEET, ())]
    for name, sheet in sheets.items():
        lacking = [column for column in named_columns(recipe) if column in all_names and column not in sheet]
        if lacking and name.strip().casefold() not in left_out:
            raise NNDError(
                f"{path}, sheet {name!r}: no column {lacking[0]!r}; there are: {some_of(list(sheet)[:-1], show=str)}; if it "
                f"holds no judgements: --leave-out '{SHEET}={name}'"
            )
    named = [
        sheet.assign(**{SHEET: name, ROW: [f"sheet {name!r}, row {row}" for row in sheet[ROW]]})
        for name, sheet in sheets.items()
    ]
    table = pd.concat(named, ignore_index=True).astype(object)
    table = table.where(table.notna(), None)
    table.attrs["repeated"] = [name for sheet in sheets.values() for name in sheet.attrs["repeated"]]
    return table


def _read_parquet(path: Path) -> pd.DataFrame:
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
        columns = [list_texts(column) if is_text(column) else column.to_pylist() for column in table.columns]
        features = _read_features(table.schema.metadata or {})
        for number, name in enumerate(table.column_names):
            if "'ClassLabel'" in repr(features.get(name)):
                columns[number] = [_name_classes(cell, features[name]) for cell in columns[number]]
    except (OSError, ValueError, pa.ArrowException) as error:
        raise NNDError(f"{path}: cannot be read as parquet ({reason_of(error)})") from error
    return _name_columns(table.column_names, columns, range(1, table.num_rows + 1))


#: Name of a type in Arrow -> in `datasets`, where that is another.
_NAMES_OF_TYPES = {"double": "float64", "float": "float32", "halffloat": "float16", "date32[day]": "date32"}


def _read_features(metadata: Mapping[bytes, bytes]) -> dict[str, Any]:
    """Read what `datasets` says of columns: ``{"label": {"_type": "ClassLabel", "names": ["no", "yes"]}}``."""
    with suppress(ValueError, KeyError, TypeError):
        features = json.loads(metadata[b"huggingface"])["info"]["features"]
        return features if isinstance(features, dict) else {}
    return {}


def describe_features(schema: pa.Schema) -> dict[str, str]:
    """Write the metadata of a parquet file in which `datasets`, which takes a second to import, finds its features."""
    features = {field.name: _describe_type(field.type) for field in schema}
    return {"huggingface": json.dumps({"info": {"features": features}})}


def _describe_type(kind: pa.DataType) -> dict[str, Any]:
    if pa.types.is_list(kind):
        return {"feature": _describe_type(kind.value_type), "_type": "List"}
    if pa.types.is_struct(kind):
        return {field.name: _describe_type(field.type) for field in kind}
    return {"dtype": _NAMES_OF_TYPES.get(str(kind), str(kind)), "_type": "Value"}


def _name_classes(cell: Any, feature: Any) -> Any:
    """Give the name of a class in the place of its number, at any depth; -1 stands for none."""
    if isinstance(feature, list) and feature:
        feature = {"_type": "List", "feature": feature[0]}
    if cell is None or not isinstance(feature, dict):
        return cell
    if feature.get("_type") == "ClassLabel":
        names = feature.get("names") or []
        return names[cell] if 0 <= cell < len(names) else None if cell == -1 else cell
    inner = feature.get("feature", feature)
    if isinstance(cell, list):
        return [_name_classes(item, inner) for item in cell]
    if isinstance(cell, dict):
        return {name: _name_classes(value, inner.get(name)) for name, value in cell.items()}
    return cell


# ---------------------------------------------------------------- records


def read_json(path: Path, encoding: str | None = "utf-8") -> Any:
    """Read what a JSON file holds, whole; raise NNDError where it is no JSON, such as a file that was cut off."""
    return parse_json(read_text(path, encoding), str(path), hint=_HINT)


def read_records(path: Path, encoding: str | None = "utf-8", most: int | None = None) -> Iterator[Record]:
    """Yield the rows of a table as objects.

    Of JSON Lines and JSON they are the objects that `find_rows` finds. An object keyed by id, and one
    of several lists, has the key in ``@key``. While one is at hand, an error of ``prepare.py`` names its place.

    Args:
        path: the file.
        encoding: of JSON; that of csv and tsv is recognised.
        most: rows of a table of text that are read at least; None for all.

    Raises:
        NNDError: the file is no such table or JSON; the error names the line.
    """
    if not path.name.lower().endswith(_RECORD_FILES):
        for row in read_table(path, most=most).drop(columns=[FILE, PATH]).to_dict("records"):
            place = row.pop(ROW)
            record = Record(row)
            record.where = Progress.last_row = f"{path}, {place if isinstance(place, str) else f'row {place}'}"
            yield record
        return
    for place, value in _values(path, encoding, keep=most is not None):
        record = Record(value)
        record.where = Progress.last_row = f"{path}, {place}"
        yield record
    Progress.last_row = str(path)


def _read_objects(path: Path, encoding: str | None) -> pd.DataFrame:
    """Read the objects of a JSON file as a table, None where one lacks a field; ``@row`` says ``line 3``."""
    places: list[str] = []
    columns: dict[str, list[Any]] = {}
    once: dict[str, str] = {}
    for place, value in _values(path, encoding, keep=False):
        if value.keys() != columns.keys():
            for name in value:
                columns.setdefault(name, [None] * len(places))
            value = {name: value.get(name) for name in columns}
        for name, cell in value.items():
            # Equal texts that stand near each other become one object; nan is nothing.
            columns[name].append(once.setdefault(cell, cell) if type(cell) is str else None if cell != cell else cell)
        places.append(place)
        if len(places) % _PIECE_ROWS == 0:
            once.clear()
    return pd.DataFrame({name: pd.Series(cells, dtype=object) for name, cells in {**columns, ROW: places}.items()})


def _values(path: Path, encoding: str | None, *, keep: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the place and the object of each record of a JSON file; one with a key has it in ``@key``."""
    text = _take_text(path, encoding, keep=keep)
    values = _parse_json_texts(text, str(path))
    first_two = [*islice(values, 2)]
    document = first_two[0][1]
    is_row = split_ending(path)[0] != ".json" and "\n" not in text.strip() and isinstance(document, dict)
    rows: Iterable[tuple[str, str | None, Any]]
    if len(first_two) > 1 or is_row:
        rows = ((f"line {line}", None, value) for line, value in chain(first_two, values))
    elif isinstance(document, (list, dict)):
        rows = find_rows(document, path.name)
    else:
        raise NNDError(f"{path}: expected a list of objects, found {kind_of(document)}; is it the right file?")
    for place, key, value in rows:
        if not isinstance(value, dict):
            raise NNDError(
                f"{path}, {place}: expected an object with fields, found {kind_of(value)}; is it the right file?"
            )
        yield place, value if key is None else {KEY: key, **value}


def _parse_json_texts(text: str, source: str) -> Iterator[tuple[int, Any]]:
    """Parse JSON texts that stand one after the other, as the lines of JSON Lines; yield where each begins, and its value.

    Raises:
        NNDError: as `nnd_tasks.files.parse_json`.
    """
    line, earlier, end = 1, 0, 0
    skip_space = re.compile(r"[ \t\r\n]*").match
    while (start := skip_space(text, end).end()) < len(text) or not end:  # type: ignore[union-attr]
        line += text.count("\n", earlier, start)
        try:
            value, end = DECODER.scan_once(text, start)  # type: ignore[attr-defined]
        except (StopIteration, ValueError, RecursionError):
            with reading_json(f"{source}, line {line}" if end else source, _HINT):
                DECODER.raw_decode(text, start)
        yield line, value
        earlier = start


def find_rows(document: Any, source: str) -> Iterator[tuple[str, str | None, Any]]:
    """Yield the place, the key and the value of each row of a JSON document.

    A document is a list of rows; an object with rows under their ids; an object with lists of rows, of which each row of
    several has the list's name as its key; or what pandas' ``to_json`` and ``to_dict`` write.

    Args:
        document: what `json.loads` returns.
        source: the name of the file, for a warning about what holds no rows.
    """
    table = _read_pandas(document) if isinstance(document, dict) else document
    if table is not None:
        noun = "item" if table is document else "row"
        yield from ((f"{noun} {number}", None, row) for number, row in enumerate(table, start=1))
        return
    lists = _find_lists(document)
    if not lists:
        yield from ((f"key {key!r}", key, value) for key, value in document.items())
        return
    unread = [key for key, value in document.items() if key not in lists and isinstance(value, (dict, list)) and value]
    if unread and set(document) != {"schema", "data"}:  # pandas' orient="table" has a schema
        warn_once(f"{source}: the rows are under {some_of([*lists])}; {some_of(unread)} is not read")
    for key, rows in lists.items():
        for number, row in enumerate(rows, start=1):
            if len(lists) == 1:
                yield f"item {number}", None, row
            else:
                yield f"key {key!r}, item {number}", key, row


def _find_lists(document: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Find the lists of objects in an object; none where its other entries are objects of one kind, which are rows."""
    objects = [frozenset(value) for value in document.values() if isinstance(value, dict)]
    if len(set(objects)) < len(objects):
        return {}
    return {
        key: value
        for key, value in document.items()
        if isinstance(value, list) and value and isinstance(value[0], dict)
    }


def _read_pandas(document: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Read the rows of an object that holds columns, as pandas' ``to_json`` and ``to_dict("list")`` write it; else None."""
    columns = [*document.values()]
    if columns and all(isinstance(column, list) for column in columns):
        holds_rows = all(isinstance(cell, dict) for column in columns for cell in column)
        is_table = len({*map(len, columns)}) == 1 and not holds_rows
    else:  # {"text": {"0": "a", "1": "b"}}: the keys of a column number its rows
        is_table = bool(columns and columns[0]) and all(
            isinstance(column, dict) and list(column) == list(columns[0]) and all(map(str.isdecimal, column))
            for column in columns
        )
        is_table = is_table and not all(map(str.isdecimal, document))
    return pd.DataFrame(document, dtype=object).to_dict("records") if is_table else None
