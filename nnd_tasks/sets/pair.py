"""From rows to tests: pairs whose quality differs (paper, section 2.1), or ready-made ones, in the columns of the schema."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pandas as pd

from nnd_tasks.errors import NNDError
from nnd_tasks.schema import OPTIONAL_COLUMNS, REQUIRED_COLUMNS, SPANS_COLUMN, short_hash
from nnd_tasks.sets.account import look_at_texts, say_why_nothing, tally_counts, tally_rows, tally_table
from nnd_tasks.sets.cells import place_of, render, split_pair
from nnd_tasks.sets.judge import Judged
from nnd_tasks.sets.recipe import LabelRule, PairRule, Recipe, Rule, ScoreRule
from nnd_tasks.sets.rows import clean_rows, exclude, number_rows

#: Category of tests where the source has no categories.
PREFERENCE = "preference"
MOST_PAIRS = 50_000_000  # more pairs of candidates take gigabytes
Mask = np.ndarray[Any, np.dtype[np.bool_]]
Index = np.ndarray[Any, np.dtype[np.int64]]


def make_tests(rows: pd.DataFrame, recipe: Recipe, rule: Rule) -> tuple[pd.DataFrame, dict[str, Any], Mask]:
    """Make the tests of the rows of a config.

    Returns:
        The tests; what was used and left out, for the report; and which tests have a candidate that was judged both good and
        bad, shape (tests,).

    Raises:
        NNDError: the rows are not as the recipe says, or no test comes out.
    """
    if "chosen" in rows:
        tests, accounts = _take_ready_pairs(rows, recipe)
        return tests, accounts, np.zeros(len(tests), dtype=bool)
    if isinstance(rule, PairRule):
        raise NNDError("the recipe names no rule: better, order, min_gap or majority")
    return _pair_judged(rows, recipe, rule)


# ---------------------------------------------------------------- pairs of judged candidates


def _pair_judged(
    rows: pd.DataFrame, recipe: Recipe, rule: LabelRule | ScoreRule
) -> tuple[pd.DataFrame, dict[str, Any], Mask]:
    judged = Judged.of(rows, recipe, rule)
    rated = judged.candidates[judged.candidates["exclusion"] == ""]
    ids = rated["candidate_id"].to_numpy()
    high, low, high_first, compared = pair_candidates(rated, rule.min_gap)
    # A worse candidate with several errors makes a test of each.
    pairs = pd.DataFrame({"pair": np.arange(len(low)), "candidate_id": ids[low]})
    errors = pairs.merge(judged.errors, on="candidate_id")
    pair = errors["pair"].to_numpy()
    tests = _describe_tests(rated, errors, judged.prompts, high[pair], low[pair], high_first[pair])
    accounts = _tally_judged(judged, rule, ids[np.union1d(high, low)], len(high), compared)
    if not len(tests):
        raise NNDError(say_why_nothing(accounts))
    accounts |= look_at_texts(rows, tests, judged.prompts.drop(columns="cluster_id"), recipe)
    contradicted = _find_contradicted(rated, rule.min_gap)
    return tests, accounts, contradicted[high[pair]] | contradicted[low[pair]]


def _tally_judged(
    judged: Judged, rule: LabelRule | ScoreRule, in_pairs: Any, pairs: int, compared: int
) -> dict[str, Any]:
    """Count rows, judgements, candidates and pairs of candidates by why they are left out.

    Args:
        judged: what people judged.
        rule: what is better.
        in_pairs: ids of the candidates that are in a pair.
        pairs: number of pairs of which one candidate is better.
        compared: number of all pairs.
    """
    candidates = judged.candidates
    rated = candidates[candidates["exclusion"] == ""]
    with_pair = candidates["candidate_id"].isin(in_pairs)
    candidates = exclude(candidates, ~with_pair, "no_pair")
    used_rows = judged.rows.index[judged.rows["exclusion"] == ""]
    judgements = judged.judgements
    accounts = {
        **tally_rows(judged.rows, judgements),
        "judgements": tally_table(judgements[judgements["row_id"].isin(used_rows)], "judgement"),
        "candidates": tally_table(candidates, "candidate"),
        "pairs": tally_counts(compared, {"no_order": compared - pairs}),
        "groups": rated["group"].nunique(),
        "groups_with_tests": candidates["group"][with_pair].nunique(),
    }
    if differently := int(candidates["differently"].sum()):
        what_counts = "the most frequent label counts" if rule.role == "label" else "the mean of their scores counts"
        attributes = judgements["attribute_id"].nunique()
        accounts |= {"judged_differently": differently, "what_counts": what_counts, "attributes": attributes}
    unranked = judgements["value"][judgements["exclusion"] == "unranked"]
    return accounts | ({"unranked_labels": unranked.unique().tolist()} if len(unranked) else {})


def pair_candidates(candidates: pd.DataFrame, gap: float) -> tuple[Index, Index, Mask, int]:
    """Form every pair of candidates of one group and attribute whose qualities differ by ``gap`` or more.

    Pairs are sorted by group, by attribute, and by the positions of their two candidates in the table.

    Returns:
        Positions of the better and of the worse candidate, and whether the better one comes first; each of shape (pairs,). The
        number of pairs that were compared.

    Raises:
        NNDError: there are more pairs than can be formed.
    """
    order = np.lexsort((np.arange(len(candidates)), candidates["attribute_id"], candidates["group"]))
    group = number_rows(candidates["group"].to_numpy()[order], candidates["attribute_id"].to_numpy()[order])[0]
    quality = candidates["quality"].to_numpy(float)[order]
    sizes = np.bincount(group, minlength=1)
    compared = int((sizes * (sizes - 1) // 2).sum())
    if compared > MOST_PAIRS:
        raise NNDError(
            f"the table: {compared:,} pairs of candidates, {sizes.max():,} candidates in one context; is --context right?"
        )
    position = np.arange(len(order))
    after = np.cumsum(sizes)[group] - 1 - position  # candidates of the same group that come after each one
    first = np.repeat(position, after)
    begin = np.repeat(np.cumsum(after) - after, after)  # where the pairs of each first candidate begin
    second = first + 1 + np.arange(compared) - begin
    differs = np.abs(quality[first] - quality[second]) >= gap
    first, second = first[differs], second[differs]
    first_is_better = quality[first] > quality[second]
    high = np.where(first_is_better, first, second)
    low = np.where(first_is_better, second, first)
    return order[high], order[low], first_is_better, compared


def _describe_tests(
    candidates: pd.DataFrame, errors: pd.DataFrame, prompts: pd.DataFrame, high: Index, low: Index, high_first: Mask
) -> pd.DataFrame:
    """Put what is known of the two candidates of each test into the columns of the schema.

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
    by_label = "mean" not in candidates
    category = errors.get("category", worse["value"] if by_label else None)
    subcategory = errors.get("subcategory")
    if (candidates["attribute"].fillna("") != "").any():
        category = worse["attribute"]
        subcategory = errors.get("subcategory", errors.get("category"))
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
    roles = {"label": "value" if by_label else "published_label", "system": "system", "score": "mean"}
    for name, role in roles.items():
        columns |= {f"high_{name}": better.get(role), f"low_{name}": worse.get(role)}
    return _make_table(columns, prompts.iloc[better["prompt"]])


def _make_table(columns: Mapping[str, Any], prompts: pd.DataFrame, always: Collection[str] = ()) -> pd.DataFrame:
    """Give tests their identifiers and the order of the schema, without optional columns that hold nothing.

    Args:
        columns: of the schema; None where the source has no such column.
        prompts: context, prompt fields and ``cluster_id`` of each test.
        always: optional columns that stay even if they hold nothing.
    """
    table = prompts.reset_index(drop=True)
    fields = table.columns.drop(["context", "cluster_id"])
    known_columns = {name: cells for name, cells in columns.items() if cells is not None}
    table = table.assign(**{"context_id": table["cluster_id"], "category": "", **known_columns})
    for name, dtype in {**REQUIRED_COLUMNS, **OPTIONAL_COLUMNS}.items():
        if dtype == "string" and name in table:
            table[name] = table[name].astype(object).where(table[name].notna(), "")
            if name in OPTIONAL_COLUMNS and name not in always and (table[name] == "").all():
                del table[name]
    table["category"] = table["category"].where(table["category"] != "", PREFERENCE)
    keys = [table[name] for name in ("context_id", "high", "low", "category")]
    turn = table.groupby(number_rows(*keys)[0]).cumcount() + 1
    table["test_id"] = [short_hash(*row, str(n)) for *row, n in zip(*keys, turn, strict=True)]
    names = (*REQUIRED_COLUMNS, *OPTIONAL_COLUMNS, SPANS_COLUMN)
    return table[[*(name for name in names if name in table), *fields]]


def _find_contradicted(candidates: pd.DataFrame, gap: float) -> Any:
    """Tell which candidates were judged both good and bad for one prompt and attribute; shape (candidates,)."""
    text = candidates["candidate"].fillna("")
    of_text = candidates["quality"].groupby([candidates["prompt"], candidates["attribute_id"], text])
    return (of_text.transform("max") - of_text.transform("min") >= gap).to_numpy(bool)


# ---------------------------------------------------------------- ready-made pairs


def _take_ready_pairs(rows: pd.DataFrame, recipe: Recipe) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Make the tests of rows with ``chosen`` and ``rejected``.

    The messages that both chats of a pair begin with become the context, unless a column of the context has them. A pair makes
    one test, in the direction that more people say; each rater counts once, by the majority of what that rater says. Where
    nothing gives a context, each pair is a prompt of its own: a model reads nothing before either text.
    """
    has_context = "context" in rows
    split = _split_context(rows)
    pairs, prompts = clean_rows(split, recipe)
    if recipe.candidates == "texts":
        pairs = exclude(pairs, pairs["chosen"].isna() | pairs["rejected"].isna(), "empty")
        pairs = exclude(pairs, pairs["chosen"] == pairs["rejected"], "equal_texts")
        if has_context:
            pairs = exclude(pairs, pairs["context"].isna(), "no_context")
    if "category" in pairs:
        pairs = exclude(pairs, pairs["category"].isna(), "no_category")
    if recipe.candidates == "texts":
        pairs = _count_votes(pairs)
    accounts = tally_rows(split.assign(exclusion=pairs["exclusion"].combine_first(split["exclusion"])), pairs)
    used = pairs[pairs["exclusion"] == ""].reset_index(drop=True)
    if not len(used):
        raise NNDError(say_why_nothing(accounts))
    names = ("category", "subcategory", "severity", "high_system", "low_system")
    columns = {name: used.get(name) for name in (*names, "rater")}
    # The table does not say which text came first, and the better one must not always be the first: the alphabet decides.
    high = used["chosen"].fillna("")
    low = used["rejected"].fillna("")
    columns |= {"high": high, "low": low, "high_first": (high < low).to_numpy(bool), SPANS_COLUMN: used.get("spans")}
    prompts = prompts.iloc[used["prompt"]].reset_index(drop=True)
    if not has_context and not recipe.field:
        prompt_of_pair = [short_hash("", *sorted(texts)) for texts in zip(high, low, strict=True)]
        prompts["cluster_id"] = prompts["cluster_id"].where(prompts["context"] != "", prompt_of_pair)
    tests = _make_table(columns, prompts, always=names)
    return tests, accounts | look_at_texts(rows, tests, tests[["context", *recipe.field]].drop_duplicates(), recipe)


def _split_context(rows: pd.DataFrame) -> pd.DataFrame:
    names = ("context", "chosen", "rejected")
    context, chosen, rejected = (
        rows[name].to_numpy(object).copy() if name in rows else np.full(len(rows), None) for name in names
    )
    differs = np.zeros(len(rows), dtype=bool)
    for i in np.flatnonzero(rows["exclusion"] == "").tolist():
        try:
            split = split_pair(chosen[i], rejected[i])
            text = render(context[i]) or ""
        except ValueError as error:
            raise NNDError(f"{place_of(rows, i)}: {error}") from None
        differs[i] = split is None
        shared, chosen[i], rejected[i] = split or ("", None, None)
        context[i] = _join_contexts(text, shared)
    # As objects: pandas would copy equal texts, which are one object here.
    columns = dict(zip(names, (context, chosen, rejected), strict=True))
    rows = rows.assign(**{name: pd.Series(cells, rows.index, dtype=object) for name, cells in columns.items()})
    return exclude(rows, differs, "other_prompt")


def _join_contexts(text: str, shared: str) -> str:
    """Join what a column and the turns that both chats share say, each once."""
    if shared in text:
        return text
    return shared if text.strip() in shared else f"{text}\n\n{shared}"


def _count_votes(pairs: pd.DataFrame) -> pd.DataFrame:
    """Leave out all rows of a pair but the first one of the direction that more people say."""
    used = pairs[pairs["exclusion"] == ""]
    category = used["category"] if "category" in used else pd.Series("", index=used.index)
    turned = (used["chosen"] > used["rejected"]).to_numpy(bool)
    first_text = used["chosen"].where(~turned, used["rejected"])
    second_text = used["rejected"].where(~turned, used["chosen"])
    pair = number_rows(used["prompt"], category, first_text, second_text)[0]
    direction = np.where(turned, -1, 1)
    voter = np.arange(len(used))
    if "rater" in used:
        voter = number_rows(pair, used["rater"].where(used["rater"].notna(), used.index))[0]
    vote = np.sign(np.bincount(voter, weights=direction))  # 0 for a rater who says both equally often
    first_row = np.flatnonzero(~pd.Series(voter).duplicated())
    votes = np.bincount(pair[first_row], weights=vote, minlength=pair.max(initial=-1) + 1)
    used = exclude(used, vote[voter] == 0, "rater_tie")
    used = exclude(used, direction * votes[pair] <= 0, "contradictory")
    used = exclude(used, pd.Series(pair, used.index).where(used["exclusion"] == "").duplicated(), "repeated")
    if "rater" in used:
        pairs["rater"] = used["rater"].where(used.groupby(pair)["rater"].transform("nunique") == 1)
    return pairs.assign(exclusion=used["exclusion"].combine_first(pairs["exclusion"]))
