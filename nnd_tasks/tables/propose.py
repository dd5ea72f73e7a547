"""Propose which column of a table is what, by the names and the cells of columns; and say what is lacking."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from nnd_tasks.errors import NNDError
from nnd_tasks.files import read_yaml
from nnd_tasks.show.values import is_missing
from nnd_tasks.tables.cells import (
    FILE,
    KEY,
    PATH,
    ROW,
    as_number,
    list_items,
    render,
    split_column,
    take_column,
    texts_of_nobody,
    unpack,
)
from nnd_tasks.tables.read import named_columns
from nnd_tasks.tables.spans import read_items
from nnd_tasks.text import some_of

if TYPE_CHECKING:
    from nnd_tasks.sets.recipe import Recipe

COLUMN_NAMES = read_yaml(Path(__file__).with_name("column_names.yaml"))
#: Role -> names of columns that are taken for it where no option says it, the likelier first.
NAMES: Mapping[str, Sequence[str]] = COLUMN_NAMES["roles"]
#: Keys of the positions of error spans, as files call them.
_SPAN_KEYS: Sequence[Sequence[str]] = COLUMN_NAMES["spans"]
#: What a column of judgements has at most: distinct values, and characters of one.
_MOST_VALUES, _LONGEST_VALUE = 8, 20
_COMPARED_ROWS = 1000  # rows in which columns are compared
_MOST_COLUMNS = 500  # of a table in which two columns of texts are looked for


def _columns_of(table: pd.DataFrame) -> list[str]:
    """The columns of a file itself; of rows of a ``prepare.py`` without the place of each."""
    places = (PATH, ROW, FILE, KEY) if ROW in table else (PATH, "where")
    return [name for name in table.columns if name not in places]


def _columns_by_name(table: pd.DataFrame) -> dict[str, str]:
    """Name in small letters -> column of a file; ``Input.question`` is also called ``question``, if no other column is.

    ``Worker ID`` and ``worker_id`` are also called ``workerid``.
    """
    names = {name.casefold(): name for name in _columns_of(table)}
    last = [re.split("[.:]", name.casefold())[-1] for name in names.values()]  # INPUT:question of Toloka
    short = {word: name for word, name in zip(last, names.values(), strict=True) if last.count(word) == 1}
    joined = {re.sub(r"[\s_-]", "", word): name for word, name in (short | names).items()}
    return joined | short | names


def find_columns(keys: Mapping[str, Any], table: pd.DataFrame) -> dict[str, Any]:
    """Find the columns that keys name by the last part of their names: ``best`` is that of ``Answer.best``."""
    short = _columns_by_name(table)

    def find(name: str) -> str:
        return name if split_column(table, name)[0] else short.get(name.casefold(), name)

    roles = (*NAMES, "chosen", "rejected", "winner")
    names = {role: find(name) for role, name in keys.items() if role in roles}
    return names | ({"pair": [*map(find, keys["pair"])]} if "pair" in keys else {})


def propose_roles(table: pd.DataFrame, recipe: Recipe) -> dict[str, Any]:
    """Role -> the column that is called so, of roles that the user did not name."""
    columns = _columns_by_name(table)
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
    parts = [f"{name}.{field}" for name in sorted(used - {*named}) for field in _fields_of(_items_of(table, name))]
    parts = [part for part in parts if not any(f"{name}.".startswith(f"{part}.") for name in named)]
    return [*(name for name in _columns_of(table) if name not in used), *parts]


def _find_only_answer(table: pd.DataFrame) -> str | None:
    """The only column ``answer.NAME``, as exports of annotation tools have one for each question."""
    answers = [name for name in _columns_of(table) if name.casefold().startswith("answer.")]
    return answers[0] if len(answers) == 1 else None


def _are_numbers(table: pd.DataFrame, column: str, recipe: Recipe) -> bool:
    return all(as_number(cell, recipe, texts_of_nobody(recipe)) is not None for cell in _cells_of(table, column))


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
    status = {name: COLUMN_NAMES["status"].get(name.casefold(), ()) for name in _columns_of(table) if name not in used}
    values = {name: {str(cell).strip() for cell in _cells_of(table, name)} for name, words in status.items() if words}
    for name, cells in _take_fields(table, used).items():
        status[name] = COLUMN_NAMES["status"].get(name.casefold().rpartition(".")[2], ())
        values[name] = {*cells}
    found = {name: sorted(v for v in values[name] if v.casefold() in status[name]) for name in values}
    return {name: words for name, words in found.items() if words}


def _take_fields(table: pd.DataFrame, used: Iterable[str | None]) -> dict[str, list[str]]:
    """Take the texts in each field of the lists of objects that used columns lead into: ``responses.status``."""
    roots = {root for name in used if name for root, path in [split_column(table, name)] if root and path}
    fields: dict[str, list[str]] = {}
    for root in sorted(roots):
        for item in chain(*(cell for cell in map(unpack, table[root]) if isinstance(cell, (list, tuple)))):
            for field, value in item.items() if isinstance(item, Mapping) else ():
                if isinstance(value, (str, bool)):
                    fields.setdefault(f"{root}.{field}", []).append(str(value).strip())
    return fields


def find_doubtful(table: pd.DataFrame, recipe: Recipe) -> dict[str, dict[str, int]]:
    """Find columns that the recipe does not name -> values that may say that a row is no judgement -> rows that are used."""
    used, named, found = table[table["exclusion"] == ""], named_columns(recipe), {}
    columns = ((name, map(str, used[name])) for name in _columns_of(used) if name not in named)
    for name, cells in chain(columns, _take_fields(used, named).items()):
        counts = Counter(map(str.strip, cells))
        if len(counts) <= _MOST_VALUES:
            words = {*COLUMN_NAMES["doubtful"]}
            said = _plain(name.rpartition(".")[2]).removeprefix("is ")
            yes = COLUMN_NAMES["yes"] if said in words | {*COLUMN_NAMES["doubtful_if_yes"]} else ()
            no = COLUMN_NAMES["no"] if said in COLUMN_NAMES["doubtful_if_no"] else ()
            found[name] = {value: n for value, n in counts.items() if _plain(value) in {*words, *yes, *no}}
    return {name: values for name, values in found.items() if values}


def find_doubtful_values(table: pd.DataFrame, recipe: Recipe) -> list[str]:
    """Write notes on labels and scores that may say that nobody judged, such as ``skip`` and -99."""
    columns = [*filter(None, (recipe.label, recipe.score)), *recipe.attribute.values()]
    distinct = [{id(cell): cell for cell in take_column(table, column, each=True)} for column in columns]
    cells = [*filter(_holds_something, chain(*map(list_items, chain(*(cells.values() for cells in distinct)))))]
    notes = []
    if recipe.by_label:
        labels = {str(cell).strip() for cell in cells if not isinstance(cell, bool)} - {
            *recipe.better,
            *recipe.ignore,
            *(recipe.missing or ()),
        }
        doubtful = [label for label in sorted(labels) if label.casefold() in COLUMN_NAMES["unjudged"]]
        notes = [
            f"{some_of(several)} count as several labels; if they are one, write it in one way"
            for several in group_spellings({*labels, *recipe.better}, r"[\s_.!\u200b\ufeff]+")
        ]
    else:
        read = (as_number(cell, recipe, texts_of_nobody(recipe)) for cell in cells)
        numbers = sorted({number for number in read if number is not None and not math.isnan(number)})
        low, high = numbers[:2], numbers[-2:]
        below = len(numbers) > 2 and low[0] < 0 <= low[1] and high[1] > 1
        above = len(numbers) > 2 and high[1] in (99, 999, 9999) and high[1] > 2 * high[0]
        doubtful = [f"{number:g}" for number in (*low[:below], *high[2 - above :])]
    return notes + [
        f"{value!r} counts as a judgement; if it says that nobody judged: --missing='{value}'" for value in doubtful
    ]


def group_spellings(names: Iterable[str], between: str) -> list[list[str]]:
    """Group the names that are equal but for case and what a pattern matches; those that stand alone are left out."""
    spelled: dict[str, list[str]] = {}
    for name in sorted(names):
        spelled.setdefault(re.sub(between, "", name.casefold()), []).append(name)
    return [several for several in spelled.values() if len(several) > 1]


def find_unused_raters(table: pd.DataFrame, recipe: Recipe, unused: Sequence[str]) -> list[str]:
    """Write notes on columns that nobody uses, and that may be of raters, or part what is not to be compared."""
    columns, notes = _columns_by_name(table), []
    named = [columns.get(called) for called in (*NAMES["rater"], *COLUMN_NAMES["raters"])]
    persons = [name for name in unused if name in named and not table[name].equals(table.get(recipe.rater))]
    if persons:
        notes.append(
            f"{persons[0]} not used, though called as a rater; if it names the persons: --rater {persons[0]!r}"
        )
    judged = recipe.score or recipe.label or recipe.winner or ""
    called = [name for name in unused if judged and judged.casefold() in name.casefold()]
    if not recipe.rater and (alike := called or _find_alike(table, recipe, judged, unused)):
        raters = ",".join([judged, *alike] if called else alike)
        notes.append(
            f"{some_of(alike, 4, str)} not used, though like {judged!r}; if each is of another rater: --rater '{raters}'"
        )
    for used in [column for _, column in recipe.list_columns() if column in table]:
        empty = _is_empty(table[used])
        blank = {name: _is_empty(table[name]) for name in unused if name in table and empty.any()}
        others = [name for name, cells in blank.items() if cells[~empty].all() and not cells.all()]
        notes += [
            f"{name} not used, though it fills cells where {used!r} is empty; if it is the same, give both one name"
            for name in others
        ]
    for name in [name for name in unused if name in [columns.get(called) for called in COLUMN_NAMES["languages"]]]:
        both = table.filter([recipe.context, name]).astype(str).drop_duplicates()
        if not recipe.pairs and both.duplicated(recipe.context).any():
            notes.append(
                f"texts of several {name} are compared; if they should not be: --group '{recipe.context},{name}'"
            )
    return notes


def _find_alike(table: pd.DataFrame, recipe: Recipe, judged: str, unused: Sequence[str]) -> list[str]:
    """Find columns of labels that are those of a column, or of numbers that its own always lie between, as a mean does."""
    if judged not in table:
        return []
    head, unused = table.head(_COMPARED_ROWS), [name for name in unused if name in table]
    numbers = {
        name: [as_number(cell, recipe, texts_of_nobody(recipe)) for cell in head[name]] for name in (judged, *unused)
    }
    if None in numbers[judged]:
        labels = {name: {str(cell).strip() for cell in _cells_of(head, name)} for name in numbers}
        return [name for name in unused if len(labels[name]) <= _MOST_VALUES and len(labels[name] & labels[judged]) > 1]
    others = pd.DataFrame({name: numbers[name] for name in unused if None not in numbers[name]}).dropna(
        axis=1, how="all"
    )
    scores = pd.Series(numbers[judged], dtype=float)
    between = others.min(axis=1).le(scores) & others.max(axis=1).ge(scores)
    return [*others] if others.shape[1] > 1 and between[scores.notna()].all() else []


def _plain(name: str) -> str:
    """A name in small letters, its words apart: ``_Attention-Check`` is ``attention check``."""
    return re.sub(r"[\W_]+", " ", name.casefold()).strip()


def _describe_columns(table: pd.DataFrame) -> str:
    """The columns of a file, with their values where they are few and short, as those of judgements are."""
    described = []
    for name in _columns_of(table):
        cells = _cells_of(table, name)
        values = sorted({f"{cell:g}" if isinstance(cell, float) else str(cell).strip() for cell in cells})
        few = 1 < len(values) <= _MOST_VALUES and max(map(len, values)) <= _LONGEST_VALUE
        few = few and not any(isinstance(cell, (dict, list)) for cell in cells)
        inside = values if few else [f"{name}.{field}" for field in _fields_of(_items_of(table, name))]
        described.append(f"{name} ({some_of(inside, _MOST_VALUES, str)})" if inside else name)
    return some_of(described, 40, str)


def _fields_of(cells: Iterable[Any]) -> list[str]:
    """The fields of objects among cells."""
    return [*dict.fromkeys(chain(*(cell for cell in map(unpack, cells) if isinstance(cell, Mapping))))]


def _cells_of(table: pd.DataFrame, column: str) -> list[Any]:
    """The cells of a column that hold something; those that are one object, as equal texts of a file are, once."""
    return [*filter(_holds_something, {id(cell): cell for cell in table[column]}.values())]


def _items_of(table: pd.DataFrame, column: str) -> Iterable[Any]:
    """What the cells of a column hold, and each item of a list."""
    return chain(*map(list_items, _cells_of(table, column)))


def _is_empty(cells: pd.Series[Any]) -> pd.Series[bool]:
    return cells.isna() | cells.eq("")


def _holds_something(cell: Any) -> bool:
    return not is_missing(cell) and bool(str(cell).strip())


def _names_attributes(table: pd.DataFrame, recipe: Recipe) -> bool:
    """Whether the only attribute is a column of names, not one of judgements."""
    column = next(iter(recipe.attribute.values()))
    if len(recipe.attribute) > 1 or column not in table:
        return False
    cells = [str(cell).strip() for cell in _cells_of(table, column)]
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
    columns = _columns_by_name(table)
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
    names = _columns_of(table) if table.shape[1] < _MOST_COLUMNS else []
    words = {name: re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", name) for name in names}
    by_words = {tuple(map(str.casefold, parts)): name for name, parts in words.items()}
    sides = {}
    for parts, first in by_words.items():
        for i, word in enumerate(parts):
            second = by_words.get((*parts[:i], COLUMN_NAMES["sides"].get(word, ""), *parts[i + 1 :]))
            cells = [*filter(_holds_something, chain(table[first], table[second]))] if second else []
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
            pairs = [
                *chain(*(zip(*both, strict=False) for both in cells if all(isinstance(cell, list) for cell in both)))
            ]
        differing = {str(name) for own, name in pairs if name is not None and name != own}
        if differing & {str(own) for own, _ in pairs}:
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
    cells = [cell for cell in _items_of(table, column) if not is_missing(cell)]
    if fields := _fields_of(cells):
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
