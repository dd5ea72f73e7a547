"""What people judged, one row per judgement, and the quality that a rule gives each candidate (paper, sections 2.1 and 7.2)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from nnd_tasks.errors import NNDError
from nnd_tasks.sets.cells import as_number, as_texts, place_of, traces_of, unpack
from nnd_tasks.sets.recipe import LabelRule, Recipe, ScoreRule
from nnd_tasks.sets.rows import clean_rows, exclude, number_rows
from nnd_tasks.text import some_of

#: What is said of the error of a candidate.
ERROR_COLUMNS = ("category", "subcategory", "severity")
#: Severities that people use, the mildest first.
_SEVERITIES = ("no-error", "none", "neutral", "trivial", "minor", "moderate", "major", "severe", "critical")


@dataclass(frozen=True)
class Judged:
    """What people judged, and what came of it.

    Attributes:
        rows: each row that was read, once, with its ``exclusion``.
        judgements: of `read_judgements`, with their ``exclusion``.
        candidates: of `rate_candidates`.
        errors: of `choose_errors`.
        prompts: of `nnd_tasks.sets.rows.number_prompts`.
    """

    rows: pd.DataFrame
    judgements: pd.DataFrame
    candidates: pd.DataFrame
    errors: pd.DataFrame
    prompts: pd.DataFrame

    @classmethod
    def of(cls, rows: pd.DataFrame, recipe: Recipe, rule: LabelRule | ScoreRule) -> Judged:
        """Read the judgements of rows by role, and rate their candidates; raise NNDError as the steps do."""
        judgements, prompts = read_judgements(rows, recipe, rule)
        candidates, errors, judgements = rate_candidates(judgements, recipe, rule)
        return cls(conclude_rows(rows, judgements), judgements, candidates, errors, prompts)


def read_judgements(
    rows: pd.DataFrame, recipe: Recipe, rule: LabelRule | ScoreRule
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read the judgements of rows by role.

    Args:
        rows: of judged candidates, from `take_roles` or a ``prepare.py``; those that are left out already have no judgement.
        recipe: of the set.
        rule: what is better.

    Returns:
        One row per judgement: ``candidate``, ``value`` (a label, or a number), ``prompt``, ``group`` and ``attribute_id``
        (numbered by first appearance), ``row_id``, ``exclusion``, and what is known of ``system``, ``rater``, ``category``,
        ``subcategory``, ``severity``, ``published_label`` (beside a score) and ``spans``; and the table of `number_prompts`.

    Raises:
        NNDError: a cell is of a wrong kind, or the rows of a group have several prompts; the error names the row.
    """
    rows, prompts = clean_rows(rows.rename_axis("row_id").reset_index(), recipe)
    rows["group_id"] = rows["group"] if "group" in rows else prompts["cluster_id"].to_numpy(object)[rows["prompt"]]
    rows["group"], first = number_rows(rows["group_id"] if "group" in rows else rows["prompt"])
    prompt = rows["prompt"].to_numpy()
    if len(conflicting := np.flatnonzero(prompt != prompt[first][rows["group"]])):
        raise NNDError(
            f"{place_of(rows, conflicting[0])}: the rows of its group do not all have the same context and fields"
        )
    if "attribute" not in rows:
        rows["attribute"] = ""
    rows["attribute_id"] = pd.factorize(rows["attribute"])[0]  # -1 without a name
    if isinstance(rule, ScoreRule) and "label" in rows and "score" in rows:
        rows = rows.rename(columns={"label": "published_label"})
    judgements = _explode_values(rows, recipe, rule)
    judgements = exclude(judgements, judgements["candidate"].isna(), "empty")
    judgements = exclude(judgements, judgements["context"].isna(), "no_context")
    judgements = exclude(judgements, judgements["attribute_id"] < 0, "no_attribute")
    judgements = exclude(judgements, judgements["value"].isna(), "no_judgement")
    if isinstance(rule, LabelRule):
        judgements = exclude(judgements, judgements["value"].isin(recipe.ignore), "ignored")
        unranked = find_unranked(judgements["value"][judgements["exclusion"] == ""].unique().tolist(), recipe, rule)
        judgements = exclude(judgements, judgements["value"].isin(unranked), "unranked")
    return judgements, prompts


def _explode_values(rows: pd.DataFrame, recipe: Recipe, rule: LabelRule | ScoreRule) -> pd.DataFrame:
    """Make a row per value, as a cell may hold a list of them; a value that says that nobody judged is missing."""
    role = rule.role
    if role not in rows:
        raise NNDError(f"{place_of(rows, 0)}: the rule needs a {role}, and no column has one")
    cells = [unpack(cell) for cell in rows[role].to_numpy(object)]
    if any(isinstance(cell, (list, tuple)) for cell in cells):
        rows = rows.assign(**{role: pd.Series(cells, dtype=object, index=rows.index)}).explode(role, ignore_index=True)
    if isinstance(rule, ScoreRule):
        return rows.assign(value=_read_scores(rows, recipe))
    labels = as_texts(rows[role], rows, recipe.label or role, strip=True)
    traces = traces_of("label", recipe)
    empty = "" if "" in rule.better else None
    unjudged = recipe.unjudged
    values: list[str | None] = []
    for label in labels:
        if label and label.casefold() in unjudged:
            values.append(None)
        else:
            values.append(empty if label is None or label in traces else label)
    return rows.assign(value=pd.Series(values, rows.index, dtype=object))


def _read_scores(rows: pd.DataFrame, recipe: Recipe) -> np.ndarray[Any, Any]:
    """Read scores, nan where nobody judged; raise NNDError where a cell is not a finite number."""
    cells = rows["score"].to_numpy(object)
    numbers = np.empty(len(cells))
    unjudged = recipe.unjudged
    for i, cell in enumerate(cells):
        value = as_number(cell, recipe, unjudged)
        if value is None:
            hint = "; if this says that nobody judged, name it with --missing" if isinstance(cell, str) else ""
            if isinstance(cell, str) and re.search(r"\d", cell):
                hint = _advise_number(cell, recipe)
            column = recipe.attribute.get(rows["attribute"].iat[i], recipe.score or "score")
            raise NNDError(f"{place_of(rows, i)}, column {column!r}: expected a number, found {cell!r:.60}{hint}")
        numbers[i] = value
    return numbers


def _advise_number(cell: str, recipe: Recipe) -> str:
    """Say what to do about a cell with digits that is no number."""
    numbers = re.findall(r"[+-]?\d+(?:\.\d+)?", cell)
    if len(numbers) < 2 or not re.fullmatch(r"[\s\d.,;/|+-]+", cell) or re.search(r"[.,]\d{3}(?!\d)", cell):
        return "; a number has no unit, and no mark between thousands"
    as_list = f"[{', '.join(numbers)}]"
    if recipe.decimal == "," or not re.fullmatch(r"\s*[+-]?\d+,\d+\s*", cell):
        return f": {len(numbers)} numbers in one cell; write ratings as a list, {as_list}, or take their mean in prepare.py"
    return f": 2 numbers in one cell, or a decimal comma? Write ratings as a list, {as_list}, or name the mark with --decimal"


def find_unranked(labels: Sequence[str], recipe: Recipe, rule: LabelRule) -> list[str]:
    """Find the labels that the order lacks; there are none for a rule without an order.

    Raises:
        NNDError: a label of the rule is not in the table, or one of the table differs from one of the rule in case only.
    """
    if not labels:
        return []
    offered = some_of(sorted(labels))
    better = () if recipe.candidates == "rows" else rule.better
    absent = [label for label in better if label and label not in labels]
    if absent := absent or ([] if {*labels} & {*rule.ranks} else [*rule.ranks]):
        raise NNDError(f"no candidate has the label {absent[0]!r}; the labels are {offered}")
    others = [label for label in labels if label not in (*better, *rule.ranks)]
    folded = {label.casefold() for label in (*better, *rule.ranks)}
    if twins := [label for label in others if label.casefold() in folded]:
        raise NNDError(f"the rule lacks the label {twins[0]!r}; name it too, or ignore it (labels: {offered})")
    return others if rule.ranks else []


def conclude_rows(rows: pd.DataFrame, judgements: pd.DataFrame) -> pd.DataFrame:
    """Say of each row why it is left out.

    A row is used if one of its judgements is; else it has the reason of the judgement that came furthest.

    Returns:
        The rows, each once, with their ``exclusion``.
    """
    order = ["empty", "no_context", "no_attribute", "no_judgement", "ignored", "unranked", "rater_tie", ""]
    rank = judgements["exclusion"].map({reason: position for position, reason in enumerate(order)})
    furthest = rank.groupby(judgements["row_id"]).max().map(dict(enumerate(order)))
    rows = rows[~rows.index.duplicated()]
    return rows.assign(exclusion=furthest.reindex(rows.index).fillna(rows["exclusion"]))


# ---------------------------------------------------------------- candidates


def rate_candidates(
    judgements: pd.DataFrame, recipe: Recipe, rule: LabelRule | ScoreRule
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Put the judgements of each candidate together.

    A candidate is a row of the table, or a distinct text of a group and attribute. Its quality is the most frequent rank of its
    labels (on a tie it is left out), or the mean of its scores; with ``majority`` it is 1 if more than half of its scores are the
    best one, else 0 (paper, section 3.3). A named rater counts once for each candidate: repeated scores are averaged, repeated
    labels count once, by majority.

    Returns:
        One row per candidate in the order of the table, with ``candidate_id``, ``quality``, ``value`` (its label) or ``mean``
        (of its scores), ``exclusion``, ``differently`` (whether judgements of it differ), ``context``, ``group`` and so on, as
        the first judgement with its label says, of all its systems, and of its rater where it had one only; the errors of
        `choose_errors`; and the judgements, with the reason of those that do not count for their rater.

    Raises:
        NNDError: errors of a candidate differ, and the recipe does not say which one counts.
    """
    used = judgements[judgements["exclusion"] == ""]
    key = ["row_id"] if recipe.candidates == "rows" else ["group", "candidate"]
    used = used.assign(candidate_id=number_rows(*(used[name] for name in [*key, "attribute_id"]))[0])
    votes = used
    if "rater" in used:
        used, votes = _count_raters_once(used, rule)
        judgements = judgements.assign(
            exclusion=used["exclusion"].reindex(judgements.index).fillna(judgements["exclusion"])
        )
        used = used[used["candidate_id"].isin(votes["candidate_id"])]
    counting = used
    if isinstance(rule, LabelRule):
        _check_aspects(used, recipe, rule)
        label = used["candidate_id"].map(_elect(votes, "candidate_id", rule.rank))
        counting = used[(used["value"] == label) | label.isna()]
    candidates = counting.drop_duplicates("candidate_id").set_index("candidate_id").sort_index()
    by_candidate = used.groupby("candidate_id")
    if isinstance(rule, LabelRule):
        tied = candidates.index.isin(used["candidate_id"][label.isna()])
        candidates = exclude(candidates, tied, "tie")
        candidates["quality"] = candidates["value"].map(rule.rank).astype(float)
        candidates["differently"] = used["value"].map(rule.rank).groupby(used["candidate_id"]).nunique() > 1
    else:
        candidates["mean"] = candidates["quality"] = _take_means(votes["candidate_id"], votes["value"])
        candidates["differently"] = (by_candidate["value"].nunique() > 1) & (not recipe.majority)
        if recipe.majority:
            candidates["quality"] = _find_majority(used, votes, recipe.best)
    if "spans" in counting:
        candidates["spans"] = _join_several(counting.set_index("candidate_id")["spans"], _join_spans)
    for name in ("system", "published_label"):
        if name in used:
            cells = used.dropna(subset=name).set_index("candidate_id")[name]
            candidates[name] = _join_several(cells, lambda names: "|".join(dict.fromkeys(names)))
    if recipe.majority and recipe.candidates == "rows":
        candidates["published_label"] = by_candidate["value"].agg(lambda scores: ",".join(map("{:g}".format, scores)))
    if "rater" in used:
        candidates["rater"] = candidates["rater"].where(by_candidate["rater"].nunique(dropna=False) == 1)
    rated = counting[counting["candidate_id"].isin(candidates.index[candidates["exclusion"] == ""])]
    return candidates.reset_index(), choose_errors(rated, recipe), judgements


def _take_means(number: Any, values: Any) -> Any:
    return np.bincount(number, values.astype(float)) / np.bincount(number)  # groupby's mean differs in the last digit


def _find_majority(used: pd.DataFrame, votes: pd.DataFrame, best: float | None) -> Any:
    highest = votes["attribute_id"].map(used.groupby("attribute_id")["value"].max())
    good = np.isclose(votes["value"], highest if best is None else best, 1e-9, 1e-12)
    return (_take_means(votes["candidate_id"], good) > 0.5).astype(float)


def _elect(votes: pd.DataFrame, key: str, rank: Callable[[str], float | None]) -> pd.Series[Any]:
    """Elect a label per key: the most frequent rank wins, and of its labels the most frequent one, or the first of these.

    A key of which two ranks are as frequent has no label: of good, good, bad it has good, of good, bad none.
    """
    votes = votes.assign(rank=votes["value"].map(rank))
    of_rank, of_label = (votes.groupby([key, name])[name].transform("size") for name in ("rank", "value"))
    best = votes.assign(votes=of_label)[of_rank == of_rank.groupby(votes[key]).transform("max")]
    label = best.sort_values("votes", ascending=False, kind="stable").drop_duplicates(key).set_index(key)["value"]
    return label[best.groupby(key)["rank"].nunique()[label.index] == 1]


def _count_raters_once(judgements: pd.DataFrame, rule: LabelRule | ScoreRule) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Give each rater of a candidate one vote; without a name each judgement is a vote, and so is each value of one cell.

    Returns:
        The judgements, of which those of a rater without a majority are left out; and the votes.
    """
    turn = judgements.groupby(["candidate_id", "row_id"]).cumcount()
    rater = judgements["rater"].where(judgements["rater"].notna(), judgements.index)
    ballot, first = number_rows(judgements["candidate_id"], rater, turn)
    votes = judgements.iloc[first].reset_index(drop=True)
    if isinstance(rule, ScoreRule):
        return judgements, votes.assign(value=_take_means(ballot, judgements["value"]))
    label = _elect(judgements.assign(ballot=ballot), "ballot", rule.rank)
    judgements = exclude(judgements, ~pd.Series(ballot).isin(label.index), "rater_tie")
    return judgements, votes.assign(value=label)[votes.index.isin(label.index)]


def _join_several(cells: pd.Series[Any], join: Callable[[Any], str]) -> pd.Series[Any]:
    """Join the cells of each candidate, which is in the index."""
    several = cells.index.duplicated(keep=False)
    return pd.concat([cells[~several], cells[several].groupby(level=0).agg(join)])


def _join_spans(cells: Any) -> str:
    spans = {json.dumps(span): span for cell in cells if cell for span in json.loads(cell)}
    return json.dumps(sorted(spans.values(), key=lambda span: (span["start"], span["end"]))) if spans else ""


# ---------------------------------------------------------------- errors of a candidate


def choose_errors(judgements: pd.DataFrame, recipe: Recipe) -> pd.DataFrame:
    """Choose which error of a candidate counts, where its judgements name several.

    A judgement that names no category is no error beside one that names one.

    Args:
        judgements: those that say the quality of their candidate.
        recipe: of the set, whose ``several_errors`` is the rule.

    Returns:
        ``candidate_id``, and those of ``category``, ``subcategory`` and ``severity`` that there are: one row for each candidate,
        or for each of its errors; sorted by candidate.

    Raises:
        NNDError: the errors of a candidate differ, and there is no rule; or their severities have no known order.
    """
    names = [name for name in ERROR_COLUMNS if name in judgements]
    errors = judgements.drop_duplicates(["candidate_id", *names])
    several = errors["candidate_id"].duplicated(keep=False)
    single, errors = errors[~several], errors[several]
    if "category" in names:
        named = errors["category"].notna()
        errors = errors[named | ~named.groupby(errors["candidate_id"]).transform("any")]
    by_candidate = errors.groupby("candidate_id")[names]
    differing = (by_candidate.nunique() > 1).any(axis=1)
    agreed = by_candidate.first()[~differing].reset_index()
    errors = errors[errors["candidate_id"].map(differing).astype(bool)]
    if len(errors):
        errors = _apply_several_errors(errors, names, recipe)
    columns = ["candidate_id", *names]
    return pd.concat([single[columns], agreed, errors[columns]]).sort_values("candidate_id", kind="stable")


def _apply_several_errors(errors: pd.DataFrame, names: Sequence[str], recipe: Recipe) -> pd.DataFrame:
    if recipe.several_errors is None:
        _refuse_several_errors(errors, names, recipe)
    if recipe.several_errors == "each":
        return errors
    if recipe.several_errors == "most_severe":
        errors = errors.assign(severity_rank=_rank_severities(errors)).sort_values(
            "severity_rank", ascending=False, kind="stable"
        )
    return errors.drop_duplicates("candidate_id")


def _refuse_several_errors(errors: pd.DataFrame, names: Sequence[str], recipe: Recipe) -> None:
    example = errors[errors["candidate_id"] == errors["candidate_id"].iat[0]]
    name = next(name for name in names if example[name].nunique() > 1)
    column = getattr(recipe, name) or name
    values = some_of(list(example[name].dropna().unique()))
    attribute = f"--attribute {column} judges each of these alone; or " if name == "category" else ""
    raise NNDError(
        f"{place_of(example, 0)}: judgements of one candidate differ in {name} ({values}); {attribute}say in the recipe "
        "what counts: `several_errors: first`, `most_severe` or `each`"
    )


def _check_aspects(judgements: pd.DataFrame, recipe: Recipe, rule: LabelRule) -> None:
    """Raise NNDError where a candidate is better in one category and worse in another, and no key says what counts."""
    if recipe.several_errors or "category" not in judgements:
        return
    named = judgements[judgements["category"].notna()]
    by_candidate = named.assign(rank=named["value"].map(rule.rank)).groupby("candidate_id")
    differing = (by_candidate[["rank", "category"]].nunique() > 1).all(axis=1)
    mixed = named[named["candidate_id"].map(differing).astype(bool)]
    if len(mixed):
        _refuse_several_errors(mixed, ["category"], recipe)


def _rank_severities(errors: pd.DataFrame) -> list[float]:
    if "severity" not in errors:
        raise NNDError(
            "`several_errors: most_severe` needs a column of severities: name it as `severity` in the recipe"
        )
    ranks = []
    for position, severity in enumerate(errors["severity"].fillna("none")):
        try:
            ranks.append(
                float(_SEVERITIES.index(severity.casefold()) if severity.casefold() in _SEVERITIES else severity)
            )
        except ValueError:
            raise NNDError(
                f"{place_of(errors, position)}: how severe is {severity!r}? Known are numbers and {', '.join(_SEVERITIES)}"
            ) from None
    return ranks
