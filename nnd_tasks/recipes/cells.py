"""Cells of a table as texts and numbers, and nested names.

A name is that of a column, or leads into a nested one: ``scores.fluency`` (a field of an object), ``votes[0]`` (an item of a
list), ``answers[].text`` (a field of every item, as a list). Dots and brackets have this meaning only where no column has the
whole name. In a file format without lists and objects, a cell may hold them as JSON or as Python writes them.
"""

from __future__ import annotations

import ast
import json
import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nnd_tasks.codes import Codes, Floats, Index, Texts
from nnd_tasks.errors import NNDError
from nnd_tasks.recipes.chat import is_chat, render_chat

#: Texts in a column of numbers that mean that nobody judged.
NO_NUMBER = frozenset({"", "na", "n/a", "nan", "none", "null", "-"})
Column: TypeAlias = pa.Array | list[Any]
Where: TypeAlias = Callable[[int], str]


# ---------------------------------------------------------------- names

_ROOT = re.compile(r"[^.\[]+")
_STEP = re.compile(r"\.([^.\[]+)|\[(-?\d*)\]")


class AbsentError(Exception):
    """A nested name leads nowhere; the message says what is there instead.

    Attributes:
        field: True where an object lacks a field, False where there is no object or list to go into.
    """

    def __init__(self, message: str, *, field: bool = False) -> None:
        super().__init__(message)
        self.field = field


def root(name: str) -> str:
    """Return the column that a nested name begins with."""
    match = _ROOT.match(name)
    return match[0] if match else name


#: A text and anything else in the lists and objects that Python writes, and how deep they may be nested.
_PYTHON = re.compile(
    r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|[\[{(]|[\]})]|[\s,:]|-?\d[\d.eE+]*|None|True|False""", re.DOTALL
)
_DEEPEST = 20


def unpacked(value: Any) -> Any:
    """Return the list or object that a text holds, as JSON or as Python writes it; any other value as it is."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("[", "{", "("):
        return value
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        found = _python(value.strip())
    return found if isinstance(found, (list, tuple, dict)) else value


def _python(text: str) -> Any:
    """Return what a text means to Python if it is made of texts, numbers, lists and dicts alone; None for any other."""
    place = depth = 0
    before = False  # whether a text stands before: Python would join two
    while place < len(text):
        part = _PYTHON.match(text, place)
        if part is None or (before and part[1]):
            return None
        before = bool(part[1]) or (before and part[0].isspace())
        depth += (part[0] in "[{(") - (part[0] in "]})")
        place = part.end()
        if depth > _DEEPEST or (depth < 1 and place < len(text)):
            return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of unknown escapes
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            return None


def walk(value: Any, way: str) -> Any:
    """Return what the rest of a nested name, such as ``.scores[0]``, leads to in a value; None in a value that is None.

    Raises:
        AbsentError: the name leads nowhere.
    """
    place = 0
    while place < len(way):
        step = _STEP.match(way, place)
        if step is None:
            raise AbsentError(f"the name ends in {way[place:]!r}, which is neither .FIELD nor [NUMBER] nor []")
        place = step.end()
        value = unpacked(value)
        if value is None or value == "":
            return None
        if step[1] is not None:
            if not isinstance(value, Mapping):
                hint = f"; use []{step[0]} for every item" if isinstance(value, (list, tuple)) else ""
                raise AbsentError(f"before .{step[1]} stands {kind(value)}, not an object{hint}")
            if step[1] not in value:
                known = ", ".join(map(str, list(value)[:12]))
                raise AbsentError(f"field {step[1]!r} is missing (found: {known})", field=True)
            value = value[step[1]]
        elif not isinstance(value, (list, tuple)):
            raise AbsentError(f"before [{step[2]}] stands {kind(value)}, not a list")
        elif step[2]:
            number = int(step[2])
            if not -len(value) <= number < len(value):
                raise AbsentError(f"the list has no item [{number}]")
            value = value[number]
        else:
            return [_walk_item(item, way[place:], number) for number, item in enumerate(value)]
    return value


def _walk_item(item: Any, way: str, number: int) -> Any:
    """Return what a name leads to in an item of a list; an error has the item's number."""
    try:
        return walk(item, way)
    except AbsentError as error:
        raise AbsentError(f"in item [{number}] {error}", field=error.field) from None


def kind(value: Any) -> str:
    """Return the kind of a value in words, for an error."""
    names = {dict: "an object", list: "a list", str: "text", bool: "true/false", int: "a number", float: "a number"}
    return "nothing" if value is None else names.get(type(value), type(value).__name__)


def short_repr(value: Any) -> str:
    """Return a value as an error shows it."""
    try:
        text = repr(value)
    except RecursionError:
        return f"{kind(value)} that is nested too deeply"
    return text if len(text) <= 60 else text[:57] + "..."


# ---------------------------------------------------------------- texts


def listed(column: Column) -> list[Any]:
    """Return the cells of a column as Python objects, in a list that must not be changed."""
    return column if isinstance(column, list) else list(column.to_pylist())


def render(value: Any) -> str | None:
    """Return a cell as text: a list with an item per line, an inner list as one line with bars, messages as a chat.

    Raises:
        ValueError: the cell cannot be written as text.
    """
    try:
        return _render(value)
    except RecursionError:
        raise ValueError("lists nested too deeply") from None


def _render(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return None if math.isnan(value) else str(int(value)) if value.is_integer() else repr(value)
    if is_chat(value):
        return render_chat(value)
    if isinstance(value, (list, tuple)):
        lines = []
        for item in value:
            inner = item if isinstance(item, (list, tuple)) else [item]
            lines.append(" | ".join(_render(part) or "" for part in inner))
        return "\n".join(lines)
    raise ValueError(f"expected text, found {kind(value)}")


#: Characters of text that one column may bring into memory at a time.
MAX_CHARACTERS = 1 << 30
#: Items of lists that one column may have in a piece of a table.
MAX_ITEMS = 20_000_000


def check_size(characters: int, where: Where) -> None:
    """Raise NNDError for more text than a table of judgements has, such as a long text that is repeated for many rows."""
    if characters > MAX_CHARACTERS:
        raise NNDError(f"{where(0)}: {characters:,} characters of text from here on: too large; is it the right file?")


def strings(values: Column, where: Where, only: tuple[type, ...] = ()) -> pa.Array:
    """Return a column as an array of strings, null where a cell holds nothing.

    Args:
        values: the column.
        where: returns the place of a cell.
        only: types that a cell may have, in a file format with types; empty allows all that `render` takes.

    Raises:
        NNDError: a cell is not text, or cannot be stored as UTF-8.
    """
    if isinstance(values, pa.Array):
        if pa.types.is_string(values.type):
            return values
        values, only = values.to_pylist(), ()
    texts: list[str | None] = []
    size, last = 0, None
    for i, value in enumerate(values):
        if i and value is last and not isinstance(value, str):  # a list that is repeated for each of many rows
            texts.append(texts[-1])
            size += len(texts[-1] or "")
            continue
        last = value
        if only and value is not None and type(value) not in only:
            raise NNDError(f"{where(i)}: expected text, found {kind(value)}")
        try:
            texts.append(render(value))
        except ValueError as error:
            raise NNDError(f"{where(i)}: {error}") from None
        size += len(texts[-1] or "")
    check_size(size, where)
    try:
        return pa.array(texts, pa.string())
    except (UnicodeEncodeError, pa.ArrowException):
        for i, text in enumerate(texts):
            try:
                (text or "").encode("utf-8")
            except UnicodeEncodeError as error:
                raise NNDError(f"{where(i)}: it holds half a surrogate pair at character {error.start}") from None
        raise


def coded(texts: Texts, values: Column, where: Where) -> Codes:
    """Return the codes of a column in ``texts``; raises as `strings`."""
    return texts.add(strings(values, where))


def spread(values: Column, where: Where) -> tuple[Index, Column]:
    """Return the position of each cell in the column and the cells, with each item of a list as a cell of its own.

    A list may be a text, as in CSV.

    Raises:
        NNDError: there are more cells than a table of judgements has.
    """
    if isinstance(values, pa.Array) and pa.types.is_string(values.type) and pc.any(pc.starts_with(values, "[")).as_py():
        values = [unpacked(value) for value in values.to_pylist()]
    if isinstance(values, pa.Array) or not any(isinstance(value, (list, tuple)) for value in values):
        return np.arange(len(values), dtype=np.int64), values
    places: list[int] = []
    cells: list[Any] = []
    for i, value in enumerate(values):
        items = value if isinstance(value, (list, tuple)) else [value]
        if len(cells) + len(items) > MAX_ITEMS:
            raise NNDError(f"{where(i)}: more than {MAX_ITEMS:,} judgements in lists: too large; is it the right file?")
        places += [i] * len(items)
        cells += items
    return np.array(places, dtype=np.int64), cells


# ---------------------------------------------------------------- numbers


class Numbers:
    """Reads cells as numbers.

    Args:
        missing: texts that mean that nobody judged, besides `NO_NUMBER`.
        decimal: the decimal mark, ``.`` or ``,``.
        scale: the lowest and the highest valid number, or None.
    """

    def __init__(
        self, missing: Sequence[str] = (), decimal: str = ".", scale: tuple[float, float] | None = None
    ) -> None:
        self._missing = NO_NUMBER | {text.strip().casefold() for text in missing}
        numbers = (Numbers().number(text.strip().replace(decimal, ".")) for text in missing)
        self._no_marks = [number for number in numbers if number is not None and not math.isnan(number)]
        self._decimal, self._scale = decimal, scale

    def read(self, values: Column, where: Where) -> Floats:
        """Return a column of numbers, nan where nobody judged; shape (rows,).

        Raises:
            NNDError: a cell is not a finite number, or lies outside the scale.
        """
        numbers = self._read(values, where)
        if self._scale is not None:
            low, high = self._scale
            wrong = (numbers < low) | (numbers > high)
            if wrong.any():
                place = int(wrong.argmax())
                raise NNDError(f"{where(place)}: a judgement lies in {low:g} to {high:g}, found {numbers[place]:g}")
        return numbers

    def _read(self, values: Column, where: Where) -> Floats:
        if isinstance(values, pa.Array) and not pa.types.is_string(values.type):
            numbers = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
            infinite = np.isinf(numbers)
            if infinite.any():
                raise NNDError(f"{where(int(infinite.argmax()))}: expected a finite number")
            return np.where(np.isin(numbers, self._no_marks), np.nan, numbers).astype(np.float64)
        cells = listed(values)
        known: dict[str, float] = {}
        result = np.empty(len(cells))
        for i, cell in enumerate(cells):
            value = known.get(cell) if isinstance(cell, str) else None
            if value is None:
                value = self.number(cell)
                if value is None:
                    raise NNDError(f"{where(i)}: expected a number, found {short_repr(cell)}{self._hint(cell)}")
                if isinstance(cell, str):
                    known[cell] = value
            result[i] = value
        return result

    def _hint(self, cell: Any) -> str:
        if self._decimal == "." and isinstance(cell, str) and re.fullmatch(r"\s*[+-]?\d+,\d+\s*", cell):
            return "; for decimal commas add --decimal ,"
        if self._decimal != "." and isinstance(cell, str) and "." in cell:
            return f"; with --decimal {self._decimal} a number has no point"
        return "; if this says that nobody judged, name it with --missing" if isinstance(cell, str) else ""

    def number(self, cell: Any) -> float | None:
        """Return a cell as a number, nan where nobody judged, None where it is not a number."""
        if cell is None:
            return math.nan
        if isinstance(cell, str):
            cell = cell.strip()
            if cell.casefold() in self._missing:
                return math.nan
            if "_" in cell:  # Python reads 1_000 as a thousand
                return None
            if self._decimal != ".":
                if "." in cell:  # 1.000 may be one or a thousand
                    return None
                cell = cell.replace(self._decimal, ".")
        if isinstance(cell, bool) or not isinstance(cell, (int, float, str)):
            return None
        try:
            value = float(cell)
        except (ValueError, OverflowError):
            return None
        if value in self._no_marks:
            return math.nan
        return None if math.isinf(value) else value
