"""From the rows of a file to the rows that a recipe describes: nested names, lists taken apart, one row per system."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from nnd_tasks.errors import NNDError
from nnd_tasks.judgements import Dropped
from nnd_tasks.recipes.base_table import FILE_STEP, Batch, Several, Table
from nnd_tasks.recipes.cells import (
    AbsentError,
    Column,
    Where,
    check_size,
    kind,
    listed,
    render,
    root,
    short_repr,
    unpacked,
    walk,
)
from nnd_tasks.recipes.chat import is_chat
from nnd_tasks.recipes.recipe import FILE, FOLDER, Recipe
from nnd_tasks.schema import normalize
from nnd_tasks.wording import did_you_mean, some_of

#: Rows that a table may be taken apart into.
MAX_ROWS = 50_000_000


def batches(table: Table, recipe: Recipe, *, inside: bool = False, file: int = 0) -> Iterator[Batch]:
    """Yield the rows that a recipe makes from a table; the columns have the names that the recipe uses.

    Args:
        table: the table of a file, or of several.
        recipe: how it is read.
        inside: yield all columns, and the fields of items of lists that are taken apart, too.
        file: position of the file among several.

    Raises:
        NNDError: a file that cannot be read, or a nested name that leads nowhere; the error names the row.
    """
    if isinstance(table, Several):
        for file, one in enumerate(table.tables):
            yield from batches(one, recipe, inside=inside, file=file)
        return
    names, choices = recipe.columns(), _choices(recipe)
    written = list(dict.fromkeys(_fill(name, choice) for name in names for choice in choices))
    lists = [name for name, _ in lists_of(recipe.rows)]
    if recipe.complete and table.known is not None:
        _check_columns(table, recipe, table.known, written)
    left, first = MAX_ROWS, True
    for batch in table.read(None if inside else table.needed([*written, *lists])):
        if first and not recipe.complete:
            _check_columns(table, recipe, batch.columns, written)
        first = False
        if file:
            batch = replace(batch, numbers=[number + file * FILE_STEP for number in batch.numbers])
        apart = _take_apart(batch, recipe)
        _check_items(table, recipe, written, batch.columns)
        left -= len(apart.numbers) * len(choices)
        if left < 0:
            raise NNDError(f"{table.name}: its lists and `each` make more than {MAX_ROWS:,} rows")
        yield _one_category(_each(apart, recipe, [*names, *(_inside(apart, names) if inside else ())]), recipe)


def _inside(batch: Batch, names: Sequence[str]) -> list[str]:
    """Return the column names of a batch plus the fields of its unpacked list items, without ``names``."""
    columns = [name for name in batch.columns if not name.startswith("@") and not name.endswith("[]")]
    for name, cells in batch.columns.items():
        if name.endswith("[]"):
            objects = [cell for cell in cells if isinstance(cell, Mapping)]
            columns += [f"{name}.{field}" for field in dict.fromkeys(field for one in objects for field in one)]
    return [name for name in columns if name not in names]


def _optional(recipe: Recipe) -> set[str]:
    """Return the columns in ``{a|b}`` of the template of a group: a table may lack all but one of them."""
    return {name for part in recipe.group_parts() if "|" in part for name in part.split("|")}


def _check_columns(table: Table, recipe: Recipe, columns: Iterable[str], names: Sequence[str]) -> None:
    """Raise NNDError where a table with ``columns`` lacks one that the recipe names; single cells may be absent."""
    own = {*columns, *recipe.each, *recipe.constant, *((FILE, FOLDER) if table.path is not None else ())}
    optional = _optional(recipe)
    either = [part.split("|") for part in recipe.group_parts() if "|" in part]
    for choice in [*([name] for name in names if name not in optional), *either]:
        if any(name in own or root(name) in own for name in choice):
            continue
        if not recipe.complete:
            head = table.head()
            raise no_column(" or ".join(choice), table.known or head, table, list_hint(head, recipe))
        known = ", ".join(name for name in list(columns)[:12] if not name.startswith("@"))
        wanted = " or ".join(map(repr, choice))
        raise NNDError(f"{table.name}{table.header}: no column {wanted} (found: {known}); is it the right file?")


def _check_items(table: Table, recipe: Recipe, names: Sequence[str], columns: Iterable[str]) -> None:
    """Raise NNDError for a name that leads into a list that is taken apart, but not into its items: it would find nothing."""
    taken = next((name for name, _ in lists_of(recipe.rows) if name in columns), "")
    others = {*columns} - {taken}
    wrong = [name for name in names if taken and root(name) == taken and name not in others]
    wrong = [name for name in wrong if not name.startswith(f"{taken}[]")]
    if wrong:
        raise NNDError(
            f"{table.name}: rows makes a row of each item of {taken!r}; in {wrong[0]!r} write {taken}[] in place of {taken}"
        )


def no_column(name: str, columns: Iterable[str], table: Table, hint: str = "") -> NNDError:
    """Return the error of a table that has ``columns``, but not ``name``; it suggests a similar one, and ends with a hint."""
    known = [column for column in columns if not column.startswith("@")]
    meant = did_you_mean(name, known, end=" ")
    return NNDError(f"{table.name}: there is no column {name!r}; {meant}there are: {some_of(known, 40, str)}{hint}")


def list_hint(columns: Mapping[str, Column], recipe: Recipe) -> str:
    """Return how to take a column of lists of objects apart into rows, where a table has one and the recipe does not say."""
    for name, cells in columns.items():
        if recipe.rows is None and any(map(_holds_objects, listed(cells[:10]))):
            return f". A row of {name!r} holds a list of objects; --rows '{name}[]' makes a row of each"
    return ""


def _holds_objects(cell: Any) -> bool:
    """Tell whether a cell is a list of objects that are not the messages of a chat."""
    objects = isinstance(cell, list) and bool(cell) and all(isinstance(item, Mapping) for item in cell)
    return objects and not is_chat(cell)


def _choices(recipe: Recipe) -> list[dict[str, str]]:
    """Return every combination of the values of `Recipe.each`, as name -> value."""
    return [dict(zip(recipe.each, values, strict=True)) for values in product(*recipe.each.values())]


def _fill(name: str, choice: Mapping[str, str]) -> str:
    """Return the name of a column with a value in place of each ``{name}``."""
    for variable, value in choice.items():
        name = name.replace(f"{{{variable}}}", value)
    return name


def column_of(batch: Batch, name: str, *, complete: bool) -> Column:
    """Return the column of a batch that a name stands for.

    Args:
        batch: some rows.
        name: the name of a column, or a nested name.
        complete: whether an absent cell is an error; else it is None.

    Raises:
        NNDError: the name leads nowhere in some row.
    """
    if name in batch.columns:
        return batch.columns[name]
    start = next((n for n in _beginnings(name) if n in batch.columns), None)
    if start is None:
        if complete and len(batch.numbers):
            known = ", ".join(column for column in list(batch.columns)[:12] if not column.startswith("@"))
            raise NNDError(
                f"{batch.place(0)}: field {name!r} is missing (found: {known or 'none'}); is it the right file?"
            )
        return [None] * len(batch.numbers)
    cells: list[Any] = []
    column = batch.columns[start]
    last: Any = None
    for i, cell in enumerate(listed(column)):
        if i and cell is last:  # one object for many rows that were taken out of a list beside it
            cells.append(cells[-1])
            continue
        last = cell
        try:
            cells.append(walk(cell, name[len(start) :]))
        except AbsentError as error:
            if complete or not error.field:
                raise NNDError(f"{batch.place(i)}, {name!r}: {error}") from None
            cells.append(None)
    return cells


def _beginnings(name: str) -> Iterator[str]:
    """Yield the columns that a nested name may begin with: lists that were taken apart, the longest first, then its root."""
    place = name.rfind("[]")
    while place > 0:
        yield name[: place + 2]
        place = name.rfind("[]", 0, place)
    yield root(name)


def lists_of(rows: str | None) -> list[tuple[str, str]]:
    """Return the lists that `Recipe.rows` takes apart, the outermost first, each with the ``?`` behind its ``[]``.

    ``outputs[].errors[]?`` -> ``[("outputs", ""), ("outputs[].errors", "?")]``
    """
    if rows is None:
        return []
    parts = re.split(r"\[\](\?{0,2})", rows)
    return [("[]".join(parts[: place + 1 : 2]), parts[place + 1]) for place in range(0, len(parts) - 1, 2)]


def check_rows(rows: str, where: str) -> None:
    """Raise NNDError for a text that names no list to take apart."""
    if not re.fullmatch(r"[^\[\]][^\[\]]*(\[\]\?{0,2}[^\[\]]*){0,9}\[\]\?{0,2}", rows):
        raise NNDError(f"{where}: rows is a list with [] behind its name, such as answers[], not {short_repr(rows)}")


def _take_apart(batch: Batch, recipe: Recipe) -> Batch:
    """Return a row per item of the list that `Recipe.rows` names; the list's column holds the item."""
    for name, optional in lists_of(recipe.rows):
        batch = _explode(batch, name, optional, recipe.complete)
    # An empty list says that there is no error. An error without a label must not say the same.
    if recipe.rows and recipe.label and recipe.label.startswith(f"{name}[].") and "" in recipe.better:
        labels = zip(batch.columns[f"{name}[]"], column_of(batch, recipe.label, complete=recipe.complete), strict=True)
        batch = _select(batch, ["" if item is None or _shown(label) else "no_label" for item, label in labels])
    return batch


def _explode(batch: Batch, name: str, optional: str, complete: bool) -> Batch:
    """Return a row per item of one list; rows without an item are left out and counted.

    Args:
        batch: some rows.
        name: of the column of lists.
        optional: ``?`` keeps a row whose list is there and empty, ``??`` also one whose list is missing.
        complete: whether a missing list is an error.
    """
    cells = column_of(batch, name, complete=complete)
    origin: list[int] = []
    items: list[Any] = []
    numbers: list[int | None] = []
    dropped = copy.deepcopy(batch.dropped)
    for i, value in enumerate(listed(cells)):
        cell = None if value == "" else unpacked(value)
        if cell is not None and not isinstance(cell, (list, tuple)):
            raise NNDError(f"{batch.place(i)}, {name!r}: expected a list, found {kind(cell)}")
        if cell is None and complete:
            raise NNDError(f"{batch.place(i)}, field {name!r}: expected a list, found nothing")
        if cell:
            numbers += range(len(cell))
            origin += [i] * len(cell)
            items += cell
        elif optional == "??" or (optional and cell is not None):
            numbers.append(None)
            origin.append(i)
            items.append(None)
        else:
            dropped.add("no_list" if cell is None else "empty_list", 1, [batch.numbers[i]])
    columns = {
        other: _repeat(values, origin, batch.where(other)) for other, values in batch.columns.items() if other != name
    }

    def place(i: int) -> str:
        return batch.place(origin[i]) + ("" if numbers[i] is None else f", {name}[{numbers[i]}]")

    return Batch([batch.numbers[i] for i in origin], {**columns, f"{name}[]": items}, place, dropped=dropped)


def _repeat(values: Column, origin: Sequence[int], where: Where) -> Column:
    """Return the cells of a column at the positions ``origin``."""
    if not isinstance(values, pa.Array):
        return [values[i] for i in origin]
    places = pa.array(origin, pa.int64())
    if pa.types.is_string(values.type):
        check_size(pc.sum(pc.binary_length(values).take(places).cast(pa.int64())).as_py() or 0, where)
    return values.take(places)


def _each(batch: Batch, recipe: Recipe, names: Sequence[str]) -> Batch:
    """Return the columns that a recipe names, with every row once per combination of values of `Recipe.each`."""
    count = len(batch.numbers)
    check_size(max(map(len, recipe.constant.values()), default=0) * count, batch.place)
    constant: dict[str, Column] = {
        name: pa.array([text] * count, pa.string()) for name, text in recipe.constant.items()
    }
    source = Batch(batch.numbers, {**batch.columns, **constant}, batch.place)
    optional = _optional(recipe)
    if not recipe.each:
        cells = {
            name: column_of(source, name, complete=recipe.complete and name not in optional)
            for name in names
            if name not in optional or root(name) in source.columns or name in source.columns
        }
        return Batch(batch.numbers, cells, batch.place, dropped=batch.dropped)
    choices = _choices(recipe)
    columns: dict[str, list[Any]] = {}
    for name in names:
        if name in recipe.each:
            columns[name] = [choice[name] for choice in choices] * count
            continue
        parts = [listed(column_of(source, _fill(name, choice), complete=recipe.complete)) for choice in choices]
        columns[name] = [part[i] for i in range(count) for part in parts]
    many = len(choices)
    numbers = [number for number in batch.numbers for _ in choices]
    return Batch(
        numbers, columns, lambda i: batch.place(i // many), lambda i, column: _fill(column, choices[i % many]),
        batch.dropped,
    )  # fmt: skip


def _shown(cell: Any) -> str | None:
    """Return a cell as a recipe would write it: 1.0, which stands for 1 in a column with empty cells, is 1."""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    try:
        return render(cell)
    except ValueError:
        return None


def _one_category(batch: Batch, recipe: Recipe) -> Batch:
    """Return a batch in which a list of categories is the one that `Recipe.list_category` says."""
    if not recipe.list_category:
        return batch
    column, names = str(recipe.category), recipe.list_category
    cells: list[Any] = []
    for i, value in enumerate(listed(batch.columns[column])):
        if not isinstance(cell := unpacked(value), (list, tuple)):
            raise NNDError(f"{batch.where(column)(i)}: expected a list of categories, found {kind(cell)}")
        cells.append(cell[0] if len(cell) == 1 else names["several" if cell else "none"])
    return replace(batch, columns={**batch.columns, column: cells})


#: Reasons for which what a file holds makes no row of a table.
LEFT_OUT = ("empty_list", "no_list", "no_label", "by_recipe", "not_same")


def without(batch: Batch, recipe: Recipe, dropped: Dropped) -> Batch:
    """Return a batch without the rows that `Recipe.leave_out` and `Recipe.same` name; what is left out goes to ``dropped``."""
    if recipe.leave_out or recipe.same:
        batch = _select(batch, _wrong(batch, recipe))
    for reason, count in batch.dropped.counts.items():
        dropped.add(reason, count, batch.dropped.rows[reason])
    return batch


def _wrong(batch: Batch, recipe: Recipe) -> list[str]:
    """Return for each row why the recipe leaves it out, ``""`` where it does not."""
    reasons = [""] * len(batch.numbers)
    for i, cells in enumerate(zip(*(listed(batch.columns[column]) for column in recipe.same), strict=True)):
        if len({normalize(_shown(cell) or "") for cell in cells}) > 1:
            reasons[i] = "not_same"
    for column, values in recipe.leave_out.items():
        wrong = {value.casefold() for value in values}
        for i, cell in enumerate(listed(batch.columns[column])):
            if (_shown(cell) or "").strip().casefold() in wrong:
                reasons[i] = "by_recipe"
    return reasons


def _select(batch: Batch, reasons: Sequence[str]) -> Batch:
    """Return the rows of a batch that have no reason to be left out; the others are counted by reason."""
    origin = [i for i, reason in enumerate(reasons) if not reason]
    if len(origin) == len(reasons):
        return batch
    dropped = copy.deepcopy(batch.dropped)
    for reason in dict.fromkeys(filter(None, reasons)):
        rows = [batch.numbers[i] for i, given in enumerate(reasons) if given == reason]
        dropped.add(reason, len(rows), rows)
    columns = {name: _repeat(values, origin, batch.where(name)) for name, values in batch.columns.items()}
    named = batch.named

    def name(i: int, column: str) -> str:
        return named(origin[i], column) if named else column

    return Batch([batch.numbers[i] for i in origin], columns, lambda i: batch.place(origin[i]), name, dropped)
