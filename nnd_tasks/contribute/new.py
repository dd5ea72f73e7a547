"""Make a set from a table of judged texts: a recipe from a few options."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as change
from pathlib import Path
from typing import Any

import pandas as pd

from nnd_tasks.contribute.exports.recognise import Kind, find_kind
from nnd_tasks.errors import NNDError
from nnd_tasks.files import dump_yaml, write_texts
from nnd_tasks.publishers.download import open_source
from nnd_tasks.sets.build import BuiltSet, check_same_recipe, count_categories, make_of_files, write_built
from nnd_tasks.sets.catalogue import check_free_name, check_set_name
from nnd_tasks.sets.recipe import PREPARE, RECIPE, Recipe, SetRecipe, make_recipe, read_recipe
from nnd_tasks.sets.rows import mark_left_out, run_prepare
from nnd_tasks.sets.tasks import UserTask, write_tasks
from nnd_tasks.show.console import say
from nnd_tasks.store import dataset_folder, user_tasks_dir
from nnd_tasks.tables.cells import FILE, FOLDER, KEY, PATH, SHEET, take_column
from nnd_tasks.tables.contents import COLUMN_NAMES
from nnd_tasks.tables.decode import strip_ending
from nnd_tasks.tables.doubts import find_doubtful_values, find_unused_raters
from nnd_tasks.tables.propose import (
    check_enough,
    check_raters,
    drop_shared,
    find_columns,
    find_unused,
    propose_pairs,
    propose_roles,
)
from nnd_tasks.tables.read import read_tables
from nnd_tasks.text import counted, some_of

#: Options of which one may be given and the other is found by its name.
_PAIRS = ("chosen", "rejected", "pair", "winner", "winners")


@dataclass
class Draft:
    """A set that is not written yet.

    Attributes:
        set_recipe: its recipe.
        built_set: its tests.
        proposed: roles whose columns were taken by their names.
        unused: the columns that have no role.
        beside: name -> text of files that are written beside the recipe, which then builds the set from them.
    """

    set_recipe: SetRecipe
    built_set: BuiltSet
    proposed: list[str]
    unused: list[str]
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
        if PREPARE not in self.beside:
            self.set_recipe.path.with_name(PREPARE).unlink(missing_ok=True)  # of what is replaced
        return write_tasks(self.set_recipe, self.built_set, replace=replace)


def draft_set(
    name: str,
    source: str,
    keys: Mapping[str, Any],
    *,
    systems: Sequence[str] = (),
    raters: Sequence[str] = (),
    replace: bool = False,
) -> Draft:
    """Make the tests of a set from a table, without writing anything.

    A column that no key names is taken where it is called as its role. Facts of the card stay from an earlier recipe.

    Args:
        name: of the set; letters, digits and ``_``.
        source: a table, a folder, a pattern or an archive of tables.
        keys: of the recipe.
        systems: names of systems that have columns of their own.
        raters: names of raters that have columns of their own.
        replace: forget the facts of an earlier recipe of this name.

    Raises:
        NNDError: a name that is taken, a wrong key, column or cell, or no test comes out.
    """
    check_set_name(name)
    check_free_name(name)
    path = user_tasks_dir() / name / RECIPE
    earlier = {} if replace or not path.is_file() else read_recipe(path).get("facts", {})
    facts = {**earlier, **keys.get("facts", {})}
    pairs = {key: value for key, value in keys.items() if key in _PAIRS}
    single = {key: value for key, value in keys.items() if key not in _PAIRS}
    recipe = make_recipe({**single, **({"facts": facts} if facts else {})}, "options")
    set_recipe = SetRecipe(name, path, "own", recipe=recipe)
    with (
        open_source(change(set_recipe, path=Path("_")).wanted, source) as files,
        tempfile.TemporaryDirectory() as scratch,
    ):
        kind = find_kind(files.files, recipe, pairs, systems, raters)
        if kind:
            say(f"{source}: {kind.title}; recognised by {some_of(kind.fields, show=str)}. {kind.advice}")
            (Path(scratch) / PREPARE).write_text(kind.prepare, "utf-8")
        _check_prepare(path.with_name(PREPARE), kind, source, replace=replace)
        prepare = Path(scratch) / PREPARE if kind else None
        if prepare:
            table = run_prepare(prepare, files.folder)[0].assign(**{PATH: source})
        else:
            table = read_tables(files.files.values(), recipe)
        named, proposed = _name_columns(recipe, table, pairs, raters)
        unused = find_unused(table, named)
        kept = mark_left_out(table, named)[0]
        used = kept["exclusion"].eq("")
        kept = kept if used.all() else kept[used]  # a copy takes memory
        doubts = [*find_doubtful_values(kept, named), *find_unused_raters(kept, named, unused)]
        paths = [*files.files.values()]
        by_path: dict[str, set[Any]] = {FILE: {*map(strip_ending, paths)}, FOLDER: {path.parent for path in paths}}
        by_row = {name: {*table[name]} for name in (KEY, SHEET) if name in table}
        places = [name for name, values in {**by_path, **by_row}.items() if 1 < len(values) < len(table)]
        del table, kept
        if kind and kind.utf16 and named.spans and named.spans.column:
            named = make_recipe(
                {**named.dump(), "spans": {**named.spans.model_dump(exclude_defaults=True), "utf16": True}}, "options"
            )
        set_recipe = change(set_recipe, recipe=named, prepare=prepare)
        built_set = make_of_files(set_recipe, files)
    reports = built_set.report.values()
    built_set.notes += [*doubts, *_find_lost_raters(named, next(iter(reports))["accounts"], places, unused, built_set)]
    hashes = {file: {"sha256": digest} for report in reports for file, digest in report["source_sha256"].items()}
    first = {digest["sha256"]: file for file, digest in reversed(hashes.items())}
    if copies := [file for file, digest in hashes.items() if first[digest["sha256"]] != file]:
        built_set.notes.append(f"{some_of(copies, show=str)}: the same as another file, and counts again")
    expected = dict(count_categories(built_set.categories))
    recipe = make_recipe({**named.dump(), "files": hashes, "expected": expected}, "recipe")
    for report in reports:
        report["recipe"] = recipe.dump()
    set_recipe = change(set_recipe, recipe=recipe, prepare=path.with_name(PREPARE) if kind else None)
    return Draft(set_recipe, built_set, proposed, unused, {PREPARE: kind.prepare} if kind else {})


def _find_lost_raters(
    recipe: Recipe, accounts: Mapping[str, Any], places: Sequence[str], unused: Sequence[str], built_set: BuiltSet
) -> list[str]:
    """Write a note where several rows judge a text and nobody says whose they are, and where a rater's rows may lack the text.

    Args:
        recipe: with all columns named.
        accounts: of the first config.
        places: columns of places that differ between rows, such as ``@file``.
        unused: columns without a role.
        built_set: its judgements, and the notes so far.
    """
    left_out = accounts["rows"]["left_out"]
    place = f", such as --rater {places[0]}" if places else ""
    notes = []
    if "judgements" in accounts:
        several = accounts["judgements"]["used"] - accounts["candidates"]["total"]
    else:
        several = left_out.get("repeated", 0) + left_out.get("contradictory", 0)
    again = any("judges a text again" in note for note in built_set.notes)
    if again and place and recipe.rater not in places:
        notes.append(f"if raters are told apart by something else, name that{place}")
    if several > 0 and not (again or built_set.judgements or recipe.category or recipe.spans):
        notes.append(
            f"{counted(several, 'row')} judge a text again, and nobody says whose judgements these are; --rater COLUMN names the "
            f"raters{place}"
        )
        counts = [name for name in unused if name.casefold() in COLUMN_NAMES["counts"]]
        notes += [f"{name} not used; if a row stands for so many judgements, write it as often" for name in counts]
    blank = left_out.get("empty", 0) + left_out.get("no_context", 0)
    if 3 * blank > accounts["rows"]["total"]:
        notes.append(
            f"{counted(blank, 'row')} without a text are left out; if an empty cell means the one above it, fill it in the file"
        )
    return notes


def _check_prepare(path: Path, kind: Kind | None, source: str, *, replace: bool) -> None:
    """Raise NNDError where somebody has written another ``prepare.py`` than that of the kind."""
    if path.exists() and not replace and (kind is None or path.read_text("utf-8") != kind.prepare):
        name = path.parent.name
        raise NNDError(
            f"{path}: says what a row of {name} is, and is not what reads {source}; take another name, or --replace, which "
            "forgets it"
        )


def _name_columns(
    recipe: Recipe, table: pd.DataFrame, pairs: Mapping[str, Any], raters: Sequence[str]
) -> tuple[Recipe, list[str]]:
    """Add the columns that are called as their roles to a recipe; return it and these roles."""
    recipe = make_recipe({**recipe.dump(), **find_columns(recipe.dump(), table)}, "options")
    pairs = {**pairs, **find_columns(pairs, table)}
    offered = drop_shared(table) if raters else table
    paired = {**pairs, **propose_pairs(offered, recipe, pairs)}
    by_name = propose_roles(offered, make_recipe({**recipe.dump(), **paired}, "options"))
    recipe = make_recipe({**recipe.dump(), **paired, **by_name}, "options")
    for _, column in recipe.list_columns():
        take_column(table, column, each=True)
    check_raters(table, recipe)
    if not recipe.pairs:
        check_enough(recipe, table)
    return recipe, [*(role for role in paired if role not in pairs), *by_name]
