"""Which objects of a JSON or XML document are its rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any
from xml.etree import ElementTree

from nnd_tasks.errors import NNDError
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


def parse_xml(content: bytes | str, where: str) -> Any:
    """Return an XML document in the form of JSON: attributes and child elements are fields, a repeated child is a list.

    Raises:
        NNDError: no valid XML, or one that declares entities, whose few bytes can unfold to gigabytes.
    """
    if (b"<!ENTITY" if isinstance(content, bytes) else "<!ENTITY") in content:  # type: ignore[operator]
        raise NNDError(f"{where}: it declares entities, which are not read here; write their texts out")
    try:
        root = ElementTree.fromstring(content)  # noqa: S314 - entities are refused above, and expat bounds their size
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise NNDError(f"{where}: is not valid XML ({error}); is it the right file, and whole?") from error
    counts = ((parent.tag, Counter(child.tag for child in parent)) for parent in root.iter())
    repeated = {(parent, child) for parent, children in counts for child, number in children.items() if number > 1}
    document = _to_object(root, repeated)
    while isinstance(document, dict) and not any(isinstance(value, list) for value in document.values()):
        parts = [value for value in document.values() if isinstance(value, dict)]
        with_lists = [part for part in parts if any(isinstance(value, list) for value in part.values())]
        if len(parts) != 1 and len(with_lists) != 1:
            return document if parts else [document]
        document = (with_lists or parts)[0]
    return document


def _to_object(element: ElementTree.Element, repeated: set[tuple[str, str]]) -> Any:
    """Return an element as a text, as None where it is empty, or as an object."""
    text = "".join(element.itertext())
    if not len(element) and not element.attrib:
        return text or None
    names = [child.tag.rpartition("}")[2] for child in element]
    fields: dict[str, Any] = {f"@{name}" if name in names else name: value for name, value in element.attrib.items()}
    for name, child in zip(names, element, strict=True):
        value = _to_object(child, repeated)
        if (element.tag, child.tag) in repeated:
            fields.setdefault(name, []).append(value)
        else:
            fields[name] = value
    own_texts = [element.text, *(child.tail for child in element)]
    if any(own_text and own_text.strip() for own_text in own_texts):
        fields["text"] = text
    return fields
