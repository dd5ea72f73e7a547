"""From the rows of a file to the rows of a recipe: nested names, lists taken apart, one row per system."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from nnd_tasks.errors import NNDError
from nnd_tasks.pairing import Dropped
from nnd_tasks.recipes.cells import AbsentError, Column, Where, check_size, kind, listed, render, root, walk
from nnd_tasks.recipes.readers import Batch, Several, Table
from nnd_tasks.recipes.recipe import FILE, FOLDER, Recipe
from nnd_tasks.wording import did_you_mean, some_of

#: Rows that a table may be taken apart into.
MAX_ROWS = 50_000_000


def batches(table: Table, recipe: Recipe, *, inside: bool = False) -> Iterator[Batch]:
    """Yield the rows that a recipe makes of a table; the columns have the names that the recipe uses.

    Args:
        table: of the files.
        recipe: how it is read.
        inside: give all columns, and the fields of the items of lists that are taken apart too.

    Raises:
        NNDError: a file that cannot be read, or a nested name that leads nowhere; the row is named.
    """
    names = recipe.columns()
    written = [_fill(name, choice) for name in names for choice in _choices(recipe)]
    lists = [recipe.rows.removesuffix("?")] if recipe.rows else []
    if isinstance(table, Several):
        for one in table.tables:
            yield from batches(one, recipe, inside=inside)
        return
    if recipe.complete:
        _check_header(table, recipe, written)
    left, first = MAX_ROWS, True
    for batch in table.read(None if inside else table.needed([*written, *lists])):
        if first and not recipe.complete:
            _check_columns(table, recipe, batch)
        first = False
        apart = _take_apart(batch, recipe)
        left -= len(apart.numbers) * len(_choices(recipe))
        if left < 0:
            raise NNDError(f"{table.name}: its lists and `each` make more than {MAX_ROWS:,} rows")
        yield _each(apart, recipe, [*names, *(_inside(apart, names) if inside else ())])


def _inside(batch: Batch, names: Sequence[str]) -> list[str]:
    """Return the columns of a batch, and the fields of the items of its lists that were taken apart, besides ``names``."""
    found = [name for name in batch.columns if not name.startswith("@") and not name.endswith("[]")]
    for name, cells in batch.columns.items():
        if name.endswith("[]"):
            objects = [cell for cell in cells if isinstance(cell, Mapping)]
            found += [f"{name}.{field}" for field in dict.fromkeys(field for one in objects for field in one)]
    return [name for name in found if name not in names]


def _check_header(table: Table, recipe: Recipe, names: Sequence[str]) -> None:
    """Raise NNDError where a table whose columns are known before it is read lacks one."""
    if table.known is None:
        return
    own = {*table.known, *recipe.each, *recipe.constant}
    either = [part.split("|") for part in recipe.group_parts() if "|" in part]
    optional = {name for choice in either for name in choice}
    for choice in [*([name] for name in names if name not in optional), *either]:
        if not any(name in own or root(name) in own for name in choice):
            found = ", ".join(name for name in table.known[:12] if not name.startswith("@"))
            wanted = " or ".join(map(repr, choice))
            raise NNDError(f"{table.name}{table.header}: no column {wanted} (found: {found}); is it the right file?")


def _check_columns(table: Table, recipe: Recipe, batch: Batch) -> None:
    """Raise NNDError where no row of a batch has a column that the recipe names: a cell may be absent, not all of them."""
    own = {*batch.columns, *recipe.each, *recipe.constant}
    if table.path is not None:
        own |= {FILE, FOLDER}
    optional = {part for one in recipe.group_parts() if "|" in one for part in one.split("|")}
    for name in dict.fromkeys(_fill(one, choice) for one in recipe.columns() for choice in _choices(recipe)):
        if name in optional or name in own or root(name) in own:
            continue
        known = [one for one in table.known or table.head() if not one.startswith("@")]
        raise no_column(name, known, table.name)


def no_column(name: str, columns: Sequence[str], where: str) -> NNDError:
    """Return the error for a column that a table does not have; ``where`` begins it."""
    meant = did_you_mean(name, columns, end=" ")
    return NNDError(f"{where}: there is no column {name!r}; {meant}there are: {some_of(columns, 40, str)}")


def _choices(recipe: Recipe) -> list[dict[str, str]]:
    """Return the values of `Recipe.each`, every combination of them."""
    found: list[dict[str, str]] = [{}]
    for name, values in recipe.each.items():
        found = [{**choice, name: value} for choice in found for value in values]
    return found


def _fill(name: str, choice: Mapping[str, str]) -> str:
    for variable, value in choice.items():
        name = name.replace(f"{{{variable}}}", value)
    return name


def column_of(batch: Batch, name: str, *, complete: bool) -> Column:
    """Return the column of a batch that a name stands for.

    Args:
        batch: some rows.
        name: of a column, or nested.
        complete: whether a cell that is absent is an error; else it is None.

    Raises:
        NNDError: it leads nowhere in some row.
    """
    if name in batch.columns:
        return batch.columns[name]
    start = next((n for n in _beginnings(name) if n in batch.columns), None)
    if start is None:
        if complete and len(batch.numbers):
            raise NNDError(
                f"{batch.place(0)}: field {name!r} is missing (found: {_names(batch)}); is it the right file?"
            )
        return [None] * len(batch.numbers)
    cells: list[Any] = []
    column = batch.columns[start]
    last: Any = None
    for i, cell in enumerate(column.to_pylist() if isinstance(column, pa.Array) else column):
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


def _names(batch: Batch) -> str:
    return ", ".join(name for name in list(batch.columns)[:12] if not name.startswith("@"))


def _beginnings(name: str) -> Iterator[str]:
    """Yield the columns that a nested name may begin with, the longest first: lists that were taken apart, then its root."""
    place = name.rfind("[]")
    while place > 0:
        yield name[: place + 2]
        place = name.rfind("[]", 0, place)
    yield root(name)


def _take_apart(batch: Batch, recipe: Recipe) -> Batch:
    """Return a row per item of the list that `Recipe.rows` names; the list's column holds the item."""
    if recipe.rows is None:
        return batch
    name, keep = recipe.rows.removesuffix("?"), recipe.rows.endswith("?")
    parts = name.split("[]")
    for number in range(1, len(parts)):
        batch = _explode(batch, "[]".join(parts[:number]), keep, recipe.complete)
    return batch


def _explode(batch: Batch, name: str, keep: bool, complete: bool) -> Batch:
    cells = column_of(batch, name, complete=complete)
    origin: list[int] = []
    items: list[Any] = []
    numbers: list[int | None] = []
    for i, cell in enumerate(cells.to_pylist() if isinstance(cells, pa.Array) else cells):
        if cell is not None and not isinstance(cell, (list, tuple)):
            raise NNDError(f"{batch.place(i)}, {name!r}: expected a list, found {kind(cell)}")
        if cell is None and complete:
            raise NNDError(f"{batch.place(i)}, field {name!r}: expected a list, found nothing")
        found = list(cell or ())
        if not found and keep:
            origin.append(i)
            items.append(None)
            numbers.append(None)
        origin += [i] * len(found)
        items += found
        numbers += range(len(found))
    columns = {
        other: _repeat(values, origin, batch.where(other)) for other, values in batch.columns.items() if other != name
    }

    def place(i: int) -> str:
        return batch.place(origin[i]) + ("" if numbers[i] is None else f", {name}[{numbers[i]}]")

    return Batch([batch.numbers[i] for i in origin], {**columns, f"{name}[]": items}, place)


def _repeat(values: Column, origin: Sequence[int], where: Where) -> Column:
    if not isinstance(values, pa.Array):
        return [values[i] for i in origin]
    places = pa.array(origin, pa.int64())
    if pa.types.is_string(values.type):
        check_size(pc.sum(pc.binary_length(values).take(places).cast(pa.int64())).as_py() or 0, where)
    return values.take(places)


def _each(batch: Batch, recipe: Recipe, names: Sequence[str]) -> Batch:
    """Return the columns that a recipe names, of every row once per value of `Recipe.each`."""
    count = len(batch.numbers)
    check_size(max(map(len, recipe.constant.values()), default=0) * count, batch.place)
    constant: dict[str, Column] = {
        name: pa.array([text] * count, pa.string()) for name, text in recipe.constant.items()
    }
    source = Batch(batch.numbers, {**batch.columns, **constant}, batch.place)
    optional = {part for one in recipe.group_parts() if "|" in one for part in one.split("|")}
    if not recipe.each:
        found = {
            name: column_of(source, name, complete=recipe.complete and name not in optional)
            for name in names
            if name not in optional or root(name) in source.columns or name in source.columns
        }
        return Batch(batch.numbers, found, batch.place)
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
    return Batch(numbers, columns, lambda i: batch.place(i // many), lambda i, column: _fill(column, choices[i % many]))


def _shown(cell: Any) -> str | None:
    """Return a cell as a recipe names it: 1.0, as a column with empty cells has it, is 1."""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    try:
        return render(cell)
    except ValueError:
        return None


def without(batch: Batch, recipe: Recipe, dropped: Dropped) -> Batch:
    """Return a batch without the rows that `Recipe.leave_out` names, and count these."""
    if not recipe.leave_out:
        return batch
    keep = [True] * len(batch.numbers)
    for column, values in recipe.leave_out.items():
        wrong = {value.casefold() for value in values}
        for i, cell in enumerate(listed(batch.columns[column])):
            keep[i] &= (_shown(cell) or "").strip().casefold() not in wrong
    origin = [i for i, kept in enumerate(keep) if kept]
    if len(origin) == len(keep):
        return batch
    dropped.add("by_recipe", len(keep) - len(origin), [batch.numbers[i] for i, kept in enumerate(keep) if not kept])
    columns = {name: _repeat(values, origin, batch.where(name)) for name, values in batch.columns.items()}
    named = batch.named

    def name(i: int, column: str) -> str:
        return named(origin[i], column) if named else column

    return Batch([batch.numbers[i] for i in origin], columns, lambda i: batch.place(origin[i]), name)
