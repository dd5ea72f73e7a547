"""From a recipe and its files to tables of tests, one per config."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from nnd_tasks.assembly import judged_table
from nnd_tasks.card_sections import left_out
from nnd_tasks.cleaning import clean, contradictions
from nnd_tasks.errors import NNDError
from nnd_tasks.judgements import Dropped, Judgements
from nnd_tasks.languages import language_pair
from nnd_tasks.pairing import pair
from nnd_tasks.qualities import gather
from nnd_tasks.recipes.base_table import Rows, Several, Table
from nnd_tasks.recipes.parse import make_recipe
from nnd_tasks.recipes.preferences import read_preferences
from nnd_tasks.recipes.readers import open_table
from nnd_tasks.recipes.recipe import FILE, FOLDER, Recipe
from nnd_tasks.recipes.rows import read_judgements
from nnd_tasks.recipes.steps import STEPS
from nnd_tasks.schema import slug
from nnd_tasks.tables import check_table


@dataclass
class Made:
    """The tests of one config.

    Attributes:
        table: the tests.
        counts: numbers of rows, judgements, candidates and groups.
        dropped: what was left out.
        cleaning: what the clean config leaves out; None where the set has no clean config.
        clean: the tests of the clean config; None where no test is left, or the set has no clean config.
    """

    table: pa.Table
    counts: dict[str, int]
    dropped: Dropped
    cleaning: dict[str, Any] | None = None
    clean: pa.Table | None = None


def tables_of(name: str, recipe: Recipe, files: Mapping[str, Path], options: Mapping[str, str]) -> dict[str, Table]:
    """Return config -> the table that its tests are made of.

    Args:
        name: of the set; where a file's name begins with it, the config's name leaves it out.
        recipe: of the set.
        files: file name -> where it is.
        options: the recipe's options, each with a value.

    Raises:
        NNDError: a file is not a table, or two files would make the same config.
    """
    if recipe.step:
        where = ", ".join(str(path) for path in files.values())
        return {config: Rows(where, rows) for config, rows in STEPS[recipe.step](files, options).items()}
    tables: dict[str, list[Table]] = {}
    folders: dict[str, Path] = {}
    for file, path in files.items():
        config = config_of(name, recipe, file, path)
        if recipe.config == FILE and config in tables:
            raise NNDError(f"{path}: another file gives the config {config!r} too; rename one")
        if recipe.config == FOLDER and folders.setdefault(config, path.parent) != path.parent:
            raise NNDError(
                f"{path.parent}: {folders[config]} gives the config {config!r} too; name one of them as the source"
            )
        tables.setdefault(config, []).append(open_table(str(path), recipe))
    return {config: as_one(several) for config, several in tables.items()}


def as_one(tables: Sequence[Table]) -> Table:
    """Return one table, or several one after another."""
    return tables[0] if len(tables) == 1 else Several(tables)


def config_of(name: str, recipe: Recipe, file: str, path: Path) -> str:
    """Return the config that a file belongs to: ``mqm_newstest2021_ende.tsv`` of mqm -> ``newstest2021_ende``.

    Raises:
        NNDError: no config can be named after the file.
    """
    known = recipe.files.get(file)
    if known is not None and known.config:
        return known.config
    if recipe.config not in (FILE, FOLDER):
        return recipe.config or "default"
    stem = path.absolute().parent.name if recipe.config == FOLDER else _stem(Path(file).name)
    config = slug(re.sub(rf"^{re.escape(name)}[-_]", "", stem, flags=re.IGNORECASE))
    if not config:
        raise NNDError(f"{path}: cannot name a config after this file; rename it, e.g. {name}_newstest2021_ende.tsv")
    return config


def _stem(file: str) -> str:
    """Return the name of a file up to its first dot; up to its ending where only what follows the dot names the languages."""
    first, whole = file.split(".")[0], file.rpartition(".")[0]
    return whole if language_pair(slug(first)) is None and language_pair(slug(whole)) else first


def check_complete(recipe: Recipe, where: str) -> None:
    """Raise NNDError for a recipe that lacks what tests are made of: texts, judgements, and the rule that compares them."""
    if recipe.pairs:
        return
    lacking = [role for role in ("context", "candidate") if getattr(recipe, role) is None]
    if not (recipe.marks or recipe.votes):
        lacking.append("label or score")
    if not recipe.rules:
        lacking.append("rule: better, order, min_gap or majority")
    if lacking:
        raise NNDError(f"{where}: the recipe names no {lacking[0]}; `nnd new --recipe` proposes what a recipe lacks")


def make_tests(table: Table, recipe: Recipe) -> Made:
    """Return the tests that a recipe makes from a table.

    Raises:
        NNDError: the table is not as the recipe says, or no test comes out.
    """
    check_complete(recipe, table.name)
    made, contradictory = _from_pairs(table, recipe) if recipe.pairs else _from_judgements(table, recipe)
    if not recipe.has_clean:
        return made
    cleaned, tests = clean(made.table, *contradictory, fold_space=recipe.fold_space), made.table
    made.cleaning = cleaned.report
    if recipe.clean:  # the clean config is made from the source by a recipe of its own
        again, contradictory = _from_judgements(table, _clean_recipe(recipe))
        cleaned, tests = clean(again.table, *contradictory, fold_space=recipe.fold_space), again.table
        if not tests.equals(made.table):
            left_out = made.counts["judgements"] - again.counts["judgements"]
            made.cleaning["kept"] = cleaned.report["kept"]
            # The clean config is what these reasons leave of the mended tests; those above are of the full config.
            made.cleaning["mended"] = {
                "left_out": left_out,
                "tests": tests.num_rows,
                "reasons": cleaned.report["reasons"],
            }
    if cleaned.keep.any():
        made.clean = tests if cleaned.keep.all() else tests.filter(pa.array(cleaned.keep))
    return made


def _clean_recipe(recipe: Recipe) -> Recipe:
    """Return the recipe of the clean config, without facts for people."""
    said = {key: value for key, value in recipe.dump().items() if key not in ("clean", "files", "citation")}
    return make_recipe({**said, **recipe.clean})


def _from_judgements(table: Table, recipe: Recipe) -> tuple[Made, tuple[Any, ...]]:
    """Return the tests of judged candidates, and what `clean` takes besides the tests."""
    judgements = read_judgements(table, recipe)
    dropped = judgements.dropped
    if not len(judgements.mark):
        raise NNDError(f"{table.name}: {_why_nothing(dropped)}{_list_hint(recipe, judgements)}")
    candidates = gather(judgements, recipe.rule)
    pairs = pair(candidates, dropped, table.name)
    counts = {
        "rows": judgements.rows,
        "judgements": len(judgements.mark),
        "candidates_judged": len(candidates.text),
        "groups": len(np.unique(candidates.group)),
        "groups_with_tests": len(np.unique(candidates.group[pairs.high])),
    }
    if not len(pairs.high):
        merged = counts["judgements"] > counts["candidates_judged"] and "no_order" not in dropped.counts
        hint = "; a ? behind the list in `rows` keeps texts without errors" if dropped.counts.get("empty_list") else ""
        raise NNDError(f"{table.name}: {_why_nothing(dropped, merged=merged)}{hint if '' in recipe.better else ''}")
    tests = judged_table(judgements, candidates, pairs, recipe.by_label)
    made = Made(check_table(tests, table.name), counts, dropped)
    return made, contradictions(judgements, candidates, pairs) if recipe.has_clean else ()


def _list_hint(recipe: Recipe, judgements: Judgements) -> str:
    """Return a hint where a nested column holds no text in any row: it may lie in a list."""
    reasons = {"empty": recipe.candidate, "no_context": recipe.context}
    dropped = judgements.dropped.counts
    wrong = [name for reason, name in reasons.items() if name and dropped.get(reason) == judgements.rows]
    if not wrong or "." not in wrong[0]:
        return ""
    first, _, rest = wrong[0].partition(".")
    return f"; no row has {wrong[0]!r}: if {first!r} holds a list, say '{first}[].{rest}', and rows: {first}[] for a row of each"


def _why_nothing(dropped: Dropped, *, merged: bool = False) -> str:
    """Say why no test came out: what was left out, and whether equal texts were merged."""
    shown = left_out(dropped.counts, dropped.labels).values()
    merging = "; equal texts of a context count as one candidate" if merged else ""
    if not shown:
        return f"no test comes out: no context has two candidates; is --context the column of what candidates share?{merging}"
    return f"no test comes out; left out are {', '.join(shown)}{merging}"


def _from_pairs(table: Table, recipe: Recipe) -> tuple[Made, tuple[Any, ...]]:
    """Return the tests of ready-made pairs; `clean` takes nothing besides the tests."""
    pairs = read_preferences(table, recipe)
    if pairs.table is None:
        raise NNDError(f"{table.name}: {_why_nothing(pairs.dropped)}")
    counts = {"rows": pairs.rows, **({"contexts_from_messages": pairs.fuller} if pairs.fuller else {})}
    return Made(check_table(pairs.table, table.name), counts, pairs.dropped), ()
