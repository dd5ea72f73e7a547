"""Propose which column of a table is what, by the names and the cells of columns; and say what is lacking."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any

import pandas as pd

from nnd_tasks.errors import NNDError
from nnd_tasks.show.values import is_missing
from nnd_tasks.tables.cells import (
    PATH,
    as_number,
    render,
    split_column,
    take_column,
    texts_of_nobody,
    unpack,
)
from nnd_tasks.tables.contents import (
    COLUMN_NAMES,
    MOST_VALUES,
    NAMES,
    holds_something,
    list_fields,
    list_file_columns,
    name_columns,
    take_cells,
    take_fields,
    take_items,
)
from nnd_tasks.tables.read import named_columns
from nnd_tasks.tables.spans import read_items
from nnd_tasks.text import some_of

if TYPE_CHECKING:
    from nnd_tasks.sets.recipe import Recipe

#: Keys of the positions of error spans, as files call them.
_SPAN_KEYS: Sequence[Sequence[str]] = COLUMN_NAMES["spans"]
#: Characters that a value of a column of judgements has at most.
_LONGEST_VALUE = 20
_MOST_COLUMNS = 500  # of a table in which two columns of texts are looked for


def find_columns(keys: Mapping[str, Any], table: pd.DataFrame) -> dict[str, Any]:
    """Find the columns that keys name by the last part of their names: ``best`` is that of ``Answer.best``."""
    short = name_columns(table)

    def find(name: str) -> str:
        return name if split_column(table, name)[0] else short.get(name.casefold(), name)

    roles = (*NAMES, "chosen", "rejected", "winner")
    names = {role: find(name) for role, name in keys.items() if role in roles}
    return names | ({"pair": [*map(find, keys["pair"])]} if "pair" in keys else {})


def propose_roles(table: pd.DataFrame, recipe: Recipe) -> dict[str, Any]:
    """Role -> the column that is called so, of roles that the user did not name."""
    columns = name_columns(table)
    used = {*recipe.attribute.values(), *(getattr(recipe, role) for role in NAMES)}
    named: dict[str, Any] = {}
    for role, names in NAMES.items():
        column = next((columns[name] for name in names if name in columns), None)
        if column and column not in used and not getattr(recipe, role):
            named[role] = column
    unwanted: tuple[str, ...] = ()
    if recipe.pairs:
        unwanted = ("candidate", "label", "score", "system", "group")
    elif recipe.label or recipe.score or (recipe.attribute and not _names_attributes(table, recipe)):
        unwanted = ("label", "score")
    elif recipe.by_label:
        unwanted = ("score",)
    elif {"label", "score"} <= {*named}:
        unwanted = ("score" if recipe.min_gap is None else "label",)
    named = {role: column for role, column in named.items() if role not in unwanted}
    if recipe.min_gap is not None and "label" in named:
        named["score"] = named.pop("label")  # such as the judgement of each rater
    answer = _find_only_answer(table)
    if answer and not (
        recipe.pairs or recipe.label or recipe.score or recipe.attribute or {"label", "score"} & {*named}
    ):
        named["score" if _are_numbers(table, answer, recipe) else "label"] = answer
    if left_out := _find_left_out(table, [*used, *named.values(), *recipe.pair, *recipe.leave_out]):
        named["leave_out"] = {**left_out, **recipe.leave_out}
    spans = (recipe.spans and recipe.spans.column) or ""
    if split_column(table, spans)[0] and (keys := _find_span_keys(take_column(table, spans, each=True), spans)):
        named["spans"] = {"column": spans, **keys}
    return named


def drop_shared(table: pd.DataFrame) -> pd.DataFrame:
    """Drop the columns of judgements that all raters share, such as their mean, where each has a ``judgement`` of his own."""
    called = {*NAMES["label"], *NAMES["score"], *COLUMN_NAMES["winner"]} - {"judgement"}
    shared = [name for name in table if name.casefold() in called]
    return table.drop(columns=shared) if "judgement" in table else table


def find_unused(table: pd.DataFrame, recipe: Recipe) -> list[str]:
    """Find the columns of a file that a recipe gives no role."""
    named = named_columns(recipe)
    used = {split_column(table, name)[0] for name in named} - {""}
    parts = [f"{name}.{field}" for name in sorted(used - {*named}) for field in list_fields(take_items(table, name))]
    parts = [part for part in parts if not any(f"{name}.".startswith(f"{part}.") for name in named)]
    return [*(name for name in list_file_columns(table) if name not in used), *parts]


def _find_only_answer(table: pd.DataFrame) -> str | None:
    """The only column ``answer.NAME``, as exports of annotation tools have one for each question."""
    answers = [name for name in list_file_columns(table) if name.casefold().startswith("answer.")]
    return answers[0] if len(answers) == 1 else None


def _are_numbers(table: pd.DataFrame, column: str, recipe: Recipe) -> bool:
    return all(as_number(cell, recipe, texts_of_nobody(recipe)) is not None for cell in take_cells(table, column))


def _looks_like_rank(table: pd.DataFrame, recipe: Recipe) -> bool:
    """Whether a column of scores is called a rank, or each context has the numbers 1, 2, ... of places, ties included.

    Where raters are named, each rater of a context has them.
    """
    column = str(recipe.score)
    if column.casefold().rpartition(".")[2] in COLUMN_NAMES["ranks"]:
        return True
    if {column, recipe.context} - {*table.columns}:
        return False
    scores = pd.Series([as_number(cell, recipe, texts_of_nobody(recipe)) for cell in table[column]], dtype=object)
    keys = [name for name in (recipe.context, recipe.rater) if name in table]
    by_context = scores.dropna().groupby([table[key].map(str) for key in keys])
    places = by_context.agg(
        lambda places: all(sum(other < place for other in places) < place <= len(places) for place in places)
    )
    return bool(len(places) > 1 and places.all() and by_context.size().median() > 2)


def _find_left_out(table: pd.DataFrame, used: Collection[str]) -> dict[str, list[str]]:
    """Find the columns in which a tool says what became of a row -> those of their values that are no judgement."""
    status = {
        name: COLUMN_NAMES["status"].get(name.casefold(), ()) for name in list_file_columns(table) if name not in used
    }
    values = {name: {str(cell).strip() for cell in take_cells(table, name)} for name, words in status.items() if words}
    for name, cells in take_fields(table, used).items():
        status[name] = COLUMN_NAMES["status"].get(name.casefold().rpartition(".")[2], ())
        values[name] = {*cells}
    found = {name: sorted(v for v in values[name] if v.casefold() in status[name]) for name in values}
    return {name: words for name, words in found.items() if words}


def _describe_columns(table: pd.DataFrame) -> str:
    """The columns of a file, with their values where they are few and short, as those of judgements are."""
    described = []
    for name in list_file_columns(table):
        cells = take_cells(table, name)
        values = sorted({f"{cell:g}" if isinstance(cell, float) else str(cell).strip() for cell in cells})
        few = 1 < len(values) <= MOST_VALUES and max(map(len, values)) <= _LONGEST_VALUE
        few = few and not any(isinstance(cell, (dict, list)) for cell in cells)
        inside = values if few else [f"{name}.{field}" for field in list_fields(take_items(table, name))]
        described.append(f"{name} ({some_of(inside, MOST_VALUES, str)})" if inside else name)
    return some_of(described, 40, str)


def _names_attributes(table: pd.DataFrame, recipe: Recipe) -> bool:
    """Whether the only attribute is a column of names, not one of judgements."""
    column = next(iter(recipe.attribute.values()))
    if len(recipe.attribute) > 1 or column not in table:
        return False
    cells = [str(cell).strip() for cell in take_cells(table, column)]
    if recipe.by_label:
        return not {*cells} & {*recipe.better}
    numbers = [as_number(cell, recipe, ()) for cell in cells]
    return bool(cells) and all(number is None or math.isnan(number) for number in numbers)


def _find_span_keys(cells: Iterable[Any], column: str) -> dict[str, str]:
    """The keys of the positions and the category in objects of error spans, where they are not called as in `Spans`.

    Raises:
        NNDError: the objects have neither positions nor words that are known.
    """
    items = [item for item in map(unpack, chain(*map(read_items, cells))) if isinstance(item, Mapping)]
    unnamed = [item for item in items if "text" not in item] or items
    keys = next((keys for keys in _SPAN_KEYS if all({*keys} <= {*item} for item in unnamed)), ())
    if unknown := [item for item in unnamed if not keys and "text" not in item]:
        fields = some_of([*dict.fromkeys(chain(*unknown))], 12, str)
        raise NNDError(
            f"column {column!r}: its error spans have the fields {fields}; leave out --spans, and say in the recipe where a "
            f"span starts and ends: spans: {{column: {column}, start: FIELD, end: FIELD}}"
        )
    category = next((name for name in COLUMN_NAMES["span_category"] if any(name in item for item in items)), "category")
    named = {**dict(zip(("start", "end"), keys, strict=False)), "category": category}
    return {key: name for key, name in named.items() if key != name}


# ---------------------------------------------------------------- pairs


def propose_pairs(table: pd.DataFrame, recipe: Recipe, options: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of pairs that are called so, where the user did not name the columns of single texts."""
    if any((recipe.candidate, recipe.label, recipe.score, recipe.rules)):
        return {}
    columns = name_columns(table)
    roles = {role: options.get(role) or columns.get(role) for role in ("chosen", "rejected")}
    if not ({"pair", "winner", "winners"} & {*options} or None in roles.values()):
        return {role: column for role, column in roles.items() if role not in options}
    judged = recipe.attribute.values()
    by_name = (columns[name] for name in COLUMN_NAMES["winner"] if name in columns and columns[name] not in judged)
    winner = options.get("winner") or next(by_name, None) or _find_only_answer(table)
    sides = {names: length for names, length in _find_sides(table, recipe).items() if winner not in names}
    systems = [names for names in sides if names[0].casefold().startswith(("model", "system", "writer"))]
    # Texts are longer than the names of systems, but an answer may be "No.".
    pair = options.get("pair") or max(sides, key=lambda names: (names not in systems, sides[names]), default=None)
    if not winner or not pair:
        return {}
    others = [names for names in systems if names != tuple(pair)]
    roles = {"pair": [*pair], "winner": winner, **({"systems": [*others[0]]} if others else {})}
    return {role: column for role, column in roles.items() if role not in options}


def _find_sides(table: pd.DataFrame, recipe: Recipe) -> dict[tuple[str, str], float]:
    """Two columns of texts whose names differ in one word, such as a and b -> the mean length of their cells."""
    names = list_file_columns(table) if table.shape[1] < _MOST_COLUMNS else []
    words = {name: re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", name) for name in names}
    by_words = {tuple(map(str.casefold, parts)): name for name, parts in words.items()}
    sides = {}
    for parts, first in by_words.items():
        for i, word in enumerate(parts):
            second = by_words.get((*parts[:i], COLUMN_NAMES["sides"].get(word, ""), *parts[i + 1 :]))
            cells = [*filter(holds_something, chain(table[first], table[second]))] if second else []
            if second and any(as_number(cell, recipe, ()) is None for cell in cells):
                sides[first, second] = sum(len(str(cell)) for cell in cells) / len(cells)
    return sides


# ---------------------------------------------------------------- what is lacking


def check_raters(table: pd.DataFrame, recipe: Recipe) -> None:
    """Raise NNDError where the raters of one list are named, and another list of judgements has others, or in another order."""
    parent, _, field = (recipe.rater or "").rpartition(".")
    for column in (recipe.label, recipe.score, recipe.winner, *recipe.attribute.values()):
        other = (column or "").rpartition(".")[0]
        pairs: list[tuple[Any, Any]] = []
        with suppress(NNDError):
            lists = (take_column(table, f"{name}.{field}", each=True) for name in (parent, other))
            cells = zip(*lists, strict=True) if parent and other else ()
            pairs = [*chain(*(zip_longest(*both) for both in cells if all(isinstance(cell, list) for cell in both)))]
        others = {str(name) for _, name in pairs if name is not None}
        if others & {str(own) for own, _ in pairs} and any(name not in (None, own) for own, name in pairs):
            raise NNDError(
                f"{table[PATH].iat[0]}: {other}.{field} names other raters than {recipe.rater}, or in another order; make a row "
                "of each judgement in prepare.py"
            )


def check_enough(recipe: Recipe, table: pd.DataFrame) -> None:
    """Raise NNDError where a column or the rule is lacking; the error names what the table offers."""
    column = recipe.label or recipe.score or next(iter(recipe.attribute.values()), None)
    lacking = [role for role in ("context", "candidate") if not getattr(recipe, role)]
    if lacking or column is None:
        pairs = ", or of pairs the one that names the better text with --winner" * bool(_find_sides(table, recipe))
        hint = (
            f"of the {lacking[0]} with --{lacking[0]}{pairs}"
            if lacking
            else "of judgements with --label, --score or, of each attribute, --attribute; or raters with a column each, "
            "--rater A,B"
        )
        raise NNDError(f"{table[PATH].iat[0]}: name the column {hint}; there are: {_describe_columns(table)}")
    if column not in table:
        return
    cells = [cell for cell in take_items(table, column) if not is_missing(cell)]
    if fields := list_fields(cells):
        raise NNDError(
            f"{table[PATH].iat[0]}: column {column!r} holds objects of {some_of(fields, 12, str)}; name one of these with a dot, "
            f"{column}.{fields[0]}, or if they are raters or systems, all of them: --rater {','.join(fields)}"
        )
    if recipe.better and cells and {str(cell).strip() for cell in cells} <= {*recipe.better}:
        raise NNDError(
            f"{table[PATH].iat[0]}: every text has a label of --better ({some_of(recipe.better)}); a test needs a text with "
            "another one"
        )
    if recipe.score and recipe.best is None and _looks_like_rank(table, recipe):
        raise NNDError(
            f"{table[PATH].iat[0]}: is 1 the best in column {column!r}? It may hold ranks; say --best lowest, or --best highest"
        )
    if recipe.rules:
        return
    read = [as_number(cell, recipe, texts_of_nobody(recipe)) for cell in cells]
    numbers = [number for number in read if number is not None]
    if cells and numbers == read:
        option = f"--score {column} " if recipe.label else ""
        hint = f"numbers from {min(numbers):g} to {max(numbers):g}, so {option}--min-gap X (smallest difference of two scores)"
    else:
        hint = f"the labels {some_of(sorted({render(cell) or '' for cell in cells}), 12)}, so --better LABEL,..."
    raise NNDError(f"{table[PATH].iat[0]}: say what is better: column {column!r} holds {hint}")
