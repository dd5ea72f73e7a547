"""Rules as arrays: from judgements to the quality of each candidate, from qualities to pairs (paper, section 2.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnd_tasks.contribute.encode import Codes, Floats, Index, Texts, combine
from nnd_tasks.contribute.judgements import Dropped, Judgements
from nnd_tasks.contribute.recipe import Recipe
from nnd_tasks.errors import NNDError

#: More than this many pairs of candidates to compare take minutes, more tests than this gigabytes.
MOST_PAIRS = 500_000_000
MOST_TESTS = 10_000_000


@dataclass
class Candidates:
    """Judged texts: one entry per prompt, aspect and text; all arrays have shape (candidates,).

    Attributes:
        prompt: number of the prompt.
        aspect: number of what was judged.
        text: code of the text.
        quality: higher is better; only differences of at least `gap` count.
        label: code of the label, or None.
        score: mean number, or None.
        system: code of who wrote it, or None; systems with the same text are joined.
        rater: code of who judged it, -1 where several did, or None.
        category: code of the category, or None.
        row: number of its first row in the table.
        judgements: how many each has; those of one rater count as one.
        gap: smallest difference of quality that counts.
    """

    prompt: Index
    aspect: Index
    text: Index
    quality: Floats
    label: Index | None
    score: Floats | None
    system: Index | None
    rater: Index | None
    category: Index | None
    row: Index
    judgements: Index
    gap: float


def gather(found: Judgements, recipe: Recipe) -> Candidates:
    """Put the judgements of each candidate together.

    A candidate is a text for a prompt: rows whose texts differ in white space only judge the same one. Of labels the rank that
    more of them have than any other counts, and a candidate without one is left out; of scores the mean; by majority
    (Likert scale) a candidate is good when more than half of its marks are the best one. A rater who is named counts once for
    each candidate.

    Raises:
        NNDError: a label that the rule does not know.
    """
    text = found.texts["candidate"].folded()[found.candidate]
    unit, first = combine(found.prompt, found.aspect, text)
    size = len(first)
    rank = _ranks(found.texts["label"], recipe) if recipe.by_label else None
    vote, mark = _votes(found, unit, rank)
    count = np.bincount(vote, minlength=size)
    label = score = None
    gap = 1.0
    keep = np.ones(size, dtype=bool)
    if rank is not None:
        quality, label, keep = _vote(vote, mark.astype(np.int64), rank, size)
        found.dropped.add("tie", int((~keep).sum()), found.row[first[~keep]])
    else:
        score = np.bincount(vote, weights=mark, minlength=size) / count
        if recipe.majority:
            best = _best(found, recipe)
            good = np.bincount(vote[np.isclose(mark, best[found.aspect[first[vote]]], 1e-9, 1e-12)], minlength=size)
            quality = (2 * good > count).astype(np.float64)
        else:
            quality, gap = score, float(recipe.min_gap or 0)

    def of(column: Codes | None, *, joined: str | None = None, several: int | None = None) -> Index | None:
        if column is None:
            return None
        values = column[first].astype(np.int64)
        other = np.unique(unit[column != values[unit]])
        if joined:
            _join(values, other, unit, column, found.texts[joined])
        elif several is not None:
            values[other] = several
        return values[keep]

    return Candidates(
        prompt=found.prompt[first][keep],
        aspect=found.aspect[first][keep].astype(np.int64),
        text=found.candidate[first][keep].astype(np.int64),
        quality=quality[keep],
        label=None if label is None else label[keep],
        score=None if score is None else score[keep],
        system=of(found.system, joined="system"),
        rater=of(found.rater, several=-1),
        category=of(found.category),
        row=found.row[first][keep],
        judgements=count[keep].astype(np.int64),
        gap=gap * (1 - 1e-9),  # scores such as 0.3 - 0.1 must not miss a gap of 0.2 by rounding
    )


def _votes(found: Judgements, unit: Index, rank: Index | None) -> tuple[Index, NDArray[Any]]:
    """Return candidate and mark of each vote: all judgements of a candidate that one rater gave are one.

    Of his scores the mean counts, of his labels one as in `_vote`; without one he has no vote. Who is not named is a rater of his
    own for each judgement, and so is each of several marks in one cell.
    """
    if found.rater is None:
        return unit, found.mark
    cell, starts = combine(unit, found.row)
    turn = np.zeros(len(unit), dtype=np.int64)
    if len(starts) < len(cell):
        order = np.argsort(cell, kind="stable")
        ends = np.cumsum(np.bincount(cell))
        turn[order] = np.arange(len(cell)) - (ends - np.bincount(cell))[cell[order]]
    unnamed = np.where(found.rater < 0, np.arange(len(unit)), -1)
    ballot, first = combine(unit, found.rater, turn, unnamed)
    if rank is None:
        return unit[first], np.bincount(ballot, weights=found.mark) / np.bincount(ballot)
    _, label, clear = _vote(ballot, found.mark.astype(np.int64), rank, len(first))
    found.dropped.add("rater_tie", int((~clear).sum()), found.row[first[~clear]])
    return unit[first][clear], label[clear]


def _ranks(labels: Texts, recipe: Recipe) -> Index:
    """Return the rank of each label, -1 where an order does not have it.

    Raises:
        NNDError: one of the better labels is not in the table.
    """
    shown = ", ".join(repr(label) for label in labels.texts[:12]) + (", ..." if len(labels.texts) > 12 else "")
    absent = [label for label in recipe.better if labels.find(label) is None]
    if absent:
        raise NNDError(f"--better {absent[0]}: no candidate has this label; the labels are {shown}")
    if recipe.better:
        return np.array([text in recipe.better for text in labels.texts], dtype=np.int64)
    known = {label: place for place, rank in enumerate(recipe.order) for label in rank}
    return np.array([known.get(text, -1) for text in labels.texts], dtype=np.int64)


def _vote(unit: Index, label: Index, rank: Index, size: int) -> tuple[Floats, Index, NDArray[np.bool_]]:
    """Return per candidate its rank, its label, and whether one rank has more judgements than each other one.

    The label is the most frequent one of the rank; of equally frequent ones that of the earliest judgement.
    """
    quality = np.zeros(size)
    won, clear = _most_frequent(unit, rank[label], size)
    quality[:] = won
    inside = rank[label] == won[unit]
    chosen, _ = _most_frequent(unit[inside], label[inside], size)
    return quality, chosen, clear


def _most_frequent(unit: Index, value: Index, size: int) -> tuple[Index, NDArray[np.bool_]]:
    """Return per candidate the most frequent value, the first one on a tie, and whether there is no tie."""
    pair, first = combine(unit, value)
    votes = np.bincount(pair, minlength=len(first))
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


def _best(found: Judgements, recipe: Recipe) -> Floats:
    """Return the best mark of each aspect, shape (aspects,)."""
    if recipe.best is not None:
        return np.full(len(found.aspects), recipe.best)
    best = np.full(len(found.aspects), -np.inf)
    np.maximum.at(best, found.aspect, found.mark)
    return best


def _join(values: Index, other: Index, unit: Index, column: Codes, texts: Texts) -> None:
    """Give the candidates ``other``, which have several values, one new value each, joined by bars."""
    if not len(other):
        return
    several = np.isin(unit, other)
    names: dict[int, dict[str, None]] = {int(one): {} for one in other}
    for one, code in zip(unit[several].tolist(), column[several].tolist(), strict=True):
        if code >= 0:
            names[one][texts.texts[code]] = None
    for one, found in names.items():
        values[one] = texts.code("|".join(found)) if found else -1


@dataclass
class Pairs:
    """Tests as indices into the candidates; all arrays have shape (tests,).

    Attributes:
        high: the better candidate.
        low: the worse one.
        high_first: whether the better one comes first in the table.
        compared: how many pairs of candidates there are.
    """

    high: Index
    low: Index
    high_first: NDArray[np.bool_]
    compared: int


def pair(found: Candidates, dropped: Dropped, where: str) -> Pairs:
    """Form every pair of candidates of a prompt and aspect whose qualities differ by the gap.

    Tests are in the order of the prompts, the aspects, and the two candidates in the table.

    Args:
        found: in the order of the table.
        dropped: pairs that make no test, and candidates in no test, are added.
        where: what to name in an error.

    Raises:
        NNDError: there are more pairs than can be formed.
    """
    order = np.lexsort((np.arange(len(found.prompt)), found.aspect, found.prompt))
    group, _ = combine(found.prompt[order], found.aspect[order])
    quality = found.quality[order]
    sizes = np.bincount(group, minlength=1).astype(np.int64)
    compared = int((sizes * (sizes - 1) // 2).sum())
    if compared > MOST_PAIRS:
        raise NNDError(
            f"{where}: {compared:,} pairs of candidates, {sizes.max():,} candidates in one context; "
            "is --context the right column?"
        )
    firsts: list[Any] = []
    seconds: list[Any] = []
    made = 0
    first = np.arange(len(order))
    for step in range(1, int(sizes.max(initial=0))):
        first = first[: np.searchsorted(first, len(order) - step)]
        first = first[group[first] == group[first + step]]
        known = np.abs(quality[first] - quality[first + step]) >= found.gap
        firsts.append(first[known])
        seconds.append(first[known] + step)
        made += len(firsts[-1])
        if made > MOST_TESTS:
            raise NNDError(
                f"{where}: more than {MOST_TESTS:,} tests come out; take fewer rows, or a rule that leaves out more"
            )
    left = np.concatenate([*firsts, np.empty(0, np.int64)])
    right = np.concatenate([*seconds, np.empty(0, np.int64)])
    sorting = np.lexsort((right, left))
    left, right = left[sorting], right[sorting]
    better = quality[left] > quality[right]
    used = np.zeros(len(order), dtype=bool)
    used[left] = used[right] = True
    dropped.add("no_order", compared - made)
    dropped.add("no_pair", int((~used).sum()), np.unique(found.row[order[~used]]))
    high, low = order[np.where(better, left, right)], order[np.where(better, right, left)]
    return Pairs(high, low, better, compared)
