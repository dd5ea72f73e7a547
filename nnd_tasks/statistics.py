"""Pooled pass rates and their clustered standard errors.

Tests that share a prompt are not independent: the model's likelihood of a good candidate takes part in each
of them. So the unit that counts as drawn at random is the cluster (all tests with the same prompt fields).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats


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
    half = float(stats.t.ppf(0.5 + level / 2, df=n.size - 1)) * error
    return max(0.0, rate - half), min(1.0, rate + half)


def pool(pairs: Sequence[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """Split (passed, tests) pairs, shape (clusters, 2), into two lists of length clusters."""
    return [p for p, _ in pairs], [t for _, t in pairs]
