"""Objects of JSON files, with accessors whose errors name the file, the row and the field."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nnd_tasks.errors import NNDError
from nnd_tasks.files import read_bytes
from nnd_tasks.recipes.cells import kind, short_repr
from nnd_tasks.yaml_json import json_lines

MAX_BYTES = 1 << 30  # a human evaluation of more than 1 GiB is some other file
#: Ends the error of a file that is not in the expected format.
RIGHT_FILE = "; is it the right file?"


class Record:
    """A mapping read from a file; its accessors raise NNDError when a field is missing or of another type."""

    __slots__ = ("_data", "where")

    def __init__(self, data: Any, where: str) -> None:
        """Wrap ``data``; raise NNDError when it is not a mapping."""
        if not isinstance(data, Mapping):
            raise NNDError(f"{where}: expected an object with named fields, found {kind(data)}")
        self._data = data
        self.where = where

    def __contains__(self, name: str) -> bool:
        """Tell whether the field exists."""
        return name in self._data

    def get(self, name: str) -> Any:
        """Return the raw value of a field that must exist."""
        try:
            return self._data[name]
        except KeyError:
            known = ", ".join(map(str, list(self._data)[:12]))
            raise NNDError(f"{self.where}: field {name!r} is missing (found: {known}); is it the right file?") from None

    def text(self, name: str) -> str:
        """Return a string field."""
        return check_text(self.get(name), f"{self.where}, field {name!r}")

    def label(self, name: str) -> str:
        """Return a string field that is not empty."""
        text = self.text(name)
        if not text:
            raise NNDError(f"{self.where}, field {name!r}: it is empty")
        return text

    def number(self, name: str) -> float:
        """Return a field that is a finite number, or a text that can be read as one."""
        value = self.get(name)
        try:
            if isinstance(value, bool) or not isinstance(value, (int, float, str)):
                raise ValueError
            result = float(value)
            if not math.isfinite(result):
                raise ValueError
        except (ValueError, OverflowError):
            raise NNDError(f"{self.where}, field {name!r}: expected a number, found {short_repr(value)}") from None
        return result

    def items(self, name: str) -> list[Any]:
        """Return a list field."""
        value = self.get(name)
        if not isinstance(value, list):
            raise NNDError(f"{self.where}, field {name!r}: expected a list, found {kind(value)}")
        return value

    def records(self, name: str) -> list[Record]:
        """Return a list field whose elements are mappings."""
        return [Record(item, f"{self.where}, {name}[{i}]") for i, item in enumerate(self.items(name))]

    def entries(self) -> Iterator[tuple[str, Any]]:
        """Yield the name and the value of each field."""
        yield from self._data.items()


def check_text(value: Any, where: str) -> str:
    """Return ``value`` if it is a string that can be stored as UTF-8, else raise NNDError."""
    if not isinstance(value, str):
        raise NNDError(f"{where}: expected text, found {kind(value)}")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise NNDError(f"{where}: it holds half a surrogate pair at character {error.start}") from None
    return value


def read_file(path: Path) -> str:
    """Return the text of a publisher's file; raise NNDError when it cannot be read, is empty or is not UTF-8."""
    data = read_bytes(path, limit=MAX_BYTES)
    if not data.strip():
        raise NNDError(f"{path}: the file is empty")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise NNDError(f"{path}, line {line}: not UTF-8 text (byte {error.start}); is it the right file?") from None


def read_jsonl(path: Path) -> Iterator[Record]:
    """Yield a record per line of a JSON Lines file; blank lines are skipped.

    Raises:
        NNDError: the file cannot be read, or a line is not a JSON object.
    """
    for where, _, value in json_lines(read_file(path).split("\n"), str(path), hint=RIGHT_FILE, skip_blank=True):
        yield Record(value, where)
