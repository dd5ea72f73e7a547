"""From candidates to tests: pairs of one group whose quality differs (paper, section 2.1), as rows of the dataset schema."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pandas as pd

from nnd_tasks.errors import NNDError
from nnd_tasks.schema import OPTIONAL_COLUMNS, REQUIRED_COLUMNS, SPANS_COLUMN, short_hash
from nnd_tasks.sets.rows import number_rows

#: Category of tests where the source has no categories.
PREFERENCE = "preference"
#: More pairs of candidates than this take minutes to compare, more tests than this take gigabytes.
MOST_PAIRS, MOST_TESTS = 500_000_000, 10_000_000
Mask = np.ndarray[Any, np.dtype[np.bool_]]
Index = np.ndarray[Any, np.dtype[np.int64]]


def pair_candidates(candidates: pd.DataFrame, gap: float, where: str) -> tuple[Index, Index, Mask, int]:
    """Form every pair of candidates of one group and attribute whose qualities differ by ``gap`` or more.

    Tests are sorted by group, by attribute, and by the places of their two candidates in the table.

    Returns:
        Positions of the better and of the worse candidate, and whether the better one comes first; each of shape (tests,). The
        number of pairs that were compared.

    Raises:
        NNDError: there are more pairs than can be formed.
    """
    order = np.lexsort((np.arange(len(candidates)), candidates["attribute_id"], candidates["group"]))
    group = number_rows(candidates["group"].to_numpy()[order], candidates["attribute_id"].to_numpy()[order])[0]
    quality = candidates["quality"].to_numpy(float)[order]
    sizes = np.bincount(group, minlength=1).astype(np.int64)
    compared = int((sizes * (sizes - 1) // 2).sum())
    if compared > MOST_PAIRS:
        raise NNDError(
            f"{where}: {compared:,} pairs of candidates, {sizes.max():,} candidates in one context; is --context right?"
        )
    firsts = []
    seconds = []
    tests = 0
    first = np.arange(len(order))
    for step in range(1, int(sizes.max(initial=0))):
        first = first[: np.searchsorted(first, len(order) - step)]
        first = first[group[first] == group[first + step]]
        apart = np.abs(quality[first] - quality[first + step]) >= gap
        firsts.append(first[apart])
        seconds.append(first[apart] + step)
        tests += len(firsts[-1])
        if tests > MOST_TESTS:
            raise NNDError(f"{where}: more than {MOST_TESTS:,} tests come out; take fewer rows, or a stricter rule")
    left = np.concatenate([*firsts, np.empty(0, np.int64)])
    right = np.concatenate([*seconds, np.empty(0, np.int64)])
    sorting = np.lexsort((right, left))
    left, right = order[left[sorting]], order[right[sorting]]
    left_is_better = candidates["quality"].to_numpy(float)[left] > candidates["quality"].to_numpy(float)[right]
    high = np.where(left_is_better, left, right)
    low = np.where(left_is_better, right, left)
    return high, low, left_is_better, compared


def repeat_for_errors(candidates: pd.DataFrame, errors: pd.DataFrame, low: Index) -> tuple[Index, Index]:
    """Repeat the pairs whose worse candidate has several errors.

    Args:
        candidates: sorted by ``candidate_id``.
        errors: of `nnd_tasks.sets.judge.choose_errors`.
        low: position of the worse candidate of each pair.

    Returns:
        Position of the pair and of the error of each test; each of shape (tests,).
    """
    sizes = errors.groupby("candidate_id").size().reindex(candidates["candidate_id"]).to_numpy(np.int64)
    starts = np.cumsum(sizes) - sizes
    pair = np.repeat(np.arange(len(low)), sizes[low])
    turn = np.arange(len(pair)) - np.repeat(np.cumsum(sizes[low]) - sizes[low], sizes[low])
    return pair, starts[low[pair]] + turn


def pair_tests(
    candidates: pd.DataFrame, errors: pd.DataFrame, prompts: pd.DataFrame, high: Index, low: Index, high_first: Mask
) -> pd.DataFrame:
    """Make the tests of pairs of judged candidates, in the columns of the schema.

    The category is the attribute that was judged, else the one that the source names, else the label of the worse candidate.

    Args:
        candidates: of `nnd_tasks.sets.judge.rate_candidates`.
        errors: of the worse candidate of each test.
        prompts: of `nnd_tasks.sets.rows.number_prompts`.
        high: position of the better candidate of each test.
        low: of the worse candidate.
        high_first: whether the better candidate comes first in the source.
    """
    better = candidates.iloc[high].reset_index(drop=True)
    worse = candidates.iloc[low].reset_index(drop=True)
    errors = errors.reset_index(drop=True)
    by_label = "mean" not in candidates
    category = errors.get("category", worse["value"] if by_label else None)
    subcategory = errors.get("subcategory")
    if (candidates["attribute"].fillna("") != "").any():
        category, subcategory = worse["attribute"], errors.get("subcategory", errors.get("category"))
    columns = {
        "context_id": better["group_id"],
        "high": better["candidate"],
        "low": worse["candidate"],
        "high_first": high_first,
        "category": category,
        "subcategory": subcategory,
        "severity": errors.get("severity"),
        "rater": worse.get("rater"),
        SPANS_COLUMN: worse.get("spans"),
    }
    label = "value" if by_label else "published_label"
    for side, rows in (("high", better), ("low", worse)):
        roles = {"label": label, "system": "system", "score": "mean"}
        columns |= {f"{side}_{name}": rows.get(role) for name, role in roles.items()}
    return make_table(columns, prompts, better["prompt"].to_numpy(), keep=())


def make_table(
    columns: Mapping[str, Any], prompts: pd.DataFrame, prompt: Index, *, keep: Collection[str]
) -> pd.DataFrame:
    """Return tests with their identifiers, in the order of the schema, without optional columns that hold nothing.

    Args:
        columns: of the schema; None where the source has no such column.
        prompts: context, prompt fields and ``cluster_id`` of each prompt.
        prompt: number of the prompt of each test.
        keep: optional columns that stay even if they hold nothing.
    """
    table = prompts.iloc[prompt].reset_index(drop=True)
    fields = table.columns.drop(["context", "cluster_id"])
    given = {name: cells for name, cells in columns.items() if cells is not None}
    table = table.assign(**{"context_id": table["cluster_id"], "category": "", **given})
    for name in [
        name for name, kind in {**REQUIRED_COLUMNS, **OPTIONAL_COLUMNS}.items() if kind == "string" and name in table
    ]:
        table[name] = table[name].astype(object).where(table[name].notna(), "")
        if name in OPTIONAL_COLUMNS and name not in keep and not (table[name] != "").any():
            del table[name]
    table["category"] = table["category"].where(table["category"] != "", PREFERENCE)
    keys = [table[name] for name in ("context_id", "high", "low", "category")]
    turn = table.groupby(number_rows(*keys)[0]).cumcount() + 1
    table["test_id"] = [short_hash(*row, str(n)) for *row, n in zip(*keys, turn, strict=True)]
    names = (*REQUIRED_COLUMNS, *OPTIONAL_COLUMNS, SPANS_COLUMN)
    return table[[*(name for name in names if name in table), *fields]]
