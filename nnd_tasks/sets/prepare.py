"""Run the ``prepare.py`` of a set: rows in pandas where a file is not one row per judgement or pair."""

from __future__ import annotations

import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd

from nnd_tasks.errors import NNDError
from nnd_tasks.sets.cells import kind_of, place_of
from nnd_tasks.sets.quality_rule import PairRule, Rule
from nnd_tasks.sets.read import naming_place
from nnd_tasks.sets.recipe import Recipe

#: Roles that rows of ``prepare.py`` may have as columns, besides prompt fields; ``where`` is the place of a row in the files.
ROLES = (
    *("context", "candidate", "group", "label", "score", "attribute", "system", "rater", "category", "subcategory"),
    *("severity", "spans", "chosen", "rejected", "high_system", "low_system", "config", "where"),
)


def run_prepare(path: Path, folder: Path, recipe: Recipe, rule: Rule) -> tuple[pd.DataFrame, pd.DataFrame | None]:
    """Return what ``rows(folder)`` of a ``prepare.py`` returns, and the rows of the clean config if it has ``mended(rows)``.

    Raises:
        NNDError: it fails, at the place that was read last; or its rows are not as the contract says.
    """
    module = ModuleType(f"nnd_prepare_{path.parent.name}")
    module.__file__ = str(path)

    def name_line(error: BaseException) -> str:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        return f" ({path}, line {lines[-1] if lines else getattr(error, 'lineno', '?')})"

    with naming_place(path, name_line):
        exec(compile(path.read_text("utf-8"), str(path), "exec"), module.__dict__)  # noqa: S102
    if not callable(getattr(module, "rows", None)):
        raise NNDError(f"{path}: it has no function rows(folder) that returns a DataFrame")
    with naming_place(folder, name_line):
        rows = _check_rows(path, module.rows(folder), recipe, rule)
    if not hasattr(module, "mended"):
        return rows, None
    with naming_place(path, name_line):
        return rows, _check_rows(path, module.mended(rows.copy()), recipe, rule)


def _check_rows(path: Path, rows: Any, recipe: Recipe, rule: Rule) -> pd.DataFrame:
    if not isinstance(rows, pd.DataFrame):
        raise NNDError(f"{path}: rows(folder) returns a DataFrame, not {kind_of(rows)}")
    if not len(rows):
        raise NNDError(f"{path}: rows(folder) returns no row; is it the right file?")
    rows = rows.reset_index(drop=True)
    wanted = ("chosen", "rejected") if "chosen" in rows else ("context", "candidate")
    judged = () if "chosen" in rows or isinstance(rule, PairRule) else (rule.role,)
    for name in (*wanted, *judged, *recipe.field, *(("config",) if "config" in rows else ())):
        if name not in rows:
            raise NNDError(
                f"{path}: rows(folder) has no column {name!r}; there are {', '.join(map(str, rows.columns))}"
            )
    for position, cell in enumerate(rows["config"].to_numpy(object) if "config" in rows else ()):
        if not isinstance(cell, str):
            raise NNDError(f"{place_of(rows, position)}, column 'config': expected text, found {kind_of(cell)}")
    if unknown := [name for name in rows if name not in (*ROLES, *recipe.field)]:
        raise NNDError(f"{path}: rows(folder) has a column {unknown[0]!r}; the roles are {', '.join(ROLES)}")
    return rows
