"""From rows to tests: judgements, rated candidates, and pairs whose quality differs (paper, 2.1 and 7.2); or ready-made pairs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from nnd_tasks.errors import NNDError
from nnd_tasks.schema import OPTIONAL_COLUMNS, REQUIRED_COLUMNS, SPANS_COLUMN, hash_rows, short_hash
from nnd_tasks.sets.account import look_at_texts, say_why_nothing, tally_counts, tally_judged, tally_rows
from nnd_tasks.sets.recipe import LabelRule, PairRule, Recipe, Rule, ScoreRule
from nnd_tasks.sets.rows import clean_rows
from nnd_tasks.tables.cells import Array, as_number, place_of, texts_of_nobody, traces_of
from nnd_tasks.tables.roles import exclude
from nnd_tasks.text import some_of

#: Category of tests where the source has no categories.
UNCATEGORISED = "preference"
_HOW_TO_WRITE_NUMBERS = (
    "; a number has no unit and no mark between thousands; several ratings in a cell are a list, [3, 4]; --decimal names another "
    "decimal mark"
)
MOST_PAIRS = 50_000_000  # more pairs of candidates take gigabytes
Mask = np.ndarray[Any, np.dtype[np.bool_]]
Index = np.ndarray[Any, np.dtype[np.int64]]
#: Judgements, and the prompts that they number.
Judged: TypeAlias = tuple[pd.DataFrame, pd.DataFrame]


def make_tests(
    rows: pd.DataFrame, judged: Judged, recipe: Recipe, rule: Rule
) -> tuple[pd.DataFrame, dict[str, Any], Mask]:
    """Make the tests of the rows of a config, and of what `take_judgements` reads in them.

    Returns:
        The tests; what was used and left out, for the report; and, where each row is a candidate, which tests have one that was
        judged both good and bad, shape (tests,).

    Raises:
        NNDError: the judgements are not as the recipe says, or no test comes out.
    """
    judgements, prompts = judged
    if isinstance(rule, PairRule) or "chosen" in rows:
        tests, accounts = _take_ready_pairs(rows, judgements, prompts, recipe)
        return tests, accounts, np.zeros(len(tests), dtype=bool)
    candidates, errors, judgements = rate_candidates(judgements, recipe, rule)
    rated = candidates[candidates["exclusion"] == ""]
    ids = rated["candidate_id"].to_numpy()
    high, low, high_first, compared = pair_candidates(rated, rule.min_gap)
    # A worse candidate with several errors makes a test of each.
    errors = pd.DataFrame({"pair": np.arange(len(low)), "candidate_id": ids[low]}).merge(errors, on="candidate_id")
    pair = errors["pair"].to_numpy()
    tests = _describe_tests(rated, errors, prompts, high[pair], low[pair], high_first[pair])
    candidates = exclude(candidates, {"no_pair": ~candidates["candidate_id"].isin(ids[np.r_[high, low]])})
    concluded = conclude_rows(rows, judgements)
    texts = look_at_texts(rows, tests, prompts.drop(columns="cluster_id"), recipe)
    accounts = {
        **tally_judged(concluded, judgements, candidates, rule),
        "pairs": tally_counts(compared, {"no_order": compared - len(high)}),
    }
    if not len(tests):
        raise NNDError(say_why_nothing(accounts))
    contradicted = np.zeros(len(rated), dtype=bool)
    if recipe.candidates == "rows":
        contradicted = _find_contradicted(rated, rule.min_gap)
    return tests, accounts | texts, contradicted[high[pair]] | contradicted[low[pair]]


# ---------------------------------------------------------------- judgements


def take_judgements(rows: pd.DataFrame, recipe: Recipe, rule: Rule) -> Judged:
    """Read the judgements of the rows of a config and their prompts, by `read_pairs` or `read_judgements`."""
    if "chosen" in rows:
        return read_pairs(rows, recipe)
    if isinstance(rule, PairRule):
        raise NNDError("the recipe names no rule: better, min_gap or majority")
    return read_judgements(rows, recipe, rule)


def read_judgements(rows: pd.DataFrame, recipe: Recipe, rule: LabelRule | ScoreRule) -> Judged:
    """Read the judgements of rows by role.

    Args:
        rows: of judged candidates, from `take_roles` or a ``prepare.py``; those that are left out already have no judgement.
        recipe: of the set.
        rule: what is better.

    Returns:
        One row per judgement, and per error that it names: ``judgement_id``, ``candidate``, ``value`` (a label, or a number),
        ``prompt``, ``group`` and ``attribute_id`` (numbered by first appearance), ``row_id``, ``exclusion``, and what is known
        of ``system``, ``rater``, ``category``, ``subcategory``, ``severity``, ``published_label`` (beside a score) and
        ``spans``; and the table of `number_prompts`.

    Raises:
        NNDError: a cell is of a wrong kind, or the rows of a group have several prompts; the error names the row.
    """
    if rule.role not in rows:
        raise NNDError(f"{place_of(rows, 0)}: the rule needs a {rule.role}, and no column has one")
    rows, prompts = clean_rows(rows, recipe, rule.role)
    rows["group_id"] = (
        rows["group"] if "group" in rows else prompts["cluster_id"].take(rows["prompt"]).set_axis(rows.index)
    )
    rows["group"] = rows.groupby("group" if "group" in rows else "prompt", sort=False, dropna=False).ngroup()
    if len(conflicting := np.flatnonzero(rows["prompt"] != rows.groupby("group")["prompt"].transform("first"))):
        raise NNDError(
            f"{place_of(rows, conflicting[0])}: the rows of its group do not all have the same context and fields"
        )
    if "attribute" not in rows:
        rows["attribute"] = ""
    rows["attribute_id"] = pd.factorize(rows["attribute"])[0]  # -1 without a name
    if isinstance(rule, ScoreRule) and "label" in rows and "score" in rows:
        rows = rows.rename(columns={"label": "published_label"})
    judgements = rows.assign(value=_read_values(rows, recipe, rule))
    value = judgements["value"]
    judgements = exclude(judgements, {
        "empty": judgements["candidate"].isna(),
        "no_context": judgements["context"].isna(),
        "no_attribute": judgements["attribute_id"] < 0,
        "no_judgement": value.isna(),
        "ignored": value.isin(recipe.ignore) & isinstance(rule, LabelRule),
    })  # fmt: skip
    if isinstance(rule, LabelRule) and recipe.candidates != "rows":
        check_labels(value[judgements["exclusion"] == ""].unique().tolist(), rule)
    return judgements, prompts


def _read_values(rows: pd.DataFrame, recipe: Recipe, rule: LabelRule | ScoreRule) -> Any:
    """Read the label or score of each row; a value that says that nobody judged is missing."""
    if isinstance(rule, ScoreRule):
        return _read_scores(rows, recipe)
    traces = traces_of("label", recipe)
    empty = "" if "" in rule.better else None
    unjudged = texts_of_nobody(recipe)

    @cache
    def read(label: str | None) -> str | None:
        if label and label.casefold() in unjudged:
            return None
        return empty if label is None or label in traces else label

    return pd.Series([*map(read, rows["label"])], rows.index, dtype=object)


def _read_scores(rows: pd.DataFrame, recipe: Recipe) -> Array:
    """Read scores, nan where nobody judged; raise NNDError where a cell is not a finite number."""
    cells = rows["score"].to_numpy(object)
    numbers = np.empty(len(cells))
    unjudged = texts_of_nobody(recipe)
    for i, cell in enumerate(cells):
        value = as_number(cell, recipe, unjudged)
        if value is None:
            hint = ""
            if isinstance(cell, str):
                hint = "; if this says that nobody judged, name it with --missing"
                hint = _HOW_TO_WRITE_NUMBERS if re.search(r"\d", cell) else hint
            column = recipe.attribute.get(rows["attribute"].iat[i], recipe.score or "score")
            raise NNDError(f"{place_of(rows, i)}, column {column!r}: expected a number, found {cell!r:.60}{hint}")
        numbers[i] = value
    return numbers


def check_labels(labels: Sequence[str], rule: LabelRule) -> None:
    """Raise NNDError where a table lacks a label of the rule, or has one that differs in case only, or joins several."""
    offered, known = some_of(sorted(labels)), {*labels, *rule.better}
    for label in labels:
        parts = [part.strip() for part in re.split("[;,|/]", label)]
        if len(parts) > 1 and label not in rule.better and {*parts} <= known:
            raise NNDError(f"the label {label!r} is several: write a list, {json.dumps(parts)}, or a row for each")
    if absent := [label for label in rule.better if label and labels and label not in labels]:
        raise NNDError(f"no candidate has the label {absent[0]!r}; the labels are {offered}")
    folded = {label.casefold() for label in rule.better}
    if twins := [label for label in labels if label not in rule.better and label.casefold() in folded]:
        raise NNDError(f"the rule lacks the label {twins[0]!r}; name it too, or ignore it (labels: {offered})")


def conclude_rows(rows: pd.DataFrame, judgements: pd.DataFrame) -> pd.DataFrame:
    """Say of each row why it is left out.

    A row is used if one of its judgements is; else it has the reason of the judgement that came furthest.

    Returns:
        The rows, each once, with their ``exclusion``.
    """
    order = ["other_prompt", "unequal_turns", "empty", "equal_texts", "no_context", "no_category", "no_attribute",
             "no_judgement", "ignored", "rater_tie", "contradictory", "repeated", ""]  # fmt: skip
    reasons = judgements["exclusion"].astype(pd.CategoricalDtype(order, ordered=True))
    furthest = reasons.groupby(judgements["row_id"]).max().astype(object)
    rows = rows[~rows.index.duplicated()]
    return rows.assign(exclusion=furthest.reindex(rows.index).fillna(rows["exclusion"]))


# ---------------------------------------------------------------- candidates


def rate_candidates(
    judgements: pd.DataFrame, recipe: Recipe, rule: LabelRule | ScoreRule
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Put the judgements of each candidate together.

    A candidate is a row of the table, or a distinct text of a group and attribute. A named rater counts once for each candidate:
    repeated scores are averaged, repeated labels count once, by majority.

    Returns:
        One row per candidate in the order of the table, with ``candidate_id``, ``exclusion``, the columns of `_rate_by_label`
        or `_rate_by_score`, and those of `_describe_candidates`; the errors of `choose_errors`; and the judgements, with the
        reason of those that do not count for their rater.

    Raises:
        NNDError: errors of a candidate differ, and the recipe does not say which one counts.
    """
    used = judgements[judgements["exclusion"] == ""]
    key = ["row_id"] if recipe.candidates == "rows" else ["group", "candidate"]
    texts = used.astype({"candidate": "string[pyarrow]"})  # equal ones are found sooner in Arrow
    used = used.assign(candidate_id=texts.groupby([*key, "attribute_id"], sort=False).ngroup())
    if isinstance(rule, LabelRule):
        ratings, undecided = _rate_by_label(used, rule)
        judgements, used = (
            exclude(table, {"rater_tie": table["judgement_id"].isin(undecided)}) for table in (judgements, used)
        )
        used = used[used["exclusion"] == ""]
        _check_aspects(used, recipe, rule)
        label = used["candidate_id"].map(ratings["value"])
        telling = used[(used["value"] == label) | label.isna()]
    else:
        ratings, telling = _rate_by_score(used, recipe), used
    candidates = _describe_candidates(used, telling).assign(**ratings)
    candidates = exclude(candidates, {"tie": candidates["quality"].isna()})
    rated = telling[telling["candidate_id"].isin(candidates.index[candidates["exclusion"] == ""])]
    return candidates.reset_index(), choose_errors(rated, recipe), judgements


def _rate_by_label(judgements: pd.DataFrame, rule: LabelRule) -> tuple[pd.DataFrame, pd.Series[int]]:
    """Rate each candidate by the most frequent rank of its labels.

    Returns:
        ``value`` (its label, `_elect`), ``quality`` (the rank of that; both are missing on a tie) and ``differently`` (whether
        its ranks differ) by ``candidate_id``; and the ``judgement_id`` of those that do not count for their rater.
    """
    votes = judgements.filter(["judgement_id", "candidate_id", "value", "row_id", "rater"]).drop_duplicates(
        "judgement_id"
    )
    label, undecided = elect(votes, "candidate_id", "value", rule.is_better)
    votes = votes[~votes["judgement_id"].isin(undecided)]
    ranks = votes["value"].map(cache(rule.is_better)).groupby(votes["candidate_id"]).nunique()
    value = label.reindex(ranks.index)
    quality = value.map(cache(rule.is_better), na_action="ignore").astype(float)
    return pd.DataFrame({"value": value, "quality": quality, "differently": ranks > 1}), undecided


def _rate_by_score(judgements: pd.DataFrame, recipe: Recipe) -> pd.DataFrame:
    """Rate each candidate by the mean of its scores, or by ``majority``.

    Returns:
        By ``candidate_id``: ``mean``; ``quality``, which is the mean, and with ``majority`` 1 if more than half of the scores are
        the best one, else 0 (paper, section 3.3); ``differently``, whether scores differ and that is no majority's matter; and
        where each row is a candidate with a majority, its scores as ``published_label``.
    """
    votes = judgements.drop_duplicates("judgement_id")
    scores = votes.groupby("candidate_id")["value"]
    ratings = pd.DataFrame({"differently": (scores.nunique() > 1) & (not recipe.majority)})
    if recipe.majority and recipe.candidates == "rows":
        ratings["published_label"] = scores.agg(lambda marks: ",".join(map("{:g}".format, marks)))
    if "rater" in votes:
        ballot = _number_ballots(votes, "candidate_id")
        votes = votes[~ballot.duplicated()].assign(value=_take_means(ballot, votes["value"]))
    ratings["mean"] = _take_means(votes["candidate_id"], votes["value"])
    ratings["quality"] = -ratings["mean"] if recipe.best == "lowest" else ratings["mean"]
    if recipe.majority:
        of_attribute = judgements.groupby("attribute_id")["value"]
        best = votes["attribute_id"].map(of_attribute.min() if recipe.best == "lowest" else of_attribute.max())
        good = np.isclose(votes["value"], recipe.best if isinstance(recipe.best, float) else best, 1e-9, 1e-12)
        ratings["quality"] = (_take_means(votes["candidate_id"], good) > 0.5).astype(float)
    return ratings


def _describe_candidates(judgements: pd.DataFrame, telling: pd.DataFrame) -> pd.DataFrame:
    """Describe each candidate: its text, prompt, group and attribute, all its systems, its rater where it had one only.

    Args:
        judgements: all that count.
        telling: those that say the quality of their candidate; its spans are theirs.

    Returns:
        One row per candidate, by ``candidate_id``.
    """
    candidates = telling.drop_duplicates("candidate_id").set_index("candidate_id").sort_index()
    if "spans" in telling:
        candidates["spans"] = _join_several(telling.set_index("candidate_id")["spans"], _join_spans)
    for name in ("system", "published_label"):
        if name in judgements:
            cells = judgements.dropna(subset=name).set_index("candidate_id")[name]
            candidates[name] = _join_several(cells, lambda names: "|".join(dict.fromkeys(sorted(names))))
    if "rater" in judgements:
        raters = judgements.groupby("candidate_id")["rater"].nunique(dropna=False)
        candidates["rater"] = candidates["rater"].where(raters == 1)
    return candidates


def _take_means(number: Any, values: Any) -> Any:
    return np.bincount(number, values.astype(float)) / np.bincount(number)  # groupby's mean differs in the last digit


# ---------------------------------------------------------------- votes


def elect(
    votes: pd.DataFrame, key: str, choice: str, rank: Callable[[Any], float | None]
) -> tuple[pd.Series[Any], pd.Series[int]]:
    """Elect a choice per key; each named rater has one vote, by the majority of what that rater says.

    Args:
        votes: with ``judgement_id`` and ``row_id``; ``rater``, if there is one, is missing where nobody is named.
        key: column of what is voted on.
        choice: column of what is chosen.
        rank: of a choice.

    Returns:
        Key -> its choice (`_elect`); and the ``judgement_id`` of those whose rater has no majority.
    """
    if "rater" not in votes:
        return _elect(votes, key, choice, rank), votes["judgement_id"].iloc[:0]
    votes = votes.assign(ballot=_number_ballots(votes, key))
    own = _elect(votes, "ballot", choice, rank)
    decided = votes["ballot"].isin(own.index)
    ballots = votes[decided].drop_duplicates("ballot")
    ballots[choice] = ballots["ballot"].map(own)
    return _elect(ballots, key, choice, rank), votes["judgement_id"][~decided]


def _elect(votes: pd.DataFrame, key: str, choice: str, rank: Callable[[Any], float | None]) -> pd.Series[Any]:
    """Elect a choice per key: the most frequent rank wins, and of its choices the most frequent, or the first in the alphabet.

    A key of which two ranks are as frequent has no choice: of good, good, bad it has good, of good, bad none.
    """
    votes = votes[[key, choice]].assign(rank=votes[choice].map(cache(rank)))
    of_rank, of_choice = (votes.groupby([key, name])[key].transform("size") for name in ("rank", choice))
    best = votes.assign(votes=of_choice)[of_rank == of_rank.groupby(votes[key]).transform("max")]
    best = best.sort_values(["votes", choice], ascending=[False, True])
    elected = best.drop_duplicates(key).set_index(key)[choice]
    return elected[best.groupby(key)["rank"].nunique()[elected.index] == 1]


def _number_ballots(votes: pd.DataFrame, key: str) -> pd.Series[int]:
    """Number the ballots: one for each rater of a key, for each value of one cell, and for each unnamed vote."""
    turn = votes.groupby([key, "row_id", "rater"], dropna=False).cumcount()
    rater = votes["rater"].where(votes["rater"].notna(), votes["judgement_id"])
    return votes.groupby([votes[key], rater, turn], sort=False).ngroup()


def _join_several(cells: pd.Series[Any], join: Callable[[Any], Any]) -> pd.Series[Any]:
    """Join the cells of each candidate, which is in the index."""
    several = cells.index.duplicated(keep=False)
    return pd.concat([cells[~several], cells[several].groupby(level=0).agg(join)])


def _join_spans(cells: Any) -> list[Any]:
    spans = {str(span): span for cell in cells for span in cell}
    return sorted(spans.values(), key=lambda span: (span["start"], span["end"], str(span)))


# ---------------------------------------------------------------- errors of a candidate


def choose_errors(judgements: pd.DataFrame, recipe: Recipe) -> pd.DataFrame:
    """Put together the errors that judgements of a candidate name.

    A judgement that names no category is no error beside one that names one.

    Args:
        judgements: those that say the quality of their candidate.
        recipe: of the set.

    Returns:
        ``candidate_id``, and those of ``category``, ``subcategory`` and ``severity`` that there are: one row for each candidate,
        or for each of its errors; sorted by candidate.

    Raises:
        NNDError: the errors of a candidate differ, and ``several_errors`` does not say that each makes a test.
    """
    names = [name for name in ("category", "subcategory", "severity") if name in judgements]
    errors = judgements.drop_duplicates(["candidate_id", *names])[["candidate_id", *names]]
    if "category" in names:
        named = errors["category"].notna()
        errors = errors[named | ~named.groupby(errors["candidate_id"]).transform("any")]
    by_candidate = errors.groupby("candidate_id")
    several = (by_candidate[names].nunique() > 1).any(axis=1)
    differing = errors[errors["candidate_id"].map(several).astype(bool)]
    if len(differing) and recipe.several_errors is None:
        _refuse_several_errors(judgements.loc[differing.index], names, recipe)
    agreed = by_candidate.first()[~several].reset_index()
    return pd.concat([agreed, differing]).sort_values("candidate_id", kind="stable")


def _refuse_several_errors(errors: pd.DataFrame, names: Sequence[str], recipe: Recipe) -> None:
    example = errors[errors["candidate_id"] == errors["candidate_id"].iat[0]]
    name = next(name for name in names if example[name].nunique() > 1)
    column = getattr(recipe, name) or name
    values = some_of(list(example[name].dropna().unique()))
    attribute = f"--attribute {column} judges each of these alone; or " if name == "category" else ""
    raise NNDError(
        f"{place_of(example, 0)}: judgements of one candidate differ in {name} ({values}); {attribute}let each make a "
        "test with --several-errors each (`several_errors: each` in the recipe), or keep one in prepare.py"
    )


def _check_aspects(judgements: pd.DataFrame, recipe: Recipe, rule: LabelRule) -> None:
    """Raise NNDError where a candidate is better in one category and worse in another, and no key says what counts."""
    if recipe.several_errors or "category" not in judgements:
        return
    named = judgements[judgements["category"].notna()]
    by_candidate = named.assign(rank=named["value"].map(cache(rule.is_better))).groupby("candidate_id")
    differing = (by_candidate[["rank", "category"]].nunique() > 1).all(axis=1)
    mixed = named[named["candidate_id"].map(differing).astype(bool)]
    if len(mixed):
        _refuse_several_errors(mixed, ["category"], recipe)


# ---------------------------------------------------------------- pairs


def pair_candidates(candidates: pd.DataFrame, gap: float) -> tuple[Index, Index, Mask, int]:
    """Form every pair of candidates of one group and attribute whose qualities differ by ``gap`` or more.

    Pairs are sorted by group, by attribute, and by the positions of their two candidates in the table.

    Returns:
        Positions of the better and of the worse candidate, and whether the better one comes first; each of shape (pairs,). The
        number of pairs that were compared.

    Raises:
        NNDError: there are more pairs than can be formed.
    """
    keys = candidates[["group", "attribute_id"]]
    order = np.lexsort((keys["attribute_id"], keys["group"]))
    group = keys.iloc[order].groupby([*keys], sort=False).ngroup().to_numpy()
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
        candidates: of `rate_candidates`.
        errors: of the worse candidate of each test.
        prompts: of `nnd_tasks.sets.rows.number_prompts`.
        high: position of the better candidate of each test.
        low: of the worse candidate.
        high_first: whether the better candidate comes first in the source.
    """
    wanted = [
        "prompt",
        "group_id",
        "candidate",
        "value",
        "mean",
        "attribute",
        "rater",
        "spans",
        "system",
        "published_label",
    ]
    candidates = candidates.filter(wanted)
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
            table[name] = table[name].astype(object).fillna("")
            if name in OPTIONAL_COLUMNS and name not in always and (table[name] == "").all():
                del table[name]
    table["category"] = table["category"].replace("", UNCATEGORISED)
    texts = [table[name] for name in ("context_id", "high", "low", "category")]
    table["test_id"] = hash_rows(*texts, ["1"] * len(table))
    if table["test_id"].duplicated().any():
        table["test_id"] = hash_rows(*texts, (table.groupby("test_id").cumcount() + 1).map(str))
    names = (*REQUIRED_COLUMNS, *OPTIONAL_COLUMNS, SPANS_COLUMN)
    return table[[*(name for name in names if name in table), *fields]]


def _find_contradicted(candidates: pd.DataFrame, gap: float) -> Any:
    """Tell which candidates were judged both good and bad for one prompt and attribute; shape (candidates,)."""
    text = candidates["candidate"].fillna("")
    of_text = candidates["quality"].groupby([candidates["prompt"], candidates["attribute_id"], text])
    return (of_text.transform("max") - of_text.transform("min") >= gap).to_numpy(bool)


# ---------------------------------------------------------------- ready-made pairs


def _take_ready_pairs(
    rows: pd.DataFrame, pairs: pd.DataFrame, prompts: pd.DataFrame, recipe: Recipe
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Make the tests of rows with ``chosen`` and ``rejected``; ``pairs`` and ``prompts`` as of `read_pairs`.

    A pair makes one test, in the direction that more people say; each rater counts once, by the majority of what that rater
    says.
    """
    by_text = recipe.candidates != "rows"
    if by_text:
        pairs = _choose_directions(pairs)
    accounts = tally_rows(conclude_rows(rows, pairs), pairs)
    if by_text and (differently := int(pairs.groupby("pair_id")["direction"].nunique().gt(1).sum())):
        accounts |= {
            "judged_differently": differently,
            "what_counts": "what more people say of a pair counts",
            "attributes": 1 + ("category" in pairs),
        }
    used = pairs[pairs["exclusion"] == ""].reset_index(drop=True)
    if not len(used):
        raise NNDError(say_why_nothing(accounts))
    names = ("category", "subcategory", "severity", "high_system", "low_system")
    columns = {name: used.get(name) for name in (*names, "rater")}
    # The table does not say which text came first, and the better one must not always be the first: the alphabet decides.
    high = used["chosen"].fillna("")
    low = used["rejected"].fillna("")
    columns |= {"high": high, "low": low, "high_first": (high < low).to_numpy(bool), SPANS_COLUMN: used.get("spans")}
    prompts = prompts.iloc[used["prompt"]].reset_index(drop=True).assign(cluster_id=used["cluster_id"])
    tests = _make_table(columns, prompts, always=names)
    return tests, accounts | look_at_texts(rows, tests, tests[["context", *recipe.field]].drop_duplicates(), recipe)


def read_pairs(rows: pd.DataFrame, recipe: Recipe) -> Judged:
    """Read the judgements of rows with ``chosen`` and ``rejected``.

    The messages that both chats of a pair begin with become the context, unless a column of the context has them. Where nothing
    gives a context, each pair is a prompt of its own: a model reads nothing before either text.

    Returns:
        The rows with ``exclusion`` and ``cluster_id``; and the table of `number_prompts`.
    """
    if "attribute" in rows:  # as of single texts, the attribute is the category
        rows = rows.rename(columns={"category": "subcategory", "attribute": "category"})
    has_context = "context" in rows
    pairs, prompts = clean_rows(rows, recipe)
    by_text = recipe.candidates != "rows"
    clusters = prompts["cluster_id"].take(pairs["prompt"]).set_axis(pairs.index)
    if not has_context and not recipe.field:
        texts = zip(pairs["chosen"].fillna(""), pairs["rejected"].fillna(""), strict=True)
        clusters = clusters.where(pairs["context"].fillna("") != "", [short_hash("", *sorted(pair)) for pair in texts])
    return exclude(pairs.assign(cluster_id=clusters), {
        "empty": (pairs["chosen"].isna() | pairs["rejected"].isna()) & by_text,
        "equal_texts": (pairs["chosen"] == pairs["rejected"]) & (recipe.candidates == "texts"),
        "no_context": pairs["context"].isna() & by_text & has_context,
        "no_category": pairs["category"].isna() if "category" in pairs else False,
    }), prompts  # fmt: skip


def _choose_directions(pairs: pd.DataFrame) -> pd.DataFrame:
    """Leave out all rows of a pair but one of the direction that more people say.

    Of rows that say the same but for their details, the one stays whose details come first in the alphabet.

    Returns:
        The rows; those that were not left out before have ``pair_id`` and ``direction``, whether ``rejected`` is first in the
        alphabet.
    """
    used = pairs[pairs["exclusion"] == ""]
    direction = used["chosen"] > used["rejected"]
    texts = np.sort(used[["chosen", "rejected"]].to_numpy(object), axis=1).T
    keys = [used[name] for name in ("prompt", "category") if name in used]
    pair = used.groupby([*keys, *texts], sort=False).ngroup()
    used = used.assign(pair_id=pair, direction=direction)
    elected, undecided = elect(used, "pair_id", "direction", float)
    used = exclude(used, {
        "rater_tie": used["judgement_id"].isin(undecided),
        "contradictory": used["direction"] != used["pair_id"].map(elected),
    })  # fmt: skip
    if "rater" in used:
        raters = used.groupby("pair_id")["rater"].transform("nunique", dropna=False)
        used["rater"] = used["rater"].where(raters == 1)
    details = [name for name in ("subcategory", "severity", "high_system", "low_system", "spans") if name in used]
    ordered = used.sort_values(
        ["exclusion", "pair_id", *details], key=lambda cells: cells.fillna("\uffff").astype(str), kind="stable"
    )
    used = exclude(used, {"repeated": ordered["pair_id"].duplicated().reindex(used.index)})
    return pd.concat([used, pairs[pairs["exclusion"] != ""]]).sort_index()
