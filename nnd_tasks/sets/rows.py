"""From files to rows: those of tables or of a ``prepare.py``, clean texts, and the prompts."""

from __future__ import annotations

import re
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd

from nnd_tasks.errors import NNDError, reason_of
from nnd_tasks.publishers.download import Source
from nnd_tasks.schema import hash_rows, slug
from nnd_tasks.sets.recipe import CONFIG, PairRule, Recipe, SetRecipe
from nnd_tasks.tables.cells import (
    FILE,
    PATH,
    ROW,
    Array,
    as_texts,
    empty_items,
    kind_of,
    place_of,
    take_column,
    traces_of,
    unpack,
)
from nnd_tasks.tables.doubts import find_doubtful
from nnd_tasks.tables.read import Progress, check_reading, forget_table, read_table
from nnd_tasks.tables.roles import (
    FIELD,
    NAMES,
    TEXTS,
    exclude,
    explode_lists,
    split_chats,
    take_pairs,
    take_roles,
)
from nnd_tasks.tables.spans import place_spans, take_spans

#: Roles that name an error; a cell may name several.
_ERRORS = ("category", "subcategory", "severity")
#: Roles that rows of ``prepare.py`` may have as columns, besides prompt fields; ``where`` is the place of a row in the files.
ROLES = (*TEXTS, *NAMES, "group", "score", "spans", "config", "where")
#: Those that ``judgements`` of a ``prepare.py`` may have besides.
_OF_JUDGEMENTS = ("panel", "place")


@dataclass(frozen=True)
class GivenRows:
    """What the files of a set hold.

    Attributes:
        configs: config -> its rows by role; ``exclusion`` says which of them the recipe leaves out.
        mended: config -> the rows of its clean config, where ``prepare.py`` gives others.
        judgements: config -> rows of single judgements, where ``prepare.py`` gives others than those that make the tests.
        unmatched: what ``leave_out`` names and no row has.
        doubtful: column that the recipe does not name -> values that may say that a row is no judgement -> rows that are used.
    """

    configs: dict[str, pd.DataFrame]
    unmatched: list[str]
    mended: dict[str, pd.DataFrame] = field(default_factory=dict)
    judgements: dict[str, pd.DataFrame] = field(default_factory=dict)
    doubtful: dict[str, dict[str, int]] = field(default_factory=dict)


def read_rows(set_recipe: SetRecipe, source: Source) -> GivenRows:
    """Read the rows of all files of a set by role; raise NNDError where a file is not as the recipe says."""
    recipe = set_recipe.recipe
    if set_recipe.prepare:
        rows, more = run_prepare(set_recipe.prepare, source.folder)
        configs, unmatched = _split_configs(rows, set_recipe)
        further = {name: _split_configs(other, set_recipe, f"{name}(...)")[0] for name, other in more.items()}
        marks = find_doubtful(mark_left_out(rows, recipe)[0], recipe) if recipe.candidate or recipe.pairs else {}
        return GivenRows(configs, unmatched, **further, doubtful=marks)
    check_reading(recipe, source.files)
    tables: dict[str, list[pd.DataFrame]] = {}
    unmatched_of_files = []
    doubtful: dict[str, dict[str, int]] = {}
    start = 0
    for name, path in source.files.items():
        table, unmatched = mark_left_out(read_table(path, recipe), recipe)
        unmatched_of_files.append(unmatched)
        for column, values in find_doubtful(table, recipe).items():
            doubtful[column] = dict(Counter(doubtful.get(column)) + Counter(values))
        try:
            rows = _name_roles(table, recipe)
        except NNDError:
            if (table["exclusion"] == "").any() or len(source.files) == 1:
                raise
            rows = table[[PATH, ROW, "exclusion"]]  # a file that is left out, such as a legend, may have other columns
        tables.setdefault(config_of(set_recipe, name, path), []).append(rows.set_index(rows.index + start))
        start += len(table)
    forget_table()
    configs = {config: pd.concat(tables_of_config) for config, tables_of_config in tables.items()}
    first, *others = unmatched_of_files
    unmatched = [condition for condition in first if all(condition in other for other in others)]
    return GivenRows(configs, unmatched, doubtful=doubtful)


def mark_left_out(table: pd.DataFrame, recipe: Recipe) -> tuple[pd.DataFrame, list[str]]:
    """Give every row an ``exclusion``: those that ``leave_out`` names are left out by the recipe.

    Returns:
        The table; and those conditions, as ``column = 'value'``, that no row meets.
    """
    table, recipe = empty_items(table.assign(exclusion=pd.Series("", table.index, dtype=object)), recipe)
    unmatched = []
    for column, values in recipe.leave_out.items():
        items = explode_lists(table.assign(**{column: take_column(table, column, each=True)}), [column])
        if column == recipe.rater and len(items) > len(table):
            raise NNDError(
                f"leave_out {column}: rows with lists of raters would go whole; make a row of each in prepare.py"
            )
        texts = as_texts(items[column], items, column, strip=True)
        cells = np.array([(text or "").casefold() for text in texts], dtype=object)
        for value in values:
            condition = f"{column} = {value!r}"
            matches = table.index.isin(items.index[cells == value.strip().casefold()])
            table = exclude(table, {f"by_recipe: {condition}": matches})
            if not matches.any():
                unmatched.append(condition)
    return table, unmatched


def _name_roles(table: pd.DataFrame, recipe: Recipe) -> pd.DataFrame:
    """Name the columns of a table by the roles that the recipe gives them."""
    rows = take_pairs(table, recipe) if recipe.pairs else take_roles(table, recipe)
    if recipe.spans and not recipe.spans.marks:
        rows["spans"] = pd.Series(take_spans(table, recipe.spans), dtype=object).reindex(rows.index)
    return rows


def _split_configs(
    rows: pd.DataFrame, set_recipe: SetRecipe, call: str = "rows(folder)"
) -> tuple[dict[str, pd.DataFrame], list[str]]:
    """Split the rows of a ``prepare.py`` by config; also list the conditions of ``leave_out`` that no row meets."""
    recipe = set_recipe.recipe
    rows, unmatched = mark_left_out(rows, recipe)
    if recipe.candidate or recipe.pairs:
        rows = _name_roles(rows, recipe)
    else:
        _check_roles(rows.drop(columns="exclusion"), set_recipe, call)
        rows = rows.rename(columns={name: FIELD + name for name in recipe.field})
    configs = rows.pop("config") if "config" in rows else pd.Series(recipe.config or CONFIG, rows.index)
    by_config = {str(config): group.reset_index(drop=True) for config, group in rows.groupby(configs, sort=False)}
    if "chosen" in rows:  # of pairs, one config may have a context and another none
        by_config = {config: group.dropna(axis="columns", how="all") for config, group in by_config.items()}
    return by_config, unmatched


def config_of(set_recipe: SetRecipe, name: str, path: Path) -> str:
    """Name the config that a file belongs to: ``mqm_newstest2021_ende.tsv`` of mqm -> ``newstest2021_ende``.

    Raises:
        NNDError: no config can be named after the file.
    """
    recipe = set_recipe.recipe
    file = recipe.files.get(name)
    if file is not None and file.config:
        return file.config
    if recipe.config != FILE:
        return recipe.config or CONFIG
    config = slug(re.sub(rf"^{re.escape(set_recipe.name)}[-_]", "", Path(name).name.split(".")[0], flags=re.IGNORECASE))
    if not config:
        raise NNDError(f"{path}: cannot name a config after this file; rename it")
    return config


# ---------------------------------------------------------------- rows of a prepare.py


def run_prepare(path: Path, folder: Path) -> tuple[pd.DataFrame, dict[str, pd.DataFrame]]:
    """Run ``rows(folder)`` of a ``prepare.py``, and if it has them, ``mended(rows)`` and ``judgements(folder)``.

    These give the rows of the clean config, and the single judgements behind rows that sum several up; None for none.

    Returns:
        The rows; and ``mended`` or ``judgements`` -> what it gives.

    Raises:
        NNDError: it fails, at the place that was read last; or returns no rows.
    """
    module = ModuleType(f"nnd_prepare_{path.parent.name}")
    module.__file__ = str(path)

    def name_line(error: BaseException) -> str:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        return f" ({path}, line {lines[-1] if lines else getattr(error, 'lineno', '?')})"

    with _naming_place(path, name_line):
        exec(compile(path.read_text("utf-8"), str(path), "exec"), module.__dict__)  # noqa: S102
    if not callable(getattr(module, "rows", None)):
        raise NNDError(f"{path}: it has no function rows(folder) that returns a DataFrame")
    with _naming_place(folder, name_line):
        rows = _check_rows(path, "rows(folder)", module.rows(folder))
    others = {}
    for name, given in {"mended": rows.copy(), "judgements": folder}.items():
        with _naming_place(path, name_line):
            found = getattr(module, name, lambda _: None)(given)
            if found is not None:
                others[name] = _check_rows(path, f"{name}(...)", found)
    return rows, others


@contextmanager
def _naming_place(path: object, tell_more: Callable[[BaseException], str]) -> Iterator[None]:
    """Turn what goes wrong in the block into one error, which names the file and row that were read last, or ``path``.

    Args:
        path: what is read.
        tell_more: returns what else to say of an error.

    Raises:
        NNDError: the block raised any error.
    """
    Progress.last_row = ""
    try:
        yield
    except NNDError:
        raise
    except (Exception, SystemExit) as error:
        problem = f"{type(error).__name__}: {reason_of(error)}"
        if isinstance(error, KeyError) and error.args:
            problem = f"no field {error.args[0]!r}"
        raise NNDError(f"{Progress.last_row or path}: {problem}{tell_more(error)}; is it the right file?") from error


def _check_rows(path: Path, call: str, rows: Any) -> pd.DataFrame:
    """Raise NNDError unless ``call``, of a ``prepare.py``, returned a table with rows."""
    if not isinstance(rows, pd.DataFrame):
        raise NNDError(f"{path}: {call} returns a DataFrame, not {kind_of(rows)}")
    if not len(rows):
        raise NNDError(f"{path}: {call} returns no row; is it the right file?")
    # pandas reads lists in parquet as arrays.
    return rows.reset_index(drop=True).map(lambda cell: cell.tolist() if isinstance(cell, np.ndarray) else cell)


def _check_roles(rows: pd.DataFrame, set_recipe: SetRecipe, call: str) -> None:
    """Raise NNDError unless the columns of what ``call`` returned are roles."""
    path, recipe, rule = set_recipe.prepare, set_recipe.recipe, set_recipe.rule
    required = ["chosen", "rejected"] if "chosen" in rows else ["context", "candidate"]
    if "chosen" not in rows and not isinstance(rule, PairRule):
        required.append(rule.role)
    for name in (*required, *recipe.field):
        if name not in rows:
            raise NNDError(f"{path}: {call} has no column {name!r}; there are {', '.join(map(str, rows.columns))}")
    roles = (*ROLES, *(_OF_JUDGEMENTS if call.startswith("judgements") else ()))
    if unknown := [name for name in rows if name not in (*roles, *recipe.field)]:
        raise NNDError(f"{path}: {call} has a column {unknown[0]!r}; the roles are {', '.join(roles)}")
    scored = {"score"} if call.startswith("judgements") and "chosen" in rows else set()  # 0 is a tie
    if unused := next(recipe.find_unused({*rows} - scored), None):
        raise NNDError(f"{path}: with the columns of {call}, {unused}")
    if "config" in rows:
        for position, cell in enumerate(rows["config"]):
            if not isinstance(cell, str):
                raise NNDError(f"{place_of(rows, position)}, column 'config': expected text, found {kind_of(cell)}")


# ---------------------------------------------------------------- texts and prompts


def clean_rows(rows: pd.DataFrame, recipe: Recipe, role: str = "winner") -> tuple[pd.DataFrame, pd.DataFrame]:
    """Take the rows that are not left out, and make them clean.

    Lists of judgements, raters and errors become rows, chats are split, spans are placed, texts are cleaned, and prompts are
    numbered.

    Args:
        rows: by role; those of one row of the source have one index.
        recipe: of the set.
        role: of the judgements.

    Returns:
        A row per judgement, and per error that it names, with ``row_id`` (the index), ``judgement_id`` and ``prompt``, the number
        of its prompt; and the table of `number_prompts`.

    Raises:
        NNDError: a cell is of a wrong kind, or lists of a row have different lengths; the error names the row.
    """
    rows = rows[rows["exclusion"] == ""].rename_axis("row_id")
    rows = explode_lists(rows, [role, "rater"]).reset_index().rename_axis("judgement_id")
    rows = explode_lists(rows, _ERRORS).reset_index()
    if "chosen" in rows:
        rows = split_chats(rows)
    rows = clean_texts(place_spans(rows, recipe), recipe)
    prompt, prompts = number_prompts(rows, recipe)
    return rows.assign(prompt=prompt), prompts


def clean_texts(rows: pd.DataFrame, recipe: Recipe) -> pd.DataFrame:
    """Give every text in NFC, names stripped, and None for what is absent.

    A blank text and a trace of a missing value are absent (`nnd_tasks.tables.cells.TRACES`); where each row is a candidate as
    published, they stay.
    """
    rows = rows.copy()
    lists = [isinstance(unpack(cell), (list, tuple)) for cell in rows["attribute"]] if "attribute" in rows else []
    if any(lists):
        raise NNDError(
            f"{place_of(rows, lists.index(True))}, column {next(iter(recipe.attribute.values()), 'attribute')!r}: a list of "
            "attributes; make a row of each in prepare.py, with its judgement"
        )
    for role in [name for name in rows if name in (*TEXTS, "group", *NAMES) or name.startswith(FIELD)]:
        absent = set()
        if role in NAMES or (role != "group" and recipe.candidates != "rows"):
            # What a label means that is missing says the rule.
            absent = {"", *(() if role == "label" and recipe.by_label else traces_of(role, recipe))}
        column = str(getattr(recipe, role, None) or role)
        texts = as_texts(rows[role], rows, column, strip=role in NAMES, absent=absent)
        # As objects: texts that pandas holds itself are copied by each step.
        rows[role] = pd.Series(texts, rows.index, dtype=object)
    return rows


def hash_prompts(prompts: pd.DataFrame) -> list[str]:
    """Make the ``cluster_id`` of prompts: equal exactly for contexts that give a model the same prompt fields."""
    parts: list[Any] = [prompts["context"]]
    for name in sorted(prompts.columns.drop("context")):
        parts += [[name] * len(prompts), prompts[name]]
    return hash_rows(*parts)


def number_prompts(rows: pd.DataFrame, recipe: Recipe) -> tuple[Array, pd.DataFrame]:
    """Number the distinct prompts: the context and the prompt fields.

    Returns:
        The number of each row's prompt; and a table of the prompts with ``context``, the fields and ``cluster_id``.
    """
    names = ["context", *(FIELD + name for name in sorted(recipe.field))]
    # Equal texts are found sooner in Arrow than as objects.
    number = rows[names].astype("string[pyarrow]").groupby(names, sort=False, dropna=False).ngroup()
    prompts = rows.loc[~number.duplicated(), names].fillna("").reset_index(drop=True)
    prompts.columns = ["context", *sorted(recipe.field)]
    prompts["cluster_id"] = pd.Series(hash_prompts(prompts), dtype=object)
    return number.to_numpy(), prompts
