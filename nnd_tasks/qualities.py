"""From judgements to qualities: put the judgements of each candidate together.

What a candidate is has one answer per set: every row of the table (as in the authors' release, where equal texts and repeated
tests are kept), or every distinct text of a prompt, whose judgements are put together.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnd_tasks.codes import Codes, Floats, Index, Mask, Texts, combine, occurrence
from nnd_tasks.errors import NNDError
from nnd_tasks.judgements import Judgements, Rule
from nnd_tasks.wording import did_you_mean, some_of


@dataclass
class Candidates:
    """Judged candidates in the order of the table; all arrays have shape (candidates,).

    Attributes:
        prompt: number of the prompt.
        group: number of the group.
        aspect: number of the aspect that was judged.
        text: code of the text.
        quality: higher is better; only differences of at least `gap` count.
        label: code of the label, or None where numbers were given.
        score: mean of the numbers that were given, or None.
        facts: as in `Judgements`; several systems of one text are joined by bars, ``rater`` is -1 where several judged.
        row: number of its first row in the table.
        gap: smallest difference of quality that counts.
    """

    prompt: Index
    group: Index
    aspect: Index
    text: Index
    quality: Floats
    label: Index | None
    score: Floats | None
    facts: dict[str, Index]
    row: Index
    gap: float


def gather(judgements: Judgements, rule: Rule) -> Candidates:
    """Put the judgements of each candidate together.

    A candidate is a row of the table, or a distinct text of a group; `nnd_tasks.codes.Texts.shared` says which texts are equal.
    Its quality is the most frequent rank of its labels (on a tie it is left out), or the mean of its scores; with a majority
    rule it is 1 if more than half of its marks are the best one, else 0. A named rater counts once for each candidate.

    Raises:
        NNDError: a label that the rule does not know.
    """
    if rule.rows:
        unit, first = combine(judgements.place, judgements.aspect)
    else:
        text = judgements.texts["candidate"].shared(judgements.candidate)
        unit, first = combine(judgements.group, judgements.aspect, text)
    size = len(first)
    rank = _ranks(judgements.texts["label"], rule) if rule.by_label else None
    vote, mark = _votes(judgements, unit, rank)
    label = score = None
    gap = 1.0
    keep = np.ones(size, dtype=bool)
    if rank is not None:
        quality, label, keep = _elect(vote, mark.astype(np.int64), rank, size)
        judgements.dropped.add("tie", int((~keep).sum()), judgements.row[first[~keep]])
    else:
        count = np.bincount(vote, minlength=size)
        score = np.bincount(vote, weights=mark, minlength=size) / count
        quality, gap = score, float(rule.min_gap or 0)
        if rule.majority:
            best = _best(judgements, rule)
            good = np.bincount(
                vote[np.isclose(mark, best[judgements.aspect[first[vote]]], 1e-9, 1e-12)], minlength=size
            )
            quality, gap = (2 * good > count).astype(np.float64), 1.0
            if rule.rows:
                label = _shown_marks(judgements, unit, size)
        elif "shown" in judgements.facts:
            label = judgements.facts["shown"][first].astype(np.int64)
    # Category, severity and spans are taken from judgements whose label is the candidate's.
    counted = np.ones(len(unit), dtype=bool) if label is None or rank is None else judgements.mark == label[unit]
    facts = {
        name: _fact(name, column, unit, first, counted, judgements)[keep] for name, column in judgements.facts.items()
    }
    kept = first[keep]
    return Candidates(
        prompt=judgements.prompt[kept],
        group=judgements.group[kept],
        aspect=judgements.aspect[kept].astype(np.int64),
        text=judgements.candidate[kept].astype(np.int64),
        quality=quality[keep],
        label=None if label is None else label[keep],
        score=None if score is None else score[keep],
        facts=facts,
        row=judgements.row[kept],
        gap=gap * (1 - 1e-9),  # scores such as 0.3 - 0.1 must not miss a gap of 0.2 by rounding
    )


def _shown_marks(judgements: Judgements, unit: Index, size: int) -> Index:
    """Return for each candidate the code of a text that lists its marks, such as ``5,4,5``."""
    marks: list[list[str]] = [[] for _ in range(size)]
    for one, value in zip(unit.tolist(), judgements.mark.tolist(), strict=True):
        marks[one].append(f"{value:g}")
    texts = judgements.texts["label"] = Texts()
    return np.array([texts.code(",".join(values)) for values in marks], dtype=np.int64)


#: Facts of a judgement rather than of its candidate.
_OF_JUDGEMENTS = frozenset({"category", "subcategory", "severity", "spans"})


def _fact(name: str, column: Codes, unit: Index, first: Index, counted: Mask, judgements: Judgements) -> Index:
    """Return a fact of each candidate, from the first of its judgements that ``counted`` marks.

    Systems of several rows are joined, and so are error spans; the rater is -1 where several judged.
    """
    values = column[first].astype(np.int64)
    if name in _OF_JUDGEMENTS:
        places = np.flatnonzero(counted)
        judged, earliest = np.unique(unit[places], return_index=True)
        values[judged] = column[places[earliest]]
        if name == "spans":
            counted = counted & (
                judgements.candidate == judgements.candidate[first][unit]
            )  # spans fit one spelling only
            several = np.unique(unit[counted & (column >= 0) & (column != values[unit])])
            _join(values, several, unit, np.where(counted, column, -1), judgements.texts[name], _all_spans)
        return values
    if name in ("system", "rater"):
        several = np.unique(unit[column != values[unit]])
        if name == "rater":
            values[several] = -1
        else:
            _join(values, several, unit, column, judgements.texts[name], lambda names: "|".join(dict.fromkeys(names)))
    return values


def _votes(judgements: Judgements, unit: Index, rank: Index | None) -> tuple[Index, NDArray[Any]]:
    """Return candidate and mark of each vote: all judgements of a candidate by one named rater are one vote.

    A rater's repeated scores are averaged; repeated labels count once, by majority; on a tie the vote is dropped. Each
    judgement without a named rater is a vote of its own, and so is each of several marks in one cell.
    """
    rater = judgements.facts.get("rater")
    if rater is None:
        return unit, judgements.mark
    turn = occurrence(combine(unit, judgements.place)[0])  # of several marks in one cell
    unnamed = np.where(rater < 0, np.arange(len(unit)), -1)
    ballot, first = combine(unit, rater, turn, unnamed)
    if rank is None:
        return unit[first], np.bincount(ballot, weights=judgements.mark) / np.bincount(ballot)
    _, label, clear = _elect(ballot, judgements.mark.astype(np.int64), rank, len(first))
    judgements.dropped.add("rater_tie", int((~clear).sum()), judgements.row[first[~clear]])
    return unit[first][clear], label[clear]


def _ranks(labels: Texts, rule: Rule) -> Index:
    """Return the rank of each label, -1 where the rule's order does not have it; shape (labels,).

    Raises:
        NNDError: one of the better labels is not in the table.
    """
    absent = [label for label in rule.better if label and labels.find(label) is None]
    if (
        absent and not rule.rows
    ):  # a publisher's file may lack the best label; in a user's own table it is a typing error
        raise NNDError(f"--better {absent[0]}: no candidate has this label; the labels are {some_of(labels.texts)}")
    if rule.better:
        return np.array([text in rule.better for text in labels.texts], dtype=np.int64)
    known = {label: place for place, rank in enumerate(rule.order) for label in rank}
    return np.array([known.get(text, -1) for text in labels.texts], dtype=np.int64)


def unranked(labels: Texts, rule: Rule, ignore: Sequence[str]) -> list[int]:
    """Return the codes of the labels that the rule's order lacks; the list is empty for a rule without an order.

    Raises:
        NNDError: no label of the order is in the table, or a label of the table is nearly spelt like one of the order, or like
            a better one but for the case of letters.
    """
    better = {label.casefold(): label for label in rule.better if labels.find(label) is not None}
    for label in () if rule.rows else labels.texts:
        if label.casefold() in better and label not in (*rule.better, *ignore):
            raise NNDError(
                f"--better {better[label.casefold()]}: the table has the label {label!r} too; name both, or --ignore that one"
            )
    ranked = [label for rank in rule.order for label in rank]
    if not ranked or not labels.texts:
        return []
    shown = some_of(labels.texts)
    if all(labels.find(label) is None for label in ranked):
        raise NNDError(f"--order {ranked[0]}: no candidate has this label; the labels are {shown}")
    unknown = [label for label in labels.texts if label not in ranked and label not in ignore]
    for label in unknown:
        if meant := did_you_mean(label, ranked, cutoff=0.8):
            raise NNDError(
                f"--order: it lacks the label {label!r}; {meant} Put it into the order (bad=ugly,good: equal ranks), or "
                f"--ignore it (the labels are {shown})"
            )
    return [code for label in unknown if (code := labels.find(label)) is not None]


def _elect(unit: Index, label: Index, rank: Index, size: int) -> tuple[Floats, Index, Mask]:
    """Return the rank and the label of each candidate, and whether its rank has more judgements than every other rank.

    The label is the most frequent one of that rank; if several are equally frequent, the one that was given first.
    """
    won, clear = _most_frequent(unit, rank[label], size)
    inside = rank[label] == won[unit]
    chosen, _ = _most_frequent(unit[inside], label[inside], size)
    return won.astype(np.float64), chosen, clear


def _most_frequent(unit: Index, value: Index, size: int) -> tuple[Index, Mask]:
    """Return the most frequent value of each candidate (the first one on a tie), and whether there is no tie."""
    pairs, first = combine(unit, value)
    votes = np.bincount(pairs, minlength=len(first))
    owner = unit[first]
    order = np.lexsort((first, -votes, owner))  # of each candidate the most votes first, then the earliest
    owners = owner[order]
    top = np.ones(len(order), dtype=bool)
    top[1:] = owners[1:] != owners[:-1]
    best = order[top]
    result = np.full(size, -1, dtype=np.int64)
    result[owner[best]] = value[first[best]]
    most = np.zeros(size, dtype=np.int64)
    most[owner[best]] = votes[best]
    equal = np.bincount(owner[votes == most[owner]], minlength=size)
    return result, equal == 1


def _best(judgements: Judgements, rule: Rule) -> Floats:
    """Return the best mark of each aspect, shape (aspects,)."""
    if rule.best is not None:
        return np.full(len(judgements.aspects), rule.best)
    best = np.full(len(judgements.aspects), -np.inf)
    np.maximum.at(best, judgements.aspect, judgements.mark)
    return best


def _join(
    values: Index, several: Index, unit: Index, column: Codes, texts: Texts, join: Callable[[list[str]], str]
) -> None:
    """Give each candidate of ``several``, whose judgements have different texts, the one text that ``join`` makes of them."""
    parts: dict[int, list[str]] = {int(candidate): [] for candidate in several}
    places = np.flatnonzero(np.isin(unit, several) & (column >= 0))
    for candidate, code in zip(unit[places].tolist(), column[places].tolist(), strict=True):
        parts[candidate].append(texts.texts[code])
    for candidate, joined in parts.items():
        values[candidate] = texts.code(join(joined)) if joined else -1


def _all_spans(cells: list[str]) -> str:
    """Return the distinct error spans of some cells of JSON, in the order of the text."""
    spans = {json.dumps(span): span for cell in cells for span in json.loads(cell)}
    return json.dumps(sorted(spans.values(), key=lambda span: (span["start"], span["end"])))
