"""From a recipe and its files to tables of tests, one per config."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from nnd_tasks.assembly import PREFERENCE, Coded, Spans, judged_table, table_of_tests
from nnd_tasks.card_sections import left_out
from nnd_tasks.cleaning import clean, contradictions
from nnd_tasks.errors import NNDError
from nnd_tasks.pairing import Dropped, Judgements, gather, pair
from nnd_tasks.recipes.parse import make_recipe
from nnd_tasks.recipes.preferences import Preferences, read_preferences
from nnd_tasks.recipes.readers import Rows, Several, Table, open_table
from nnd_tasks.recipes.recipe import FILE, FOLDER, Recipe
from nnd_tasks.recipes.rows import read_judgements
from nnd_tasks.recipes.steps import STEPS
from nnd_tasks.schema import SPANS_COLUMN, slug
from nnd_tasks.tables import check_table


@dataclass
class Made:
    """The tests of one config.

    Attributes:
        table: of the tests.
        counts: of rows, judgements, candidates and groups.
        dropped: what was left out.
        cleaning: what the clean config left out; None where there is none.
        clean: its table; None where nothing is left, or there is none.
    """

    table: pa.Table
    counts: dict[str, int]
    dropped: Dropped
    cleaning: dict[str, Any] | None = None
    clean: pa.Table | None = None


def tables_of(name: str, recipe: Recipe, files: Mapping[str, Path], options: Mapping[str, str]) -> dict[str, Table]:
    """Return config -> the table that its tests are made of.

    Args:
        name: of the set; a file's name may begin with it, which its config then does not.
        recipe: of it.
        files: file name -> where it is.
        options: of the recipe.

    Raises:
        NNDError: a file that is no table, or two that would make the same config.
    """
    if recipe.step:
        where = ", ".join(str(path) for path in files.values())
        return {config: Rows(where, rows) for config, rows in STEPS[recipe.step](files, options).items()}
    found: dict[str, list[Table]] = {}
    for file, path in files.items():
        config = config_of(name, recipe, file, path)
        if recipe.config == FILE and config in found:
            raise NNDError(f"{path}: another file gives the config {config!r} too; rename one")
        found.setdefault(config, []).append(open_table(str(path), recipe))
    return {config: tables[0] if len(tables) == 1 else Several(tables) for config, tables in found.items()}


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
    stem = path.absolute().parent.name if recipe.config == FOLDER else Path(file).name.split(".")[0]
    config = slug(re.sub(rf"^{re.escape(name)}[-_]", "", stem, flags=re.IGNORECASE))
    if not config:
        raise NNDError(f"{path}: cannot name a config after this file; rename it, e.g. {name}_newstest2021_ende.tsv")
    return config


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
    """Return the tests that a recipe makes of a table.

    Raises:
        NNDError: the table is not as the recipe says; or no test comes out.
    """
    check_complete(recipe, table.name)
    if recipe.pairs:
        made, tests, details = _from_pairs(table, recipe)
    else:
        made, tests, details = _from_judgements(table, recipe)
    if not recipe.has_clean:
        return made
    found = clean(made.table, tests, details)
    made.cleaning, whole = found.report, made.table
    if recipe.clean:
        other = make_recipe({**_given(recipe), **recipe.clean})
        mended, tests, details = _from_judgements(table, other)
        found, whole = clean(mended.table, tests, details), mended.table
        if not whole.equals(made.table):
            left_out = mended.counts["judgements"] - made.counts["judgements"]
            made.cleaning["kept"] = found.report["kept"]
            made.cleaning["mended"] = {"left_out": -left_out, "tests": whole.num_rows}
    if found.keep.all():
        made.clean = whole
    elif found.keep.any():
        made.clean = whole.filter(pa.array(found.keep))
    return made


def _given(recipe: Recipe) -> dict[str, Any]:
    """Return what a recipe says, for the clean config to change; facts for people are left out."""
    found = recipe.dump()
    for key in ("clean", "files", "citation"):
        found.pop(key, None)
    return found


def _from_judgements(table: Table, recipe: Recipe) -> tuple[Made, Any, Any]:
    found = read_judgements(table, recipe)
    if not len(found.mark):
        raise NNDError(f"{table.name}: {_why_nothing(found.dropped)}{_lists(recipe, found)}")
    candidates = gather(found, recipe.rule)
    pairs = pair(candidates, found.dropped, table.name)
    counts = {
        "rows": found.rows,
        "judgements": len(found.mark),
        "candidates_judged": len(candidates.text),
        "groups": len(np.unique(candidates.group)),
        "groups_with_tests": len(np.unique(candidates.group[pairs.high])),
    }
    if not len(pairs.high):
        merged = counts["judgements"] > counts["candidates_judged"] and "no_order" not in found.dropped.counts
        raise NNDError(f"{table.name}: {_why_nothing(found.dropped, merged=merged)}")
    tests = judged_table(found, candidates, pairs, recipe.by_label)
    made = Made(check_table(tests, table.name), counts, found.dropped)
    return made, *(contradictions(found, candidates, pairs) if recipe.has_clean else (None, None))


def _lists(recipe: Recipe, found: Judgements) -> str:
    """Return a hint where a nested column holds no text in any row: it may lie in a list."""
    reasons = {"empty": recipe.candidate, "no_context": recipe.context}
    wrong = [name for reason, name in reasons.items() if name and found.dropped.counts.get(reason) == found.rows]
    if not wrong or "." not in wrong[0]:
        return ""
    first, _, rest = wrong[0].partition(".")
    return f"; no row has {wrong[0]!r}: if {first!r} holds a list, say '{first}[].{rest}', and rows: {first}[] for a row of each"


def _why_nothing(dropped: Dropped, *, merged: bool = False) -> str:
    """Say why no test came out, by what was left out, and whether equal texts are part of it."""
    shown = left_out(dropped.counts, dropped.labels).values()
    alike = "; equal texts of a context count as one candidate" if merged else ""
    if not shown:
        return f"no test comes out: no context has two candidates; is --context the column of what candidates share?{alike}"
    return f"no test comes out; left out are {', '.join(shown)}{alike}"


def _from_pairs(table: Table, recipe: Recipe) -> tuple[Made, None, None]:
    found = read_preferences(table, recipe)
    counts = {"rows": found.rows, **({"contexts_from_messages": found.fuller} if found.fuller else {})}
    if not len(found.row):
        raise NNDError(f"{table.name}: {_why_nothing(found.dropped)}")
    return Made(check_table(preferred_table(found), table.name), counts, found.dropped), None, None


def preferred_table(found: Preferences) -> pa.Table:
    """Return the tests of ready-made pairs, one row per test."""
    category = Coded(np.zeros(len(found.high), np.int64), [PREFERENCE])
    if found.category is not None:
        category = Coded(found.category, found.categories)
    # The table does not say which text came first, and the better one must not always be the first: the alphabet decides.
    pairs = zip(found.high.tolist(), found.low.tolist(), strict=True)
    first = np.array([found.texts[high] < found.texts[low] for high, low in pairs], dtype=bool)
    columns: dict[str, Any] = {
        "high": Coded(found.high, found.texts),
        "low": Coded(found.low, found.texts),
        "category": category,
        "high_first": first,
    }
    if found.spans is not None:
        columns[SPANS_COLUMN] = Spans(found.spans, list(found.spans_json))
    return table_of_tests(found.prompt, found.prompts, columns)
