"""The paper's verdict on a metric: does its score fall as the error grows? Free of where the scores come from."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, stdev

from nnd_tasks.stress.registry import ERRORS


@dataclass(frozen=True, slots=True)
class Scored:
    """Scores of one noised text and its gold text; higher is better.

    Attributes:
        text: identifier of the gold text.
        error: the error type.
        level: its level, as the set names it.
        seed: of its random choices.
        noise: noise ratio.
        score: of the noised text.
    """

    text: str
    error: str
    level: str
    seed: int
    noise: float
    score: float


@dataclass(frozen=True, slots=True)
class Level:
    """One level of an error over all texts, those that it left as they were among them.

    Attributes:
        level: its name.
        noise: mean noise ratio, 0 for a text that the error left as it was.
        score: mean over texts, then over seeds.
        deviation: standard deviation over seeds; 0 for one seed.
        change: (score - gold) / |gold|.
        passed: share of the noised texts whose gold text scores strictly higher; nan for metrics of whole sets.
        texts: how many tests there are, over all seeds.
    """

    level: str
    noise: float
    score: float
    deviation: float
    change: float
    passed: float
    texts: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """One error type.

    Attributes:
        error: its name.
        gold: mean score of the gold texts.
        levels: by growing amount; in the order of the set where more is not worse.
        falls: the metric passes: gold scores best, and each level lower than the one before (paper, section 5.5.1), or, where
            levels are kinds and no grades, each lower than gold (section 2).
    """

    error: str
    gold: float
    levels: tuple[Level, ...]
    falls: bool

    @property
    def failed(self) -> bool:
        """The metric is blind to this error, or to its amount."""
        return not self.falls


def judge(
    gold: Mapping[str, float], scored: Iterable[Scored], unscored: Mapping[str, Collection[str]] | None = None
) -> list[Verdict]:
    """Return a verdict per error type, in the order of the paper.

    Args:
        gold: text -> score of the gold text, for all texts of the set.
        scored: the noised texts. A text without an entry at a level and seed takes the mean of its other seeds there, else what
            the level below gave it (a set holds each noised text once), else its gold score: the error left it as it was,
            and the paper averages over whole sets.
        unscored: error type -> texts of which a score is missing; they take no part in the verdict on it, gold texts neither.
    """
    found: dict[str, dict[str, dict[int, dict[str, Scored]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(dict))
    )
    for one in scored:
        found[one.error][one.level][one.seed][one.text] = one
    order = {name: i for i, name in enumerate(ERRORS)}
    names = sorted(found, key=lambda name: (order.get(name, len(order)), name))
    return [
        _verdict(name, {k: v for k, v in gold.items() if k not in (unscored or {}).get(name, ())}, found[name])
        for name in names
    ]


#: Text -> (score, noise ratio).
_Values = dict[str, tuple[float, float]]


def _verdict(error: str, gold: Mapping[str, float], found: Mapping[str, Mapping[int, Mapping[str, Scored]]]) -> Verdict:
    if not gold:
        return Verdict(error, math.nan, (), falls=False)
    graded = ERRORS[error].graded if error in ERRORS else True
    base = fmean(gold.values())
    untouched: _Values = {text: (score, 0.0) for text, score in gold.items()}
    below = untouched
    levels = []
    for name in sorted(found, key=amount_of) if graded else found:
        level, here = _level(name, gold, base, found[name], below if graded else untouched)
        below = here
        levels.append(level)
    means = [base, *(level.score for level in levels)]
    falls = (
        all(after < before for before, after in pairwise(means)) if graded else all(mean < base for mean in means[1:])
    )
    return Verdict(error, base, tuple(levels), falls)


def amount_of(level: str) -> tuple[float, str]:
    """Return what to sort levels by: their amount; for those without one their name, at the end."""
    try:
        return float(level), level
    except ValueError:
        return math.inf, level


def _level(
    name: str,
    gold: Mapping[str, float],
    base: float,
    by_seed: Mapping[int, Mapping[str, Scored]],
    below: _Values,
) -> tuple[Level, _Values]:
    """Return a level, and what it gave each text."""
    values: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for texts in by_seed.values():
        for text, one in texts.items():
            values[text].append((one.score, one.noise))
    here: _Values = {
        text: (fmean(s for s, _ in values[text]), fmean(n for _, n in values[text])) if values[text] else below[text]
        for text in gold
    }
    scores = [
        fmean(texts[text].score if text in texts else here[text][0] for text in gold) for texts in by_seed.values()
    ]
    every = [one for texts in by_seed.values() for text, one in texts.items() if text in gold]
    score = fmean(scores)
    level = Level(
        level=name,
        noise=fmean(noise for _, noise in here.values()),
        score=score,
        deviation=stdev(scores) if len(scores) > 1 else 0.0,
        change=(score - base) / abs(base) if base else 0.0,
        passed=fmean(gold[one.text] > one.score for one in every) if every else math.nan,
        texts=len(every),
    )
    return level, here


def rep_4gram(text: str) -> float:
    """Return the share of repeated 4-grams of words (Welleck et al., 2020): 0 without repeats; 0 for fewer than four words."""
    words = text.split()
    grams = list(zip(words, words[1:], words[2:], words[3:], strict=False))
    return 1 - len(set(grams)) / len(grams) if grams else 0.0
