"""Open a table of any common format: CSV, TSV, JSON Lines, JSON, parquet, Excel, or a path for `datasets`."""

from __future__ import annotations

from pathlib import Path

from nnd_tasks.errors import NNDError
from nnd_tasks.files import expand, reading
from nnd_tasks.recipes.arrow_tables import HubDataset, Parquet
from nnd_tasks.recipes.base_table import Table
from nnd_tasks.recipes.delimited import DELIMITERS, Delimited
from nnd_tasks.recipes.excel import Excel
from nnd_tasks.recipes.json_tables import JSONTable
from nnd_tasks.recipes.recipe import Recipe

#: Bytes of a human evaluation; a larger file is something else.
MAX_BYTES = 4 << 30
_JSON = {".jsonl", ".ndjson", ".json"}
_EXCEL = {".xlsx", ".xlsm"}
#: Endings of the files that are tables.
SUFFIXES = {*DELIMITERS, *_JSON, *_EXCEL, ".parquet"}


def open_table(source: str, recipe: Recipe | None = None) -> Table:
    """Return the table in a file, in a folder that `datasets` wrote, or on the hub.

    Args:
        source: a file, or for a dataset ``PATH``, ``PATH:SPLIT`` or ``PATH:CONFIG:SPLIT``.
        recipe: may name the encoding of the file and say what quotes mean.

    Raises:
        NNDError: there is no such table, or its format is not known.
    """
    path = expand(source)
    with reading(path):
        if path.is_file():
            return _open_file(path, recipe or Recipe())
    if path.suffix.lower() in SUFFIXES:
        raise NNDError(f"{path}: {'a folder, not a file' if path.is_dir() else 'no such file'}")
    return HubDataset(source)


def _open_file(path: Path, recipe: Recipe) -> Table:
    size = path.stat().st_size
    if size == 0 or (size < 4096 and not path.read_bytes().strip()):
        raise NNDError(f"{path}: the file is empty")
    if size > MAX_BYTES:
        raise NNDError(f"{path}: larger than {MAX_BYTES >> 30} GiB, this cannot be the file of judgements")
    suffix = path.suffix.lower()
    if suffix in DELIMITERS:
        return Delimited(path, recipe)
    if suffix in _JSON:
        return JSONTable(path, recipe)
    if suffix == ".parquet":
        return Parquet(path)
    if suffix in _EXCEL:
        return Excel(path)
    raise NNDError(f"{path}: a table is a file .csv, .tsv, .jsonl, .json, .parquet or .xlsx, or a path for `datasets`")
