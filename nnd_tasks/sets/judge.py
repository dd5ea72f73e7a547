"""What people judged, one row per judgement, and the quality that a rule gives each candidate (paper, sections 2.1 and 7.2)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from nnd_tasks.errors import NNDError
from nnd_tasks.schema import cluster_key, short_hash
from nnd_tasks.sets.read import PATH, ROW, as_numbers, as_texts, place_of, take_column, unpack
from nnd_tasks.sets.recipe import Recipe
from nnd_tasks.sets.spans import find_marked, locate_spans, span_cells
from nnd_tasks.wording import did_you_mean, some_of

_EXAMPLES = 3
#: Words that YAML reads as false and true; a table may write any of them.
_TRUTH = (("false", "no", "off"), ("true", "yes", "on"))
_FOLDER = re.compile(r"^.*?/(?=[^/]*\.\w+, (row|line|item|key) )")  # before the file in the place of a row
FIELD = "field "  # before the name of a prompt field, as a column of rows
#: Roles whose texts are names; white space around a name does not count.
NAMES = ("label", "attribute", "system", "high_system", "low_system", "rater", "category", "subcategory", "severity")


@dataclass
class Dropped:
    """What was left out, and why.

    Attributes:
        counts: reason -> how many rows, candidates or pairs.
        rows: reason -> places of the first few.
        labels: labels of the table that the rule's order lacks.
        lost_spans: number of error spans that do not lie in their candidate.
    """

    counts: dict[str, int] = field(default_factory=dict)
    rows: dict[str, list[str]] = field(default_factory=dict)
    labels: list[str] = field(default_factory=list)
    lost_spans: int = 0

    def add(self, reason: str, rows: pd.DataFrame, wrong: Any) -> Any:
        """Count the rows that are ``wrong``, and return which are not; shape (rows,)."""
        wrong = np.asarray(wrong, dtype=bool)
        if wrong.any():
            self.counts[reason] = self.counts.get(reason, 0) + int(wrong.sum())
            known = self.rows.setdefault(reason, [])
            examples = np.flatnonzero(wrong)[: _EXAMPLES - len(known)]
            known += [_FOLDER.sub("", place_of(rows, int(i))) for i in examples]
        return ~wrong


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
    roles = {role: getattr(recipe, role) for role in ("context", "candidate", "label", "score", "chosen", "rejected", *NAMES[2:])
             if getattr(recipe, role, None) and isinstance(getattr(recipe, role), str)}  # fmt: skip
    rows = pd.DataFrame({role: take_column(table, column) for role, column in roles.items()}, dtype=object)
    rows[[PATH, ROW]] = table[[PATH, ROW]].to_numpy(object)
    for name, column in recipe.field.items():
        rows[FIELD + name] = take_column(table, column)
    if recipe.group:
        columns = [take_column(table, column) for column in recipe.group]
        parts = [as_texts(cells, table, name) for cells, name in zip(columns, recipe.group, strict=True)]
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


def leave_out(table: pd.DataFrame, recipe: Recipe, dropped: Dropped) -> pd.DataFrame:
    """Return a table without the rows that the recipe says are no judgements."""
    if not recipe.leave_out:
        return table
    wrong = np.zeros(len(table), dtype=bool)
    for column, values in recipe.leave_out.items():
        texts = as_texts(take_column(table, column), table, column, strip=True)
        wanted = {value.strip().casefold() for value in values}
        wanted |= {word for words in _TRUTH if wanted & {words[0]} for word in words}
        wrong |= np.array([(text or "").casefold() in wanted for text in texts])
    return table[dropped.add("by_recipe", table, wrong)].reset_index(drop=True)


def clean_texts(rows: pd.DataFrame, recipe: Recipe) -> pd.DataFrame:
    """Return rows with every text in NFC, names stripped, and None for what is absent; blank texts stay in rows as published."""
    rows = rows.copy()
    for role in [
        name
        for name in rows
        if name in ("context", "candidate", "chosen", "rejected", "group", *NAMES) or name.startswith(FIELD)
    ]:
        texts = as_texts(rows[role], rows, str(getattr(recipe, role, None) or role), strip=role in NAMES)
        if not (recipe.as_published and role not in NAMES) and role != "group":
            blank = np.array([text is not None and not text.strip() for text in texts], dtype=bool)
            texts[blank] = "" if role == "label" and "" in recipe.better else None
        rows[role] = pd.Series(
            texts, rows.index, dtype=object
        )  # texts that pandas holds itself are copied by each step
    return rows


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


# ---------------------------------------------------------------- judgements


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
    rows = clean_texts(rows.rename_axis("unit").reset_index(), recipe)
    if recipe.spans or "spans" in rows:
        rows = place_spans(rows, recipe, dropped)
    rows["prompt"], prompts = number_prompts(rows, recipe)
    rows["group_id"] = rows["group"] if "group" in rows else prompts["cluster_id"].to_numpy(object)[rows["prompt"]]
    rows["group"], first = number_rows(rows["group_id"] if "group" in rows else rows["prompt"])
    if len(other := np.flatnonzero(rows["prompt"].to_numpy() != rows["prompt"].to_numpy()[first][rows["group"]])):
        raise NNDError(f"{place_of(rows, other[0])}: the rows of its group do not all have the same context and fields")
    rows["aspect"] = 0
    names = rows["attribute"] if "attribute" in rows else pd.Series([""] * len(rows), dtype=object)
    attributes = dict.fromkeys(recipe.attribute if _is_wide(recipe) else [name for name in names if name])
    rows["aspect"] = names.map({name: place for place, name in enumerate(attributes)} | {"": 0}).fillna(-1).astype(int)
    rows["attribute"] = names
    if not recipe.by_label and "label" in rows and "score" in rows:
        rows = rows.rename(columns={"label": "shown"})
    marks = _explode_marks(rows, recipe)
    _count_unjudged(rows, marks, dropped)
    known = marks["candidate"].notna() & (marks["context"].notna()) & marks["mark"].notna() & (marks["aspect"] >= 0)
    marks = marks[known.to_numpy(bool)]
    if recipe.by_label:
        marks = marks[dropped.add("ignored", marks, marks["mark"].isin(recipe.ignore))]
        if unknown := find_unranked(marks["mark"].unique(), recipe):
            dropped.labels = unknown
            marks = marks[dropped.add("unranked", marks, marks["mark"].isin(unknown))]
    return marks.reset_index(drop=True), prompts


def _is_wide(recipe: Recipe) -> bool:
    return bool(recipe.attribute) and not (recipe.label or recipe.score)


def place_spans(rows: pd.DataFrame, recipe: Recipe, dropped: Dropped) -> pd.DataFrame:
    """Return rows whose ``spans`` are JSON of spans within the candidate, or ``""``; marks are taken out of candidates."""
    role, lost, cells = "rejected" if "rejected" in rows else "candidate", 0, []
    texts = rows[role].to_numpy(object)
    given = rows["spans"].to_numpy(object) if "spans" in rows else [None] * len(rows)
    for i, (text, cell) in enumerate(zip(texts, given, strict=True)):
        placed: list[dict[str, Any]] = []
        if text is None:
            pass
        elif recipe.spans and recipe.spans.marks:
            placed = find_marked(text, *recipe.spans.marks)
        elif recipe.spans:
            try:
                placed, away = locate_spans(cell, text, recipe.spans)
            except ValueError as error:
                raise NNDError(f"{place_of(rows, i)}: {error}") from None
            lost += away
        else:
            placed = list(cell) if isinstance(cell, (list, tuple)) else []
        cells.append(json.dumps(placed) if placed else "")
    if recipe.spans and recipe.spans.marks:
        for mark in recipe.spans.marks:
            texts = np.array([text and text.replace(mark, "") for text in texts], dtype=object)
    dropped.lost_spans += lost
    return rows.assign(**{role: texts, "spans": cells})


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
    labels = as_texts(rows[role], rows, column, strip=True)
    missing = {text.strip().casefold() for text in recipe.missing}
    if "" in recipe.better:
        labels = np.array([label or "" for label in labels], dtype=object)
    labels[np.array([label is not None and label.casefold() in missing for label in labels], dtype=bool)] = None
    return rows.assign(mark=pd.Series(labels, dtype=object, index=rows.index))


def _count_unjudged(rows: pd.DataFrame, marks: pd.DataFrame, dropped: Dropped) -> None:
    """Count rows without a candidate, a context or a judgement; an attribute without a judgement is no row."""
    rows = rows.drop_duplicates("unit")
    judged = rows["unit"].isin(marks["unit"][marks["mark"].notna().to_numpy(bool)])
    empty, unknown = rows["candidate"].isna(), rows["context"].isna()
    for reason, wrong in (
        ("empty", empty),
        ("no_context", unknown & ~empty),
        ("no_judgement", ~judged & ~empty & ~unknown),
    ):
        dropped.add(reason, rows, wrong)


def find_unranked(labels: Sequence[str], recipe: Recipe) -> list[str]:
    """Return the labels that the order lacks; the list is empty for a rule without an order.

    Raises:
        NNDError: a label of the rule is not in the table, or one of the table is spelt nearly as one of the rule.
    """
    found, shown = set(labels), some_of(sorted(labels))
    if not recipe.as_published:
        for label in recipe.better:
            if label and label not in found:
                raise NNDError(f"--better {label}: no candidate has this label; the labels are {shown}")
        twins = [label for label in labels if label.casefold() in {one.casefold() for one in recipe.better}]
        if other := [label for label in twins if label not in recipe.better]:
            raise NNDError(
                f"--better {some_of(recipe.better, show=str)}: the table has the label {other[0]!r} too; name both, or ignore it"
            )
    ranked = [label for rank in recipe.order for label in rank]
    if ranked and not found & {*ranked}:
        raise NNDError(f"order: no candidate has the label {ranked[0]!r}; the labels are {shown}")
    unknown = [label for label in labels if label not in ranked] if ranked else []
    for label in unknown:
        if meant := did_you_mean(label, ranked, cutoff=0.8):
            raise NNDError(
                f"order: it lacks the label {label!r}; {meant} Put it into the order, or ignore it (labels: {shown})"
            )
    return unknown


# ---------------------------------------------------------------- candidates


def rate_candidates(judgements: pd.DataFrame, recipe: Recipe, dropped: Dropped) -> tuple[pd.DataFrame, float]:
    """Put the judgements of each candidate together.

    A candidate is a row of the table, or a distinct text of a group and attribute. Its quality is the most frequent rank of its
    labels (on a tie it is left out), or the mean of its scores; with ``majority`` it is 1 if more than half of its scores are the
    best one, else 0 (paper, section 3.3). A named rater counts once for each candidate: repeated scores are averaged, repeated
    labels count once, by majority.

    Returns:
        One row per candidate in the order of the table, with ``quality``, ``mark`` (its label) or ``mean`` (of its scores),
        ``context``, ``group`` and so on; and the smallest difference of two qualities that counts.
    """
    key = ["unit"] if recipe.as_published else ["group", "candidate"]
    judgements = judgements.assign(owner=number_rows(*(judgements[name] for name in [*key, "aspect"]))[0])
    votes = judgements
    if "rater" in judgements:
        votes = _count_raters_once(judgements, recipe, dropped)
    first = judgements.drop_duplicates("owner").set_index("owner")
    owner = votes["owner"].to_numpy()
    counted, gap = judgements, 1.0
    if recipe.by_label:
        label, clear = _elect(owner, votes["mark"].to_numpy(object), _ranks(recipe))
        label = label.reindex(first.index)
        first = first.assign(mark=label, quality=label.map(_ranks(recipe)).astype(float))
        counted = judgements[judgements["mark"].to_numpy() == label.reindex(judgements["owner"]).to_numpy()]
        keep = clear.reindex(first.index, fill_value=False).to_numpy(bool)
        dropped.add("tie", first, ~keep)
    else:
        size = np.bincount(owner, minlength=len(first))
        marks = votes["mark"].to_numpy(float)
        with np.errstate(invalid="ignore"):
            mean = np.bincount(owner, weights=marks, minlength=len(first)) / size
        keep, gap = np.ones(len(first), dtype=bool), recipe.min_gap or 1.0
        first = first.assign(mean=mean, quality=mean)
        if recipe.majority:
            best = judgements.groupby("aspect")["mark"].max() if recipe.best is None else recipe.best
            target = votes["aspect"].map(best).to_numpy(float) if recipe.best is None else recipe.best
            good = np.bincount(owner[np.isclose(marks, target, 1e-9, 1e-12)], minlength=len(first))
            first["quality"] = (2 * good > size).astype(float)
            if recipe.as_published:
                first["shown"] = judgements.groupby("owner")["mark"].agg(
                    lambda values: ",".join(f"{value:g}" for value in values)
                )
    first = first.assign(**_facts(judgements, counted, first))
    return first[keep].reset_index(drop=True), gap * (
        1 - 1e-9
    )  # scores such as 0.3 - 0.1 must not miss a gap of 0.2 by rounding


def _ranks(recipe: Recipe) -> Any:
    """Return what maps a label to its rank."""
    known = {label: float(place) for place, rank in enumerate(recipe.order) for label in rank}
    return (lambda label: float(label in recipe.better)) if recipe.better else known.get


def _elect(owner: Any, label: Any, rank: Any) -> tuple[pd.Series[Any], pd.Series[Any]]:
    """Return owner -> its most frequent label of its most frequent rank, and whether no other rank is as frequent."""
    votes = pd.DataFrame(
        {"owner": owner, "label": label, "rank": pd.Series(label, dtype=object).map(rank).to_numpy(float)}
    )
    won, clear = _most_frequent(votes, "rank")
    label_won, _ = _most_frequent(votes[votes["rank"].to_numpy() == won.reindex(votes["owner"]).to_numpy()], "label")
    return label_won, clear


def _most_frequent(votes: pd.DataFrame, column: str) -> tuple[pd.Series[Any], pd.Series[Any]]:
    """Return owner -> the value with most votes (the first seen on a tie), and whether there is no tie."""
    counts = votes.groupby(["owner", column], sort=False).size().rename("votes").reset_index()
    top = counts.sort_values("votes", ascending=False, kind="stable").drop_duplicates("owner").set_index("owner")
    ties = counts["votes"].to_numpy() == top["votes"].reindex(counts["owner"]).to_numpy()
    return top[column], counts[ties].groupby("owner").size() == 1


def _count_raters_once(judgements: pd.DataFrame, recipe: Recipe, dropped: Dropped) -> pd.DataFrame:
    """Return a vote for each rater of a candidate; without a name each judgement is a vote, and so is each mark of one cell."""
    turn = judgements.groupby(["owner", "unit"]).cumcount()
    rater = judgements["rater"].where(
        judgements["rater"].fillna("") != "", pd.Series(np.arange(len(judgements)), judgements.index)
    )
    ballot, first = number_rows(judgements["owner"], rater, turn)
    votes = judgements.iloc[first]
    if not recipe.by_label:
        mean = np.bincount(ballot, weights=judgements["mark"].to_numpy(float)) / np.bincount(ballot)
        return votes.assign(mark=mean)
    label, clear = _elect(ballot, judgements["mark"].to_numpy(object), _ranks(recipe))
    votes = votes.assign(mark=label.reindex(np.arange(len(votes))).to_numpy(object))
    return votes[
        dropped.add("rater_tie", votes, ~clear.reindex(np.arange(len(votes)), fill_value=False).to_numpy(bool))
    ]


def _facts(judgements: pd.DataFrame, counted: pd.DataFrame, first: pd.DataFrame) -> Mapping[str, Any]:
    """Return what is known of each candidate: all systems, one rater, the rest of the first judgement with its label."""
    facts: dict[str, Any] = {}
    chosen = counted.drop_duplicates("owner").set_index("owner")
    several = len(judgements) > len(first)
    for name in {"category", "subcategory", "severity", "spans"} & {*judgements}:
        facts[name] = first[name].copy()
        facts[name].loc[chosen.index] = chosen[name]
    if "spans" in facts and several:
        # Spans fit one spelling only: that of the candidate.
        fitting = counted[counted["candidate"].to_numpy() == first["candidate"].reindex(counted["owner"]).to_numpy()]
        facts["spans"] = fitting.groupby("owner")["spans"].agg(_join_spans).reindex(first.index, fill_value="")
    if several:
        for name, join in (("system", lambda names: "|".join(dict.fromkeys(n for n in names if n))),
                           ("rater", lambda names: next(iter(names)) if len(set(names)) == 1 else None)):  # fmt: skip
            if name in judgements:
                distinct = judgements.drop_duplicates(["owner", name])
                more = distinct[distinct["owner"].duplicated(keep=False)]
                joined = more.groupby("owner", sort=False)[name].agg(lambda cells, join=join: join(list(cells)))
                facts[name] = first[name].copy()
                facts[name][joined.index] = joined
    return facts


def _join_spans(cells: Any) -> str:
    spans = {json.dumps(span): span for cell in cells if cell for span in json.loads(cell)}
    return json.dumps(sorted(spans.values(), key=lambda span: (span["start"], span["end"]))) if spans else ""
