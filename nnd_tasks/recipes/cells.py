"""Cells of a table as texts and numbers, and the names by which a recipe finds them.

A name is that of a column, or a way into a nested one: ``scores.fluency`` (an object's field), ``votes[0]`` (an item of a list),
``answers[].text`` (a field of every item, as a list). Dots and brackets count only where no column has the whole name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from nnd_tasks.codes import Codes, Floats, Index, Texts
from nnd_tasks.errors import NNDError
from nnd_tasks.recipes.chat import is_chat, render_chat

#: What a cell of numbers says where nobody judged.
NO_NUMBER = frozenset({"", "na", "n/a", "nan", "none", "null", "-"})
Column: TypeAlias = pa.Array | list[Any]
Where: TypeAlias = Callable[[int], str]


# ---------------------------------------------------------------- names

_ROOT = re.compile(r"[^.\[]+")
_STEP = re.compile(r"\.([^.\[]+)|\[(-?\d*)\]")


class AbsentError(Exception):
    """A nested name leads nowhere; its text says what is there instead.

    Attributes:
        field: whether an object lacks the field; else something stands there that is no object or list.
    """

    def __init__(self, message: str, *, field: bool = False) -> None:
        super().__init__(message)
        self.field = field


def root(name: str) -> str:
    """Return the column that a nested name begins with."""
    match = _ROOT.match(name)
    return match[0] if match else name


def walk(value: Any, way: str) -> Any:
    """Return what the rest of a nested name, such as ``.scores[0]``, leads to; None behind a cell that is None.

    Raises:
        AbsentError: it leads nowhere.
    """
    place = 0
    while place < len(way):
        step = _STEP.match(way, place)
        if step is None:
            raise AbsentError(f"the name ends in {way[place:]!r}, which is neither .FIELD nor [NUMBER] nor []")
        place = step.end()
        if value is None:
            return None
        if step[1] is not None:
            if not isinstance(value, Mapping):
                hint = f"; []{step[0]} is that of each item" if isinstance(value, (list, tuple)) else ""
                raise AbsentError(f"before .{step[1]} stands {kind(value)}, not an object{hint}")
            if step[1] not in value:
                found = ", ".join(map(str, list(value)[:12]))
                raise AbsentError(f"field {step[1]!r} is missing (found: {found})", field=True)
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
    """Return what to call a value in an error."""
    names = {dict: "an object", list: "a list", str: "text", bool: "true/false", int: "a number", float: "a number"}
    return "nothing" if value is None else names.get(type(value), type(value).__name__)


def shown(value: Any) -> str:
    """Return a value as an error shows it."""
    try:
        text = repr(value)
    except RecursionError:
        return f"{kind(value)} that is nested too deeply"
    return text if len(text) <= 60 else text[:57] + "..."


# ---------------------------------------------------------------- texts


def listed(column: Column) -> list[Any]:
    """Return the cells of a column as Python objects."""
    return list(column.to_pylist()) if isinstance(column, pa.Array) else list(column)


def render(value: Any) -> str | None:
    """Return a cell as text; of a list each item is a line, an inner list one line between bars; messages as a chat.

    Raises:
        ValueError: it has no such form.
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
    """Raise NNDError for more text than a table of judgements has, such as a long one that is repeated for each of many rows."""
    if characters > MAX_CHARACTERS:
        raise NNDError(f"{where(0)}: {characters:,} characters of text from here on; this is no table of judgements")


def strings(values: Column, where: Where, only: tuple[type, ...] = ()) -> pa.Array:
    """Return a column as an array of strings, null where a cell holds nothing.

    Args:
        values: the column.
        where: names a cell.
        only: what a cell of a file that knows kinds can be; nothing takes all that `render` does.

    Raises:
        NNDError: a cell is no text, or holds what UTF-8 cannot.
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
    """Return the cells of a column with each item of a list as a cell of its own, and the position of each in the column.

    Raises:
        NNDError: there are more than a table of judgements has.
    """
    if isinstance(values, pa.Array) or not any(isinstance(value, (list, tuple)) for value in values):
        return np.arange(len(values), dtype=np.int64), values
    places: list[int] = []
    cells: list[Any] = []
    for i, value in enumerate(values):
        items = value if isinstance(value, (list, tuple)) else [value]
        if len(cells) + len(items) > MAX_ITEMS:
            raise NNDError(f"{where(i)}: more than {MAX_ITEMS:,} judgements in lists; this is no table of judgements")
        places += [i] * len(items)
        cells += items
    return np.array(places, dtype=np.int64), cells


# ---------------------------------------------------------------- numbers


class Numbers:
    """Reads cells as numbers.

    Args:
        missing: texts that say that nobody judged, besides `NO_NUMBER`.
        decimal: what stands between a number's whole and its fraction, ``.`` or ``,``.
        scale: the lowest and the highest number that can be right, or None.
    """

    def __init__(
        self, missing: Sequence[str] = (), decimal: str = ".", scale: tuple[float, float] | None = None
    ) -> None:
        self._missing = NO_NUMBER | {text.strip().casefold() for text in missing}
        numbers = (as_number(text.strip().replace(decimal, ".")) for text in missing)
        self._no_marks = [number for number in numbers if number is not None and not math.isnan(number)]
        self._decimal, self._scale = decimal, scale

    def read(self, values: Column, where: Where) -> Floats:
        """Return a column of numbers, nan where nobody judged; shape (rows,).

        Raises:
            NNDError: a cell holds something else, no finite number, or one outside the scale.
        """
        found = self._read(values, where)
        if self._scale is not None:
            low, high = self._scale
            wrong = (found < low) | (found > high)
            if wrong.any():
                place = int(wrong.argmax())
                raise NNDError(f"{where(place)}: a judgement lies in {low:g} to {high:g}, found {found[place]:g}")
        return found

    def _read(self, values: Column, where: Where) -> Floats:
        if isinstance(values, pa.Array) and not pa.types.is_string(values.type):
            found = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
            bad = np.isinf(found)
            if bad.any():
                raise NNDError(f"{where(int(bad.argmax()))}: expected a finite number")
            return np.where(np.isin(found, self._no_marks), np.nan, found).astype(np.float64)
        cells: Sequence[Any] = values.to_pylist() if isinstance(values, pa.Array) else values
        known: dict[str, float] = {}
        result = np.empty(len(cells))
        for i, cell in enumerate(cells):
            value = known.get(cell) if isinstance(cell, str) else None
            if value is None:
                value = self.number(cell)
                if value is None:
                    raise NNDError(f"{where(i)}: expected a number, found {shown(cell)}{self._hint(cell)}")
                if isinstance(cell, str):
                    known[cell] = value
            result[i] = value
        return result

    def _hint(self, cell: Any) -> str:
        if self._decimal == "." and isinstance(cell, str) and re.fullmatch(r"\s*[+-]?\d+,\d+\s*", cell):
            return "; for decimal commas add --decimal ,"
        if self._decimal != "." and isinstance(cell, str) and "." in cell:
            return f"; with --decimal {self._decimal} a point is no part of a number"
        return "; if this says that nobody judged, name it with --missing" if isinstance(cell, str) else ""

    def number(self, cell: Any) -> float | None:
        """Return a cell as a number, nan where nobody judged, None where it is something else."""
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


def as_number(cell: Any) -> float | None:
    """Return a cell as a number, nan where it is empty, None where it is something else."""
    return Numbers().number(cell)
