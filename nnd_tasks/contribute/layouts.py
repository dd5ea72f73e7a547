"""Recognise in which columns, objects and lists a file holds judged texts where a row is not one judged text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pandas as pd

from nnd_tasks.contribute.prepare_code import TO_COMPLETE, Layout, literal, quote
from nnd_tasks.contribute.records import (
    EXAMPLES,
    MOST_COLUMNS,
    NAMES,
    NO_JUDGEMENT,
    Fields,
    Records,
    are_numbers,
    are_objects,
    are_texts,
    choose_field,
    guess_roles,
    is_number,
    leaves_of,
    name_of,
)
from nnd_tasks.errors import NNDError
from nnd_tasks.sets.cells import as_number, is_chat
from nnd_tasks.sets.decode import read_content
from nnd_tasks.sets.recipe import Recipe
from nnd_tasks.text import some_of

#: Words in the names of columns of one rater each.
_RATERS = re.compile(r"rater|annotator|judge|coder|expert|worker|reviewer|evaluator|person|human|turker", re.IGNORECASE)
_BOUNDARY = re.compile(r"(?<=[^\W_])(?=[\W_])|(?<=[\W_])(?=[^\W_])|(?<=[a-z])(?=[A-Z])|(?<=[^\W\d_])(?=\d)")
_SEPARATORS = (";", "|", "/", ",")


def recognise_layout(table: pd.DataFrame, recipe: Recipe, *, complete: bool) -> Layout | None:
    """Recognise records that hold several judged texts, or several judgements in a cell.

    Args:
        table: the first rows of a file.
        recipe: what the user, and the names of columns, say.
        complete: whether that names a context, a candidate and a judgement.

    Returns:
        The layout; None where each row is one judged text, or nothing is recognised.
    """
    if table.shape[1] > MOST_COLUMNS:
        return None
    records = Records(table, recipe)
    if not complete and records.recipe.candidate is None:
        nested = _find_keyed(records) or _find_lists(records)
        return nested or _find_system_columns(records) or _find_best_column(records)
    return _find_rater_columns(records) or (_find_raters_in_cells(records) if complete else None)


# ---------------------------------------------------------------- objects and lists


def _find_keyed(records: Records) -> Layout | None:
    """Texts under the names of systems: objects in one column, two columns of objects, or columns of objects."""
    objects = {column: cells for column, cells in records.cells.items() if are_objects(cells)}
    for column, cells in objects.items():
        values = [value for cell in cells for value in cell.values()]
        loops = [*records.present(column), f"for system, item in {records.take(column)}.items()"]
        lists = [value for value in values if isinstance(value, list) and are_objects(value)]
        if len(lists) == len(values):
            values = [item for value in lists for item in value]
            loops[-1:] = [f"for system, items in {records.take(column)}.items()", "for item in items"]
        if are_objects(values) and _share_fields(values) and max(map(len, cells)) > 1:
            systems = [*dict.fromkeys(key for cell in cells for key in cell)]
            seen = f"column {column!r} holds objects keyed by system: {some_of(systems, 6, str)}"
            return _unfold(records, seen, [column], values, loops, system="system")
    texts = [column for column, cells in objects.items() if all(are_texts([*cell.values()]) for cell in cells)]
    judged = [
        column
        for column, cells in objects.items()
        if column not in texts and texts and set(cells[0]) & set(objects[texts[0]][0])
    ]
    if judged:
        column = judged[0]
        values = [value for cell in objects[column] for value in cell.values()]
        loops = [*records.present(texts[0]), f"for system, text in {records.take(texts[0])}.items()"]
        score = f"{records.take(column)}[system]"
        roles = {**records.name_roles([*texts, *judged]), "candidate": "text", "system": "system"}
        if are_objects(values):
            loops.append(f"for attribute, score in {score}.items()")
            roles |= {"attribute": "attribute", "score": "score"}
        else:
            roles["score" if are_numbers(values) and not records.recipe.by_label else "label"] = score
        return Layout(f"columns {texts[0]!r} and {column!r} hold objects keyed by system", roles, loops)
    items = [cell for cells in objects.values() for cell in cells]
    if len(objects) > 1 and _share_fields(items, least=2):
        loops = [f"for system in {literal(list(objects))}", "if record.get(system)"]
        seen = f"a column of objects per system: {some_of(list(objects), 6, str)}"
        return _unfold(records, seen, list(objects), items, loops, "record[system]", system="system")
    return None


def _share_fields(items: Sequence[Mapping[str, Any]], least: int = 1) -> bool:
    return len(set.intersection(*(set(item) for item in items))) >= least


def _unfold(
    records: Records,
    seen: str,
    columns: Sequence[str],
    items: Sequence[Mapping[str, Any]],
    loops: Sequence[str],
    expression: str = "item",
    **roles: str,
) -> Layout:
    """The layout of records that hold an object per judged text.

    Args:
        records: of the file.
        seen: what was recognised, for the user.
        columns: that hold the objects.
        items: the objects.
        loops: that lead to one of them.
        expression: names it in the loops.
        **roles: that the loops tell.
    """
    of_item, more_loops = guess_roles(leaves_of(items, expression), records.recipe, expression)
    fields = [f"{expression}[{quote(name)}]" for name in dict.fromkeys(name for item in items for name in item)]
    return Layout(seen, {**records.name_roles(columns), **of_item, **roles}, [*loops, *more_loops], fields=fields)


def _are_lists(cells: Sequence[Any]) -> bool:
    """Whether all cells are lists, and no chats."""
    return bool(cells) and all(isinstance(cell, (list, tuple)) and not is_chat(cell) for cell in cells)


def _find_lists(records: Records) -> Layout | None:
    """Lists of objects; lists of texts beside lists of judgements; lists of texts under their label."""
    lists = {column: cells for column, cells in records.cells.items() if _are_lists(cells)}
    for column, cells in lists.items():
        items = [item for cell in cells for item in cell]
        if are_objects(items):
            loops = [*records.present(column), f"for item in {records.take(column)}"]
            return _unfold(records, f"column {column!r} holds lists of objects", [column], items, loops)
    texts = [column for column, cells in lists.items() if are_texts([item for cell in cells for item in cell])]
    judged = [column for column, cells in lists.items() if are_numbers([item for cell in cells for item in cell])]
    roles = records.name_roles(lists)
    if texts and judged:
        column = texts[0]
        lengths = [len(cell) for cell in lists[column]]
        judged = [name for name in judged if [len(cell) for cell in lists[name]] == lengths]
        if judged:
            zipped = {"text": records.take(column), "score": records.take(judged[0])}
            roles |= {"candidate": "text", "score": "score"}
            for name in texts[1:]:
                if name.casefold().rstrip("s") in NAMES["system"] and [len(cell) for cell in lists[name]] == lengths:
                    zipped["system"] = records.take(name)
                    roles["system"] = "system"
                    break
            loops = []
            if len(judged) > 1:
                zipped["score"] = "record[attribute]"
                roles["attribute"] = "attribute"
                loops = [f"for attribute in {literal(judged)}"]
            loops.append(f"for {', '.join(zipped)} in zip({', '.join(zipped.values())}, strict=True)")
            return Layout(f"columns {some_of([column, *judged], 6)} hold lists of one length", roles, loops)
    if len(texts) > 1:
        loops = [f"for label in {literal(texts)}", "for text in record[label]"]
        roles |= {"candidate": "text", "label": "label"}
        return Layout(f"a list of texts per label: {some_of(texts, 6, str)}", roles, loops)
    if texts:
        roles |= {"candidate": "text", "label": f"record{TO_COMPLETE}"}
        return Layout(f"column {texts[0]!r} holds lists of texts", roles, [f"for text in {records.take(texts[0])}"])
    return None


# ---------------------------------------------------------------- columns of one system or rater each


@dataclass
class SystemColumns:
    """The columns of one system.

    Attributes:
        name: of the system.
        text: the column of its texts.
        judged: what was judged -> the column of the judgements.
    """

    name: str
    text: str
    judged: dict[str, str]


def _find_system_columns(records: Records) -> Layout | None:
    """A column of texts per system, and one or several of judgements, whose names differ by an ending or a beginning."""
    systems = _match_systems(records) or _group_by_affix(records)
    if not systems:
        return None
    judged = [column for system in systems for column in system.judged.values()]
    used = [*(system.text for system in systems), *judged]
    cells = [cell for column in judged for cell in records.cells[column]]
    role = "label" if records.recipe.by_label or (cells and not are_numbers(cells)) else "score"
    text = records.read_named("text", used[: len(systems)])
    roles = {**records.name_roles(used), "candidate": text if text == "record[text]" else f'{text} or ""'}
    roles[role] = records.read_named(role, used) if judged else f"record{TO_COMPLETE}"
    if any(len(system.name) > 1 for system in systems):  # a and b are no names
        roles["system"] = "system"
    rows: list[tuple[str, ...]]
    if len(judged) > len(systems):
        roles["attribute"] = "attribute"
        loop = f"for system, text, attribute, {role} in COLUMNS"
        rows = [(system.name, system.text, *pair) for system in systems for pair in system.judged.items()]
    elif judged:
        loop = f"for system, text, {role} in COLUMNS"
        rows = [(system.name, system.text, *system.judged.values()) for system in systems]
    else:
        loop = "for system, text in COLUMNS"
        rows = [(system.name, system.text) for system in systems]
    seen = f"a column per system: {some_of([system.name for system in systems], 6, str)}"
    return Layout(seen, roles, [loop], rows)


def _match_systems(records: Records) -> list[SystemColumns]:
    """The columns of the systems of ``--system gpt,llama``, where no column has that name: those whose names contain theirs."""
    option = records.recipe.system or ""
    if option in records.columns or "," not in option:
        return []
    names = [name.strip() for name in option.split(",")]
    systems = []
    for name in names:
        columns = [column for column in records.columns if records.cells[column] and _longest_in(column, names) == name]
        numbers = [column for column in columns if are_numbers(records.cells[column])]
        of_words = [column for column in columns if column not in numbers]
        if not of_words:
            raise NNDError(f"--system {option}: no column with texts has {name!r} in its name")
        text = name if name in of_words else of_words[0]
        judgements = numbers or [column for column in of_words if column != text]
        systems.append(SystemColumns(name, text, {"judged": judgements[0]} if judgements else {}))
    if not all(system.judged for system in systems):
        return [SystemColumns(system.name, system.text, {}) for system in systems]
    return systems


def _longest_in(column: str, names: Sequence[str]) -> str | None:
    """The longest of the names that a column's name contains."""
    return max((name for name in names if name.casefold() in column.casefold()), key=len, default=None)


def _group_by_affix(records: Records) -> list[SystemColumns]:
    """The systems whose columns of texts share an ending or a beginning, or have none, and columns of numbers likewise."""
    by_affix: dict[tuple[str, str], dict[str, str]] = {}  # affix -> the rest of the name -> the column
    for column in records.columns:
        if column == records.recipe.context or not records.cells[column]:
            continue
        by_affix.setdefault(("", ""), {})[_strip(column)] = column
        for match in _BOUNDARY.finditer(column):
            head, tail = _strip(column[: match.start()]), _strip(column[match.start() :])
            by_affix.setdefault(("ends", tail), {})[head] = column
            by_affix.setdefault(("begins", head), {})[tail] = column
    best: list[SystemColumns] = []
    most = (0, 0.0)  # systems, and the length of their texts: names of systems are shorter
    for affix, texts in by_affix.items():
        names = [name for name, column in texts.items() if are_texts(records.cells[column])]
        judged = {}
        for number_affix, columns in by_affix.items():
            title = number_affix[1]
            both = [name for name in names if columns.get(name) not in (None, texts[name])]
            numbers = [name for name in both if are_numbers(records.cells[columns[name]])]
            if title and number_affix != affix and len(numbers) > 1 and not NO_JUDGEMENT.search(title):
                judged[title] = {name: columns[name] for name in numbers}
        count = max(map(len, judged.values()), default=0)
        names = next((list(columns) for columns in judged.values() if len(columns) == count), [])
        judged = {title: columns for title, columns in judged.items() if list(columns) == names}
        cells = [str(cell) for name in names for cell in records.cells[texts[name]]]
        size = (len(names), sum(map(len, cells)) / max(len(cells), 1))
        if size > most:
            most = size
            best = [
                SystemColumns(
                    _find_spelling(name, texts[name]),
                    texts[name],
                    {title: columns[name] for title, columns in judged.items()},
                )
                for name in names
            ]
    return best


def _strip(name: str) -> str:
    return re.sub(r"^[\W_]+|[\W_]+$", "", name).casefold()


def _find_spelling(name: str, column: str) -> str:
    """The name of a system as the column writes it."""
    start = column.casefold().find(name)
    return column[start : start + len(name)] if start >= 0 else name


def _find_best_column(records: Records) -> Layout | None:
    """A column of texts per system, and one whose cells name the system with the best text."""
    for column, cells in records.cells.items():
        systems = [name for name in records.columns if name in {str(cell).strip() for cell in cells}]
        if len(systems) < 2 or column in systems:
            continue
        # Systems that are never the best have columns, too: those of texts beside them.
        names = [name for name in records.columns if name != records.recipe.context and are_texts(records.cells[name])]
        indices = [names.index(name) for name in systems if name in names]
        if indices:
            systems = [name for name in names[min(indices) : max(indices) + 1] if name != column]
        label = f'"best" if str(record[{quote(column)}]).strip() == system else "other"'
        roles = {
            **records.name_roles([*systems, column]),
            "candidate": "record[system]",
            "system": "system",
            "label": label,
        }
        seen = f"a column per system, the best one in column {column!r}: {some_of(systems, 6, str)}"
        return Layout(seen, roles, [f"for system in {literal(systems)}"], better="best")
    return None


def _find_rater_columns(records: Records) -> Layout | None:
    """A column of judgements per rater, beside a context and a candidate.

    Raises:
        NNDError: several columns hold numbers, and nothing says whether each is a rater or an attribute.
    """
    recipe = records.recipe
    rater = recipe.rater or ""
    raters = [] if rater in records.columns or "," not in rater else [name.strip() for name in rater.split(",")]
    absent = [name for name in raters if name not in records.columns]
    if absent:
        raise NNDError(f"--rater {rater}: no column {absent[0]!r}; there are: {some_of(records.columns, 40, str)}")
    if not raters:
        if not (recipe.context and recipe.candidate) or recipe.label or recipe.score or recipe.attribute:
            return None
        used = (recipe.context, recipe.candidate, recipe.system, recipe.category, *recipe.group)
        free = [name for name in records.columns if name not in used and not NO_JUDGEMENT.search(name)]
        numbers = [name for name in free if are_numbers(records.cells[name])]
        raters = [name for name in free if _RATERS.search(name) and records.cells[name]]
        if len(raters) < 2:
            without_number = {re.sub(r"[\W_]?(\d+|(?<![a-z])[a-z])$", "", name, flags=re.I) for name in numbers}
            raters = numbers if len(without_number) == 1 else []
        if len(raters) < 2 and len(numbers) > 1:
            aspects = " ".join(f"--attribute {shell(name)}" for name in numbers)
            raise NNDError(
                f"columns {some_of(numbers)} hold numbers; where each is what was judged (an attribute), write {aspects}; "
                f"where each is a rater, --rater {shell(','.join(numbers))}; where one is the score, --score COLUMN"
            )
    if len(raters) < 2:
        return None
    labels = recipe.by_label or not are_numbers([cell for name in raters for cell in records.cells[name]])
    roles = {**records.name_roles(raters), "candidate": records.take(str(recipe.candidate)), "rater": "rater"}
    roles["label" if labels else "score"] = records.read_named("rater", raters)
    return Layout(f"a column per rater: {some_of(raters, 6, str)}", roles, [f"for rater in {literal(raters)}"])


def shell(word: str) -> str:
    """A word as one types it in a shell."""
    return word if re.fullmatch(r"[\w,.:=/@+-]+", word) else f"'{word}'"


def _find_raters_in_cells(records: Records) -> Layout | None:
    """Several judgements in one cell, with a separator between them."""
    recipe = records.recipe
    column = recipe.label or recipe.score or ""
    cells = [cell for cell in records.cells.get(column, []) if isinstance(cell, str)]
    for separator in _SEPARATORS:
        several = [cell for cell in cells if separator in cell.strip(separator)]
        judgements = [words.strip() for cell in cells for words in cell.split(separator) if words.strip()]
        numbers = all(as_number(judgement, recipe, recipe.unjudged) is not None for judgement in judgements)
        labels = recipe.label and len({*judgements}) * 2 <= len(judgements) and len(several) * 2 >= len(cells)
        if not several or not (numbers or labels) or {*cells} & {*recipe.better}:
            continue
        alike = separator == "," and all(re.fullmatch(r"\s*\d+,\d+\s*", cell) for cell in several)
        if separator == "," and (recipe.decimal == "," or (alike and records.has_decimal_commas)):
            continue
        roles = {**records.name_roles([column]), "candidate": records.take(str(recipe.candidate))}
        split = f"str(record[{quote(column)}]).split({quote(separator)})"
        roles |= {"label": "label"} if recipe.label else {"score": split}
        seen = f"column {column!r} holds several judgements in a cell, such as {several[0]!r}"
        if alike:
            seen += f" (if {several[0]!r} is one number instead, say so with --decimal)"
        return Layout(seen, roles, [f"for label in {split}"] if recipe.label else [])
    return None


# ---------------------------------------------------------------- XML


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
        location = f'f"{tags[-1 if alone else -2].rpartition("}")[2]} {{number}}"'  # without the namespace
        seen = f"elements {'/'.join(tags)}"
        return Layout(
            seen, {"context": context, **roles, "where": location}, loops, reader=reader, fields=[*above, *fields]
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
        if below in levels or len([sibling for sibling in children if sibling.tag == child.tag]) > 1:
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
