"""Cells of a table as texts and numbers, and columns by dotted names."""

from __future__ import annotations

import ast
import json
import math
import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd

from nnd_tasks.errors import NNDError, reason_of
from nnd_tasks.show.values import is_missing
from nnd_tasks.tables.decode import strip_ending
from nnd_tasks.text import some_of

if TYPE_CHECKING:
    from nnd_tasks.sets.recipe import Recipe

PATH, ROW = "@path", "@row"
#: Columns that tables have besides their own: the file's name without its ending, its folder, the key of an entry of an object or
#: of one of several lists, and the name of one of several sheets.
FILE, FOLDER, KEY, SHEET = PLACES = ("@file", "@folder", "@key", "@sheet")
_PLACE = re.compile(r"(.*?)(?:, sheet '(.*)')?(?:, key '(.*)')?(?:, (?:row|line|item) [\d,]+)?", re.DOTALL)
Array: TypeAlias = np.ndarray[Any, Any]
#: What programs write where there is no value: pandas, Python, JSON, databases, R and spreadsheets. In small letters `none` and
#: `null` are words of people.
TRACES = frozenset({"nan", "NaN", "NAN", "<NA>", "NaT", "None", "null", "NULL", "NA", "N/A", "n/a", "#N/A"})
#: What is in quotes or parts items in a list of Python's, and what only numpy writes there: np.int64(5), nan, and gaps.
_PIECES = re.compile(
    r"""(?P<python>'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|,)|\bnp\.\w+(?=\()|(?P<nan>\bnan\b)"""
    r"|(?P<gap>(?<=[^\s,\[({:])\s+(?=[^\s,.\])}:]))"
)
#: Texts in a column of numbers that mean that nobody judged.
_NO_NUMBER = frozenset({"-", *(trace.casefold() for trace in TRACES)})


def place_of(rows: pd.DataFrame, position: int) -> str:
    """Say where a row is: file and row, or what ``prepare.py`` says under ``where``."""
    row = rows.iloc[position]
    if ROW in row:
        return f"{row[PATH]}, {row[ROW] if isinstance(row[ROW], str) else f'row {row[ROW]}'}"
    return str(row["where"]) if isinstance(row.get("where"), str) else f"row {position + 1} of prepare.py"


def kind_of(value: Any) -> str:
    """Name the kind of a value in words."""
    names = {dict: "an object", list: "a list", str: "text", bool: "true/false", int: "a number", float: "a number"}
    return "nothing" if is_missing(value) else names.get(type(value), type(value).__name__)


def traces_of(role: str, recipe: Recipe) -> frozenset[str]:
    """Name the texts that stand for a missing value in a role: `TRACES`, but for labels and winners that the recipe names."""
    if recipe.missing == ():
        return frozenset()
    named = {"label": (*recipe.better, *recipe.ignore), "winner": recipe.winners}
    return TRACES - {*named.get(role, ())}


def texts_of_nobody(recipe: Recipe) -> frozenset[str]:
    """Name the cells that mean "nobody judged": stripped texts whose case is ignored."""
    return frozenset(text.strip().casefold() for text in ("", *(recipe.missing or ())))


def unpack(value: Any) -> Any:
    """Read the list or object that a text holds, as JSON or as Python writes it; any other value stays as it is."""
    if not isinstance(value, str) or not value.lstrip().startswith(("[", "{", "(")):
        return value
    for read in (json.loads, _read_python):
        with suppress(ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            content = read(value.strip())
            return content if isinstance(content, (list, tuple, dict)) else value
    return value


def _read_python(text: str) -> Any:
    """Read what Python writes, or numpy: ``['a' 'b']``, which Python takes for one text, has two items."""
    parted = not text.startswith("[") or "," in {found[0] for found in _PIECES.finditer(text)}

    def write(found: re.Match[str]) -> str:
        gap = found["gap"] if parted else ", "
        return {"python": found[0], "nan": "None", "gap": gap, None: ""}[found.lastgroup]

    content = ast.literal_eval(_PIECES.sub(write, text))
    if isinstance(content, tuple) and not parted:
        raise ValueError("several lists")
    return content


def list_items(cell: Any) -> list[Any]:
    """List what a cell holds: the items of a list, which may be a text as in CSV; an empty list holds nothing, once."""
    content = unpack(cell)
    return (list(content) or [None]) if isinstance(content, (list, tuple)) else [cell]


def take_column(table: pd.DataFrame, name: str, *, each: bool = False) -> Array:
    """Take a column by its name, or by a dotted name that leads into objects and lists; shape (rows,), of objects.

    Args:
        table: rows of a file.
        name: of the column.
        each: a field of a list of objects is the list of the field of each; else an item is named by its number.

    Raises:
        NNDError: there is no such column or field.
    """
    root, path = split_column(table, name)
    if root and not path:
        return np.asarray(table[root], dtype=object)
    if name in PLACES and {PATH, "where"} & {*table.columns}:
        return take_places(table, name)
    if not root:
        offered = some_of(
            [column for column in table.columns if column not in (PATH, ROW, FILE, "exclusion", "where")], 40, str
        )
        hint = "; name a field of an object with a dot" if any(isinstance(cell, dict) for cell in table.iloc[0]) else ""
        place = table[PATH].iat[0] if PATH in table else "rows(folder)"
        raise NNDError(f"{place}: no column {name!r}; there are: {offered}{hint}")
    try:
        return np.fromiter(_follow_all(table[root].to_numpy(object), path, each), object, len(table))
    except LookupError as error:
        raise NNDError(f"{place_of(table, 0)}, column {name!r}: {error.args[0]}") from None


def empty_items(table: pd.DataFrame, recipe: Recipe) -> tuple[pd.DataFrame, Recipe]:
    """Empty the objects of lists that ``leave_out`` names by a field, such as ``responses.status``: they hold no judgement then.

    Returns:
        The table, and the recipe without those values of ``leave_out`` that an object has.
    """
    left_out = dict(recipe.leave_out)
    for column, values in recipe.leave_out.items():
        root, path = split_column(table, column)
        cells = [unpack(cell) for cell in table[root]] if root and len(path) == 1 else []
        if not any(isinstance(cell, (list, tuple)) for cell in cells):
            continue
        names = {value.strip().casefold(): value for value in values}

        def says(item: Any, field: str = path[0], names: Mapping[str, str] = names) -> str | None:
            return names.get(str(item.get(field)).strip().casefold()) if isinstance(item, dict) else None

        found = {says(item) for cell in cells if isinstance(cell, (list, tuple)) for item in cell}
        empty = {path[0]: None}
        emptied = [
            [empty if says(i) else i for i in cell] if isinstance(cell, (list, tuple)) else cell for cell in cells
        ]
        table = table.assign(**{root: pd.Series(emptied, table.index, dtype=object)})
        left_out[column] = tuple(value for value in values if value not in found)
    kept = {column: values for column, values in left_out.items() if values}
    return table, recipe.model_copy(update={"leave_out": kept})


def take_places(table: pd.DataFrame, name: str) -> Array:
    """Take what the place of each row says of its file, folder, key or sheet; None where it does not."""
    number, places = pd.factorize(table["where"] if "where" in table else table[PATH], use_na_sentinel=False)

    def take(place: str) -> str | None:
        path, sheet, key = _PLACE.fullmatch(place).groups()  # type: ignore[union-attr]
        return {FILE: strip_ending(Path(path)), FOLDER: Path(path).parent.name, KEY: key, SHEET: sheet}[name]

    said: Array = np.array([take(str(place)) for place in places], dtype=object)[number]
    return said


def split_column(table: pd.DataFrame, name: str) -> tuple[str, list[str]]:
    """Split a dotted name into that of a column, which may have dots itself, and the path in its cells; "" for no column."""
    parts = name.split(".")
    ends = range(len(parts), 0, -1)
    end = next((end for end in ends if ".".join(parts[:end]) in table.columns), 0)
    return ".".join(parts[:end]), parts[end:]


def _follow_all(values: Sequence[Any], path: Sequence[str], each: bool) -> list[Any]:
    """Follow a path in some values. A field that some lack is as an empty cell; raise LookupError where all lack it."""
    found: list[Any] = []
    absent = []
    for value in values:
        try:
            found.append(_follow(value, path, each))
        except LookupError as error:
            found.append(None)
            absent.append(error)
    if absent and len(absent) == len(values):
        raise absent[0]
    return found


def _follow(value: Any, path: Sequence[str], each: bool) -> Any:
    for number, step in enumerate(path):
        value = unpack(value)
        if is_missing(value) or value == "":
            return None
        items = isinstance(value, (list, tuple))
        if items and each and not step.isdigit():
            return _follow_all(value, path[number:], each)
        try:
            value = value[int(step)] if items else value[step]
        except (LookupError, TypeError, ValueError):
            offered = f"; there are {some_of(list(value), 12, str)}" if isinstance(value, dict) else ""
            hint = "; name an item by its number, such as 0" if items else ""
            raise LookupError(f"no {step!r} in {kind_of(value)}{offered}{hint}") from None
    return value


def render(value: Any) -> str | None:
    """Write a cell as text: a list with an item per line (an inner list with bars), chat messages with their speakers.

    Of texts that look like a list only chats are read, as an answer may be ``[0, 1]``.

    Raises:
        ValueError: it cannot be written as text.
    """
    value = read_chat(value)
    if isinstance(value, str):
        return value
    if is_missing(value):
        return None
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (float, np.floating)):
        return str(int(value)) if float(value).is_integer() else repr(float(value))
    if isinstance(value, (int, np.integer)):
        return str(value)
    if is_chat(value):
        return join_messages(read_messages(value))
    if isinstance(value, (list, tuple)):
        rows = [item if isinstance(item, (list, tuple)) else [item] for item in value]
        return "\n".join(" | ".join(render(item) or "" for item in row) for row in rows)
    if hasattr(value, "isoformat"):
        return str(value)
    raise ValueError(f"expected text, found {kind_of(value)}")


def as_texts(
    cells: Any, rows: pd.DataFrame, column: str, *, strip: bool = False, absent: Collection[str] = ()
) -> Array:
    """Write cells as texts in Unicode NFC, None for nothing; shape (rows,), the texts of equal cells are one object.

    Args:
        cells: of one column.
        rows: the table, for the place in an error.
        column: its name, likewise.
        strip: remove white space around them, as for names; several names in a list have bars between them.
        absent: texts, without white space around them, that are nothing.

    Raises:
        NNDError: a cell is not text, or holds half a surrogate pair.
    """
    known: dict[str, str | None] = {}  # what each text among the cells becomes
    once: dict[str | None, str | None] = {}  # what the other cells become
    texts: list[str | None] = []
    for cell in cells:
        if type(cell) is str and cell in known:
            texts.append(known[cell])
            continue
        try:
            text = cell
            if not (type(cell) is str and cell[:1].isalnum()):  # which is no list
                if strip:
                    first, *others = list_items(cell)
                    text = "|".join(filter(None, map(render, [first, *others]))) if others else first
                text = render(text)
            if text is not None and not text.isascii():
                text.encode("utf-8")
                text = unicodedata.normalize("NFC", text)
        except (ValueError, RecursionError) as error:
            problem = "it holds half a surrogate pair" if isinstance(error, UnicodeEncodeError) else reason_of(error)
            raise NNDError(f"{place_of(rows, len(texts))}, column {column!r}: {problem}") from None
        if text is not None:
            plain = text.strip()
            text = None if plain in absent else plain if strip else text
        texts.append(known.setdefault(cell, text) if type(cell) is str else once.setdefault(text, text))
    return np.array([*texts, None], dtype=object)[:-1]


def as_number(cell: Any, recipe: Recipe, missing: Collection[str]) -> float | None:
    """Read a cell as a number, nan where nobody judged, None where it is not a finite number."""
    if is_missing(cell):
        return math.nan
    if isinstance(cell, str):
        cell = cell.strip()
        if cell.casefold() in _NO_NUMBER or cell.casefold() in missing:
            return math.nan
        # 1_000 is no number here, and 1.000 may be one or a thousand.
        if "_" in cell or (recipe.decimal == "," and "." in cell):
            return None
        cell = cell.replace(recipe.decimal, ".")
    try:
        value = None if isinstance(cell, (bool, np.bool_)) else float(cell)
    except (TypeError, ValueError, OverflowError):
        return None
    if value is not None and render(value) in missing:
        return math.nan
    return value if value is None or math.isfinite(value) else None


# ---------------------------------------------------------------- chats

#: How a context of several messages ends; the candidates follow.
ANSWER = "\n\nAssistant:"
_KEYS = (("role", "content"), ("from", "value"))
_NAMES = {
    **dict.fromkeys(("user", "human", "prompter"), "User"),
    **dict.fromkeys(("assistant", "gpt"), "Assistant"),
    "system": "System",
}
Message = tuple[str, str]


def is_chat(value: Any) -> bool:
    """Tell whether a cell is a list of messages: objects with ``role`` and ``content``, or ``from`` and ``value``."""
    return isinstance(value, (list, tuple)) and bool(value) and all(_keys_of(item) for item in value)


def read_chat(value: Any) -> Any:
    """Read the chat that a text holds, as in CSV; any other value stays as it is."""
    content = unpack(value)
    return content if is_chat(content) else value


def _keys_of(item: Any) -> tuple[str, str] | None:
    if not isinstance(item, Mapping):
        return None
    return next((keys for keys in _KEYS if isinstance(item.get(keys[0]), str) and keys[1] in item), None)


def read_messages(chat: Sequence[Any]) -> list[Message]:
    """Read speaker and text of each message of a chat; raise ValueError where one has no text."""
    messages = []
    for item in chat:
        role, content = _keys_of(item) or _KEYS[0]
        name, text = item[role].strip(), item[content]
        if isinstance(text, list):
            text = "\n".join(item.get("text", "") if isinstance(item, Mapping) else str(item) for item in text)
        if not isinstance(text, str):
            raise ValueError(f"a message of {name!r} has no text")
        messages.append((_NAMES.get(name.lower(), name), text))
    return messages


def join_messages(messages: Sequence[Message]) -> str:
    """Write messages as text: a single one as it is, several with the name of the speaker before each."""
    return messages[0][1] if len(messages) == 1 else "\n\n".join(f"{name}: {text}" for name, text in messages)
