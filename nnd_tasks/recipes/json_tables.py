"""JSON and JSON Lines files as tables."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any

from nnd_tasks.errors import NNDError
from nnd_tasks.files import reading
from nnd_tasks.recipes.base_table import BATCH, HEAD, Batch, Table
from nnd_tasks.recipes.cells import Column, kind, root
from nnd_tasks.recipes.decoding import decode, encoding_of, undecodable
from nnd_tasks.recipes.recipe import KEY, Recipe
from nnd_tasks.recipes.records import RIGHT_FILE
from nnd_tasks.yaml_json import load_json

#: Characters of a line of JSON Lines.
MAX_LINE = 1 << 28
_BLANK = "\ufeff \t\r\n"


class JSONTable(Table):
    """Rows that are objects: one per line, in an array, alone, or in an object of objects (or of lists of them) keyed by id."""

    unit = "line"

    def __init__(self, path: Path, recipe: Recipe) -> None:
        super().__init__(str(path), path)
        self._path = path
        self._encoding = encoding_of(path, recipe, self.notes)
        self._rows = recipe.rows
        self._keyed = KEY in recipe.columns()
        with path.open(encoding=self._encoding, errors="replace", newline="\n") as file:
            lines = (text for line in _lines(file) if (text := line.strip(_BLANK)))
            start, more = next(lines, ""), next(lines, None)
        alone = more is None and path.suffix.lower() == ".json"  # else one object per line
        self._whole = start.startswith("[") or (start.startswith("{") and (alone or not _is_json(start)))
        if self._whole:
            self.unit = "item"

    def _items(self) -> Iterator[tuple[int, Any, Any]]:
        """Yield the number, the key (None without one) and the value of each row."""
        with reading(self.name):
            try:
                if self._whole:
                    yield from self._entries(load_json(decode(self._path, self._encoding), self.name, hint=RIGHT_FILE))
                    return
                with self._path.open(encoding=self._encoding, newline="\n") as file:
                    for number, line in enumerate(_lines(file), start=1):
                        where = f"{self.name}, line {number}"
                        if len(line) > MAX_LINE:
                            raise NNDError(f"{where}: longer than {MAX_LINE >> 20} million characters")
                        if line.strip(_BLANK):
                            yield number, None, load_json(line.removeprefix("\ufeff"), where, hint=RIGHT_FILE)
            except UnicodeDecodeError:
                raise undecodable(self._path, self._encoding) from None

    def _entries(self, content: Any) -> Iterator[tuple[int, Any, Any]]:
        """Yield number, key and value of each row of a file that is one JSON value."""
        if isinstance(content, list) and not self._keyed:
            yield from ((number, None, item) for number, item in enumerate(content, start=1))
            return
        if not isinstance(content, dict):
            if self._keyed:
                raise NNDError(f"{self.name}: expected an object with named fields, found {kind(content)}")
            yield 1, None, content
            return
        values = content.values()
        lists = bool(content) and all(isinstance(v, list) and v and isinstance(v[0], Mapping) for v in values)
        objects = self._keyed or all(isinstance(value, Mapping) for value in values)
        in_rows = self._rows is not None and root(self._rows) in content  # the recipe takes the list apart itself
        if (lists and in_rows) or (not lists and not self._keyed and (in_rows or not objects)):
            yield 1, None, content
        elif lists:  # {"data": [...]}, or a list of rows of each system
            for key, items in content.items():
                yield from ((number, key, item) for number, item in enumerate(items, start=1))
        else:
            yield from ((number, key, item) for number, (key, item) in enumerate(content.items(), start=1))

    def _objects(self) -> Iterator[tuple[int, Any, Mapping[str, Any]]]:
        """Yield the number, key and object of each row; raise NNDError for a row that is not an object."""
        for number, key, row in self._items():
            if not isinstance(row, Mapping):
                place = f"{self.unit} {number}" if key is None else f"entry {key!r}"
                raise NNDError(f"{self.name}, {place}: expected an object with named fields, found {kind(row)}")
            yield number, key, row

    def read(self, columns: Sequence[str] | None = None, size: int = BATCH) -> Iterator[Batch]:
        """Yield the rows, ``size`` at a time."""
        rows = self._objects()
        while piece := list(islice(rows, size)):
            yield self._batch(piece, columns)

    def _start(self) -> Iterator[Batch]:
        return self.read(size=HEAD)

    def _batch(self, piece: list[tuple[int, Any, Mapping[str, Any]]], columns: Sequence[str] | None) -> Batch:
        numbers, keys, rows = map(list, zip(*piece, strict=True))
        present = dict.fromkeys(name for row in rows for name in row)
        wanted = present if columns is None else [name for name in columns if name in present]
        names = wanted or list(present)[:12]  # of a wrong file: an error names what it has
        cells: dict[str, Column] = {name: [row.get(name) for row in rows] for name in names}
        batch = self.batch(numbers, cells)
        if keys[0] is None:
            return batch
        listed = len(set(keys)) < len(keys)
        return Batch(
            numbers,
            {KEY: keys, **batch.columns},
            lambda i: f"{self.name}, entry {keys[i]!r}" + (f", item {numbers[i]}" if listed else ""),
        )


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
