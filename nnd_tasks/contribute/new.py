"""Make a set from a table of judged texts: a recipe from a few options, or a ``prepare.py`` to complete."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as change
from pathlib import Path
from typing import Any

import pandas as pd

from nnd_tasks.contribute.layouts import recognise_layout, recognise_xml
from nnd_tasks.contribute.prepare_code import TO_COMPLETE, Layout, quote
from nnd_tasks.contribute.records import MOST_COLUMNS, NAMES, columns_of
from nnd_tasks.errors import NNDError
from nnd_tasks.files import dump_yaml, write_text, write_texts
from nnd_tasks.sets.build import BuiltSet, check_same_recipe, count_categories, make_set, write_built
from nnd_tasks.sets.catalogue import SetRecipe, check_free_name, check_set_name, find_prepare
from nnd_tasks.sets.cells import PATH, as_number, is_missing, render, unpack
from nnd_tasks.sets.download import Source, open_source
from nnd_tasks.sets.read import read_json, read_table
from nnd_tasks.sets.recipe import FILE, KEY, PREPARE, RECIPE, Recipe, make_recipe, read_recipe
from nnd_tasks.sets.tasks import UserTask, write_tasks
from nnd_tasks.store import dataset_folder, user_tasks_dir
from nnd_tasks.text import some_of

_HEAD = 1000  # rows that are looked at for labels and numbers
#: Options of which one may be given and the other is found by its name.
_PAIRS = ("chosen", "rejected", "pair", "winner", "winners")
_WINNERS = ("winner", "preferred", "preference", "choice", "better", "verdict", "label", "judgement", "judgment")
#: Words that tell the two texts of a pair apart in the names of their columns.
_SIDES = (("a", "b"), ("1", "2"), ("0", "1"), ("left", "right"), ("first", "second"))
#: Keys of the positions of error spans, as files call them.
_SPAN_KEYS = (
    ("start", "end"),
    ("from", "to"),
    ("begin", "end"),
    ("start_char", "end_char"),
    ("start_offset", "end_offset"),
)


@dataclass
class Draft:
    """A set that is not written yet.

    Attributes:
        set_recipe: its recipe.
        built_set: its tests.
        proposed: roles whose columns were taken by their names.
    """

    set_recipe: SetRecipe
    built_set: BuiltSet
    proposed: list[str]

    @property
    def recipe(self) -> Recipe:
        """How it is made."""
        return self.set_recipe.recipe

    def write(self, *, replace: bool = False) -> list[UserTask]:
        """Write the recipe, the dataset folder, and its task.

        Raises:
            NNDError: there is another set of this name, or something cannot be written.
        """
        folder = dataset_folder(self.set_recipe.name)
        if not replace:
            check_same_recipe(self.set_recipe, folder)
        write_built(self.set_recipe, self.built_set, folder, replace=replace)
        write_text(self.set_recipe.path, dump_yaml(self.recipe.dump()))
        return write_tasks(self.set_recipe, self.built_set, replace=replace)


class NeedsPrepareError(NNDError):
    """A row of the file is not one judged text, so that no option can say what it is.

    Attributes:
        recipe: what the user, and the names of columns, say.
        layout: how the file's records become rows.
        files: names of the files of the set.
        columns: of the first file.
    """

    def __init__(self, source: Source, recipe: Recipe, layout: Layout, columns: Sequence[str] = ()) -> None:
        first = next(iter(source.files.values()))
        super().__init__(f"{first}: {layout.seen}; a prepare.py says what a row is")
        self.recipe, self.layout, self.files, self.columns = recipe, layout, [*source.files], columns


def draft_set(name: str, source: str, keys: Mapping[str, Any], *, replace: bool = False) -> Draft:
    """Make the tests of a set from a table, without writing anything.

    A column that no key names is taken where it is called as its role. Facts of the card stay from an earlier recipe.

    Args:
        name: of the set; letters, digits and ``_``.
        source: a table, a folder, a pattern or an archive of tables.
        keys: of the recipe.
        replace: forget the facts of an earlier recipe of this name.

    Raises:
        NeedsPrepareError: only a ``prepare.py`` can say what the rows are.
        NNDError: a name that is taken, a wrong key, column or cell, or no test comes out.
    """
    set_recipe = _own_recipe(name, {key: value for key, value in keys.items() if key not in _PAIRS}, replace)
    pairs = {key: value for key, value in keys.items() if key in _PAIRS}
    recipe, proposed = _complete_recipe(set_recipe, source, pairs)
    set_recipe = change(set_recipe, recipe=recipe)
    built_set = make_set(set_recipe, source)
    reports = built_set.report.values()
    files = {file: {"sha256": digest} for report in reports for file, digest in report["source_sha256"].items()}
    keys = {**recipe.dump(), "files": files, "expected": dict(count_categories(built_set.categories))}
    recipe = make_recipe(keys, "recipe")
    for report in reports:
        report["recipe"] = recipe.dump()
    return Draft(change(set_recipe, recipe=recipe), built_set, proposed)


def _own_recipe(name: str, keys: Mapping[str, Any], replace: bool) -> SetRecipe:
    check_set_name(name)
    check_free_name(name)
    path = user_tasks_dir() / name / RECIPE
    facts = {} if replace or not path.is_file() else read_recipe(path).get("facts", {})
    facts = {**facts, **keys.get("facts", {})}
    recipe = make_recipe({**keys, **({"facts": facts} if facts else {})}, "options")
    return SetRecipe(name, path, "own", find_prepare(path), recipe=recipe)


def _complete_recipe(set_recipe: SetRecipe, source: str, pairs: Mapping[str, Any]) -> tuple[Recipe, list[str]]:
    """Add the columns of the first file that are called as their roles to a recipe; return it and these roles."""
    recipe = set_recipe.recipe
    with open_source(change(set_recipe, path=Path("_")), source) as files:
        table = _read_head(files, recipe)
        paired = {**pairs, **_find_pairs(table, recipe, pairs)}
        by_name = _name_roles(table, make_recipe({**recipe.dump(), **paired}, "options"))
        recipe = make_recipe({**recipe.dump(), **paired, **by_name}, "options")
        if not recipe.pairs:
            column = recipe.label or recipe.score or next(iter(recipe.attribute.values()), None)
            complete = bool(recipe.context and recipe.candidate and column)
            if layout := recognise_layout(table, recipe, complete=complete):
                keys = [KEY] if KEY in table else []
                raise NeedsPrepareError(files, recipe, layout, [*keys, *columns_of(table)])
            _check_enough(recipe, table, column)
    return recipe, [*(role for role in paired if role not in pairs), *by_name]


def _read_head(source: Source, recipe: Recipe) -> pd.DataFrame:
    """The first rows of the first file that is not left out; raise NeedsPrepareError where it is no table but can be read."""
    left_out = [name.strip().casefold() for name in recipe.leave_out.get(FILE, ())]
    paths = list(source.files.values())
    path = next((path for path in paths if path.name.split(".")[0].casefold() not in left_out), paths[0])
    if path.suffix.lower() == ".xml":
        raise NeedsPrepareError(source, recipe, recognise_xml(path, recipe))
    try:
        return read_table(path, recipe).head(_HEAD)
    except NNDError as error:
        if path.suffix.lower() != ".json" or recipe.candidate or recipe.pairs or "not valid JSON" in str(error):
            raise
        raise NeedsPrepareError(source, recipe, _describe_other_json(read_json(path, recipe.encoding))) from error


def _describe_other_json(data: Any) -> Layout:
    """Describe a JSON file that holds no objects that could be rows: all is for the user to complete."""
    roles = dict.fromkeys(("context", "candidate", "label"), f"record{TO_COMPLETE}")
    reader = "for record in read_json({path})[...]"
    fields = [quote(key) for key in data] if isinstance(data, dict) else []
    location = {"where": 'f"{record}"[:60]'}
    return Layout("a file that is no list of objects", {**roles, **location}, reader=reader, fields=fields)


def _name_roles(table: pd.DataFrame, recipe: Recipe) -> dict[str, Any]:
    """Role -> the column that is called so, of roles that the user did not name."""
    columns = {name.casefold(): name for name in columns_of(table)}
    used = {*recipe.attribute.values(), *(getattr(recipe, role) for role in NAMES)}
    columns_by_role = {
        role: next((columns[name] for name in names if name in columns), "") for role, names in NAMES.items()
    }
    roles = [
        role for role, column in columns_by_role.items() if column and column not in used and not getattr(recipe, role)
    ]
    judged = [role for role in ("label", "score") if role in roles]
    if recipe.pairs:
        roles = [role for role in roles if role in ("context", "rater", "category")]
    elif recipe.label or recipe.score or (recipe.attribute and not _names_attributes(table, recipe)):
        roles = [role for role in roles if role not in judged]
    elif len(judged) > 1:
        roles.remove("score" if recipe.by_label or recipe.min_gap is None else "label")
    named: dict[str, Any] = {role: columns_by_role[role] for role in roles}
    spans = recipe.spans and recipe.spans.column
    if spans in table and (keys := _find_span_keys(table[spans])):
        named["spans"] = {"column": spans, "start": keys[0], "end": keys[1]}
    return named


def _names_attributes(table: pd.DataFrame, recipe: Recipe) -> bool:
    """Whether the only attribute is a column of names, not one of judgements."""
    column = next(iter(recipe.attribute.values()))
    if len(recipe.attribute) > 1 or column not in table:
        return False
    cells = [str(cell).strip() for cell in table[column] if not is_missing(cell) and str(cell).strip()]
    if recipe.by_label:
        return not {*cells} & {*recipe.better, *(label for rank in recipe.order for label in rank)}
    numbers = [as_number(cell, recipe, ()) for cell in cells]
    return bool(cells) and all(number is None or math.isnan(number) for number in numbers)


def _find_span_keys(cells: pd.Series[Any]) -> tuple[str, str] | None:
    """The keys of the positions in objects of error spans, where they are not ``start`` and ``end``.

    Raises:
        NNDError: the objects have neither positions nor words that are known.
    """
    for cell in map(unpack, cells):
        item = cell[0] if isinstance(cell, list) and cell else cell
        if isinstance(item, dict):
            keys = next((keys for keys in _SPAN_KEYS if {*keys} <= {*item}), None)
            if keys is None and "text" not in item:
                raise NNDError(
                    f"column {cells.name!r}: its error spans have the fields {some_of([*item], 12, str)}; leave out --spans, and "
                    f"say in the recipe where a span starts and ends: spans: {{column: {cells.name}, start: FIELD, end: FIELD}}"
                )
            return keys if keys != _SPAN_KEYS[0] else None
    return None


# ---------------------------------------------------------------- pairs


def _find_pairs(table: pd.DataFrame, recipe: Recipe, options: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of pairs that are called so, where the user did not name the columns of single texts."""
    single = (recipe.candidate, recipe.label, recipe.score, recipe.attribute, recipe.rules)
    columns = {name.casefold(): name for name in columns_of(table)}
    if any(single):
        return {}
    if not {"pair", "winner", "winners"} & {*options}:
        both = {role: options.get(role) or columns.get(role) for role in ("chosen", "rejected")}
        if all(both.values()):
            return {role: column for role, column in both.items() if role not in options}
    if (winner := options.get("winner")) and winner.split(".")[0] not in table:
        offered = some_of(columns_of(table), 40, str)
        raise NNDError(f"--winner {winner}: name the column whose cells say which text is better; there are: {offered}")
    winner = winner or next((columns[name] for name in _WINNERS if name in columns), None)
    sides = {names: length for names, length in _find_sides(table).items() if winner not in names}
    systems = [names for names in sides if names[0].casefold().startswith(("model", "system", "writer"))]
    # Texts are longer than the names of systems, but an answer may be "No.".
    texts = max(sides, key=lambda names: (names not in systems, sides[names]), default=None)
    pair = options.get("pair") or texts or _find_named(table, winner)
    if not (winner and pair):
        return {}
    roles: dict[str, Any] = {"pair": [*pair], "winner": winner}
    others = [names for names in systems if names != tuple(pair)]
    if others:
        roles["systems"] = [*others[0]]
    return {role: column for role, column in roles.items() if role not in options}


def _find_sides(table: pd.DataFrame) -> dict[tuple[str, str], float]:
    """Two columns of texts whose names differ in one word, such as a and b -> the mean length of their cells."""
    names = columns_of(table) if table.shape[1] < MOST_COLUMNS else []
    words = {name: re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", name) for name in names}
    sides = {}
    for first_name, parts in words.items():
        for second_name, others in words.items():
            differing = [
                tuple(map(str.casefold, pair)) for pair in zip(parts, others, strict=False) if pair[0] != pair[1]
            ]
            if len(parts) != len(others) or len(differing) != 1 or differing[0] not in _SIDES:
                continue
            cells = [
                cell
                for name in (first_name, second_name)
                for cell in table[name]
                if not is_missing(cell) and cell != ""
            ]
            if cells and not all(as_number(cell, Recipe(), ()) is not None for cell in cells):
                sides[first_name, second_name] = sum(len(str(cell)) for cell in cells) / len(cells)
    return sides


def _find_named(table: pd.DataFrame, winner: str | None) -> tuple[str, ...] | None:
    """The two columns that the cells of ``winner`` name."""
    if winner not in table:
        return None
    named = {str(cell).strip() for cell in table[winner]} & {*columns_of(table)}
    return tuple(name for name in columns_of(table) if name in named) if len(named) == 2 else None


# ---------------------------------------------------------------- what is lacking


def _check_enough(recipe: Recipe, table: pd.DataFrame, column: str | None) -> None:
    """Raise NNDError where a column or the rule is lacking; the error names what the table offers."""
    lacking = [role for role in ("context", "candidate") if not getattr(recipe, role)]
    if lacking or column is None:
        hint = (
            f"of the {lacking[0]} with --{lacking[0]}"
            if lacking
            else "of judgements with --label, --score or --attribute"
        )
        if lacking == ["candidate"]:
            hint += " (where each system has its own, --system A,B with the names of the systems)"
        offered = some_of(columns_of(table), 40, str)
        raise NNDError(f"{table[PATH].iat[0]}: name the column {hint}; there are: {offered}")
    if column not in table:
        return
    cells = [cell for cell in table[column] if not is_missing(cell) and cell != ""]
    if recipe.better and len(table) < _HEAD and cells and {str(cell).strip() for cell in cells} <= {*recipe.better}:
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


# ---------------------------------------------------------------- files that need pandas


@dataclass
class Skeleton:
    """A recipe and a ``prepare.py`` that are not written yet.

    Attributes:
        recipe: path and text of the recipe.
        prepare: path and text of the ``prepare.py``.
    """

    recipe: tuple[Path, str]
    prepare: tuple[Path, str]

    @property
    def lines(self) -> list[int]:
        """The lines of the ``prepare.py`` to complete."""
        return [
            number for number, line in enumerate(self.prepare[1].splitlines(), 1) if "[...]" in line.partition("#")[0]
        ]

    @property
    def lacks_rule(self) -> bool:
        """Whether the recipe does not say yet what is better."""
        return self.recipe[1].endswith(tuple(_RULE_TO_COMPLETE.values()))

    def write(self) -> None:
        """Write both files."""
        write_texts(dict([self.recipe, self.prepare]))


def draft_skeleton(name: str, needs: NeedsPrepareError, *, replace: bool = False) -> Skeleton:
    """Make a recipe and a ``prepare.py`` that reads a file, to be completed, without writing anything.

    Raises:
        NNDError: one of them is there already.
    """
    folder = user_tasks_dir() / name
    if not replace and ((folder / PREPARE).exists() or (folder / RECIPE).exists()):
        raise NNDError(f"{folder}: a recipe is there already; complete it, take another name, or --replace")
    recipe = needs.recipe
    keys = {key: value for key, value in recipe.dump().items() if key in _BESIDE_PREPARE or key in recipe.rules}
    if needs.layout.better and not recipe.rules:
        keys["better"] = [needs.layout.better]
    text = dump_yaml({"files": {file: {} for file in needs.files}, **keys})
    if not (recipe.rules or needs.layout.better):
        text += _RULE_TO_COMPLETE["label" if "label" in needs.layout.roles else "score"]
    code = needs.layout.write_code(name, needs.files, recipe, needs.columns)
    return Skeleton((folder / RECIPE, text), (folder / PREPARE, code))


#: The last line of a recipe that is to be completed.
_RULE_TO_COMPLETE = {
    "label": "# better: [LABEL]  # complete: the labels that are better than all others\n",
    "score": "# min_gap: 1  # complete: the smallest difference of two scores that makes one text better\n",
}
#: Keys of a recipe that hold beside a ``prepare.py``.
_BESIDE_PREPARE = ("decimal", "missing", "facts", "ignore", "best")
