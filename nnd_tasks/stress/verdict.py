"""The paper's verdict on a metric: does its score fall as the error grows? Free of where the scores come from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
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
        noise: mean noise ratio.
        score: mean over texts, then over seeds.
        deviation: standard deviation over seeds; 0 for one seed.
        change: (score - gold) / |gold|.
        passed: share of the noised texts whose gold text scores strictly higher.
        texts: how many texts the error changed, over all seeds.
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
        levels: by growing noise; in the order of the set where more is not worse.
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


def judge(gold: Mapping[str, float], scored: Iterable[Scored]) -> list[Verdict]:
    """Return a verdict per error type, in the order of the paper.

    Args:
        gold: text -> score of the gold text, for all texts of the set.
        scored: the noised texts. A text without an entry was left as it was, and keeps its gold score, as the paper averages
            over whole sets.
    """
    found: dict[str, dict[str, dict[int, dict[str, Scored]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(dict))
    )
    for one in scored:
        found[one.error][one.level][one.seed][one.text] = one
    base = fmean(gold.values())
    order = {name: i for i, name in enumerate(ERRORS)}
    verdicts = []
    for error in sorted(found, key=lambda name: (order.get(name, len(order)), name)):
        graded = ERRORS[error].graded if error in ERRORS else True
        levels = [_level(name, gold, base, by_seed) for name, by_seed in found[error].items()]
        if graded:
            levels.sort(key=lambda level: level.noise)
        means = [base, *(level.score for level in levels)]
        falls = (
            all(after < before for before, after in pairwise(means))
            if graded
            else all(mean < base for mean in means[1:])
        )
        verdicts.append(Verdict(error, base, tuple(levels), falls))
    return verdicts


def _level(name: str, gold: Mapping[str, float], base: float, by_seed: Mapping[int, Mapping[str, Scored]]) -> Level:
    scores, noises = [], []
    for texts in by_seed.values():
        scores.append(fmean(texts[text].score if text in texts else score for text, score in gold.items()))
        noises.append(fmean(texts[text].noise if text in texts else 0.0 for text in gold))
    every = [one for texts in by_seed.values() for one in texts.values()]
    score = fmean(scores)
    return Level(
        level=name,
        noise=fmean(noises),
        score=score,
        deviation=stdev(scores) if len(scores) > 1 else 0.0,
        change=(score - base) / abs(base) if base else 0.0,
        passed=fmean(gold[one.text] > one.score for one in every),
        texts=len(every),
    )


def rep_4gram(text: str) -> float:
    """Return the share of repeated 4-grams of words (Welleck et al., 2020): 0 without repeats; 0 for fewer than four words."""
    words = text.split()
    grams = list(zip(words, words[1:], words[2:], words[3:], strict=False))
    return 1 - len(set(grams)) / len(grams) if grams else 0.0
