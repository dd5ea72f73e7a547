"""Sums over prompts, from which the values of models, the errors of their differences and their noise follow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from nnd_tasks.analysis.power import LEVEL

Floats = NDArray[np.float64]
#: Parts in which the prompts are left out, one at a time, for the error of a ratio of two signal-to-noise ratios.
PARTS = 50


@dataclass(frozen=True, slots=True)
class Moments:
    """What is left of some prompts; those of other prompts can be added or taken away.

    The mean of the models is subtracted in each prompt: only differences between models are asked for.

    Attributes:
        prompts: how many.
        totals: sums over prompts, of each model's values and then of the number of tests, shape (models + 1,).
        products: sums over prompts of the products of any two of these, shape (models + 1, models + 1).
    """

    prompts: int
    totals: Floats = field(repr=False)
    products: Floats = field(repr=False)

    @classmethod
    def of(cls, sums: Floats, tests: Floats) -> Moments:
        """Return the moments of prompts.

        Args:
            sums: of each prompt, the values of its tests added up, shape (prompts, models).
            tests: of each prompt, shape (prompts,).
        """
        columns = np.column_stack([sums - sums.mean(axis=1, keepdims=True), tests])
        return cls(len(columns), columns.sum(axis=0), columns.T @ columns)

    def plus(self, other: Moments, sign: int = 1) -> Moments:
        """Return the moments of both; with ``sign`` -1, those of these prompts without the others."""
        return Moments(
            self.prompts + sign * other.prompts,
            self.totals + sign * other.totals,
            self.products + sign * other.products,
        )

    @property
    def values(self) -> Floats:
        """Mean per test of each model, less that of all models, shape (models,)."""
        values: Floats = self.totals[:-1] / self.totals[-1]
        return values

    @property
    def covariance(self) -> Floats:
        """Covariance of `values` when whole prompts are drawn (Cochran, Sampling Techniques, 3rd ed., section 6.3).

        What `nnd_tasks.statistics.clustered_standard_error` is for one model, shape (models, models).
        """
        values, k = self.values, self.prompts
        cross = np.outer(values, self.products[:-1, -1])
        residual = self.products[:-1, :-1] - cross - cross.T + np.outer(values, values) * self.products[-1, -1]
        covariance: Floats = residual * (k / (k - 1) if k > 1 else math.nan) / self.totals[-1] ** 2
        return covariance

    @property
    def signal(self) -> float:
        """Spread: value of the best model less that of the worst."""
        return float(np.ptp(self.values))

    @property
    def noise(self) -> float:
        """Standard deviation that other prompts of the same kind would give the value of a model, beside the others.

        Half of the mean variance of a difference of two models, and of that the root: what makes a prompt easier or harder for
        all models is no noise, as all models have the same prompts.
        """
        variance = float(np.trace(self.covariance)) / (len(self.values) - 1)
        return math.sqrt(max(variance, 0.0)) if not math.isnan(variance) else math.nan

    @property
    def t(self) -> Floats:
        """Difference over its clustered standard error of each two models, [a, b] for b - a, shape (models, models)."""
        covariance = self.covariance
        variances = np.diag(covariance)
        squared = variances[:, None] + variances[None, :] - 2 * covariance
        difference = self.values[None, :] - self.values[:, None]
        error = np.sqrt(np.maximum(squared, np.finfo(float).tiny))
        return np.divide(difference, error, out=np.zeros_like(difference), where=difference != 0)

    @property
    def p(self) -> Floats:
        """Two-sided p value of each of `t`, with prompts - 1 degrees of freedom."""
        result: Floats = 2 * stdtr(max(self.prompts - 1, 1), -np.abs(self.t))
        return result

    @property
    def apart(self) -> Floats:
        """For each two models, [a, b]: 1 where b is better at level 0.05, -1 where a is, 0 where they are not told apart."""
        found: Floats = np.sign(self.values[None, :] - self.values[:, None]) * (self.p < LEVEL)
        return found


def ratio(values: NDArray[Any], tests: Floats, other: NDArray[Any]) -> tuple[float, float, float]:
    """Return how many times larger signal over noise (of prompts) is by one measure than by another, with a 95% interval.

    The interval is that of the jackknife, on the logarithm: the prompts are dealt into `PARTS` parts, each of which is left out
    once (Efron and Stein, 1981). Both measures lose the same prompts, so what both gain or lose by them cancels.

    Args:
        values: sums of one measure, shape (prompts, models).
        tests: of each prompt, shape (prompts,).
        other: sums of the other measure.

    Returns:
        (ratio, low, high); nan where a measure has no signal or no noise.
    """
    count = min(PARTS, len(tests))
    parts = [[Moments.of(one[i::count], tests[i::count]) for i in range(count)] for one in (values, other)]
    wholes = [_added(several) for several in parts]
    whole = _log_ratio(*wholes)
    without = np.array(
        [_log_ratio(*(w.plus(p[i], -1) for w, p in zip(wholes, parts, strict=True))) for i in range(count)]
    )
    if count < 2 or not np.isfinite([whole, *without]).all():
        return math.exp(whole) if math.isfinite(whole) else math.nan, math.nan, math.nan
    error = math.sqrt((count - 1) / count * float(((without - without.mean()) ** 2).sum()))
    half = float(stdtrit(count - 1, 1 - LEVEL / 2)) * error
    return math.exp(whole), math.exp(whole - half), math.exp(whole + half)


def _added(parts: Sequence[Moments]) -> Moments:
    total = parts[0]
    for part in parts[1:]:
        total = total.plus(part)
    return total


def _log_ratio(first: Moments, second: Moments) -> float:
    """Return the logarithm of signal over noise of the first, less that of the second; nan where one is 0 or not known."""
    four = (first.signal, second.noise, second.signal, first.noise)
    if not all(value > 0 for value in four):
        return math.nan
    return math.log(four[0] * four[1] / four[2] / four[3])


def step_variance(values: Floats, trainings: Sequence[Sequence[tuple[int, float]]]) -> float:
    """Return the variance of values from one checkpoint to the next, around a smooth curve; nan without three checkpoints.

    For three checkpoints in a row, the middle value is held against the straight line between the other two, over the logarithm
    of the step (Gasser, Sroka and Jennen-Steinmetz, 1986). What the curve itself bends there is in it too, so far apart
    checkpoints give too much rather than too little.

    Args:
        values: of each model, shape (models,).
        trainings: of each training, (place in ``values``, step) of its checkpoints in order.
    """
    squares = []
    for points in trainings:
        distinct = {step: place for place, step in points}
        for left, middle, right in zip(*(list(distinct.items())[i:] for i in range(3)), strict=False):
            x = [math.log1p(max(step, 0.0)) for step, _ in (left, middle, right)]
            b = (x[1] - x[0]) / (x[2] - x[0]) if x[2] > x[0] else 0.5
            off = (1 - b) * values[left[1]] + b * values[right[1]] - values[middle[1]]
            squares.append(off**2 / (1 + b**2 + (1 - b) ** 2))
    return float(np.mean(squares)) if squares else math.nan
