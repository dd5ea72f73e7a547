"""How much of a model's pass rate comes from texts of its own, or of its family."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from scipy.special import stdtrit

from nnd_tasks.analysis.familiarity.judged_texts import JudgedTexts
from nnd_tasks.harness.metrics import passes
from nnd_tasks.statistics import confidence_interval

#: Samples of prompts for the intervals of adjusted rates; they are always the same.
SAMPLES = 1000
Estimate: TypeAlias = tuple[float, float, float]
_UNKNOWN: Estimate = (math.nan, math.nan, math.nan)


@dataclass(frozen=True, slots=True)
class OwnTests:
    """A part of the tests.

    Attributes:
        which: ``own text is better``, ``own text is worse``, ``neither or both``.
        tests: number of tests.
        prompts: that have such tests.
        rate: share of them that the model passes; nan without tests.
        low: lower end of its 95% interval.
        high: upper end.
    """

    which: str
    tests: int
    prompts: int
    rate: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Own:
    """What a model's own texts do to its pass rate. Estimates are (value, lower end, upper end of the 95% interval).

    Attributes:
        model: its name.
        systems: that the model, or its family, is.
        familiarity: mean log-likelihood per token of own texts less that of texts of others, in nats.
        beyond: that, less what the other models of the table give on average; nan where there are none.
        parts: the tests by whose text is better.
        rate: the pass rate over all tests.
        without: the pass rate with ``familiarity`` taken off the scores of own texts.
        gained: ``rate`` less ``without``: what comes from familiarity.
    """

    model: str
    systems: tuple[str, ...]
    familiarity: Estimate
    beyond: Estimate
    parts: list[OwnTests]
    rate: float
    without: Estimate
    gained: Estimate


def own_texts(texts: JudgedTexts, column: int, systems: Sequence[str]) -> Own:
    """Return what the texts of some systems do to the pass rate of one run.

    Args:
        texts: of the set.
        column: of the run.
        systems: names of those that are the model's; at least one, all in the set.
    """
    places = [texts.systems.index(name) for name in systems]
    contrast = texts.effects.against_others(places)
    run = texts.paired.runs[column]
    scores = texts.scores[:, column]
    others = np.delete(texts.scores, column, axis=1)
    columns = [scores, scores - others.mean(axis=1)] if others.size else [scores]
    estimates = texts.effects.estimate(np.stack(columns, axis=1), contrast[None])
    low, high = estimates.interval()
    found: list[Estimate] = [
        (float(estimates.values[0, i]), float(low[0, i]), float(high[0, i])) for i in range(len(columns))
    ]
    familiarity = found[0][0]

    margins = run.tests.set_index("test_id").loc[texts.paired.tests["test_id"], "margin"].to_numpy(dtype=np.float64)
    better, worse = texts.better[:, places].sum(axis=1), texts.worse[:, places].sum(axis=1)
    passed = texts.paired.passed[:, column]
    rate = float(passed.mean())
    without = gained = _UNKNOWN
    if not math.isnan(familiarity):
        value = float(passes(margins - familiarity * (better - worse)).mean())
        halves = _half_widths(_resampled(texts, scores, contrast, margins, better - worse, passed), texts.prompts)
        without = value, max(0.0, value - halves[0]), min(1.0, value + halves[0])
        gained = rate - value, rate - value - halves[1], rate - value + halves[1]
    return Own(
        model=run.model,
        systems=tuple(systems),
        familiarity=found[0],
        beyond=found[1] if len(found) > 1 else _UNKNOWN,
        parts=_parts(texts.prompts, passed, better > 0, worse > 0),
        rate=rate,
        without=without,
        gained=gained,
    )


def _parts(prompts: Any, passed: Any, better: Any, worse: Any) -> list[OwnTests]:
    """Return the pass rates on tests by whose text is the better one, each argument of shape (tests,)."""
    parts = []
    for which, chosen in (
        ("own text is better", better & ~worse),
        ("own text is worse", worse & ~better),
        ("neither or both", better == worse),
    ):
        tests = np.bincount(prompts, weights=chosen)
        won = np.bincount(prompts, weights=chosen & passed)
        count = int(chosen.sum())
        rate = float(passed[chosen].mean()) if count else math.nan
        parts.append(OwnTests(which, count, int((tests > 0).sum()), rate, *confidence_interval(won, tests)))
    return parts


def _resampled(texts: JudgedTexts, scores: Any, contrast: Any, margins: Any, differs: Any, passed: Any) -> Any:
    """Return the pass rate without familiarity, and what comes from it, for samples of prompts, shape (2, samples).

    Familiarity is estimated anew in each sample, so the spread has the noise of the estimate too.
    """
    size = int(texts.prompts.max()) + 1
    counts = np.random.default_rng(0).multinomial(size, np.full(size, 1 / size), SAMPLES).astype(np.float64)
    used = np.unique(texts.rows["prompt"])
    drawn = []
    for count, familiarity in zip(counts, texts.effects.resampled(scores, contrast, counts[:, used]), strict=True):
        weights = count[texts.prompts]
        total = weights.sum()
        rate = float(weights @ passes(margins - familiarity * differs)) / total
        drawn.append((rate, float(weights @ passed) / total - rate))
    return np.array(drawn).T


def _half_widths(drawn: Any, prompts: Any) -> list[float]:
    """Return half the width of the 95% interval of each row of estimates, shape (rows, samples), of samples of prompts.

    Student's t, and a factor for samples that have as many prompts as the data, keep it wide enough for few prompts.
    """
    size = len(np.unique(prompts))
    if size < 2:
        return [math.nan] * len(drawn)
    halves: list[float] = (stdtrit(size - 1, 0.975) * drawn.std(axis=1) * math.sqrt(size / (size - 1))).tolist()
    return halves
