"""Rows by the roles of their columns, why some are left out, and the prompts that they share."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd

from nnd_tasks.errors import NNDError
from nnd_tasks.schema import cluster_key, short_hash
from nnd_tasks.sets.cells import PATH, ROW, as_texts, place_of, render, take_column, traces_of
from nnd_tasks.sets.recipe import Recipe, Spans
from nnd_tasks.sets.spans import Span, locate_spans, span_cells, take_marks

FIELD = "field "  # before the name of a prompt field, as a column of rows
TEXTS = ("context", "candidate", "chosen", "rejected")
#: Roles whose texts are names; white space around a name does not count.
NAMES = ("label", "attribute", "system", "high_system", "low_system", "rater", "category", "subcategory", "severity")


# ---------------------------------------------------------------- what is left out


def exclude(table: pd.DataFrame, wrong: Any, reason: str) -> pd.DataFrame:
    """Give a reason to those rows of a table that are ``wrong`` and are not left out yet.

    Args:
        table: with the column ``exclusion``: why a row is left out, ``""`` where it is used.
        wrong: shape (rows,).
        reason: a key of `nnd_tasks.sets.account.REASONS`.
    """
    excluded = np.asarray(wrong, dtype=bool) & (table["exclusion"] == "").to_numpy()
    return table.assign(exclusion=table["exclusion"].mask(excluded, reason))


def match_left_out(table: pd.DataFrame, recipe: Recipe) -> pd.DataFrame:
    """Tell which rows have which value of the recipe's ``leave_out``: a column of truth values for each ``column = 'value'``."""
    matches = {}
    for column, values in recipe.leave_out.items():
        texts = as_texts(take_column(table, column), table, column, strip=True)
        cells = pd.Series([(text or "").casefold() for text in texts], table.index, dtype=object)
        for value in values:
            matches[f"{column} = {value!r}"] = cells == value.strip().casefold()
    return pd.DataFrame(matches, index=table.index, dtype=bool)


def mark_left_out(table: pd.DataFrame, matches: pd.DataFrame) -> pd.DataFrame:
    """Give every row an ``exclusion``; those that `match_left_out` met are left out by the recipe."""
    return exclude(table.assign(exclusion=""), matches.any(axis=1), "by_recipe")


def number_rows(*columns: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Number the distinct rows of some columns in the order of their first appearance.

    Returns:
        The number of each row, shape (rows,); and the first row of each number, shape (numbers,).
    """
    key = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        codes, values = pd.factorize(np.asarray(column), use_na_sentinel=False)
        key = pd.factorize(key * len(values) + codes)[0]
    return key, np.flatnonzero(~pd.Series(key).duplicated().to_numpy())


# ---------------------------------------------------------------- rows by role


def take_roles(table: pd.DataFrame, recipe: Recipe) -> pd.DataFrame:
    """Return the columns of a table under the names of their roles, as objects; a row per attribute where each has a column.

    Raises:
        NNDError: a column is missing.
    """
    named = {role: getattr(recipe, role, None) for role in (*TEXTS, "score", *NAMES)}
    columns = {role: column for role, column in named.items() if column and isinstance(column, str)}
    columns |= {FIELD + name: column for name, column in recipe.field.items()}
    rows = pd.DataFrame({role: take_column(table, column) for role, column in columns.items()}, dtype=object)
    rows[[PATH, ROW, "exclusion"]] = table[[PATH, ROW, "exclusion"]].to_numpy(object)
    if recipe.group:
        parts = [as_texts(take_column(table, column), table, column) for column in recipe.group]
        rows["group"] = (
            parts[0] if len(parts) == 1 else [short_hash(*map(str, row)) for row in zip(*parts, strict=True)]
        )
    if recipe.spans and not recipe.spans.marks:
        rows["spans"] = pd.Series(list(span_cells(table, recipe.spans)), dtype=object)
    if not recipe.attribute:
        return rows
    if recipe.label or recipe.score:
        return rows.assign(attribute=take_column(table, next(iter(recipe.attribute.values()))))
    role = "label" if recipe.by_label else "score"
    of_each = [
        rows.assign(attribute=name, **{role: take_column(table, column)}) for name, column in recipe.attribute.items()
    ]
    return pd.concat(of_each).sort_index(kind="stable")


def clean_rows(rows: pd.DataFrame, recipe: Recipe) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Place the spans of those rows that are not left out, clean their texts, and number their prompts.

    Returns:
        The rows with ``prompt``, the number of their prompt, and the table of `number_prompts`.
    """
    rows = clean_texts(place_spans(rows[rows["exclusion"] == ""], recipe), recipe)
    prompt, prompts = number_prompts(rows, recipe)
    return rows.assign(prompt=prompt), prompts


def clean_texts(rows: pd.DataFrame, recipe: Recipe) -> pd.DataFrame:
    """Return rows with every text in NFC, names stripped, and None for what is absent.

    A blank text and a trace of a missing value are absent (`nnd_tasks.sets.cells.TRACES`); where each row is a candidate as
    published, they stay.
    """
    rows = rows.copy()
    for role in [name for name in rows if name in (*TEXTS, "group", *NAMES) or name.startswith(FIELD)]:
        texts = as_texts(rows[role], rows, str(getattr(recipe, role, None) or role), strip=role in NAMES)
        if role in NAMES or (role != "group" and recipe.candidates == "texts"):
            # What a label means that is missing says the rule.
            absent = {"", *(() if role == "label" and recipe.by_label else traces_of(role, recipe))}
            texts[[text is not None and text.strip() in absent for text in texts]] = None
        rows[role] = pd.Series(
            texts, rows.index, dtype=object
        )  # texts that pandas holds itself are copied by each step
    return rows


def count_traces(rows: pd.DataFrame, recipe: Recipe) -> dict[str, dict[str, int]]:
    """Count the cells that `clean_texts` takes for missing values: role -> what they say -> how many."""
    counts = {}
    for role in [name for name in rows if name in (*TEXTS, *NAMES, "spans") or name.startswith(FIELD)]:
        if role in (*NAMES, "spans") or recipe.candidates == "texts":
            traces = traces_of(role, recipe)
            texts = Counter(cell.strip() for cell in rows[role] if isinstance(cell, str) and cell.strip() in traces)
            counts[role.removeprefix(FIELD)] = dict(texts)
    return {role: texts for role, texts in counts.items() if texts}


def number_prompts(rows: pd.DataFrame, recipe: Recipe) -> tuple[np.ndarray[Any, Any], pd.DataFrame]:
    """Number the distinct prompts: the context and the prompt fields.

    Returns:
        The number of each row's prompt; and a table of the prompts with ``context``, the fields and ``cluster_id``.
    """
    fields = [FIELD + name for name in sorted(recipe.field)]
    number, first = number_rows(rows["context"], *(rows[name] for name in fields))
    prompts = rows[["context", *fields]].iloc[first].fillna("").reset_index(drop=True)
    prompts.columns = ["context", *sorted(recipe.field)]
    keys = prompts.to_dict("records")
    prompts["cluster_id"] = pd.Series([cluster_key(row.pop("context"), row) for row in keys], dtype=object)
    return number, prompts


def place_spans(rows: pd.DataFrame, recipe: Recipe) -> pd.DataFrame:
    """Place the spans of each row in its candidate.

    Positions count characters of the candidate as published, so this comes before `clean_texts`. Spans of ``prepare.py`` are
    objects with the keys that `Spans` has by default.

    Returns:
        The rows with ``spans``, JSON of spans within the candidate, or ``""``; ``spans_placed`` and ``spans_nowhere``, the
        numbers of those that lie in it and that do not; and candidates without marks.
    """
    if not recipe.spans and "spans" not in rows:
        return rows
    keys = recipe.spans or Spans()
    role = "rejected" if "rejected" in rows else "candidate"
    texts = rows[role].to_numpy(object).copy()
    given = rows["spans"].to_numpy(object) if "spans" in rows else [None] * len(rows)
    traces = traces_of("spans", recipe)
    cells: list[str] = []
    counts: list[tuple[int, int]] = []
    for i, cell in enumerate(given):
        placed: list[Span] = []
        lost = 0
        try:
            text = render(texts[i]) or ""
        except ValueError:  # `clean_texts` names the row
            text = ""
        if text.strip() and keys.marks:
            texts[i], placed = take_marks(text, *keys.marks)
        elif text.strip():
            try:
                missing = isinstance(cell, str) and cell.strip() in traces
                placed, lost = locate_spans(None if missing else cell, text, keys)
            except ValueError as error:
                raise NNDError(f"{place_of(rows, i)}: {error}") from None
        cells.append(json.dumps(placed) if placed else "")
        counts.append((len(placed), lost))
    rows = rows.assign(**{role: pd.Series(texts, rows.index, dtype=object), "spans": cells})
    rows[["spans_placed", "spans_nowhere"]] = np.array(counts).reshape(-1, 2)
    return rows
