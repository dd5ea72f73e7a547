"""Parquet files and datasets of the `datasets` library as tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from nnd_tasks.errors import NNDError, reason_of
from nnd_tasks.files import expand
from nnd_tasks.recipes.base_table import BATCH, Batch, Table
from nnd_tasks.recipes.cells import Column
from nnd_tasks.recipes.recipe import FILE, FOLDER


def _plain(column: pa.Array) -> Column:
    """Return a column of strings or numbers as an array of a plain type; nested values as Python objects."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    arrow_type = column.type
    if pa.types.is_decimal(arrow_type):
        return column.cast(pa.float64())
    if pa.types.is_large_string(arrow_type) or pa.types.is_string_view(arrow_type):
        return column.cast(pa.string())
    if pa.types.is_string(arrow_type) or pa.types.is_integer(arrow_type) or pa.types.is_floating(arrow_type):
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
            cells = {name: _plain(batch.column(name)) for name in batch.schema.names}
            yield self.batch(range(number, number + batch.num_rows), cells)
            number += batch.num_rows

    def _check(self, first: int, batch: pa.RecordBatch) -> None:
        """Raise NNDError for a damaged text; later steps would fail on it without naming the row."""
        for name in batch.schema.names:
            try:
                batch.column(name).validate(full=True)
            except pa.ArrowInvalid as error:
                index = re.search(r"index (\d+)", str(error))
                place = f"{self.name}, row {first + int(index[1])}" if index else self.name
                raise NNDError(
                    f"{place}: column {name!r} is damaged ({reason_of(error)}); download the file again"
                ) from None


class Parquet(_Arrow):
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
        except (OSError, ValueError, pa.ArrowException) as error:  # ValueError: names that are not UTF-8
            raise self._unreadable(error) from None


class HubDataset(_Arrow):
    """A dataset of the hub, or a folder that `datasets` can load."""

    def __init__(self, source: str) -> None:
        import datasets

        super().__init__(source, None)
        path, *rest = source.split(":")
        if len(rest) > 2:
            raise NNDError(f"{source}: write PATH, PATH:SPLIT or PATH:CONFIG:SPLIT")
        data: Any
        try:
            if any((expand(path) / name).exists() for name in ("dataset_info.json", "dataset_dict.json")):
                data = datasets.load_from_disk(str(expand(path)))
            else:
                data = datasets.load_dataset(path, rest[0] if len(rest) == 2 else None)
        except Exception as error:  # datasets and the hub raise many kinds
            raise NNDError(
                f"{source}: is not a file, and could not be loaded as a dataset ({reason_of(error)})"
            ) from error
        if isinstance(data, datasets.DatasetDict):
            split = rest[-1] if rest else "test" if "test" in data else next(iter(data))
            if split not in data or (not rest and len(data) > 1 and "test" not in data):
                raise NNDError(f"{source}: name one of its splits as PATH:SPLIT ({', '.join(data)})")
            data = data[split]
        self._rows = data
        self.known = data.column_names

    def _batches(self, columns: list[str] | None) -> Iterator[pa.RecordBatch]:
        rows = self._rows if columns is None else self._rows.select_columns(columns)
        for table in rows.with_format("arrow").iter(BATCH):
            yield from table.combine_chunks().to_batches()
