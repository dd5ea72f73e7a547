"""Make a set from a table of judged texts: a recipe from a few options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from dataclasses import replace as change
from glob import escape
from pathlib import Path
from typing import Any

import pandas as pd

from nnd_tasks.errors import NNDError
from nnd_tasks.files import dump_yaml, write_texts
from nnd_tasks.publishers.download import Source, open_source
from nnd_tasks.sets.build import BuiltSet, check_same_recipe, count_categories, make_set, write_built
from nnd_tasks.sets.catalogue import check_free_name, check_set_name
from nnd_tasks.sets.recipe import PREPARE, RECIPE, Recipe, SetRecipe, make_recipe, read_recipe
from nnd_tasks.sets.tasks import UserTask, write_tasks
from nnd_tasks.store import dataset_folder, user_tasks_dir
from nnd_tasks.tables.cells import FILE, PATH, as_number, render, texts_of_nobody
from nnd_tasks.tables.propose import cells_of, columns_of, holds_texts, propose_pairs, propose_roles
from nnd_tasks.tables.read import read_table
from nnd_tasks.text import some_of

#: Keys of a recipe that hold beside a ``prepare.py``.
_BESIDE_PREPARE = ("decimal", "missing", "ignore", "best", "better", "min_gap", "majority", "facts")
#: Options of which one may be given and the other is found by its name.
_PAIRS = ("chosen", "rejected", "pair", "winner", "winners")


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
    with open_source(change(set_recipe, path=Path("_")).wanted, source) as files:
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
    paired = {**pairs, **propose_pairs(table, recipe, pairs)}
    by_name = propose_roles(table, make_recipe({**recipe.dump(), **paired}, "options"))
    recipe = make_recipe({**recipe.dump(), **paired, **by_name}, "options")
    if not recipe.pairs:
        nested = [column for column in columns_of(table) if any(map(holds_texts, table[column]))]
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
    cells = cells_of(table, column)
    if recipe.better and cells and {str(cell).strip() for cell in cells} <= {*recipe.better}:
        raise NNDError(
            f"{table[PATH].iat[0]}: every text has a label of --better ({some_of(recipe.better)}); a test needs a text with "
            "another one"
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
