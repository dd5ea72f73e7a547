"""Read tables strictly into pandas: cells are counted, texts and numbers stay as written, errors name file and row."""

from __future__ import annotations

import csv
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from nnd_tasks.errors import NNDError, reason_of
from nnd_tasks.files import read_bytes
from nnd_tasks.sets.cells import PATH, ROW, kind_of
from nnd_tasks.sets.recipe import FILE, KEY, Recipe
from nnd_tasks.wording import counted
from nnd_tasks.yaml_json import json_lines, parse_json

logger = logging.getLogger(__name__)
#: Endings of the files that hold tables.
SUFFIXES = (".csv", ".tsv", ".tab", ".xlsx", ".json", ".jsonl", ".ndjson", ".parquet")
MAX_BYTES = 1 << 30
_ENCODINGS = ["cp1252", "utf_16", "cp1250", "cp1251", "cp1253", "cp1254", "gb18030", "shift_jis", "big5", "euc_kr"]
_LATIN = ("cp1250", "cp1252", "cp1254", "cp1257", "latin_1", "iso8859_15", "mac_roman")
_HINT = "; is it the right file, and whole?"


class Record(dict[str, Any]):
    """One object of a JSON file; ``where`` is its place, for errors."""

    where: str = ""


class _Progress:
    """The place that was read last, for the error of a ``prepare.py`` that fails there."""

    place = ""


@contextmanager
def naming_place(path: object, tell_more: Callable[[BaseException], str] = lambda error: "") -> Iterator[None]:
    """Turn what goes wrong in the block into one error, which names the file and row that were read last, or ``path``.

    Args:
        path: what is read.
        tell_more: returns what else to say of an error.

    Raises:
        NNDError: the block raised any error.
    """
    _Progress.place = ""
    try:
        yield
    except NNDError:
        raise
    except (Exception, SystemExit) as error:
        known = isinstance(error, KeyError) and error.args
        if known and error.args[0] is ...:
            raise NNDError(f"{path}: a field [...] is still to be named{tell_more(error)}") from error
        what = f"no field {error.args[0]!r}" if known else f"{type(error).__name__}: {reason_of(error)}"
        raise NNDError(f"{_Progress.place or path}: {what}{tell_more(error)}; is it the right file?") from error


# ---------------------------------------------------------------- files


def read_table(path: Path, recipe: Recipe) -> pd.DataFrame:
    """Return the table in a file: one row per row, cells as objects, None for nothing.

    Besides the file's columns there are ``@file`` (its name without the ending), ``@key`` (where the file is an object keyed by
    id), and ``@path`` and ``@row``, which say where a row is: as a spreadsheet counts rows, a JSON Lines file lines, and a JSON
    file items from 1.

    Raises:
        NNDError: it is no such table; a row has too many or too few cells; the error names file and row.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise NNDError(f"{path}: a table ends in one of {', '.join(SUFFIXES)}")
    if suffix in (".csv", ".tsv", ".tab"):
        table = read_delimited(path, encoding=recipe.encoding, quotes=recipe.quotes)
    elif suffix == ".xlsx":
        table = _read_excel(path)
    elif suffix == ".parquet":
        table = _read_parquet(path)
    else:
        table = to_frame(list(read_records(path, encoding=recipe.encoding)), path)
    if not len(table):
        raise NNDError(f"{path}: no row is in it")
    return table.assign(**{FILE: path.name.split(".")[0], PATH: str(path)})


def read_delimited(
    path: Path, delimiter: str | None = None, *, quotes: bool | None = None, encoding: str | None = "utf-8"
) -> pd.DataFrame:
    """Return a CSV or TSV file with a header; all cells are texts, and ``@row`` counts rows as a spreadsheet does.

    Args:
        path: the file.
        delimiter: None takes the tab for .tsv, else whichever of ``, ; | tab`` the header has most of.
        quotes: whether quotes enclose cells; None: they do, unless the rows of a tab-separated file fit only without.
        encoding: None recognises it.

    Raises:
        NNDError: a row has other cells than the header, a quote is not closed, or two columns have one name.
    """
    _Progress.place = str(path)
    text = read_text(path, encoding)
    if delimiter is None:
        head = text.split("\n", 1)
        sizes = {mark: len(next(csv.reader(head, delimiter=mark), [])) for mark in ",;|\t"}
        delimiter = "\t" if path.suffix.lower() in (".tsv", ".tab") else max(sizes, key=lambda mark: sizes[mark])
    if quotes is not None or delimiter != "\t" or '"' not in text:
        return _split_rows(path, text, delimiter, quotes=quotes is not False)
    fitting = []
    for enclosing in (True, False):
        with suppress(NNDError):
            fitting.append(_split_rows(path, text, delimiter, quotes=enclosing))
    if not fitting:
        return _split_rows(path, text, delimiter, quotes=False)
    if len(fitting[0]) != len(fitting[-1]):
        raise NNDError(
            f'{path}: a " may enclose cells of several lines, or be a character; say `quotes: true` or `false` in the recipe'
        )
    return fitting[0]


def _split_rows(path: Path, text: str, delimiter: str, *, quotes: bool) -> pd.DataFrame:
    # Not str.splitlines, which knows more line breaks than tables have.
    lines = iter(text.replace("\r\n", "\n").split("\n"))
    reader: Iterator[list[str]] = (line.split(delimiter) for line in lines)
    if quotes:
        reader = csv.reader((line + "\n" for line in lines), delimiter=delimiter, strict=True)
    return _to_table(path, reader)


def _to_table(path: Path, rows: Iterable[list[Any]]) -> pd.DataFrame:
    """Return rows of cells as a table; the first that is not empty holds the names of columns."""
    names: list[str] = []
    numbers: list[int] = []
    kept: list[list[Any]] = []
    number = 0
    try:
        for number, cells in enumerate(rows, start=1):
            if all(cell == "" for cell in cells):
                continue
            if not names:
                names = [str(name).strip() for name in cells]
                continue
            if not kept and names[-1].startswith("# ") and len(cells) == len(names) - 1:
                names.pop()  # a comment, which no row has a cell for
            if len(cells) != len(names) and (len(cells) < len(names) or any(cells[len(names) :])):
                raise NNDError(f"{path}, row {number}: {counted(len(cells), 'cell')}, the header has {len(names)}")
            numbers.append(number)
            kept.append(cells)
    except csv.Error as error:
        raise NNDError(f"{path}, row {number + 1}: not a valid table ({error}); is a quote not closed?") from None
    if twice := [name for name in names if name and names.count(name) > 1]:
        raise NNDError(f"{path}, row 1: two columns are called {twice[0]!r}; rename one")
    columns = {name: [row[place] for row in kept] for place, name in enumerate(names) if name}
    return pd.DataFrame({**columns, ROW: numbers}, dtype=object)


def _read_excel(path: Path) -> pd.DataFrame:
    try:
        table = pd.read_excel(path, dtype=object, keep_default_na=False, na_filter=False, header=None)
    except ImportError as error:
        raise NNDError(f"{path}: reading .xlsx needs openpyxl: pip install openpyxl") from error
    except Exception as error:  # openpyxl raises many kinds for a file that is no workbook
        raise NNDError(f"{path}: cannot be read as .xlsx ({reason_of(error)})") from error
    return _to_table(path, table.to_numpy(object).tolist())


def _read_parquet(path: Path) -> pd.DataFrame:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
        columns = {name: pd.Series(table.column(name).to_pylist(), dtype=object) for name in table.column_names}
    except (OSError, ValueError, pa.ArrowException) as error:
        raise NNDError(f"{path}: cannot be read as parquet ({reason_of(error)})") from error
    return pd.DataFrame({**columns, ROW: np.arange(1, table.num_rows + 1)})


def read_text(path: Path, encoding: str | None = "utf-8") -> str:
    """Return the text of a file; ``encoding`` None recognises it. Raises NNDError where it is not in this encoding."""
    _Progress.place = str(path)
    content = read_bytes(path, limit=MAX_BYTES)
    if encoding is None:
        encoding = _recognise(content, path)
    try:
        return content.decode("utf-8-sig" if encoding.replace("_", "-").lower() == "utf-8" else encoding).removeprefix(
            "\ufeff"
        )
    except UnicodeDecodeError as error:
        raise NNDError(
            f"{path}: is not {encoding} (byte {error.start:,}); name its encoding with --encoding"
        ) from error


@cache
def _tell_encoding(path: Path, name: str) -> None:
    logger.warning("%s: read as %s; if letters are wrong, name its encoding with --encoding", path, name)


def _recognise(content: bytes, path: Path) -> str:
    with suppress(UnicodeDecodeError):
        content.decode("utf-8")
        return "utf-8"
    from charset_normalizer import from_bytes

    best = from_bytes(content[: 1 << 20], cp_isolation=_ENCODINGS).best()
    if best is None:
        raise NNDError(f"{path}: its encoding is not recognised; name it with --encoding")
    # Single bytes do not tell Latin alphabets apart; nearly all such files are of Windows in western Europe.
    name = "cp1252" if best.encoding in _LATIN else best.encoding
    _tell_encoding(path, name)
    return name


def read_json(path: Path, encoding: str | None = "utf-8") -> Any:
    """Return what a JSON file holds, whole; raise NNDError where it is no JSON, such as a file that was cut off."""
    return parse_json(read_text(path, encoding), str(path), hint="; is it the right file, and whole?")


def read_records(path: Path, encoding: str | None = "utf-8") -> Iterator[Record]:
    """Yield the objects of a JSON Lines file, or of a JSON file that holds a list of them or an object keyed by id.

    An object keyed by id has the key in ``@key``. While one is at hand, an error of ``prepare.py`` names its place.

    Raises:
        NNDError: the file is no such JSON; the error names the line.
    """
    text = read_text(path, encoding)
    for where, key, value in _values(path, text):
        if not isinstance(value, dict):
            raise NNDError(f"{where}: expected an object with fields, found {kind_of(value)}; is it the right file?")
        record = Record(value if key is None else {KEY: key, **value})
        record.where = _Progress.place = where
        yield record
    _Progress.place = str(path)


def _values(path: Path, text: str) -> Iterator[tuple[str, str | None, Any]]:
    if path.suffix.lower() != ".json":
        lines = json_lines(text.split("\n"), str(path), hint=_HINT, skip_blank=True)
        yield from ((where, None, value) for where, value in lines)
        return
    data = parse_json(text, str(path), hint=_HINT)
    if isinstance(data, dict):
        lists = [value for value in data.values() if isinstance(value, list) and value and isinstance(value[0], dict)]
        if len(lists) == 1 and not any(isinstance(value, dict) for value in data.values()):
            data = lists[0]
    if isinstance(data, dict):
        yield from ((f"{path}, key {key!r}", key, value) for key, value in data.items())
    elif isinstance(data, list):
        yield from ((f"{path}, item {number}", None, value) for number, value in enumerate(data, start=1))
    else:
        raise NNDError(f"{path}: expected a list of objects, found {kind_of(data)}; is it the right file?")


def to_frame(records: Sequence[Record], path: Path) -> pd.DataFrame:
    """Return the records of a file as a table of objects, None where a record lacks a field; ``@row`` says ``line 3``."""
    names = dict.fromkeys(name for record in records for name in record)
    columns = {name: pd.Series([record.get(name) for record in records], dtype=object) for name in names}
    places = [record.where.removeprefix(f"{path}, ") for record in records]
    return pd.DataFrame({**columns, ROW: pd.Series(places, dtype=object)})
