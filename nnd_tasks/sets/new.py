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
from nnd_tasks.sets.build import Made, check_same_recipe, count_categories, make_set, write_made
from nnd_tasks.sets.cells import PATH, ROW, as_number, is_missing, render, unpack
from nnd_tasks.sets.chat import is_chat
from nnd_tasks.sets.fetch import open_source
from nnd_tasks.sets.read import read_table
from nnd_tasks.sets.recipe import FILE, KEY, PREPARE, RECIPE, Recipe, make_recipe, read_recipe
from nnd_tasks.sets.shelf import SetRecipe, check_free_name, check_set_name
from nnd_tasks.sets.tasks import UserTask, write_tasks
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


class NoTableError(NNDError):
    """No option can say what the rows of a file are: it is no table, or holds lists while columns are lacking.

    Attributes:
        path: the file.
        table: its first rows; empty where it is no table.
    """

    def __init__(self, path: Path, table: pd.DataFrame) -> None:
        super().__init__(f"{path}: no table with a row per judged text; say in pandas what a row is")
        self.path, self.table = path, table


def draft_set(name: str, source: str, keys: Mapping[str, Any], *, replace: bool = False) -> Draft:
    """Make the tests of a set from a table, without writing anything.

    A column that no key names is taken where it is called as its role. Facts of the card stay from an earlier recipe.

    Args:
        name: of the set; letters, digits and ``_``.
        source: a table, a folder, a pattern or an archive of tables.
        keys: of the recipe.
        replace: forget the facts of an earlier recipe of this name.

    Raises:
        NoTableError: only a ``prepare.py`` can say what the rows are.
        NNDError: a name that is taken, a wrong key, column or cell, or no test comes out.
    """
    set_recipe = _own_recipe(name, keys, replace)
    recipe, proposed = _complete_recipe(set_recipe, source)
    set_recipe = change(set_recipe, loaded=recipe)
    made = make_set(set_recipe, source)
    parts = made.report.values()
    files = {file: {"sha256": digest} for part in parts for file, digest in part["source_sha256"].items()}
    keys = {**recipe.dump(), "files": files, "expected": dict(count_categories(made.categories))}
    loaded = make_recipe(keys, "recipe")
    for part in parts:
        part["recipe"] = loaded.dump()
    return Draft(change(set_recipe, loaded=loaded), made, proposed)


def _own_recipe(name: str, keys: Mapping[str, Any], replace: bool) -> SetRecipe:
    check_set_name(name)
    check_free_name(name)
    path = user_tasks_dir() / name / RECIPE
    facts = {} if replace or not path.is_file() else read_recipe(path).get("facts", {})
    facts = {**facts, **keys.get("facts", {})}
    return SetRecipe(name, path, "own", make_recipe({**keys, **({"facts": facts} if facts else {})}, "options"))


def _complete_recipe(set_recipe: SetRecipe, source: str) -> tuple[Recipe, list[str]]:
    """Return the recipe with the columns of the first file that are called as their roles, and these roles."""
    recipe = set_recipe.recipe
    with open_source(change(set_recipe, path=Path("_")), source) as files:
        path = next(iter(files.files.values()))
        try:
            table = read_table(path, recipe).head(_HEAD)
        except NNDError as error:
            table_like = path.suffix in (".csv", ".tsv", ".xlsx", ".parquet") or "not valid JSON" in str(error)
            if table_like or recipe.candidate or recipe.pairs:
                raise
            raise NoTableError(path.resolve(), pd.DataFrame()) from error
        named = bool(recipe.candidate or recipe.pairs)
        columns = {name.casefold(): name for name in _columns_of(table)}
        found = {role: next((columns[name] for name in names if name in columns), "") for role, names in _NAMES.items()}
        roles = [role for role, column in found.items() if column and not getattr(recipe, role)]
        if recipe.pairs:
            roles = [role for role in roles if role in ("context", "category")]
        elif recipe.attribute or recipe.label or recipe.score:
            roles = [role for role in roles if role not in ("label", "score")]
        elif "label" in roles:
            roles = [role for role in roles if role != "score"]
        recipe = make_recipe({**recipe.dump(), **{role: found[role] for role in roles}}, "options")
        column = recipe.label or recipe.score or next(iter(recipe.attribute.values()), None)
        if not (named or (recipe.context and recipe.candidate and column)) and _find_lists(table):
            raise NoTableError(path.resolve(), table)
        if not recipe.pairs:
            _check_enough(recipe, table, column)
    return recipe, roles


def _columns_of(table: pd.DataFrame) -> list[str]:
    return [name for name in table.columns if name not in (PATH, ROW, FILE, KEY)]


def _check_enough(recipe: Recipe, table: pd.DataFrame, column: str | None) -> None:
    """Raise NNDError where a column or the rule is lacking; the error names what the table offers."""
    lacking = [role for role in ("context", "candidate") if not getattr(recipe, role)]
    if lacking or column is None:
        what = (
            f"of the {lacking[0]} with --{lacking[0]}"
            if lacking
            else "of judgements with --label, --score or --attribute"
        )
        offered = some_of(_columns_of(table), 40, str)
        raise NNDError(f"{table[PATH].iat[0]}: name the column {what}; there are: {offered}")
    if recipe.rules or column not in table:
        return
    cells = [cell for cell in table[column] if not is_missing(cell) and cell != ""]
    read = [as_number(cell, recipe, recipe.unjudged) for cell in cells]
    numbers = [number for number in read if number is not None]
    if cells and numbers == read:
        option = f"--score {column} " if recipe.label else ""
        what = f"numbers from {min(numbers):g} to {max(numbers):g}, so {option}--min-gap X (smallest difference of two scores)"
    else:
        what = f"the labels {some_of(sorted({render(cell) or '' for cell in cells}), 12)}, so --better LABEL,..."
    raise NNDError(f"{table[PATH].iat[0]}: say what is better: column {column!r} holds {what}")


def write_draft(draft: Draft, *, replace: bool = False) -> list[UserTask]:
    """Write the recipe of a draft, its dataset folder, and its task.

    Raises:
        NNDError: there is another set of this name, or something cannot be written.
    """
    set_recipe, folder = draft.set_recipe, dataset_folder(draft.set_recipe.name)
    if not replace:
        check_same_recipe(set_recipe, folder)
    write_made(set_recipe, draft.made, folder, replace=replace)
    write_text(set_recipe.path, dump_yaml(draft.recipe.dump()))
    return write_tasks(set_recipe, draft.made, replace=replace)


# ---------------------------------------------------------------- files that need pandas


def _find_lists(table: pd.DataFrame) -> dict[str, list[Any]]:
    """Return column -> the first of its cells that is a list of objects or texts, and no chat."""
    found: dict[str, list[Any]] = {}
    for column in table:
        for cell in map(unpack, table[column].head(50)):
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


def write_skeleton(name: str, needs: NoTableError, keys: Mapping[str, Any]) -> tuple[Path, Path, list[int]]:
    """Write a recipe and a ``prepare.py`` with the fields of a file, to be completed.

    Returns:
        The recipe, the ``prepare.py``, and its lines to complete.

    Raises:
        NNDError: one of them is there already, or cannot be written.
    """
    set_recipe = _own_recipe(name, keys, replace=False)
    prepare, file = set_recipe.path.with_name(PREPARE), needs.path.name
    if prepare.exists() or set_recipe.path.exists():
        raise NNDError(f"{set_recipe.path.parent}: a recipe is there already; complete it, or take another name")
    fields = ", ".join(name for name in needs.table if name not in (PATH, ROW, FILE)) or "see the file"
    item, loop = "record", ""
    for column, items in _find_lists(needs.table).items():
        if isinstance(items[0], dict):
            item, loop = "item", f"        for item in record[{column!r}]  # fields: {', '.join(items[0])}\n"
            break
    text = _SKELETON.format(name=name, item=item, file=file, fields=fields, loop=loop)
    recipe = dump_yaml({"files": {file: {}}, "better": ["TODO: the best label"], **set_recipe.recipe.dump()})
    write_texts({set_recipe.path: recipe, prepare: text})
    return set_recipe.path, prepare, [number for number, line in enumerate(text.splitlines(), 1) if "[...]" in line]
