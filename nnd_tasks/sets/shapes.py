"""Which objects of a JSON document are its rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nnd_tasks.sets.decode import warn_once
from nnd_tasks.wording import some_of


def find_rows(document: Any, source: str) -> Iterator[tuple[str, str | None, Any]]:
    """Yield the place, the key and the value of each row of a JSON document.

    A document is a list of rows; an object with rows under their ids; an object with lists of rows, of which each row of
    several has the list's name as its key; or what pandas' ``to_json`` and ``to_dict`` write.

    Args:
        document: what `json.loads` returns.
        source: the name of the file, for a warning about what holds no rows.
    """
    if isinstance(document, list):
        yield from ((f"item {number}", None, value) for number, value in enumerate(document, start=1))
        return
    table = _read_pandas(document)
    if table is not None:
        yield from ((f"row {number}", None, row) for number, row in enumerate(table, start=1))
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
    """Return the lists of objects in an object; none where its other entries are objects of one kind, which are rows."""
    objects = [frozenset(value) for value in document.values() if isinstance(value, dict)]
    if len(set(objects)) < len(objects):
        return {}
    return {
        key: value
        for key, value in document.items()
        if isinstance(value, list) and value and isinstance(value[0], dict)
    }


def _read_pandas(document: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return the rows of an object that holds columns, as pandas writes it with orient split, columns or list; else None."""
    values = list(document.values())
    if not values:
        return None
    if set(document) - {"index"} == {"columns", "data"} and all(isinstance(value, list) for value in values):
        names = [str(name) for name in document["columns"]]
        return [dict(zip(names, row, strict=False)) for row in document["data"]]
    if all(isinstance(value, list) for value in values):
        of_objects = all(isinstance(cell, dict) for value in values for cell in value)
        same_length = len({len(value) for value in values}) == 1
        columns = dict(document) if same_length and not of_objects else {}
    else:
        columns = _read_indexed_columns(document)
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)] if columns else None


def _read_indexed_columns(document: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the columns of an object such as ``{"text": {"0": "a", "1": "b"}}``; none where its keys number rows."""
    values = list(document.values())
    if not all(isinstance(value, dict) and value for value in values):
        return {}
    index = list(values[0])
    numbered = all(key.isdecimal() for key in index) and not all(key.isdecimal() for key in document)
    if not numbered or any(list(value) != index for value in values):
        return {}
    return {name: list(column.values()) for name, column in document.items()}
