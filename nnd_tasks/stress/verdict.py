"""The paper's question to a metric, does its score fall as the error grows, with intervals over texts."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Literal

from nnd_tasks.statistics import clustered_mean, confidence_interval
from nnd_tasks.stress.errors import ERRORS

#: The intervals of one error hold together with this confidence.
CONFIDENCE = 0.95
Outcome = Literal["pass", "fail", "undecided"]


@dataclass(frozen=True, slots=True)
class Scored:
    """The score of one noised text; higher is better.

    Attributes:
        text: identifier of the gold text.
        error: the error type.
        level: name of its level.
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
    """One level of an error over all texts, including those that it left unchanged.

    Attributes:
        level: its name.
        noise: mean noise ratio; that of an unchanged text is 0.
        score: mean over texts, then over seeds.
        deviation: standard deviation over seeds; 0 for one seed.
        change: (score - gold) / |gold|.
        passed: share of the noised texts whose gold text scores strictly higher; nan for metrics of whole sets.
        texts: number of tests, over all seeds.
        step: interval of the mean difference to the level before, or to gold where levels are kinds, paired by text; nan for
            fewer than two texts.
        rate: interval of ``passed``, clustered by text.
    """

    level: str
    noise: float
    score: float
    deviation: float
    change: float
    passed: float
    texts: int
    step: tuple[float, float]
    rate: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Verdict:
    """One error type.

    Attributes:
        error: its name.
        gold: mean score of the gold texts.
        levels: by growing amount, or in the order of the set where a larger amount is not worse.
        outcome: of `decide`.
    """

    error: str
    gold: float
    levels: tuple[Level, ...]
    outcome: Outcome


def decide(levels: Sequence[Level]) -> Outcome:
    """Return whether a metric sees an error.

    The paper asks of the means that gold scores best, and each level lower than the one before (section 5.5.1); where levels are
    kinds and not grades, each lower than gold (section 2). A mean may fall by a few texts alone, so each level must also score
    below gold in more than half of the texts. A metric passes if all intervals lie on the right side, fails if one lies on the
    wrong one, and else it is undecided.
    """
    margins = [(-level.step[1], -level.step[0]) for level in levels]
    margins += [(level.rate[0] - 0.5, level.rate[1] - 0.5) for level in levels if not math.isnan(level.passed)]
    if any(high <= 0 for _, high in margins):
        return "fail"
    return "pass" if margins and all(low > 0 for low, _ in margins) else "undecided"


def judge(
    gold: Mapping[str, float], scored: Iterable[Scored], unscored: Mapping[str, Collection[str]] | None = None
) -> list[Verdict]:
    """Return a verdict per error type, in the order of the paper.

    Args:
        gold: gold text -> its score, for all texts of the set.
        scored: the noised texts. The paper averages over all texts, so a text without an entry at a level and seed takes the
            mean of its other seeds at this level, else its score at the level below (a set holds each noised text once), else
            its gold score (the error left it unchanged).
        unscored: error type -> texts of which a score is missing; neither they nor their gold texts count for this error.
    """
    by_error: dict[str, dict[str, dict[int, dict[str, Scored]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(dict))
    )
    for one in scored:
        by_error[one.error][one.level][one.seed][one.text] = one
    order = {name: i for i, name in enumerate(ERRORS)}
    names = sorted(by_error, key=lambda name: (order.get(name, len(order)), name))
    return [
        _verdict(name, {k: v for k, v in gold.items() if k not in (unscored or {}).get(name, ())}, by_error[name])
        for name in names
    ]


#: Text -> (score, noise ratio).
_Values = dict[str, tuple[float, float]]


def _verdict(
    error: str, gold: Mapping[str, float], by_level: Mapping[str, Mapping[int, Mapping[str, Scored]]]
) -> Verdict:
    """Return the verdict on one error type.

    Args:
        error: its name.
        gold: gold text -> score.
        by_level: level -> seed -> gold text -> score of the noised text.
    """
    if not gold:
        return Verdict(error, math.nan, (), "undecided")
    graded = ERRORS[error].graded if error in ERRORS else True
    base = fmean(gold.values())
    unchanged: _Values = {text: (score, 0.0) for text, score in gold.items()}
    below = unchanged
    level = 1 - (1 - CONFIDENCE) / (2 * len(by_level))
    levels = []
    for name in sorted(by_level, key=amount_of) if graded else by_level:
        one, here = _level(name, gold, base, by_level[name], below, level)
        below = here if graded else unchanged
        levels.append(one)
    return Verdict(error, base, tuple(levels), decide(levels))


def amount_of(level: str) -> tuple[float, str]:
    """Return a key that sorts levels by amount, and those that are no numbers by name, at the end."""
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
    confidence: float,
) -> tuple[Level, _Values]:
    """Return a level, and the mean score and noise ratio of each text on it.

    Args:
        name: of the level.
        gold: gold text -> score.
        base: mean score of the gold texts.
        by_seed: seed -> gold text -> score of the noised text.
        below: values of the level below, for texts without a noised text on this one.
        confidence: of each interval.
    """
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
    falls = [here[text][0] - below[text][0] for text in gold]
    step = clustered_mean(falls, [1] * len(falls), confidence)
    passed: dict[str, list[bool]] = defaultdict(list)
    for one in every:
        passed[one.text].append(gold[one.text] > one.score)
    level = Level(
        level=name,
        noise=fmean(noise for _, noise in here.values()),
        score=score,
        deviation=stdev(scores) if len(scores) > 1 else 0.0,
        change=(score - base) / abs(base) if base else 0.0,
        passed=fmean(gold[one.text] > one.score for one in every) if every else math.nan,
        texts=len(every),
        # Where all texts differ alike (by 0, or because the metric scores sets), the mean stands for its interval.
        step=(step.mean, step.mean) if step.standard_error == 0 else (step.low, step.high),
        rate=confidence_interval(list(map(sum, passed.values())), list(map(len, passed.values())), confidence),
    )
    return level, here


def rep_4gram(text: str) -> float:
    """Return the share of repeated 4-grams of words (Welleck et al., 2020): 0 without repeats; 0 for fewer than four words."""
    words = text.split()
    grams = list(zip(words, words[1:], words[2:], words[3:], strict=False))
    return 1 - len(set(grams)) / len(grams) if grams else 0.0
