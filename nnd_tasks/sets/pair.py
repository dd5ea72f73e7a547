"""From candidates to tests: pairs of one group whose quality differs (paper, section 2.1), as rows of the dataset schema."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from nnd_tasks.errors import NNDError
from nnd_tasks.schema import OPTIONAL_COLUMNS, REQUIRED_COLUMNS, SPANS_COLUMN, short_hash
from nnd_tasks.sets.rows import Dropped, number_rows
from nnd_tasks.tables import SPANS, TYPES

#: Category of tests where the source has no categories.
PREFERENCE = "preference"
#: More pairs of candidates than this take minutes to compare, more tests than this take gigabytes.
MOST_PAIRS, MOST_TESTS = 500_000_000, 10_000_000
Mask = np.ndarray[Any, np.dtype[np.bool_]]
Index = np.ndarray[Any, np.dtype[np.int64]]


def pair_candidates(candidates: pd.DataFrame, gap: float, dropped: Dropped, where: str) -> tuple[Index, Index, Mask]:
    """Form every pair of candidates of one group and attribute whose qualities differ by ``gap`` or more.

    Tests are sorted by group, by attribute, and by the places of their two candidates in the table.

    Returns:
        Positions of the better and of the worse candidate, and whether the better one comes first; each of shape (tests,).

    Raises:
        NNDError: there are more pairs than can be formed.
    """
    order = np.lexsort((np.arange(len(candidates)), candidates["aspect"], candidates["group"]))
    group = number_rows(candidates["group"].to_numpy()[order], candidates["aspect"].to_numpy()[order])[0]
    quality = candidates["quality"].to_numpy(float)[order]
    sizes = np.bincount(group, minlength=1).astype(np.int64)
    compared = int((sizes * (sizes - 1) // 2).sum())
    if compared > MOST_PAIRS:
        raise NNDError(
            f"{where}: {compared:,} pairs of candidates, {sizes.max():,} candidates in one context; is --context right?"
        )
    firsts, seconds, made = [], [], 0
    first = np.arange(len(order))
    for step in range(1, int(sizes.max(initial=0))):
        first = first[: np.searchsorted(first, len(order) - step)]
        first = first[group[first] == group[first + step]]
        known = np.abs(quality[first] - quality[first + step]) >= gap  # so that nan makes no test
        firsts.append(first[known])
        seconds.append(first[known] + step)
        made += len(firsts[-1])
        if made > MOST_TESTS:
            raise NNDError(f"{where}: more than {MOST_TESTS:,} tests come out; take fewer rows, or a stricter rule")
    left, right = np.concatenate([*firsts, np.empty(0, np.int64)]), np.concatenate([*seconds, np.empty(0, np.int64)])
    sorting = np.lexsort((right, left))
    left, right = left[sorting], right[sorting]
    better = quality[left] > quality[right]
    used = np.zeros(len(order), dtype=bool)
    used[order[left]] = used[order[right]] = True
    if compared > made:
        dropped.counts["no_order"] = compared - made
    dropped.add("no_pair", candidates, ~used)
    return order[np.where(better, left, right)], order[np.where(better, right, left)], better


def pair_tests(
    candidates: pd.DataFrame, prompts: pd.DataFrame, high: Index, low: Index, high_first: Mask, *, by_label: bool
) -> pd.DataFrame:
    """Return the tests of pairs of judged candidates, in the columns of the schema.

    The category is the attribute that was judged, else the one that the source names, else the label of the worse candidate.
    """
    better, worse = candidates.iloc[high].reset_index(drop=True), candidates.iloc[low].reset_index(drop=True)
    category, subcategory = worse.get("category", worse["mark"] if by_label else None), worse.get("subcategory")
    if (candidates["attribute"].fillna("") != "").any():
        category, subcategory = worse["attribute"], worse.get("subcategory", worse.get("category"))
    columns = {
        "context_id": better["group_id"],
        "high": better["candidate"],
        "low": worse["candidate"],
        "high_first": high_first,
        "category": category,
        "subcategory": subcategory,
        "severity": worse.get("severity"),
        "rater": worse.get("rater"),
        SPANS_COLUMN: worse.get("spans"),
    }
    label = "mark" if by_label else "shown"
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


_NO_SPAN = {"start": 0, "end": 0, "category": "", "severity": ""}


def to_arrow(tests: pd.DataFrame) -> pa.Table:
    """Return tests as an Arrow table with the types of the schema."""
    kinds = {**REQUIRED_COLUMNS, **OPTIONAL_COLUMNS}
    arrays = {}
    for name in tests:
        if name == SPANS_COLUMN:
            cells = [[{**_NO_SPAN, **span} for span in json.loads(cell)] if cell else [] for cell in tests[name]]
            arrays[name] = pa.array(cells, SPANS)
        else:
            arrays[name] = pa.array(tests[name].to_numpy(), TYPES[kinds.get(name, "string")])
    return pa.table(arrays)
