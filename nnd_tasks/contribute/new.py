"""Make a set from a table of judged texts: a recipe from a few options."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as change
from glob import escape
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd

from nnd_tasks.errors import NNDError
from nnd_tasks.files import dump_yaml, read_yaml, write_texts
from nnd_tasks.sets.build import BuiltSet, check_same_recipe, count_categories, make_set, write_built
from nnd_tasks.sets.catalogue import check_free_name, check_set_name
from nnd_tasks.sets.download import Source, open_source
from nnd_tasks.sets.recipe import PREPARE, RECIPE, Recipe, SetRecipe, make_recipe, read_recipe
from nnd_tasks.sets.spans import read_items
from nnd_tasks.sets.tasks import UserTask, write_tasks
from nnd_tasks.store import dataset_folder, user_tasks_dir
from nnd_tasks.tables.cells import FILE, KEY, PATH, ROW, as_number, is_chat, is_missing, render, split_column, unpack
from nnd_tasks.tables.read import read_table
from nnd_tasks.text import some_of

COLUMN_NAMES = read_yaml(Path(__file__).with_name("column_names.yaml"))
#: Role -> names of columns that are taken for it where no option says it, the likelier first.
NAMES: Mapping[str, Sequence[str]] = COLUMN_NAMES["roles"]
_MOST_COLUMNS = 500  # of a table in which two columns of texts are looked for
#: Keys of a recipe that hold beside a ``prepare.py``.
_BESIDE_PREPARE = ("decimal", "missing", "ignore", "best", "better", "order", "min_gap", "majority", "facts")
#: Options of which one may be given and the other is found by its name.
_PAIRS = ("chosen", "rejected", "pair", "winner", "winners")
#: Keys of the positions of error spans, as files call them.
_SPAN_KEYS: Sequence[Sequence[str]] = COLUMN_NAMES["spans"]


@dataclass
class Draft:
    """A set that is not written yet.

    Attributes:
        set_recipe: its recipe.
        built_set: its tests.
        proposed: roles whose columns were taken by their names.
        beside: name -> text of files that are written beside the recipe, which then builds the set from them.
    """

    set_recipe: SetRecipe
    built_set: BuiltSet
    proposed: list[str]
    beside: Mapping[str, str] = field(default_factory=dict)

    def write(self, *, replace: bool = False) -> list[UserTask]:
        """Write the recipe, the dataset folder, and its task.

        Raises:
            NNDError: there is another set of this name, or something cannot be written.
        """
        folder = dataset_folder(self.set_recipe.name)
        if not replace:
            check_same_recipe(self.set_recipe, folder)
        write_built(self.set_recipe, self.built_set, folder, replace=replace)
        files = {self.set_recipe.path.with_name(file): text for file, text in self.beside.items()}
        write_texts({**files, self.set_recipe.path: dump_yaml(self.set_recipe.recipe.dump())})
        self.set_recipe.path.with_name(PREPARE).unlink(missing_ok=True)  # of what is replaced
        return write_tasks(self.set_recipe, self.built_set, replace=replace)


class NeedsPrepareError(NNDError):
    """A row of the file is not one judged text, so that no option can say what it is.

    Attributes:
        files: path -> text of the ``prepare.py`` and the recipe that a person completes.
    """

    def __init__(self, problem: str, set_recipe: SetRecipe, source: Source) -> None:
        super().__init__(f"{problem}, so a row is not one judged text; a prepare.py says what is")
        names = [*source.files]
        pattern = names[0] if len(names) == 1 else f"*{Path(names[0]).suffix}"
        skeleton = Path(__file__).with_name("skeleton.py").read_text("utf-8")
        recipe = set_recipe.recipe
        keys = {key: value for key, value in recipe.dump().items() if key in _BESIDE_PREPARE}
        text = dump_yaml({"files": {file: {} for file in names}, **keys})
        if not recipe.rules:
            text += "# better: [LABEL]  # complete: the labels that are better than all others; of scores: min_gap: 1\n"
        path = set_recipe.path
        self.files = {path.with_name(PREPARE): skeleton.replace('"FILE"', repr(escape(pattern))), path: text}


def draft_set(
    name: str, source: str, keys: Mapping[str, Any], *, facts: Mapping[str, Any] | None = None, replace: bool = False
) -> Draft:
    """Make the tests of a set from a table, without writing anything.

    A column that no key names is taken where it is called as its role. Facts of the card stay from an earlier recipe.

    Args:
        name: of the set; letters, digits and ``_``.
        source: a table, a folder, a pattern or an archive of tables.
        keys: of the recipe.
        facts: of the card, where neither ``keys`` nor an earlier recipe says them.
        replace: forget the facts of an earlier recipe of this name.

    Raises:
        NeedsPrepareError: only a ``prepare.py`` can say what the rows are.
        NNDError: a name that is taken, a wrong key, column or cell, or no test comes out.
    """
    check_set_name(name)
    check_free_name(name)
    path = user_tasks_dir() / name / RECIPE
    if path.with_name(PREPARE).exists() and not replace:
        raise NNDError(
            f"{path.with_name(PREPARE)}: says what a row of {name} is; complete it, and: nnd build {name} --source {source}; or "
            "take another name, or --replace"
        )
    earlier = {} if replace or not path.is_file() else read_recipe(path).get("facts", {})
    facts = {**(facts or {}), **earlier, **keys.get("facts", {})}
    pairs = {key: value for key, value in keys.items() if key in _PAIRS}
    single = {key: value for key, value in keys.items() if key not in _PAIRS}
    recipe = make_recipe({**single, **({"facts": facts} if facts else {})}, "options")
    set_recipe = SetRecipe(name, path, "own", recipe=recipe)
    with open_source(change(set_recipe, path=Path("_")), source) as files:
        named, proposed = _name_columns(set_recipe, files, pairs)
    set_recipe = change(set_recipe, recipe=named)
    built_set = make_set(set_recipe, source)
    reports = built_set.report.values()
    hashes = {file: {"sha256": digest} for report in reports for file, digest in report["source_sha256"].items()}
    expected = dict(count_categories(built_set.categories))
    recipe = make_recipe({**named.dump(), "files": hashes, "expected": expected}, "recipe")
    for report in reports:
        report["recipe"] = recipe.dump()
    return Draft(change(set_recipe, recipe=recipe), built_set, proposed)


def _name_columns(set_recipe: SetRecipe, source: Source, pairs: Mapping[str, Any]) -> tuple[Recipe, list[str]]:
    """Add the columns that are called as their roles to a recipe; return it and these roles."""
    recipe = set_recipe.recipe
    try:
        table = _read_tables(source, recipe)
    except NNDError as error:
        names = [*source.files]
        if not names[0].lower().endswith(".json") or recipe.candidate or pairs or "not valid JSON" in str(error):
            raise
        raise NeedsPrepareError(str(error), set_recipe, source) from error
    paired = {**pairs, **_find_pairs(table, recipe, pairs)}
    by_name = _name_roles(table, make_recipe({**recipe.dump(), **paired}, "options"))
    recipe = make_recipe({**recipe.dump(), **paired, **by_name}, "options")
    if not recipe.pairs:
        nested = [column for column in columns_of(table) if any(map(_holds_texts, table[column]))]
        if nested and not recipe.candidate:
            problem = (
                f"{table[PATH].iat[0]}: there is no column of candidates, and {nested[0]!r} holds lists or objects"
            )
            raise NeedsPrepareError(problem, change(set_recipe, recipe=recipe), source)
        _check_enough(recipe, table)
    return recipe, [*(role for role in paired if role not in pairs), *by_name]


def _read_tables(source: Source, recipe: Recipe) -> pd.DataFrame:
    """Read all files that are not left out as one table."""
    left_out = [name.strip().casefold() for name in recipe.leave_out.get(FILE, ())]
    paths = list(source.files.values())
    used = [path for path in paths if path.name.split(".")[0].casefold() not in left_out] or paths[:1]
    return pd.concat([read_table(path, recipe) for path in used], ignore_index=True)


def _columns_by_name(table: pd.DataFrame) -> dict[str, str]:
    """Name in small letters -> column of a file; ``Input.question`` is also called ``question``, if no other column is."""
    names = {name.casefold(): name for name in columns_of(table)}
    last = [name.casefold().rpartition(".")[2] for name in names.values()]
    return {short: name for short, name in zip(last, names.values(), strict=True) if last.count(short) == 1} | names


def columns_of(table: pd.DataFrame) -> list[str]:
    """The columns of a file itself."""
    return [name for name in table.columns if name not in (PATH, ROW, FILE, KEY)]


def _holds_texts(cell: Any) -> bool:
    """Whether a cell holds a list or an object with texts in it; a chat is one text."""
    cell = unpack(cell)
    if isinstance(cell, Mapping):
        return any(isinstance(value, (str, list, Mapping)) for value in cell.values())
    return isinstance(cell, (list, tuple)) and not is_chat(cell) and any(isinstance(v, (str, Mapping)) for v in cell)


def _name_roles(table: pd.DataFrame, recipe: Recipe) -> dict[str, Any]:
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
    spans = recipe.spans and recipe.spans.column
    if spans in table and (keys := _find_span_keys(table[spans])):
        named["spans"] = {"column": spans, "start": keys[0], "end": keys[1]}
    return named


def _cells_of(table: pd.DataFrame, column: str) -> list[Any]:
    """The cells of a column that hold something."""
    return [cell for cell in table[column] if not is_missing(cell) and str(cell).strip()]


def _names_attributes(table: pd.DataFrame, recipe: Recipe) -> bool:
    """Whether the only attribute is a column of names, not one of judgements."""
    column = next(iter(recipe.attribute.values()))
    if len(recipe.attribute) > 1 or column not in table:
        return False
    cells = [str(cell).strip() for cell in _cells_of(table, column)]
    if recipe.by_label:
        return not {*cells} & {*recipe.better, *(label for rank in recipe.order for label in rank)}
    numbers = [as_number(cell, recipe, ()) for cell in cells]
    return bool(cells) and all(number is None or math.isnan(number) for number in numbers)


def _find_span_keys(cells: pd.Series[Any]) -> Sequence[str] | None:
    """The keys of the positions in objects of error spans, where they are not ``start`` and ``end``.

    Raises:
        NNDError: the objects have neither positions nor words that are known.
    """
    items = [item for item in chain.from_iterable(map(read_items, cells)) if isinstance(item, Mapping)]
    keys = [next((keys for keys in _SPAN_KEYS if {*keys} <= {*item}), None) for item in items]
    unknown = [item for item, known in zip(items, keys, strict=True) if known is None and "text" not in item]
    found = [known for known in _SPAN_KEYS if known in keys]
    if unknown or len(found) > 1:
        fields = some_of([*(unknown[0] if unknown else chain(*found))], 12, str)
        raise NNDError(
            f"column {cells.name!r}: its error spans have the fields {fields}; leave out --spans, and say in the recipe where a "
            f"span starts and ends: spans: {{column: {cells.name}, start: FIELD, end: FIELD}}"
        )
    return found[0] if found and found[0] != _SPAN_KEYS[0] else None


# ---------------------------------------------------------------- pairs


def _find_pairs(table: pd.DataFrame, recipe: Recipe, options: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of pairs that are called so, where the user did not name the columns of single texts."""
    if any((recipe.candidate, recipe.label, recipe.score, recipe.rules)):
        return {}
    columns = _columns_by_name(table)
    roles = {role: options.get(role) or columns.get(role) for role in ("chosen", "rejected")}
    if not ({"pair", "winner", "winners"} & {*options} or None in roles.values()):
        return {role: column for role, column in roles.items() if role not in options}
    winner = options.get("winner")
    if winner and not split_column(table, winner)[0]:
        offered = some_of(columns_of(table), 40, str)
        raise NNDError(f"--winner {winner}: name the column whose cells say which text is better; there are: {offered}")
    winner = winner or next((columns[name] for name in COLUMN_NAMES["winner"] if name in columns), None)
    sides = {names: length for names, length in _find_sides(table).items() if winner not in names}
    systems = [names for names in sides if names[0].casefold().startswith(("model", "system", "writer"))]
    # Texts are longer than the names of systems, but an answer may be "No.".
    pair = options.get("pair") or max(sides, key=lambda names: (names not in systems, sides[names]), default=None)
    if not winner:
        return {}
    if not pair and winner in table:  # its cells may name the two columns
        named = {str(cell).strip() for cell in table[winner]}
        pair = tuple(name for name in columns_of(table) if name in named)
    if not pair or len(pair) != 2:
        return {}
    others = [names for names in systems if names != tuple(pair)]
    roles = {"pair": [*pair], "winner": winner, **({"systems": [*others[0]]} if others else {})}
    return {role: column for role, column in roles.items() if role not in options}


def _find_sides(table: pd.DataFrame) -> dict[tuple[str, str], float]:
    """Two columns of texts whose names differ in one word, such as a and b -> the mean length of their cells."""
    names = columns_of(table) if table.shape[1] < _MOST_COLUMNS else []
    words = {name: re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", name) for name in names}
    by_words = {tuple(map(str.casefold, parts)): name for name, parts in words.items()}
    sides = {}
    for parts, first in by_words.items():
        for i, word in enumerate(parts):
            second = by_words.get((*parts[:i], COLUMN_NAMES["sides"].get(word, ""), *parts[i + 1 :]))
            cells = [*_cells_of(table, first), *_cells_of(table, second)] if second else []
            if second and any(as_number(cell, Recipe(), ()) is None for cell in cells):
                sides[first, second] = sum(len(str(cell)) for cell in cells) / len(cells)
    return sides


# ---------------------------------------------------------------- what is lacking


def _check_enough(recipe: Recipe, table: pd.DataFrame) -> None:
    """Raise NNDError where a column or the rule is lacking; the error names what the table offers."""
    column = recipe.label or recipe.score or next(iter(recipe.attribute.values()), None)
    lacking = [role for role in ("context", "candidate") if not getattr(recipe, role)]
    if lacking or column is None:
        hint = (
            f"of the {lacking[0]} with --{lacking[0]}"
            if lacking
            else "of judgements with --label, --score or, of each attribute, --attribute (a column per rater needs a prepare.py)"
        )
        if lacking == ["candidate"]:
            hint += " (where a row holds several texts, write a prepare.py, as docs/contribute.md says)"
        offered = some_of(columns_of(table), 40, str)
        raise NNDError(f"{table[PATH].iat[0]}: name the column {hint}; there are: {offered}")
    if column not in table:
        return
    cells = _cells_of(table, column)
    if recipe.better and cells and {str(cell).strip() for cell in cells} <= {*recipe.better}:
        raise NNDError(
            f"{table[PATH].iat[0]}: every text has a label of --better ({some_of(recipe.better)}); a test needs a text with "
            "another one"
        )
    if recipe.rules:
        return
    read = [as_number(cell, recipe, recipe.unjudged) for cell in cells]
    numbers = [number for number in read if number is not None]
    if cells and numbers == read:
        option = f"--score {column} " if recipe.label else ""
        hint = f"numbers from {min(numbers):g} to {max(numbers):g}, so {option}--min-gap X (smallest difference of two scores)"
    else:
        hint = f"the labels {some_of(sorted({render(cell) or '' for cell in cells}), 12)}, so --better LABEL,..."
    raise NNDError(f"{table[PATH].iat[0]}: say what is better: column {column!r} holds {hint}")
