"""Pooled pass rates and their clustered standard errors.

Tests that share a prompt are not independent: the model's likelihood of a good candidate takes part in each
of them. So the unit that counts as drawn at random is the cluster (all tests with the same prompt fields).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit  # of scipy.stats, the import alone takes most of a second


def _as_counts(passed: ArrayLike, tests: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return both as float arrays of shape (clusters,), those without tests removed; raise ValueError if wrong."""
    x = np.asarray(passed, dtype=np.float64)
    n = np.asarray(tests, dtype=np.float64)
    if x.shape != n.shape or x.ndim != 1:
        raise ValueError(f"passed and tests must be vectors of one length, got shapes {x.shape} and {n.shape}")
    if not (np.isfinite(x).all() and np.isfinite(n).all()) or (n < 0).any() or (x < 0).any() or (x > n).any():
        raise ValueError("need 0 <= passed <= tests in every cluster")
    keep = n > 0
    return x[keep], n[keep]


def pooled_rate(passed: ArrayLike, tests: ArrayLike) -> float:
    """Return the pass rate pooled over tests, p = sum(passed) / sum(tests); nan without tests.

    Args:
        passed: tests passed in each cluster, shape (clusters,).
        tests: tests scored in each cluster, shape (clusters,).
    """
    x, n = _as_counts(passed, tests)
    return float(x.sum() / n.sum()) if n.size else math.nan


def clustered_standard_error(passed: ArrayLike, tests: ArrayLike) -> float:
    """Return the cluster-robust standard error of the pooled rate.

    The linearised (Taylor) variance of a ratio estimator under sampling of whole clusters (Cochran, Sampling
    Techniques, 3rd ed., section 6.3): with k clusters that have tests,

        sqrt(k / (k - 1) * sum_i (passed_i - p * tests_i)**2) / sum_i tests_i

    With one test per cluster it is the usual sqrt(p * (1 - p) / (k - 1)). It is 0 at p = 0 and p = 1, and
    unreliable for small k (below about 10).

    Args:
        passed: tests passed in each cluster, shape (clusters,).
        tests: tests scored in each cluster, shape (clusters,).

    Returns:
        The standard error; nan for fewer than two clusters with tests.
    """
    x, n = _as_counts(passed, tests)
    k = n.size
    if k < 2:
        return math.nan
    total = n.sum()
    residual = x - (x.sum() / total) * n
    return float(math.sqrt(k / (k - 1) * float(residual @ residual)) / total)


def confidence_interval(passed: ArrayLike, tests: ArrayLike, level: float = 0.95) -> tuple[float, float]:
    """Return the t interval with k - 1 degrees of freedom around the pooled rate, clipped to [0, 1].

    Args:
        passed: tests passed in each cluster, shape (clusters,).
        tests: tests scored in each cluster, shape (clusters,).
        level: coverage, between 0 and 1.

    Returns:
        (low, high); (nan, nan) for fewer than two clusters with tests.

    Raises:
        ValueError: ``level`` is not strictly between 0 and 1.
    """
    if not 0 < level < 1:
        raise ValueError(f"level must lie strictly between 0 and 1, got {level}")
    x, n = _as_counts(passed, tests)
    error = clustered_standard_error(x, n)
    if math.isnan(error):
        return math.nan, math.nan
    rate = pooled_rate(x, n)
    half = float(stdtrit(n.size - 1, 0.5 + level / 2)) * error
    return max(0.0, rate - half), min(1.0, rate + half)


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """How much higher one model's pooled pass rate is than another's on the same tests.

    Attributes:
        difference: rate of the second less rate of the first, between -1 and 1; nan without tests.
        standard_error: cluster-robust; nan for fewer than two clusters.
        low: lower end of the confidence interval, not clipped; nan for fewer than two clusters.
        high: its upper end.
        clusters: how many have tests.
    """

    difference: float
    standard_error: float
    low: float
    high: float
    clusters: int


def paired_difference(
    passed_a: ArrayLike, passed_b: ArrayLike, tests: ArrayLike, level: float = 0.95
) -> PairedDifference:
    """Compare two models on the same tests, with an interval that knows of the pairs and of the clusters.

    The difference of the pooled rates, d = sum(passed_b - passed_a) / sum(tests), is a ratio of totals over clusters like
    a rate itself, so its linearised variance is the one of `clustered_standard_error` (Cochran, Sampling Techniques,
    3rd ed., section 6.3) with the differences in place of the counts: with k clusters that have tests,

        sqrt(k / (k - 1) * sum_i (passed_b_i - passed_a_i - d * tests_i)**2) / sum_i tests_i

    What is hard or easy for both models cancels within each cluster, which is what pairing gains. The interval is
    Student's with k - 1 degrees of freedom. Its error is 0 where every cluster differs by the same share, and unreliable
    for small k (below about 10).

    Args:
        passed_a: tests that the first model passes in each cluster, shape (clusters,).
        passed_b: tests that the second one passes, in the same order, shape (clusters,).
        tests: tests scored in each cluster, shape (clusters,).
        level: coverage, between 0 and 1.

    Raises:
        ValueError: the lengths differ, a count is impossible, or ``level`` is not strictly between 0 and 1.
    """
    if not 0 < level < 1:
        raise ValueError(f"level must lie strictly between 0 and 1, got {level}")
    a, n = _as_counts(passed_a, tests)
    b, _ = _as_counts(passed_b, tests)
    k = n.size
    if not k:
        return PairedDifference(math.nan, math.nan, math.nan, math.nan, 0)
    total = n.sum()
    difference = float((b - a).sum() / total)
    if k < 2:
        return PairedDifference(difference, math.nan, math.nan, math.nan, k)
    residual = (b - a) - difference * n
    error = float(math.sqrt(k / (k - 1) * float(residual @ residual)) / total)
    half = float(stdtrit(k - 1, 0.5 + level / 2)) * error
    return PairedDifference(difference, error, difference - half, difference + half, k)


def pool(pairs: Sequence[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """Split (passed, tests) pairs, shape (clusters, 2), into two lists of length clusters."""
    return [p for p, _ in pairs], [t for _, t in pairs]
