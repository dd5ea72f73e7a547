"""Make a set from a table of judged texts: a recipe from a few options, or a ``prepare.py`` to complete."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import replace as change
from pathlib import Path
from typing import Any

import pandas as pd

from nnd_tasks.datasets import dataset_folder, user_tasks_dir
from nnd_tasks.errors import NNDError
from nnd_tasks.files import write_text, write_texts
from nnd_tasks.sets.build import Made, check_same_recipe, make_set, write_made
from nnd_tasks.sets.cells import PATH, ROW, as_number, is_missing, render, unpack
from nnd_tasks.sets.chat import is_chat
from nnd_tasks.sets.fetch import open_source
from nnd_tasks.sets.read import read_table
from nnd_tasks.sets.recipe import FILE, KEY, PREPARE, RECIPE, Recipe, make_recipe, read_recipe
from nnd_tasks.sets.shelf import SetRecipe, check_set_name, list_recipes
from nnd_tasks.sets.tasks import UserTask, shipped_task, write_tasks
from nnd_tasks.wording import some_of
from nnd_tasks.yaml_json import dump_yaml

_HEAD = 1000  # rows that are looked at for labels and numbers
#: Role -> names of columns that are taken for it where no option says it, the likelier first.
_NAMES: Mapping[str, tuple[str, ...]] = {
    "context": ("context", "prompt", "question", "source", "instruction", "document", "article", "input"),
    "candidate": ("candidate", "answer", "response", "summary", "translation", "output", "text"),
    "label": ("label", "judgement", "judgment", "verdict"),
    "score": ("score", "rating"),
    "system": ("system", "model"),
    "rater": ("rater", "annotator"),
    "category": ("category",),
}


@dataclass
class Draft:
    """A set that is not written yet.

    Attributes:
        set_recipe: its recipe.
        made: its tests.
        proposed: roles whose columns were taken by their names.
    """

    set_recipe: SetRecipe
    made: Made
    proposed: list[str]

    @property
    def recipe(self) -> Recipe:
        """How it is made."""
        return self.set_recipe.recipe


def draft_set(name: str, source: str, keys: Mapping[str, Any], *, replace: bool = False) -> Draft:
    """Make the tests of a set from a table, without writing anything.

    A column that no key names is taken where it is called as its role. Facts of the card stay from an earlier recipe.

    Args:
        name: of the set; letters, digits and ``_``.
        source: a table, a folder, a pattern or an archive of tables.
        keys: of the recipe.
        replace: forget the facts of an earlier recipe of this name.

    Raises:
        NNDError: a name that is taken, a wrong key, column or cell, or no test comes out.
    """
    set_recipe = _own_recipe(name, keys, replace)
    table = _read_head(set_recipe, source)
    recipe, proposed = complete_recipe(set_recipe.recipe, table)
    set_recipe = change(set_recipe, loaded=recipe)
    made = make_set(set_recipe, source)
    hashes = {file: digest for part in made.report.values() for file, digest in part["source_sha256"].items()}
    files = {file: {"sha256": digest} for file, digest in hashes.items()}
    keys = {**recipe.dump(), "files": files, "expected": dict(made.count_categories())}
    loaded = make_recipe(keys, "recipe")
    for part in made.report.values():
        part["recipe"] = loaded.dump()
    return Draft(change(set_recipe, loaded=loaded), made, proposed)


def _own_recipe(name: str, keys: Mapping[str, Any], replace: bool) -> SetRecipe:
    check_set_name(name)
    if shipped_task(f"nnd_{name}") is not None or (name in list_recipes() and list_recipes()[name].shipped):
        raise NNDError(f"{name} is a set or task that comes with the package (`nnd list`); take another name")
    path = user_tasks_dir() / name / RECIPE
    given = dict(keys)
    if path.is_file() and not replace:
        given["facts"] = {**read_recipe(path).get("facts", {}), **given.get("facts", {})}
    return SetRecipe(name, path, "own", make_recipe(given, "options"))


def _read_head(set_recipe: SetRecipe, source: str) -> pd.DataFrame:
    with open_source(change(set_recipe, path=Path("_")), source) as files:
        return read_table(next(iter(files.files.values())), set_recipe.recipe).head(_HEAD)


def complete_recipe(recipe: Recipe, table: pd.DataFrame) -> tuple[Recipe, list[str]]:
    """Return a recipe with the columns that are called as their roles, and these roles.

    Raises:
        NNDError: it lacks a column or a rule; the error names what the table offers.
    """
    columns = [name for name in table.columns if name not in (PATH, ROW, FILE, KEY)]
    found = {name.casefold(): name for name in columns}
    named = {role: next((name for name in names if name in found), "") for role, names in _NAMES.items()}
    roles = [role for role, column in named.items() if column and not getattr(recipe, role)]
    if recipe.pairs:
        roles = [role for role in roles if role in ("context", "category")]
    elif recipe.attribute or recipe.label or recipe.score:
        roles = [role for role in roles if role not in ("label", "score")]
    elif "label" in roles:
        roles = [role for role in roles if role != "score"]
    recipe = recipe.model_copy(update={role: found[named[role]] for role in roles})
    if not recipe.pairs:
        _check_enough(recipe, table, columns)
    return make_recipe(recipe.dump(), "options"), roles


def _check_enough(recipe: Recipe, table: pd.DataFrame, columns: list[str]) -> None:
    where, offered = table[PATH].iat[0], some_of(columns, 40, str)
    for role in ("context", "candidate"):
        if not getattr(recipe, role):
            raise NNDError(f"{where}: name the column of the {role} with --{role}; there are: {offered}")
    column = recipe.label or recipe.score or next(iter(recipe.attribute.values()), None)
    if column is None:
        raise NNDError(
            f"{where}: name the column of judgements with --label, --score or --attribute; there are: {offered}"
        )
    if recipe.rules or column not in table:
        return
    cells = [cell for cell in table[column] if not is_missing(cell) and cell != ""]
    numbers = [as_number(cell, recipe.missing, recipe.decimal) for cell in cells]
    if cells and all(number is not None for number in numbers):
        low, high = min(n for n in numbers if n is not None), max(n for n in numbers if n is not None)
        option = f"--score {column} " if recipe.label else ""
        raise NNDError(
            f"{where}: say what is better: column {column!r} holds numbers from {low:g} to {high:g}, so {option}--min-gap X "
            "(smallest difference of two scores)"
        )
    labels = sorted({render(cell) or "" for cell in cells})
    raise NNDError(
        f"{where}: say what is better: column {column!r} holds the labels {some_of(labels, 12)}, so --better LABEL,..."
    )


def write_draft(draft: Draft, *, replace: bool = False) -> list[UserTask]:
    """Write the recipe of a draft, its dataset folder, and its task.

    Raises:
        NNDError: there is another set of this name, or something cannot be written.
    """
    set_recipe, folder = draft.set_recipe, dataset_folder(draft.set_recipe.name)
    if not replace:
        _check_edits(set_recipe)
        check_same_recipe(set_recipe, folder)
    write_made(set_recipe, draft.made, folder, replace=replace)
    write_text(set_recipe.path, dump_yaml(draft.recipe.dump()))
    return write_tasks(set_recipe, draft.made, replace=replace)


def _check_edits(set_recipe: SetRecipe) -> None:
    """Raise NNDError for a recipe that a person edited, as `nnd new` would write another in its place."""
    if not set_recipe.path.is_file():
        return
    other = {"facts": None, "expected": None, "files": None}
    earlier, now = make_recipe(read_recipe(set_recipe.path), str(set_recipe.path)).dump(), set_recipe.recipe.dump()
    if changed := sorted(
        key for key in {**earlier, **now} if {**earlier, **other}.get(key) != {**now, **other}.get(key)
    ):
        raise NNDError(
            f"{set_recipe.path}: says other things ({', '.join(changed)}); build it with `nnd build {set_recipe.name}`; "
            "--replace forgets them"
        )


# ---------------------------------------------------------------- files that need pandas


def needs_pandas(name: str, source: str, keys: Mapping[str, Any]) -> Path | None:
    """Return the first file of ``source`` where no option can say what its rows are; None where options can.

    That is a file that is no table, or whose rows hold lists of objects or texts while columns are lacking.
    """
    if any(key in keys for key in ("candidate", "chosen", "pair")):
        return None
    set_recipe = SetRecipe(name, Path("_"), "own", Recipe())
    with open_source(set_recipe, source) as files:
        path = next(iter(files.files.values()))
        try:
            table = read_table(path, make_recipe({k: v for k, v in keys.items() if k == "encoding"}, "options")).head(
                50
            )
        except NNDError as error:
            broken = path.suffix in (".csv", ".tsv", ".xlsx", ".parquet") or "not valid JSON" in str(error)
            return None if broken else path.resolve()
        columns = {column.casefold() for column in table}
        known = {role for role, names in _NAMES.items() if role in keys or columns & {*names}}
        if {"context", "candidate"} <= known and ("attribute" in keys or known & {"label", "score"}):
            return None
        return path.resolve() if _find_lists(table) else None


def _find_lists(table: pd.DataFrame) -> dict[str, list[Any]]:
    """Return column -> the first of its cells that is a list of objects or texts, and no chat."""
    found: dict[str, list[Any]] = {}
    for column in table:
        for cell in map(unpack, table[column]):
            if isinstance(cell, list) and cell and isinstance(cell[0], (dict, str)) and not is_chat(cell):
                found.setdefault(column, cell)
    return found


_SKELETON = '''"""{name}: say here what a row of the files is."""

from pathlib import Path

import pandas as pd

from nnd_tasks.sets.read import read_records


def rows(folder: Path) -> pd.DataFrame:
    """Return a row per judged candidate."""
    return pd.DataFrame(
        {{
            "context": record[...],  # what a model is given
            "candidate": {item}[...],  # the text that was judged
            "label": {item}[...],  # what people said of it (or "score": a number)
            "where": record.where,
        }}
        for record in read_records(folder / {file!r})  # fields: {fields}
{loop}    )
'''


def write_skeleton(name: str, path: Path, keys: Mapping[str, Any]) -> tuple[Path, Path, list[int]]:
    """Write a recipe and a ``prepare.py`` with the fields of a file, to be completed.

    Returns:
        The recipe, the ``prepare.py``, and its lines to complete.

    Raises:
        NNDError: one of them is there already, or cannot be written.
    """
    set_recipe = _own_recipe(name, keys, replace=False)
    prepare = set_recipe.path.with_name(PREPARE)
    if prepare.exists() or set_recipe.path.exists():
        raise NNDError(f"{set_recipe.path.parent}: a recipe is there already; complete it, or take another name")
    try:
        table = read_table(path, Recipe()).head(50)
    except NNDError:
        table = pd.DataFrame()
    fields = [column for column in table.columns if column not in (PATH, ROW, FILE)]
    lists = {column: list(items[0]) for column, items in _find_lists(table).items() if isinstance(items[0], dict)}
    column = next(iter(lists), "")
    loop = f"        for item in record[{column!r}]  # fields: {', '.join(lists[column])}\n" if column else ""
    text = _SKELETON.format(
        name=name,
        item="item" if column else "record",
        file=path.name,
        fields=", ".join(fields) or "see the file",
        loop=loop,
    )
    recipe = dump_yaml({"files": {path.name: {}}, "better": ["TODO: the best label"], **set_recipe.recipe.dump()})
    write_texts({set_recipe.path: recipe, prepare: text})
    return set_recipe.path, prepare, [number for number, line in enumerate(text.splitlines(), 1) if "[...]" in line]
