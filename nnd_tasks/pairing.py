"""From judgements to tests: quality of each candidate, pairs of a known difference (paper, section 2.1).

A *rule* says what a quality is in one kind of human evaluation. The paper has three (section 7.2): a single error label, a
hierarchical label, a Likert scale; an order of labels and a score with a minimum gap are the others. One engine serves every
set: a recipe's table becomes `Judgements`, `gather` puts those of one candidate together, `pair` forms the tests.

Two questions have an answer per set. What is a candidate: every row of the table (as in the authors' release, where equal texts
and repeated tests are kept), or every distinct text of a prompt, whose judgements are put together? And within what are
pairs formed: a prompt, or a group that the publisher names?
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnd_tasks.codes import Codes, Floats, Index, Mask, Texts, combine, fold_codes
from nnd_tasks.errors import NNDError
from nnd_tasks.schema import cluster_key
from nnd_tasks.wording import did_you_mean, some_of

#: More than this many pairs of candidates to compare take minutes, more tests than this gigabytes.
MOST_PAIRS = 500_000_000
MOST_TESTS = 10_000_000
_EXAMPLES = 3


@dataclass(frozen=True)
class Rule:
    """What makes one candidate better than another.

    Attributes:
        better: labels that are better than all others.
        order: labels, the worst first; those of equal rank together.
        min_gap: smallest difference of two scores that makes one better.
        majority: better is who got the best mark from more than half of the raters (Likert scale; paper, section 3.3).
        best: this mark; None takes the highest in the table, per aspect.
        rows: whether each row of the table is a candidate of its own.
    """

    better: tuple[str, ...] = ()
    order: tuple[tuple[str, ...], ...] = ()
    min_gap: float | None = None
    majority: bool = False
    best: float | None = None
    rows: bool = False

    @property
    def by_label(self) -> bool:
        """Whether labels, not numbers, say what is better."""
        return bool(self.better or self.order)


@dataclass
class Dropped:
    """What took no part, and why.

    Attributes:
        counts: reason -> how many.
        rows: reason -> numbers of the first few rows of the table.
        labels: that an order does not have.
    """

    counts: dict[str, int] = field(default_factory=dict)
    rows: dict[str, list[int]] = field(default_factory=dict)
    labels: list[str] = field(default_factory=list)

    def add(self, reason: str, count: int, rows: Sequence[int] | NDArray[Any] = ()) -> None:
        """Count some more."""
        if count:
            self.counts[reason] = self.counts.get(reason, 0) + int(count)
            known = self.rows.setdefault(reason, [])
            known += [int(row) for row in rows[: _EXAMPLES - len(known)]]


@dataclass
class Prompts:
    """Distinct prompts: the context and the prompt fields.

    Attributes:
        contexts: text of each.
        fields: prompt field -> text of each.
        ids: cluster id of each.
    """

    contexts: list[str]
    fields: dict[str, list[str]]
    ids: list[str]


def number_prompts(context: Codes, fields: Mapping[str, Codes], texts: Mapping[str, Texts]) -> tuple[Index, Prompts]:
    """Number the distinct prompts in the order of their first appearance.

    Args:
        context: code of each row's context, -1 where it is empty; shape (rows,).
        fields: prompt field -> codes likewise.
        texts: ``context`` and each prompt field -> its texts.

    Returns:
        The number of each row's prompt, and the prompts.
    """
    codes, first = combine(context, *fields.values())

    def of(name: str, column: Codes) -> list[str]:
        known = texts[name].texts
        return [known[code] if code >= 0 else "" for code in column[first].tolist()]

    contexts = of("context", context)
    columns = {name: of(name, column) for name, column in fields.items()}
    ids = [
        cluster_key(text, dict(zip(columns, values, strict=True)))
        for text, *values in zip(contexts, *columns.values(), strict=True)
    ]
    return codes, Prompts(contexts, columns, ids)


#: Columns of what is known of a candidate besides its text and judgements.
FACTS = ("system", "rater", "category", "subcategory", "severity", "shown", "spans")


@dataclass
class Judgements:
    """One entry per judgement of a candidate in one aspect; all arrays have shape (judgements,).

    Attributes:
        prompt: number of the prompt.
        group: number of the group within which pairs are formed.
        candidate: code of the text.
        aspect: number of what was judged.
        mark: code of the label (integers), or the number that was given.
        place: position of the row among those read.
        row: number of the row as a person counts them in the file.
        facts: column of `FACTS` -> codes, where the table has it (``shown``: a label to keep beside a score; ``spans``:
            error spans as JSON).
        prompts: the distinct prompts.
        groups: identifier of each group; None where a group is a prompt.
        aspects: names of what was judged; ``[""]`` where the table names none.
        texts: ``candidate``, ``label`` and each of the facts -> texts of its codes.
        rows: how many rows the table has.
        dropped: what was left out.
    """

    prompt: Index
    group: Index
    candidate: Codes
    aspect: Codes
    mark: NDArray[Any]
    place: Index
    row: Index
    facts: dict[str, Codes]
    prompts: Prompts
    groups: list[str] | None
    aspects: list[str]
    texts: dict[str, Texts]
    rows: int
    dropped: Dropped


@dataclass
class Candidates:
    """Judged candidates in the order of the table; all arrays have shape (candidates,).

    Attributes:
        prompt: number of the prompt.
        group: number of the group.
        aspect: number of what was judged.
        text: code of the text.
        quality: higher is better; only differences of at least `gap` count.
        label: code of the label, or None.
        score: mean number, or None.
        facts: as in `Judgements`; systems of one text are joined by bars, ``rater`` is -1 where several judged.
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


def gather(found: Judgements, rule: Rule) -> Candidates:
    """Put the judgements of each candidate together.

    A candidate is a row of the table, or a distinct text of a group: then rows whose texts differ in white space only judge the
    same one. Of labels the most frequent rank counts, and a candidate with a tie for it is left out; of scores the
    mean; by majority a candidate is good when more than half of its marks are the best one. A rater who is named counts
    once for each candidate.

    Raises:
        NNDError: a label that the rule does not know.
    """
    if rule.rows:
        unit, first = combine(found.place, found.aspect)
    else:
        unit, first = combine(found.group, found.aspect, found.texts["candidate"].folded()[found.candidate])
    size = len(first)
    rank = _ranks(found.texts["label"], rule) if rule.by_label else None
    vote, mark = _votes(found, unit, rank)
    label = score = None
    gap = 1.0
    keep = np.ones(size, dtype=bool)
    if rank is not None:
        quality, label, keep = _elect(vote, mark.astype(np.int64), rank, size)
        found.dropped.add("tie", int((~keep).sum()), found.row[first[~keep]])
    else:
        count = np.bincount(vote, minlength=size)
        score = np.bincount(vote, weights=mark, minlength=size) / count
        quality, gap = score, float(rule.min_gap or 0)
        if rule.majority:
            best = _best(found, rule)
            good = np.bincount(vote[np.isclose(mark, best[found.aspect[first[vote]]], 1e-9, 1e-12)], minlength=size)
            quality, gap = (2 * good > count).astype(np.float64), 1.0
            if rule.rows:
                label = _shown_marks(found, unit, size)
        elif "shown" in found.facts:
            label = found.facts["shown"][first].astype(np.int64)
    # What goes with a label (its category, severity and spans) is of judgements that gave the label which counts.
    counted = np.ones(len(unit), dtype=bool) if label is None or rank is None else found.mark == label[unit]
    facts = {name: _fact(name, column, unit, first, counted, found)[keep] for name, column in found.facts.items()}
    return Candidates(
        prompt=found.prompt[first][keep],
        group=found.group[first][keep],
        aspect=found.aspect[first][keep].astype(np.int64),
        text=found.candidate[first][keep].astype(np.int64),
        quality=quality[keep],
        label=None if label is None else label[keep],
        score=None if score is None else score[keep],
        facts=facts,
        row=found.row[first][keep],
        gap=gap * (1 - 1e-9),  # scores such as 0.3 - 0.1 must not miss a gap of 0.2 by rounding
    )


def _shown_marks(found: Judgements, unit: Index, size: int) -> Index:
    """Return codes of the marks of each candidate as one text, such as ``5,4,5``."""
    marks: list[list[str]] = [[] for _ in range(size)]
    for one, value in zip(unit.tolist(), found.mark.tolist(), strict=True):
        marks[one].append(f"{value:g}")
    texts = found.texts["label"] = Texts()
    return np.array([texts.code(",".join(values)) for values in marks], dtype=np.int64)


#: Facts that belong to a judgement, not to its candidate.
_OF_JUDGEMENTS = frozenset({"category", "subcategory", "severity", "spans"})


def _fact(name: str, column: Codes, unit: Index, first: Index, counted: Mask, found: Judgements) -> Index:
    """Return a fact of each candidate: that of its first judgement that counts.

    Systems of several rows are joined, and so are error spans; there is no rater where several judged.
    """
    values = column[first].astype(np.int64)
    if name in _OF_JUDGEMENTS:
        places = np.flatnonzero(counted)[::-1]
        values[unit[places]] = column[places]
        if name == "spans":
            counted = counted & (found.candidate == found.candidate[first][unit])  # places are of one text
            other = np.unique(unit[counted & (column >= 0) & (column != values[unit])])
            _unite(values, other, unit, np.where(counted, column, -1), found.texts[name])
        return values
    if name in ("system", "rater"):
        other = np.unique(unit[column != values[unit]])
        if name == "rater":
            values[other] = -1
        else:
            _join(values, other, unit, column, found.texts[name])
    return values


def _votes(found: Judgements, unit: Index, rank: Index | None) -> tuple[Index, NDArray[Any]]:
    """Return candidate and mark of each vote: all judgements of a candidate that one rater gave are one.

    A rater's repeated scores are averaged; repeated labels count once, by majority; on a tie the vote is dropped. Each
    judgement without a named rater is a vote of its own, and so is each of several marks in one cell.
    """
    rater = found.facts.get("rater")
    if rater is None:
        return unit, found.mark
    cell, starts = combine(unit, found.place)
    turn = np.zeros(len(unit), dtype=np.int64)
    if len(starts) < len(cell):
        order = np.argsort(cell, kind="stable")
        ends = np.cumsum(np.bincount(cell))
        turn[order] = np.arange(len(cell)) - (ends - np.bincount(cell))[cell[order]]
    unnamed = np.where(rater < 0, np.arange(len(unit)), -1)
    ballot, first = combine(unit, rater, turn, unnamed)
    if rank is None:
        return unit[first], np.bincount(ballot, weights=found.mark) / np.bincount(ballot)
    _, label, clear = _elect(ballot, found.mark.astype(np.int64), rank, len(first))
    found.dropped.add("rater_tie", int((~clear).sum()), found.row[first[~clear]])
    return unit[first][clear], label[clear]


def _ranks(labels: Texts, rule: Rule) -> Index:
    """Return the rank of each label, -1 where an order does not have it.

    Raises:
        NNDError: one of the better labels is not in the table.
    """
    absent = [label for label in rule.better if label and labels.find(label) is None]
    if absent and not rule.rows:  # a publisher's file may be free of the best label, a table of one's own is mistyped
        raise NNDError(f"--better {absent[0]}: no candidate has this label; the labels are {some_of(labels.texts)}")
    if rule.better:
        return np.array([text in rule.better for text in labels.texts], dtype=np.int64)
    known = {label: place for place, rank in enumerate(rule.order) for label in rank}
    return np.array([known.get(text, -1) for text in labels.texts], dtype=np.int64)


def unranked(labels: Texts, rule: Rule, ignore: Sequence[str]) -> list[int]:
    """Return the codes of the labels that an order does not have; of other rules, none.

    Raises:
        NNDError: no label of the order is in the table, or one of the table is nearly one of the order.
    """
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
    """Return per candidate its rank, its label, and whether one rank has more judgements than each other one.

    The label is the most frequent one of the rank; of equally frequent ones that of the earliest judgement.
    """
    won, clear = _most_frequent(unit, rank[label], size)
    inside = rank[label] == won[unit]
    chosen, _ = _most_frequent(unit[inside], label[inside], size)
    return won.astype(np.float64), chosen, clear


def _most_frequent(unit: Index, value: Index, size: int) -> tuple[Index, Mask]:
    """Return per candidate the most frequent value, the first one on a tie, and whether there is no tie."""
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


def _best(found: Judgements, rule: Rule) -> Floats:
    """Return the best mark of each aspect, shape (aspects,)."""
    if rule.best is not None:
        return np.full(len(found.aspects), rule.best)
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
    for one, joined in names.items():
        values[one] = texts.code("|".join(joined)) if joined else -1


def _unite(values: Index, other: Index, unit: Index, column: Codes, texts: Texts) -> None:
    """Give the candidates ``other``, whose judgements have different error spans, all of these, in the order of the text."""
    if not len(other):
        return
    several = np.isin(unit, other) & (column >= 0)
    spans: dict[int, dict[str, dict[str, Any]]] = {int(one): {} for one in other}
    for one, code in zip(unit[several].tolist(), column[several].tolist(), strict=True):
        spans[one] |= {json.dumps(span): span for span in json.loads(texts.texts[code])}
    for one, known in spans.items():
        values[one] = texts.code(json.dumps(sorted(known.values(), key=lambda span: (span["start"], span["end"]))))


@dataclass
class Pairs:
    """Tests as indices into the candidates; all arrays have shape (tests,).

    Attributes:
        high: the better candidate.
        low: the worse one.
        high_first: whether the better one comes first in the table.
    """

    high: Index
    low: Index
    high_first: Mask


def pair(found: Candidates, dropped: Dropped, where: str) -> Pairs:
    """Form every pair of candidates of a group and aspect whose qualities differ by the gap.

    Tests are in the order of the groups, the aspects, and the two candidates in the table.

    Args:
        found: in the order of the table.
        dropped: pairs that make no test, and candidates in no test, are added.
        where: what to name in an error.

    Raises:
        NNDError: there are more pairs than can be formed.
    """
    order = np.lexsort((np.arange(len(found.group)), found.aspect, found.group))
    group, _ = combine(found.group[order], found.aspect[order])
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
        known = np.abs(quality[first] - quality[first + step]) >= found.gap  # so that nan makes no test
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
    return Pairs(high, low, better)


def contradicted(found: Judgements, candidates: Candidates) -> tuple[Mask, Index]:
    """Tell which candidates were judged both good and bad: alike in prompt, aspect and folded text, a gap apart.

    Returns:
        Whether each candidate was, shape (candidates,); and the number of its (prompt, aspect, text).
    """
    text = fold_codes(found.texts["candidate"], candidates.text)
    number, first = combine(candidates.prompt, candidates.aspect, text)
    worst, best = np.full(len(first), np.inf), np.full(len(first), -np.inf)
    np.minimum.at(worst, number, candidates.quality)
    np.maximum.at(best, number, candidates.quality)
    return (best - worst >= candidates.gap)[number], number


def decide(
    keep: Index,
    prompt: Index,
    one: NDArray[Any],
    other: NDArray[Any],
    category: NDArray[Any] | None,
    rows: NDArray[Any],
    dropped: Dropped,
) -> Index:
    """Return the first row of each ready-made pair that was judged more often in this direction than in reverse.

    Args:
        keep: positions of the pairs that are still in.
        prompt: number of each row's prompt; shape (rows,).
        one: code of the better text, folded; likewise.
        other: code of the worse text, folded.
        category: code of the category, or None.
        rows: numbers of the rows, for what is dropped.
        dropped: what contradicts and what repeats is added.
    """
    kinds = np.zeros(len(keep), np.int64) if category is None else category[keep]
    directed, first = combine(prompt[keep], kinds, one[keep], other[keep])
    low, high = np.minimum(one, other)[keep], np.maximum(one, other)[keep]
    either, _ = combine(prompt[keep], kinds, low, high)
    sense = np.where(one[keep] == low, 1, -1)
    balance = np.bincount(either, weights=sense, minlength=1) if len(keep) else np.zeros(1)
    won = (sense * balance[either]) > 0
    dropped.add("contradictory", int((~won).sum()), rows[keep[~won]])
    repeated = won & (np.arange(len(keep)) != first[directed])
    dropped.add("repeated", int(repeated.sum()), rows[keep[repeated]])
    return np.asarray(keep[won & ~repeated], dtype=np.int64)
