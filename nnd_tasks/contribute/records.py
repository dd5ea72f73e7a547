"""The first records of a file, kinds of their cells, and which field of a judged text is what."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from nnd_tasks.contribute.prepare_code import TO_COMPLETE, quote
from nnd_tasks.sets.cells import PATH, ROW, is_chat, is_missing, unpack
from nnd_tasks.sets.recipe import FILE, KEY, Recipe

#: Role -> names of columns that are taken for it where no option says it, the likelier first.
NAMES: Mapping[str, tuple[str, ...]] = {
    "context": ("context", "prompt", "question", "source", "instruction", "document", "article", "input"),
    "candidate": ("candidate", "answer", "response", "summary", "translation", "output", "text"),
    "label": ("label", "judgement", "judgment", "verdict"),
    "score": ("score", "rating"),
    "system": ("system", "model"),
    "rater": ("rater", "annotator"),
    "category": ("category",),
}
#: Numbers that judge nothing.
NO_JUDGEMENT = re.compile(r"(^|[\W_])(id|index|len|length|tokens?|words?|time|seconds|rank|seed)$", re.IGNORECASE)
EXAMPLES = 50  # cells of a column that are looked at
MOST_COLUMNS = 500  # of a table whose columns are compared, to find those of systems, raters or pairs

Fields = dict[str, list[Any]]  # expression of Python -> some of its values


def columns_of(table: pd.DataFrame) -> list[str]:
    """The columns of a file itself."""
    return [name for name in table.columns if name not in (PATH, ROW, FILE, KEY)]


class Records:
    """The first records of a file, and which columns hold what.

    Attributes:
        cells: column -> its cells that hold something, lists and objects unpacked.
        packed: columns whose lists or objects are written as text.
    """

    def __init__(self, table: pd.DataFrame, recipe: Recipe) -> None:
        self.recipe = recipe
        self.path = str(table[PATH].iat[0])
        self.columns = columns_of(table)
        self.cells: Fields = {}
        self.packed: set[str] = set()
        self.incomplete: set[str] = set()
        for column in self.columns:
            cells = [cell for cell in table[column].head(EXAMPLES) if not is_missing(cell) and cell != ""]
            self.cells[column] = [unpack(cell) for cell in cells]
            if any(isinstance(cell, str) and not isinstance(unpack(cell), str) for cell in cells):
                self.packed.add(column)
            if len(cells) < min(len(table), EXAMPLES):
                self.incomplete.add(column)

    @property
    def has_decimal_commas(self) -> bool:
        """Whether semicolons separate the cells, as where commas are decimal marks."""
        with Path(self.path).open("rb") as file:
            return b";" in file.readline()

    def take(self, column: str) -> str:
        """The expression of a cell; a dotted name leads into objects."""
        names = [column] if column in self.cells else column.split(".")
        cell = f"record[{quote(names[0])}]"
        return (f"unpack({cell})" if names[0] in self.packed else cell) + "".join(
            f"[{quote(name)}]" for name in names[1:]
        )

    def present(self, column: str) -> list[str]:
        """The condition that a cell holds something, where some do not."""
        return [f"if record.get({quote(column)})"] if column in self.incomplete else []

    def read_named(self, variable: str, columns: Iterable[str]) -> str:
        """The expression of a cell whose column a variable names; some of the columns may have empty cells."""
        return f"record.get({variable})" if self.incomplete & {*columns} else f"record[{variable}]"

    def name_roles(self, used: Iterable[str]) -> dict[str, str]:
        """Role -> expression, of the columns that the user named or that are called so."""
        roles = {}
        for role in ("context", "group", "system", "rater", "category", "subcategory", "severity"):
            column = getattr(self.recipe, role)
            column = column[0] if column and not isinstance(column, str) else column
            if column and column.split(".")[0] in self.cells:
                roles[role] = self.take(column)
        if "context" not in roles:
            used = {*used, *self.recipe.leave_out}
            texts = [name for name in self.columns if name not in used and are_texts(self.cells[name])]
            texts = [name for name in texts if not NO_JUDGEMENT.search(name)]
            roles["context"] = self.take(texts[0]) if len(texts) == 1 else f"record{TO_COMPLETE}"
        return roles


# ---------------------------------------------------------------- kinds of cells


def is_number(value: Any) -> bool:
    """Whether a cell is a number, or a text that is one."""
    if isinstance(value, str):
        try:
            float(value.replace(",", "."))
        except ValueError:
            return False
        return True
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def are_numbers(cells: Sequence[Any]) -> bool:
    """Whether all cells are numbers, or lists of them."""
    items = [item for cell in cells for item in (cell if isinstance(cell, list) else [cell])]
    return bool(items) and all(map(is_number, items))


def are_texts(cells: Sequence[Any]) -> bool:
    """Whether all cells are texts or chats, and not all numbers."""
    texts = [cell for cell in cells if isinstance(cell, str) or is_chat(cell)]
    return bool(cells) and len(texts) == len(cells) and not are_numbers(cells)


def are_objects(cells: Sequence[Any]) -> bool:
    """Whether all cells are objects with fields."""
    return bool(cells) and all(isinstance(cell, dict) and cell for cell in cells)


def name_of(expression: str) -> str:
    """The last name in an expression, in small letters."""
    names: list[str] = re.findall(r'"([^"]*)"', expression) or [expression.rpartition(".")[2]]
    return names[-1].rpartition("}")[2].casefold()  # without the namespace of XML


# ---------------------------------------------------------------- fields of one judged text


def leaves_of(items: Sequence[Mapping[str, Any]], expression: str) -> Fields:
    """The fields of objects, and those of objects in them."""
    fields: Fields = {}
    for name in dict.fromkeys(name for item in items for name in item):
        cells = [unpack(item[name]) for item in items if name in item and not is_missing(item[name])]
        inner = (
            f"{expression}[{quote(name)}]"
            if all(name in item for item in items)
            else f"{expression}.get({quote(name)})"
        )
        if are_objects(cells) and not all(are_numbers([*cell.values()]) and len(cell) > 1 for cell in cells):
            fields |= leaves_of(cells, inner)
        else:
            fields[inner] = cells
    return fields


def guess_roles(fields: Fields, recipe: Recipe, unnamed: str) -> tuple[dict[str, str], list[str]]:
    """Role -> field of the text and the judgement, by their names or kinds; and a loop where each text has several scores.

    What cannot be told is left for the user to complete.
    """
    named = {name_of(expression): expression for expression in reversed(fields)}
    others = {name: cells for name, cells in fields.items() if name_of(name) not in (*NAMES["system"], *NAMES["rater"])}
    texts = [expression for expression, cells in others.items() if are_texts(cells)]
    roles = {"candidate": choose_field(named, NAMES["candidate"], texts) or ""}
    others.pop(roles["candidate"], None)
    wanted = [name for name in (recipe.label, recipe.score) if name]
    judged = [expression for name in wanted if (expression := named.get(name.split(".")[-1].casefold()))]
    if not judged:
        by_name = choose_field(named, (*NAMES["label"], *NAMES["score"], "ratings", "scores", "quality"), [])
        numbers = [
            name for name, cells in others.items() if are_numbers(cells) and not NO_JUDGEMENT.search(name_of(name))
        ]
        objects = [name for name, cells in others.items() if are_objects(cells)]
        labels = [name for name, cells in others.items() if are_texts(cells) and len({*cells}) * 2 <= len(cells)]
        kinds = [[by_name] if by_name else [], numbers, objects, labels]
        judged = next((names for names in kinds if len(names) == 1), [])
    if not roles["candidate"]:
        texts = [expression for expression in texts if expression not in judged]
        roles["candidate"] = texts[0] if len(texts) == 1 else f"{unnamed}{TO_COMPLETE}"
    for role in ("system", "rater"):
        if expression := choose_field(named, NAMES[role], []):
            roles[role] = expression
    if judged and are_objects(fields[judged[0]]):
        return {**roles, "score": "score", "attribute": "attribute"}, [f"for attribute, score in {judged[0]}.items()"]
    is_label = recipe.by_label or (recipe.min_gap is None and not (judged and are_numbers(fields[judged[0]])))
    return {**roles, "label" if is_label else "score": judged[0] if judged else f"{unnamed}{TO_COMPLETE}"}, []


def choose_field(named: Mapping[str, str], names: Iterable[str], otherwise: Sequence[str]) -> str | None:
    """The first field that has one of the names, else the only one of some others."""
    expression = next((named[name] for name in names if name in named), None)
    return expression or (otherwise[0] if len(otherwise) == 1 else None)
