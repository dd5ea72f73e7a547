"""From candidates to tests: pairs of one group whose quality differs (paper, section 2.1), as rows of the dataset schema."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pandas as pd

from nnd_tasks.errors import NNDError
from nnd_tasks.schema import OPTIONAL_COLUMNS, REQUIRED_COLUMNS, SPANS_COLUMN, short_hash
from nnd_tasks.sets.cells import place_of, render, split_pair
from nnd_tasks.sets.recipe import Recipe
from nnd_tasks.sets.rows import clean_rows, exclude, number_rows

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


def find_contradicted(candidates: pd.DataFrame, gap: float) -> Any:
    """Tell which candidates were judged both good and bad for one prompt and attribute; shape (candidates,)."""
    of_text = candidates.groupby(
        [candidates["prompt"], candidates["attribute_id"], candidates["candidate"].fillna("")]
    )["quality"]
    return (of_text.transform("max") - of_text.transform("min") >= gap).to_numpy(bool)


def clean_tests(tests: pd.DataFrame, contradictory: Any) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return the tests that no reason leaves out (of repeated ones the first stays), and the report on the others.

    Args:
        tests: in the order of the source.
        contradictory: whether a candidate of each test was judged both good and bad, shape (tests,).
    """
    high, low = tests["high"], tests["low"]
    number, _ = number_rows(*(tests[name] for name in ("cluster_id", "high", "low", "category")))
    holds = {
        "equal_texts": (high == low).to_numpy(bool),
        "repeated": pd.Series(number).duplicated().to_numpy(bool),
        "contradictory": contradictory,
        "empty": ((high.str.strip() == "") | (low.str.strip() == "")).to_numpy(bool),
    }
    kept = tests[~np.logical_or.reduce(list(holds.values()))].reset_index(drop=True)
    reasons = {reason: {"tests": int(wrong.sum())} for reason, wrong in holds.items()}
    return kept, {"kept": len(kept), "reasons": reasons}


def preference_tests(rows: pd.DataFrame, recipe: Recipe) -> tuple[pd.DataFrame | None, pd.DataFrame]:
    """Make the tests of rows with ``chosen`` and ``rejected``.

    The messages that both chats of a pair begin with become the context, unless a column of the context has them. A pair makes
    one test, in the direction that more people say; each rater counts once, by the majority of what that rater says. Where
    nothing gives a context, each pair is a prompt of its own: a model reads nothing before either text.

    Returns:
        The tests, None where no pair makes one; and the rows with the reason of those that make none.

    Raises:
        NNDError: a cell is of a wrong kind; the error names the row.
    """
    has_context = "context" in rows
    rows = _split_context(rows)
    pairs, prompts = clean_rows(rows, recipe)
    if recipe.candidates == "texts":
        pairs = exclude(pairs, pairs["chosen"].isna() | pairs["rejected"].isna(), "empty")
        pairs = exclude(pairs, pairs["chosen"] == pairs["rejected"], "equal_texts")
        if has_context:
            pairs = exclude(pairs, pairs["context"].isna(), "no_context")
    if "category" in pairs:
        pairs = exclude(pairs, pairs["category"].isna(), "no_category")
    if recipe.candidates == "texts":
        pairs = _decide(pairs)
    rows = rows.assign(exclusion=pairs["exclusion"].reindex(rows.index).fillna(rows["exclusion"]))
    if "spans_nowhere" in pairs:
        rows["spans_placed"], rows["spans_nowhere"] = pairs["spans_placed"], pairs["spans_nowhere"]
    used = pairs[pairs["exclusion"] == ""].reset_index(drop=True)
    if not len(used):
        return None, rows
    names = ("category", "subcategory", "severity", "high_system", "low_system")
    columns = {name: used.get(name) for name in (*names, "rater")}
    # The table does not say which text came first, and the better one must not always be the first: the alphabet decides.
    high = used["chosen"].fillna("")
    low = used["rejected"].fillna("")
    columns |= {"high": high, "low": low, "high_first": (high < low).to_numpy(bool), SPANS_COLUMN: used.get("spans")}
    prompts = prompts.iloc[used["prompt"]].reset_index(drop=True)
    if not has_context and not recipe.field:
        alone = [short_hash("", *sorted(texts)) for texts in zip(high, low, strict=True)]
        prompts["cluster_id"] = prompts["cluster_id"].where(prompts["context"] != "", alone)
    return make_table(columns, prompts, np.arange(len(used)), keep=names), rows


def _split_context(rows: pd.DataFrame) -> pd.DataFrame:
    contexts: list[str | None] = []
    apart: list[bool] = []
    given = rows["context"].to_numpy(object) if "context" in rows else [None] * len(rows)
    chosen = rows["chosen"].to_numpy(object).copy()
    rejected = rows["rejected"].to_numpy(object).copy()
    excluded = (rows["exclusion"] != "").to_numpy()
    for i, column in enumerate(given):
        if excluded[i]:
            apart.append(False)
            contexts.append(None)
            continue
        try:
            split = split_pair(chosen[i], rejected[i])
            text = render(column) or ""
        except ValueError as error:
            raise NNDError(f"{place_of(rows, i)}: {error}") from None
        apart.append(split is None)
        shared, chosen[i], rejected[i] = split or ("", None, None)
        contexts.append(_join_contexts(text, shared))
    # As objects: pandas would copy equal texts, which are one object here.
    columns = {"context": contexts, "chosen": chosen, "rejected": rejected}
    rows = rows.assign(**{name: pd.Series(cells, dtype=object, index=rows.index) for name, cells in columns.items()})
    return exclude(rows, apart, "other_prompt")


def _join_contexts(text: str, shared: str) -> str:
    """Join what a column and the turns that both chats share say, each once."""
    if shared in text:
        return text
    return shared if text.strip() in shared else f"{text}\n\n{shared}"


def _decide(pairs: pd.DataFrame) -> pd.DataFrame:
    """Leave out all rows of a pair but the first one of the direction that more people say."""
    used = pairs[pairs["exclusion"] == ""]
    category = used["category"] if "category" in used else pd.Series("", index=used.index)
    turned = (used["chosen"] > used["rejected"]).to_numpy(bool)
    one = used["chosen"].where(~turned, used["rejected"])
    other = used["rejected"].where(~turned, used["chosen"])
    pair = number_rows(used["prompt"], category, one, other)[0]
    direction = np.where(turned, -1, 1)
    voter = np.arange(len(used))
    if "rater" in used:
        voter = number_rows(pair, used["rater"].where(used["rater"].notna(), used.index))[0]
    vote = np.sign(np.bincount(voter, weights=direction))  # 0 for a rater who says both equally often
    first_row = np.flatnonzero(~pd.Series(voter).duplicated())
    votes = np.bincount(pair[first_row], weights=vote, minlength=pair.max(initial=-1) + 1)
    used = exclude(used, vote[voter] == 0, "rater_tie")
    used = exclude(used, direction * votes[pair] <= 0, "contradictory")
    still = (used["exclusion"] == "").to_numpy()
    repeated = np.zeros(len(used), dtype=bool)
    repeated[still] = pd.Series(pair[still]).duplicated().to_numpy()
    used = exclude(used, repeated, "repeated")
    if "rater" in used:
        pairs["rater"] = used["rater"].where(used.groupby(pair)["rater"].transform("nunique") == 1)
    return pairs.assign(exclusion=used["exclusion"].reindex(pairs.index).fillna(pairs["exclusion"]))
