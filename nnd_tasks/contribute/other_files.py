"""Recognise what an XML file holds, and describe a JSON file that holds no rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from nnd_tasks.contribute.records import (
    EXAMPLES,
    NAMES,
    TO_COMPLETE,
    Fields,
    Layout,
    are_texts,
    choose_field,
    guess_roles,
    is_number,
    name_of,
    quote,
)
from nnd_tasks.errors import NNDError
from nnd_tasks.sets.decode import read_content
from nnd_tasks.sets.recipe import Recipe


def recognise_xml(path: Path, recipe: Recipe) -> Layout:
    """Recognise the elements of an XML file that hold judged texts, and those around them that hold the context.

    Raises:
        NNDError: it is no XML.
    """
    content = read_content(path)
    try:
        if b"<!ENTITY" in content:
            raise ValueError("it defines entities, which are not unfolded here")
        root = ElementTree.fromstring(content)  # noqa: S314 - without entities there is nothing to unfold
    except (ElementTree.ParseError, ValueError) as error:
        raise NNDError(f"{path}: is not XML that can be read here ({error})") from None
    levels: dict[tuple[str, ...], list[tuple[ElementTree.Element, ElementTree.Element]]] = {}
    _collect_repeated(root, (), levels)
    scores: list[str] = []
    for tags in sorted(levels, key=len, reverse=True):
        items = [item for _, item in levels[tags]]
        if all(is_number((item.text or "").strip()) and not len(item) for item in items):
            scores.append(tags[-1])  # several judgements of one text
            continue
        records = [record for record, _ in levels[tags]]
        fields = _element_fields(items, "item")
        if scores:
            fields[f"[score.text for score in item.iter({quote(scores[0])})]"] = [["1"]]
        alone = len(tags) < 2 or records[0] is root
        roles, _ = guess_roles(fields, recipe, "item")
        above = {} if alone else _element_fields([element for element in records if element is not None], "record")
        every = fields if alone else above
        named = {name_of(expression): expression for expression in reversed(every)}
        texts = [name for name, cells in every.items() if are_texts(cells) and name not in roles.values()]
        wanted = [recipe.context.casefold()] if recipe.context else []
        holder = "item" if alone else "record"
        context = choose_field(named, (*wanted, *NAMES["context"], "src", "text"), texts) or f"{holder}{TO_COMPLETE}"
        reader = f"for number, item in enumerate(ElementTree.parse({{path}}).iter({quote(tags[-1])}), start=1)"
        loops = []
        if not alone:
            reader = f"for number, record in enumerate(ElementTree.parse({{path}}).iter({quote(tags[-2])}), start=1)"
            loops = [f"for item in record.iter({quote(tags[-1])})"]
        where = f'f"{tags[-1 if alone else -2].rpartition("}")[2]} {{number}}"'  # without the namespace
        seen = f"elements {'/'.join(tags)}"
        return Layout(
            seen, {"context": context, **roles, "where": where}, loops, reader=reader, fields=[*above, *fields]
        )
    raise NNDError(f"{path}: no element in it is repeated; is it the right file?")


def _collect_repeated(
    parent: ElementTree.Element,
    tags: tuple[str, ...],
    levels: dict[tuple[str, ...], list[tuple[ElementTree.Element, ElementTree.Element]]],
) -> None:
    children = [child for child in parent if isinstance(child.tag, str)]
    for child in children:
        below = (*tags, child.tag)
        if below in levels or len([one for one in children if one.tag == child.tag]) > 1:
            levels.setdefault(below, []).append((parent, child))
        _collect_repeated(child, below, levels)


def _element_fields(elements: Sequence[ElementTree.Element], expression: str) -> Fields:
    """The attributes of elements, the texts of their children and their own, as expressions."""
    fields: Fields = {}
    for element in elements[:EXAMPLES]:
        for name, value in element.attrib.items():
            fields.setdefault(f"{expression}.get({quote(name)})", []).append(value)
        if (element.text or "").strip():
            fields.setdefault(f"{expression}.text", []).append(element.text)
        for child in element:
            if not len(child) and len(element.findall(child.tag)) == 1:
                fields.setdefault(f"{expression}.findtext({quote(child.tag)})", []).append(child.text or "")
    return fields


# ---------------------------------------------------------------- other JSON


def describe_other_json(data: Any) -> Layout:
    """Describe a JSON file that holds no objects that could be rows: all is for the user to complete."""
    roles = dict.fromkeys(("context", "candidate", "label"), f"record{TO_COMPLETE}")
    reader = "for record in read_json({path})[...]"
    fields = [quote(key) for key in data] if isinstance(data, dict) else []
    where = {"where": 'f"{record}"[:60]'}
    return Layout("a file that is no list of objects", {**roles, **where}, reader=reader, fields=fields)
