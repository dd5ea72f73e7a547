"""What people judged, one row per judgement, and the quality that a rule gives each candidate (paper, sections 2.1 and 7.2)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from nnd_tasks.errors import NNDError
from nnd_tasks.sets.cells import as_numbers, as_texts, place_of, unpack
from nnd_tasks.sets.recipe import Recipe
from nnd_tasks.sets.rows import Dropped, clean_texts, number_prompts, number_rows, place_spans
from nnd_tasks.wording import some_of


def read_judgements(rows: pd.DataFrame, recipe: Recipe, dropped: Dropped) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the judgements of rows by role, and the prompts.

    Args:
        rows: of judged candidates, from `take_roles` or a ``prepare.py``.
        recipe: names the rule.
        dropped: gets what is left out.

    Returns:
        One row per judgement: ``candidate``, ``mark`` (a label, or a number), ``prompt``, ``group`` and ``aspect`` (numbered by
        first appearance), ``unit`` (its row), and what is known of ``system``, ``rater``, ``category``, ``subcategory``,
        ``severity``, ``shown`` (a label beside a score) and ``spans``; and the table of `number_prompts`.

    Raises:
        NNDError: a cell is of a wrong kind, or the rows of a group have several prompts; the error names the row.
    """
    rows = clean_texts(place_spans(rows.rename_axis("unit").reset_index(), recipe, dropped), recipe)
    rows["prompt"], prompts = number_prompts(rows, recipe)
    rows["group_id"] = rows["group"] if "group" in rows else prompts["cluster_id"].to_numpy(object)[rows["prompt"]]
    rows["group"], first = number_rows(rows["group_id"] if "group" in rows else rows["prompt"])
    if len(other := np.flatnonzero(rows["prompt"].to_numpy() != rows["prompt"].to_numpy()[first][rows["group"]])):
        raise NNDError(f"{place_of(rows, other[0])}: the rows of its group do not all have the same context and fields")
    if "attribute" not in rows:
        rows["attribute"] = ""
    rows["aspect"] = pd.factorize(rows["attribute"])[0]  # -1 without a name
    if not recipe.by_label and "label" in rows and "score" in rows:
        rows = rows.rename(columns={"label": "shown"})
    marks = _explode_marks(rows, recipe)
    _count_unjudged(marks, dropped)
    known = marks["candidate"].notna() & (marks["context"].notna()) & marks["mark"].notna() & (marks["aspect"] >= 0)
    marks = marks[known.to_numpy(bool)]
    if recipe.by_label:
        marks = marks[dropped.add("ignored", marks, marks["mark"].isin(recipe.ignore))]
        if unknown := find_unranked(marks["mark"].unique().tolist(), recipe):
            dropped.labels = unknown
            marks = marks[dropped.add("unranked", marks, marks["mark"].isin(unknown))]
    return marks.reset_index(drop=True), prompts


def _explode_marks(rows: pd.DataFrame, recipe: Recipe) -> pd.DataFrame:
    """Return a row per mark, as a cell may hold a list of them; a mark that says that nobody judged is missing."""
    role = "label" if recipe.by_label else "score"
    if role not in rows:
        raise NNDError(f"{place_of(rows, 0)}: the rule needs a {role}, and no column has one")
    cells = [unpack(cell) for cell in rows[role].to_numpy(object)]
    if any(isinstance(cell, (list, tuple)) for cell in cells):
        rows = rows.assign(**{role: pd.Series(cells, dtype=object, index=rows.index)}).explode(role, ignore_index=True)
    column = getattr(recipe, role) or role
    if role == "score":
        return rows.assign(mark=as_numbers(rows[role].to_numpy(object), rows, column, recipe))
    labels = pd.Series(as_texts(rows[role], rows, column, strip=True), rows.index, dtype=object)
    if "" in recipe.better:
        labels = labels.fillna("")
    missing = recipe.unjudged
    return rows.assign(mark=[None if label and label.casefold() in missing else label for label in labels])


def _count_unjudged(marks: pd.DataFrame, dropped: Dropped) -> None:
    """Count rows without a candidate, a context or a judgement; an attribute without a judgement is no row."""
    judged = marks["unit"][marks["mark"].notna()]
    rows = marks.drop_duplicates("unit")
    rows = rows[dropped.add("empty", rows, rows["candidate"].isna())]
    rows = rows[dropped.add("no_context", rows, rows["context"].isna())]
    dropped.add("no_judgement", rows, ~rows["unit"].isin(judged))


def find_unranked(labels: Sequence[str], recipe: Recipe) -> list[str]:
    """Return the labels that the order lacks; the list is empty for a rule without an order.

    Raises:
        NNDError: a label of the rule is not in the table, or one of the table differs from one of the rule in case only.
    """
    shown = some_of(sorted(labels))
    better = () if recipe.as_published else recipe.better
    ranked = [label for rank in recipe.order for label in rank]
    absent = [label for label in better if label and label not in labels]
    if absent := absent or ([] if {*labels} & {*ranked} else ranked):
        raise NNDError(f"no candidate has the label {absent[0]!r}; the labels are {shown}")
    others = [label for label in labels if label not in (*better, *ranked)]
    known = {label.casefold() for label in (*better, *ranked)}
    if twins := [label for label in others if label.casefold() in known]:
        raise NNDError(f"the rule lacks the label {twins[0]!r}; name it too, or ignore it (labels: {shown})")
    return others if ranked else []


# ---------------------------------------------------------------- candidates


def rate_candidates(judgements: pd.DataFrame, recipe: Recipe, dropped: Dropped) -> tuple[pd.DataFrame, float]:
    """Put the judgements of each candidate together.

    A candidate is a row of the table, or a distinct text of a group and attribute. Its quality is the most frequent rank of its
    labels (on a tie it is left out), or the mean of its scores; with ``majority`` it is 1 if more than half of its scores are the
    best one, else 0 (paper, section 3.3). A named rater counts once for each candidate: repeated scores are averaged, repeated
    labels count once, by majority.

    Returns:
        One row per candidate in the order of the table, with ``quality``, ``mark`` (its label) or ``mean`` (of its scores),
        ``context``, ``group`` and so on, as the first judgement with its label says, of all its systems, and of its rater
        where it had one only; and the smallest difference of two qualities that counts.
    """
    key = ["unit"] if recipe.as_published else ["group", "candidate"]
    judgements = judgements.assign(owner=number_rows(*(judgements[name] for name in [*key, "aspect"]))[0])
    ranks = {label: float(place) for place, rank in enumerate(recipe.order) for label in rank}
    rank = ranks.get if ranks else lambda label: float(label in recipe.better)
    votes = _count_raters_once(judgements, recipe, rank, dropped) if "rater" in judgements else judgements
    counted = judgements
    if recipe.by_label:
        label, first = _elect(votes, "owner", rank), judgements.drop_duplicates("owner")
        dropped.add("tie", first, ~first["owner"].isin(label.index))
        counted = judgements[judgements["mark"] == judgements["owner"].map(label)]
    candidates = counted.drop_duplicates("owner").set_index("owner").sort_index()
    if recipe.by_label:
        candidates["quality"] = candidates["mark"].map(rank).astype(float)
    else:
        candidates["mean"] = candidates["quality"] = _take_means(votes["owner"], votes["mark"])
    if recipe.majority:
        highest = votes["aspect"].map(judgements.groupby("aspect")["mark"].max())
        good = np.isclose(votes["mark"], highest if recipe.best is None else recipe.best, 1e-9, 1e-12)
        candidates["quality"] = (_take_means(votes["owner"], good) > 0.5).astype(float)
        if recipe.as_published:
            shown = judgements["mark"].map("{:g}".format).groupby(judgements["owner"])
            candidates["shown"] = shown.agg(",".join)
    if "spans" in counted:
        candidates["spans"] = _join_several(counted.set_index("owner")["spans"], _join_spans)
    if "system" in judgements:
        systems = judgements.dropna(subset="system").set_index("owner")["system"]
        candidates["system"] = _join_several(systems, lambda names: "|".join(dict.fromkeys(names)))
    if "rater" in judgements:
        alone = judgements.groupby("owner")["rater"].nunique(dropna=False) == 1
        candidates["rater"] = candidates["rater"].where(alone)
    # Scores such as 0.3 - 0.1 must not miss a gap of 0.2 by rounding.
    return candidates.reset_index(drop=True), (recipe.min_gap or 1.0) * (1 - 1e-9)


def _take_means(number: Any, marks: Any) -> Any:
    return np.bincount(number, marks.astype(float)) / np.bincount(number)  # groupby's mean differs in the last digit


def _elect(votes: pd.DataFrame, key: str, rank: Callable[[str], float | None]) -> pd.Series[Any]:
    """Return key -> its most frequent label of its most frequent rank (the first seen on a tie), unless two ranks tie."""
    votes = votes.assign(rank=votes["mark"].map(rank))
    of_rank, of_label = (votes.groupby([key, name])[name].transform("size") for name in ("rank", "mark"))
    best = votes.assign(votes=of_label)[of_rank == of_rank.groupby(votes[key]).transform("max")]
    label = best.sort_values("votes", ascending=False, kind="stable").drop_duplicates(key).set_index(key)["mark"]
    return label[best.groupby(key)["rank"].nunique()[label.index] == 1]


def _count_raters_once(
    judgements: pd.DataFrame, recipe: Recipe, rank: Callable[[str], float | None], dropped: Dropped
) -> pd.DataFrame:
    """Return a vote for each rater of a candidate; without a name each judgement is a vote, and so is each mark of one cell."""
    turn = judgements.groupby(["owner", "unit"]).cumcount()
    rater = judgements["rater"].where(judgements["rater"].notna(), judgements.index)
    ballot, first = number_rows(judgements["owner"], rater, turn)
    ballots, votes = judgements.assign(ballot=ballot), judgements.iloc[first].reset_index(drop=True)
    if not recipe.by_label:
        return votes.assign(mark=_take_means(ballot, ballots["mark"]))
    label = _elect(ballots, "ballot", rank)
    return votes.assign(mark=label)[dropped.add("rater_tie", votes, ~votes.index.isin(label.index))]


def _join_several(cells: pd.Series[Any], join: Callable[[Any], str]) -> pd.Series[Any]:
    """Return the cell of each owner, which is in the index; several are joined."""
    several = cells.index.duplicated(keep=False)
    return pd.concat([cells[~several], cells[several].groupby(level=0).agg(join)])


def _join_spans(cells: Any) -> str:
    spans = {json.dumps(span): span for cell in cells if cell for span in json.loads(cell)}
    return json.dumps(sorted(spans.values(), key=lambda span: (span["start"], span["end"]))) if spans else ""
