"""The elements of an XML file as the objects that a JSON file would hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from nnd_tasks.errors import NNDError
from nnd_tasks.sets.decode import read_content


def read_elements(path: Path) -> list[dict[str, Any]]:
    """Read the records of an XML file: the elements that hold the innermost list of elements with attributes or children.

    ``<doc><seg id="1"><src>q</src><hyp score="2">a</hyp><hyp score="3">b</hyp></seg></doc>`` has one record:
    ``{"id": "1", "src": "q", "hyp": [{"score": "2", "text": "a"}, {"score": "3", "text": "b"}]}``. An element that holds nothing
    but the list stands for it. Where only the root holds a list, its elements are the records.

    Raises:
        NNDError: it is no XML, defines entities, or repeats no such element.
    """
    content = read_content(path)
    try:
        if b"<!ENTITY" in content:
            raise ValueError("it defines entities, which are not unfolded here")
        root = ElementTree.fromstring(content)  # noqa: S314 - without entities there is nothing to unfold
    except (ElementTree.ParseError, ValueError) as error:
        raise NNDError(f"{path}: is not XML that can be read here ({error})") from None
    parents = {child: element for element in root.iter() for child in element}
    depths = {root: 0}
    for child, element in parents.items():
        depths[child] = depths[element] + 1
    counts = Counter((element, child.tag) for child, element in parents.items())
    lists = {tag for (_, tag), count in counts.items() if count > 1}
    items = [element for element in parents if element.tag in lists and (element.attrib or len(element))]
    if not items:
        raise NNDError(f"{path}: no element in it is repeated; is it the right file?")
    innermost = max(depths[item] for item in items)
    items = [item for item in items if depths[item] == innermost]
    holders = [parents[item] for item in items]
    holders = [parents[holder] if holder is not root and _is_list(holder, lists) else holder for holder in holders]
    records = items if root in holders else [*dict.fromkeys(holders)]
    return [_as_object(record, lists) for record in records]


def _is_list(element: ElementTree.Element, lists: Container[str]) -> bool:
    """Whether an element holds a list and nothing else."""
    tags = {child.tag for child in element}
    return not element.attrib and len(tags) == 1 and tags.pop() in lists


def _as_object(element: ElementTree.Element, lists: Container[str]) -> dict[str, Any]:
    record: dict[str, Any] = dict(element.attrib)
    if (element.text or "").strip():
        record["text"] = element.text
    for child in element:
        name = child.tag.rpartition("}")[2]  # without its namespace
        value: Any = child.text or ""
        if child.attrib or len(child):
            value = _as_object(child, lists)
        if _is_list(child, lists):
            [value] = value.values()
        if child.tag in lists:
            record.setdefault(name, []).append(value)
        else:
            record[name] = value
    return record
