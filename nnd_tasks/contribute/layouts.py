"""Recognise in which columns, objects and lists a file holds judged texts where a row is not one judged text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from nnd_tasks.contribute.records import (
    NAMES,
    NO_JUDGEMENT,
    TO_COMPLETE,
    Layout,
    Records,
    are_lists,
    are_numbers,
    are_objects,
    are_texts,
    guess_roles,
    leaves_of,
    literal,
    quote,
)
from nnd_tasks.errors import NNDError
from nnd_tasks.sets.cells import as_number
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
        inner = [value for cell in cells for value in cell.values()]
        lists = [value for value in inner if isinstance(value, list) and are_objects(value)]
        items = [item for value in lists for item in value] if len(lists) == len(inner) else inner
        if are_objects(items) and set.intersection(*(set(item) for item in items)) and max(map(len, cells)) > 1:
            loops = [f"for system, item in {records.take(column)}.items()"]
            if lists:
                loops = [f"for system, items in {records.take(column)}.items()", "for item in items"]
            roles, more = guess_roles(leaves_of(items, "item"), records.recipe, "item")
            roles = {**records.name_roles([column]), **roles, "system": "system"}
            keys = [*dict.fromkeys(key for cell in cells for key in cell)]
            seen = f"column {column!r} holds objects keyed by system: {some_of(keys, 6, str)}"
            return Layout(seen, roles, [*records.present(column), *loops, *more], fields=_list_fields(items, "item"))
    texts = [column for column, cells in objects.items() if all(are_texts([*cell.values()]) for cell in cells)]
    judged = [
        column
        for column, cells in objects.items()
        if column not in texts and texts and set(cells[0]) & set(objects[texts[0]][0])
    ]
    if texts and judged:
        column, values = judged[0], [value for cell in objects[judged[0]] for value in cell.values()]
        loops = [*records.present(texts[0]), f"for system, text in {records.take(texts[0])}.items()"]
        score = f"{records.take(column)}[system]"
        roles = {**records.name_roles([*texts, *judged]), "candidate": "text", "system": "system"}
        if are_objects(values):
            loops.append(f"for attribute, score in {score}.items()")
            roles |= {"attribute": "attribute", "score": "score"}
        else:
            roles["score" if are_numbers(values) and not records.recipe.by_label else "label"] = score
        return Layout(f"columns {texts[0]!r} and {column!r} hold objects keyed by system", roles, loops)
    if len(objects) > 1:
        items = [cell for cells in objects.values() for cell in cells]
        if len(set.intersection(*(set(item) for item in items))) > 1:
            loops = [f"for system in {literal(list(objects))}", "if record.get(system)"]
            roles, more = guess_roles(leaves_of(items, "record[system]"), records.recipe, "record[system]")
            roles = {**records.name_roles(objects), **roles, "system": "system"}
            seen = f"a column of objects per system: {some_of(list(objects), 6, str)}"
            return Layout(seen, roles, [*loops, *more], fields=_list_fields(items, "record[system]"))
    return None


def _find_lists(records: Records) -> Layout | None:
    """Lists of objects; lists of texts beside lists of judgements; lists of texts under their label."""
    lists = {column: cells for column, cells in records.cells.items() if are_lists(cells)}
    for column, cells in lists.items():
        items = [item for cell in cells for item in cell]
        if are_objects(items):
            roles, more = guess_roles(leaves_of(items, "item"), records.recipe, "item")
            loops = [*records.present(column), f"for item in {records.take(column)}", *more]
            seen = f"column {column!r} holds lists of objects"
            return Layout(seen, {**records.name_roles([column]), **roles}, loops, fields=_list_fields(items, "item"))
    texts = [column for column, cells in lists.items() if are_texts([item for cell in cells for item in cell])]
    judged = [column for column, cells in lists.items() if are_numbers([item for cell in cells for item in cell])]
    roles = records.name_roles(lists)
    if texts and judged:
        column = texts[0]
        lengths = [len(cell) for cell in lists[column]]
        judged = [name for name in judged if [len(cell) for cell in lists[name]] == lengths]
        if judged:
            beside = [name for name in texts[1:] if [len(cell) for cell in lists[name]] == lengths]
            system = next((name for name in beside if name.casefold().rstrip("s") in NAMES["system"]), None)
            names = [*(["system"] if system else []), "text", "score"]
            score = records.take(judged[0]) if len(judged) == 1 else "record[attribute]"
            lists_of = [*([records.take(system)] if system else []), records.take(column), score]
            loops = [f"for {', '.join(names)} in zip({', '.join(lists_of)}, strict=True)"]
            if len(judged) > 1:
                loops.insert(0, f"for attribute in {literal(judged)}")
                roles["attribute"] = "attribute"
            roles |= {"candidate": "text", "score": "score", **({"system": "system"} if system else {})}
            return Layout(f"columns {some_of([column, *judged], 6)} hold lists of one length", roles, loops)
    if len(texts) > 1:
        loops = [f"for label in {literal(texts)}", "for text in record[label]"]
        roles |= {"candidate": "text", "label": "label"}
        return Layout(f"a list of texts per label: {some_of(texts, 6, str)}", roles, loops)
    if texts:
        roles |= {"candidate": "text", "label": f"record{TO_COMPLETE}"}
        return Layout(f"column {texts[0]!r} holds lists of texts", roles, [f"for text in {records.take(texts[0])}"])
    return None


def _list_fields(items: Sequence[Mapping[str, Any]], expression: str) -> list[str]:
    return [f"{expression}[{quote(name)}]" for name in dict.fromkeys(name for item in items for name in item)]


# ---------------------------------------------------------------- columns of one system or rater each


def _find_system_columns(records: Records) -> Layout | None:
    """A column of texts per system, and one or several of judgements, whose names differ by an ending or a beginning."""
    named = _split_names(records)
    groups = _group_by_affix(records) if not named else _match_systems(records, named)
    if groups is None:
        return None
    systems, texts, judged = groups
    used = [*texts.values(), *(column for columns in judged.values() for column in columns.values())]
    text = records.read_named("text", texts.values())
    roles = {**records.name_roles(used), "candidate": text if text == "record[text]" else f'{text} or ""'}
    if max(map(len, systems)) > 1:  # a and b are no names
        roles["system"] = "system"
    columns = [(system, texts[system], *([name] if len(judged) > 1 else []), of_system[system])
               for system in systems for name, of_system in judged.items()]  # fmt: skip
    if not judged:
        columns = [(system, texts[system]) for system in systems]
    cells = [cell for of_system in judged.values() for column in of_system.values() for cell in records.cells[column]]
    role = "label" if records.recipe.by_label or (cells and not are_numbers(cells)) else "score"
    roles[role] = records.read_named(role, used) if judged else f"record{TO_COMPLETE}"
    names = ["system", "text", *(["attribute"] if len(judged) > 1 else []), *([role] if judged else [])]
    if len(judged) > 1:
        roles["attribute"] = "attribute"
    loops = [f"for {', '.join(names)} in COLUMNS"]
    return Layout(f"a column per system: {some_of(list(systems), 6, str)}", roles, loops, columns)


def _find_best_column(records: Records) -> Layout | None:
    """A column of texts per system, and one whose cells name the system with the best text."""
    for column, cells in records.cells.items():
        systems = [name for name in records.columns if name in {str(cell).strip() for cell in cells}]
        if len(systems) < 2 or column in systems:
            continue
        # Systems that are never the best have columns, too: those of texts beside them.
        names = [name for name in records.columns if name != records.recipe.context and are_texts(records.cells[name])]
        places = [names.index(name) for name in systems if name in names]
        systems = [name for name in names[min(places) : max(places) + 1] if name != column] if places else systems
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


def _split_names(records: Records) -> list[str]:
    """The systems of ``--system gpt,llama``, where no column has that name."""
    system = records.recipe.system or ""
    return [] if system in records.columns or "," not in system else [name.strip() for name in system.split(",")]


Groups = tuple[list[str], dict[str, str], dict[str, dict[str, str]]]  # systems, their texts, name -> their judgements


def _group_by_affix(records: Records) -> Groups | None:
    context = records.recipe.context
    by_affix: dict[tuple[str, str], dict[str, str]] = {}
    for column in records.columns:
        if column == context or not records.cells[column]:
            continue
        by_affix.setdefault(("", ""), {})[_strip(column)] = column
        for match in _BOUNDARY.finditer(column):
            head, tail = column[: match.start()], column[match.start() :]
            by_affix.setdefault(("ends", _strip(tail)), {})[_strip(head)] = column
            by_affix.setdefault(("begins", _strip(head)), {})[_strip(tail)] = column
    best: Groups | None = None
    most = (0, 0.0)  # systems, and the length of their texts: names of systems are shorter
    for affix, texts in by_affix.items():
        systems = [name for name, column in texts.items() if are_texts(records.cells[column])]
        judged = {}
        for other, columns in by_affix.items():
            both = [name for name in systems if columns.get(name) not in (None, texts[name])]
            numbers = [name for name in both if are_numbers(records.cells[columns[name]])]
            if other[1] and other != affix and len(numbers) > 1 and not NO_JUDGEMENT.search(other[1]):
                judged[other[1]] = {name: columns[name] for name in numbers}
        count = max(map(len, judged.values()), default=0)
        judged = {name: columns for name, columns in judged.items() if len(columns) == count}
        systems = list(next(iter(judged.values()), {}))
        cells = [str(cell) for name in systems for cell in records.cells[texts[name]]]
        size = (len(systems), sum(map(len, cells)) / max(len(cells), 1))
        if judged and size > most:
            best, most = (systems, {name: texts[name] for name in systems}, judged), size
    if best is None:
        return None
    systems, texts, judged = best
    shown = {name: _show_system(name, texts[name]) for name in systems}
    return (
        [*shown.values()],
        {shown[name]: texts[name] for name in systems},
        {title: {shown[name]: columns[name] for name in systems} for title, columns in judged.items()},
    )


def _strip(name: str) -> str:
    return re.sub(r"^[\W_]+|[\W_]+$", "", name).casefold()


def _show_system(name: str, column: str) -> str:
    """The name of a system as the column writes it."""
    start = column.casefold().find(name)
    return column[start : start + len(name)] if start >= 0 else name


def _match_systems(records: Records, named: Sequence[str]) -> Groups:
    """The columns of systems that the user named: those whose names contain theirs."""
    texts, judged = {}, {}
    for system in named:
        longer = [other for other in named if other != system and system.casefold() in other.casefold()]
        columns = [
            column
            for column in records.columns
            if system.casefold() in column.casefold()
            and not any(other.casefold() in column.casefold() for other in longer)
        ]
        numbers = [column for column in columns if are_numbers(records.cells[column])]
        others = [column for column in columns if column not in numbers and records.cells[column]]
        if not others:
            raise NNDError(f"--system {','.join(named)}: no column with texts has {system!r} in its name")
        texts[system] = next((column for column in others if column == system), others[0])
        if numbers or len(others) > 1:
            judged[system] = (numbers or [column for column in others if column != texts[system]])[0]
    return list(named), texts, {"judged": judged} if len(judged) == len(named) else {}


def _find_rater_columns(records: Records) -> Layout | None:
    """A column of judgements per rater, beside a context and a candidate.

    Raises:
        NNDError: several columns hold numbers, and nothing says whether each is a rater or an attribute.
    """
    recipe = records.recipe
    rater = recipe.rater or ""
    raters = [] if rater in records.columns or "," not in rater else [name.strip() for name in rater.split(",")]
    if absent := [name for name in raters if name not in records.columns]:
        raise NNDError(f"--rater {rater}: no column {absent[0]!r}; there are: {some_of(records.columns, 40, str)}")
    if not raters:
        if not (recipe.context and recipe.candidate) or recipe.label or recipe.score or recipe.attribute:
            return None
        used = (recipe.context, recipe.candidate, recipe.system, recipe.category, *recipe.group)
        free = [name for name in records.columns if name not in used and not NO_JUDGEMENT.search(name)]
        numbers = [name for name in free if are_numbers(records.cells[name])]
        raters = [name for name in free if _RATERS.search(name) and records.cells[name]]
        if len(raters) < 2:
            raters = (
                numbers
                if len({re.sub(r"[\W_]?(\d+|(?<![a-z])[a-z])$", "", name, flags=re.I) for name in numbers}) == 1
                else []
            )
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
        parts = [part.strip() for cell in cells for part in cell.split(separator) if part.strip()]
        numbers = all(as_number(part, recipe, recipe.unjudged) is not None for part in parts)
        labels = recipe.label and len({*parts}) * 2 <= len(parts) and len(several) * 2 >= len(cells)
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
