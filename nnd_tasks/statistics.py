"""Pooled pass rates, their standard errors and intervals, clustered by prompt.

Tests that share a prompt are not independent, as one candidate takes part in several of them. So the unit that is taken to
be drawn at random is the prompt, with all of its tests: the *cluster* of the formulas.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # imports scipy.special when it is first used; scipy.stats would take most of a second
from numpy.typing import ArrayLike, NDArray

_Floats = NDArray[np.float64]

#: Prompts below which an error bar is not to be relied on.
FEW = 10


def _as_counts(
    passed: ArrayLike, tests: ArrayLike, influence: ArrayLike | None = None
) -> tuple[_Floats, _Floats, _Floats]:
    """Return all as float arrays of shape (prompts,), without prompts that change nothing; raise ValueError if wrong."""
    x = np.asarray(passed, dtype=np.float64)
    n = np.asarray(tests, dtype=np.float64)
    moved = np.zeros_like(n) if influence is None else np.asarray(influence, dtype=np.float64)
    if not x.shape == n.shape == moved.shape or x.ndim != 1:
        raise ValueError(f"passed and tests must be vectors of one length, got shapes {x.shape} and {n.shape}")
    if not (np.isfinite(x).all() and np.isfinite(n).all()) or (n < 0).any() or (x < 0).any() or (x > n).any():
        raise ValueError("need 0 <= passed <= tests for every prompt")
    keep = (n > 0) | (moved != 0)
    return x[keep], n[keep], moved[keep]


def pooled_rate(passed: ArrayLike, tests: ArrayLike) -> float:
    """Return the pass rate pooled over tests, p = sum(passed) / sum(tests); nan without tests.

    Args:
        passed: tests passed of each prompt, shape (prompts,).
        tests: tests scored of each prompt, shape (prompts,).
    """
    x, n, _ = _as_counts(passed, tests)
    return float(x.sum() / n.sum()) if n.size else math.nan


def clustered_standard_error(passed: ArrayLike, tests: ArrayLike, influence: ArrayLike | None = None) -> float:
    """Return the cluster-robust standard error of the pooled rate.

    The linearised (Taylor) variance of a ratio estimator under sampling of whole clusters, here prompts (Cochran, Sampling
    Techniques, 3rd ed., section 6.3): with k prompts that have tests,

        sqrt(k / (k - 1) * sum_i (passed_i - p * tests_i)**2) / sum_i tests_i

    With one test per prompt it is the usual sqrt(p * (1 - p) / (k - 1)). It is 0 at p = 0 and p = 1, and
    unreliable for small k (below `FEW`).

    Args:
        passed: tests passed of each prompt, shape (prompts,).
        tests: tests scored of each prompt, shape (prompts,).
        influence: tests that each prompt adds to the passed ones of all prompts because something was fitted to it too,
            shape (prompts,), summing to about 0; a prompt without tests may have some. None stands for zeros.

    Returns:
        The standard error; nan for fewer than two prompts with tests.
    """
    x, n, moved = _as_counts(passed, tests, influence)
    k = n.size
    if np.count_nonzero(n) < 2:
        return math.nan
    total = n.sum()
    residual = x - (x.sum() / total) * n + moved
    return float(math.sqrt(k / (k - 1) * float(residual @ residual)) / total)


#: Assumed correlation of tests that share a prompt, for the degrees of freedom of an interval. Small models gave 0.11 to 0.21
#: (`nnd_tasks.analysis.power`). Where all prompts have equally many tests it has no effect.
WITHIN = 0.15
#: How many prompts whose tests all have the same outcome `effective_tests` adds. Without them intervals miss rates near 1 in
#: up to 9% of simulated runs (``benchmarks/coverage.py``).
UNKNOWN = 0.5


def _small_sample(residual: NDArray[np.float64], n: NDArray[np.float64]) -> tuple[float, float]:
    """Return the standard error that intervals use, and its degrees of freedom (Bell and McCaffrey, 2002).

    A prompt with many tests pulls the pooled rate towards itself, so its residual is too small: it is divided by
    sqrt(1 - its share of the tests) ("CR2"). And where a few large prompts decide the error, it has fewer degrees of freedom
    than prompts less one (Satterthwaite, with tests of a prompt that correlate by `WITHIN`). With equally many tests in every
    prompt both are the usual ones.

    Args:
        residual: of each prompt, its count less its tests times the pooled rate, shape (prompts,).
        n: tests of each prompt, at least two prompts, shape (prompts,).
    """
    total = n.sum()
    share = n / total
    scale = 1 / (1 - share)  # squared
    error = float(math.sqrt((residual**2 * scale).sum()) / total)
    # Covariance of two scaled residuals, with variances v of the counts and their sum s:
    # sqrt(scale_i scale_j) (v_i [i = j] - share_i v_j - share_j v_i + share_i share_j s). Degrees: trace^2 / sum of squares.
    v = n * (1 + (n - 1) * WITHIN)
    s = v.sum()
    trace = (scale * (v - 2 * share * v + share**2 * s)).sum()
    ss, vv, sv = (scale * share**2).sum(), (scale * v**2).sum(), (scale * share * v).sum()
    squares = (scale**2 * v**2 * (1 - 4 * share)).sum() + 2 * s * (scale**2 * share**2 * v).sum()
    squares += 2 * ss * vv + 2 * sv**2 + s**2 * ss**2 - 4 * s * ss * sv
    return error, float(np.clip(trace**2 / squares, 1, n.size - 1))


def wilson(rate: float, tests: float, quantile: float) -> tuple[float, float]:
    """Return Wilson's interval of a share (Wilson, 1927): within 0 and 1, and not empty at either.

    Args:
        rate: the share.
        tests: number of independent tests that would give as sure a share, above 0.
        quantile: of Student's t, or of the normal distribution.
    """
    lost = quantile**2 / tests
    centre = (rate + lost / 2) / (1 + lost)
    half = math.sqrt(lost * rate * (1 - rate) + lost**2 / 4) / (1 + lost)
    # Rounding must not leave the rate outside of its own interval.
    return max(0.0, min(rate, centre - half)), min(1.0, max(rate, centre + half))


def effective_tests(rate: float, error: float, tests: float, worst: float, rare: float) -> float:
    """Return how many independent tests would give the same standard error as these tests, some of which share prompts.

    The design effect, the variance of the rate over that of as many independent tests, is error² tests / (rate (1 - rate)),
    and 1 at least. Only prompts with the rarer of the two outcomes say how large it is; if all tests have one outcome, there is
    no such prompt. So half a prompt with the worst design effect is added, that of tests which all have the same outcome.

    Args:
        rate: the pooled rate.
        error: its clustered standard error.
        tests: number of tests.
        worst: the design effect if all tests of a prompt had the same outcome, sum(tests²) / sum(tests) over prompts.
        rare: number of prompts with any failure, or of those with any pass where these are fewer.
    """
    design = max(1.0, error**2 * tests / (rate * (1 - rate))) if 0 < rate < 1 else 1.0
    return tests * (rare + UNKNOWN) / (rare * design + UNKNOWN * worst)


def confidence_interval(
    passed: ArrayLike, tests: ArrayLike, level: float = 0.95, influence: ArrayLike | None = None
) -> tuple[float, float]:
    """Return Wilson's interval around the pooled rate, made for tests that share prompts.

    `wilson` with as many tests as `effective_tests` says, with Student's t, and with a standard error and degrees of freedom
    for few and unequal prompts (Dean and Pagano, 2015, compare such intervals). Unlike rate ± t x error it covers rates near 0
    and 1 as often as it should (``benchmarks/coverage.py``).

    Args:
        passed: tests passed of each prompt, shape (prompts,).
        tests: tests scored of each prompt, shape (prompts,).
        level: coverage, between 0 and 1.
        influence: as for `clustered_standard_error`.

    Returns:
        (low, high); (nan, nan) for fewer than two prompts with tests.

    Raises:
        ValueError: ``level`` is not strictly between 0 and 1.
    """
    if not 0 < level < 1:
        raise ValueError(f"level must lie strictly between 0 and 1, got {level}")
    x, n, moved = _as_counts(passed, tests, influence)
    if np.count_nonzero(n) < 2:
        return math.nan, math.nan
    total = float(n.sum())
    rate = float(x.sum()) / total
    error, degrees = _small_sample(x - rate * n + moved, n)
    rare = int(min((x > 0).sum(), (x < n).sum()))
    size = effective_tests(rate, error, total, float(n @ n) / total, rare)
    return wilson(rate, size, float(scipy.special.stdtrit(degrees, 0.5 + level / 2)))


def summarize_rate(passed: ArrayLike, tests: ArrayLike, influence: ArrayLike | None = None) -> dict[str, float]:
    """Return ``rate``, ``standard_error``, and ``low`` and ``high`` of the 95% interval; arguments as above."""
    low, high = confidence_interval(passed, tests, influence=influence)
    error = clustered_standard_error(passed, tests, influence)
    return {"rate": pooled_rate(passed, tests), "standard_error": error, "low": low, "high": high}


@dataclass(frozen=True, slots=True)
class ClusteredMean:
    """A mean over tests, some of which share prompts.

    Attributes:
        mean: pooled over tests; nan without tests.
        standard_error: clustered by prompt; nan for fewer than two prompts.
        low: lower end of the confidence interval; nan for fewer than two prompts, or where all have the same mean.
        high: its upper end.
        clusters: number of prompts that have tests.
    """

    mean: float
    standard_error: float
    low: float
    high: float
    clusters: int


def clustered_mean(
    totals: ArrayLike, tests: ArrayLike, level: float = 0.95, influence: ArrayLike | None = None
) -> ClusteredMean:
    """Return the mean of a number per test, m = sum(totals) / sum(tests), with errors clustered by prompt.

    Like a rate it is a ratio of totals over prompts, so its linearised variance is that of `clustered_standard_error` (Cochran,
    Sampling Techniques, 3rd ed., section 6.3): with k prompts that have tests,

        sqrt(k / (k - 1) * sum_i (totals_i - m * tests_i)**2) / sum_i tests_i

    The interval is Student's. With equally many tests in every prompt it is
    m ± t(k - 1) x the error; large prompts beside small ones make its error larger and its degrees of freedom fewer (Bell and
    McCaffrey, 2002). Where every prompt has the same mean, the spread is unknown, and there is no interval.

    Args:
        totals: of each prompt, the sum of its tests' numbers, shape (prompts,).
        tests: of each prompt, shape (prompts,).
        level: coverage, between 0 and 1.
        influence: on the totals, as for `clustered_standard_error`.

    Raises:
        ValueError: ``level`` is not strictly between 0 and 1.
    """
    if not 0 < level < 1:
        raise ValueError(f"level must lie strictly between 0 and 1, got {level}")
    x, n = np.asarray(totals, dtype=np.float64), np.asarray(tests, dtype=np.float64)
    moved = np.zeros_like(n) if influence is None else np.asarray(influence, dtype=np.float64)
    keep = (n > 0) | (moved != 0)
    x, n, moved = x[keep], n[keep], moved[keep]
    k, total = int(np.count_nonzero(n)), n.sum()
    if not k:
        return ClusteredMean(math.nan, math.nan, math.nan, math.nan, 0)
    mean = float(x.sum() / total)
    if k < 2:
        return ClusteredMean(mean, math.nan, math.nan, math.nan, k)
    # For counts these are whole numbers, so that prompts with the same mean give a residual of exactly 0.
    residual = (x * total - x.sum() * n) / total + moved
    error = float(math.sqrt(k / (k - 1) * float(residual @ residual)) / total)
    if not error:
        return ClusteredMean(mean, error, math.nan, math.nan, k)
    wider, degrees = _small_sample(residual, n)
    half = float(scipy.special.stdtrit(degrees, 0.5 + level / 2)) * wider
    return ClusteredMean(mean, error, mean - half, mean + half, k)


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """How much higher one model's pooled pass rate is than another's on the same tests.

    Attributes:
        difference: rate of the second less rate of the first, between -1 and 1; nan without tests.
        standard_error: clustered by prompt; nan for fewer than two prompts.
        low: lower end of the confidence interval, -1 or more; nan for fewer than two prompts, or where all differ by the same
            share.
        high: its upper end, 1 or less.
        clusters: number of prompts that have tests.
    """

    difference: float
    standard_error: float
    low: float
    high: float
    clusters: int


def paired_difference(
    passed_a: ArrayLike,
    passed_b: ArrayLike,
    tests: ArrayLike,
    level: float = 0.95,
    influence: ArrayLike | None = None,
) -> PairedDifference:
    """Compare two models on the same tests, with an interval that is paired by test and clustered by prompt.

    The difference of the pooled rates is the `clustered_mean` of the differences, d = sum(passed_b - passed_a) / sum(tests).
    What is hard or easy for both models cancels within each prompt, which is what pairing gains. Where every prompt differs by
    the same share, as with two equal models, there is no interval. It is unreliable for small k (below about 10) where the
    rates are near 0 or 1.

    Args:
        passed_a: tests that the first model passes of each prompt, shape (prompts,).
        passed_b: tests that the second one passes, in the same order, shape (prompts,).
        tests: tests scored of each prompt, shape (prompts,).
        level: coverage, between 0 and 1.
        influence: on the difference of the counts, as for `clustered_standard_error`.

    Raises:
        ValueError: the lengths differ, a count is impossible, or ``level`` is not strictly between 0 and 1.
    """
    a, n, moved = _as_counts(passed_a, tests, influence)
    b, _, _ = _as_counts(passed_b, tests, influence)
    found = clustered_mean(b - a, n, level, moved)
    low, high = np.clip([found.low, found.high], -1, 1).tolist()
    return PairedDifference(found.mean, found.standard_error, low, high, found.clusters)


def pool(pairs: Sequence[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """Return the passed and the tests of (passed, tests) pairs, one of each per prompt."""
    return [p for p, _ in pairs], [t for _, t in pairs]
