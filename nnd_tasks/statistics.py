"""Pooled pass rates, their standard errors and intervals, clustered by prompt.

Tests that share a prompt are not independent, as one candidate takes part in several of them. So the unit that is taken to
be drawn at random is the prompt, with all of its tests: the *cluster* of the formulas.

Known limits: an error of fewer than `FEW` prompts, or of 0, is unreliable. Prompts that share a source, such as an article,
count as independent.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import scipy  # imports scipy.special when it is first used; scipy.stats would take most of a second
from numpy.typing import ArrayLike, NDArray

_Floats = NDArray[np.float64]

#: Prompts below which an error bar is not to be relied on.
FEW = 10
#: Marks beside numbers that one should not lean on, for `nnd_tasks.show.report.Report.legend`. A table has a column of truth
#: values for each, such as ``few``, and writes it as ``{few:†}``.
FEW_PROMPTS = {"†": f"fewer than {FEW} prompts: the interval is unreliable."}


class ClusteredMean(NamedTuple):
    """A mean over tests, some of which share prompts: a pass rate, a mean number, or a mean difference.

    Attributes:
        mean: pooled over tests; nan without tests.
        standard_error: clustered by prompt; nan for fewer than two prompts with tests.
        low: lower end of the confidence interval; nan where there is none.
        high: its upper end.
    """

    mean: float
    standard_error: float = math.nan
    low: float = math.nan
    high: float = math.nan

    def columns(self, name: str) -> dict[str, float]:
        """Name the mean ``name``, and the others under ``NAME_standard_error``, ``NAME_low`` and ``NAME_high``."""
        ends = ("", "_standard_error", "_low", "_high")
        return {f"{name}{end}": number for end, number in zip(ends, self, strict=True)}


def _as_arrays(totals: ArrayLike, tests: ArrayLike) -> tuple[_Floats, _Floats, Any]:
    """Bring both to arrays of shape (..., prompts), without prompts that have no tests, with the mean; nan without tests."""
    x, n = np.asarray(totals, dtype=np.float64), np.asarray(tests, dtype=np.float64)
    x, n = np.ascontiguousarray(x[..., n > 0]), n[n > 0]
    return x, n, _plain(x.sum(axis=-1) / n.sum() if n.any() else np.full(x.shape[:-1], math.nan))


def _plain(numbers: Any) -> Any:
    return np.asarray(numbers) if np.ndim(numbers) else float(numbers)


#: Assumed correlation of tests that share a prompt, for the degrees of freedom of an interval. Small models gave 0.11 to 0.21
#: (`nnd_tasks.significance`). Where all prompts have equally many tests it has no effect.
WITHIN = 0.15
#: How many prompts whose tests all have the same outcome `effective_tests` adds. Without them intervals miss rates near 1 in
#: up to 9% of simulated runs (``benchmarks/coverage.py``).
UNKNOWN = 0.5


def _small_sample(residual: NDArray[np.float64], n: NDArray[np.float64]) -> tuple[Any, float]:
    """Compute the standard error that intervals use, and its degrees of freedom (Bell and McCaffrey, 2002).

    A prompt with many tests pulls the pooled rate towards itself, so its residual is too small: it is divided by
    sqrt(1 - its share of the tests) ("CR2"). And where a few large prompts decide the error, it has fewer degrees of freedom
    than prompts less one (Satterthwaite, with tests of a prompt that correlate by `WITHIN`). With equally many tests in every
    prompt both are the usual ones.

    Args:
        residual: of each prompt, its count less its tests times the pooled rate, shape (..., prompts).
        n: tests of each prompt, at least two prompts, shape (prompts,).
    """
    total = n.sum()
    share = n / total
    scale = 1 / (1 - share)  # squared
    error = _plain(np.sqrt((residual**2 * scale).sum(axis=-1)) / total)
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
    """Compute Wilson's interval of a share (Wilson, 1927): within 0 and 1, and not empty at either.

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
    """Count how many independent tests would give the same standard error as these tests, some of which share prompts.

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


def summarize_rate(passed: ArrayLike, tests: ArrayLike, level: float = 0.95) -> ClusteredMean:
    """Compute the pooled pass rate with its error and Wilson's interval, made for tests that share prompts.

    The error is the linearised (Taylor) one of a ratio estimator under sampling of whole clusters, here prompts (Cochran,
    Sampling Techniques, 3rd ed., section 6.3): with k prompts that have tests,

        sqrt(k / (k - 1) * sum_i (passed_i - p * tests_i)**2) / sum_i tests_i

    Of three prompts with 1 of 2, 2 of 2 and 0 of 2 tests passed, p = 3 / 6, the residuals are 0, 1 and -1, and the error is
    sqrt(3 / 2 * 2) / 6 = 0.289. With one test per prompt it is the usual sqrt(p * (1 - p) / (k - 1)). It is 0 at p = 0 and
    p = 1, and unreliable for small k (below `FEW`).

    The interval is that of the `effective_tests`, with Student's t, and with a standard error and degrees of freedom for few and
    unequal prompts (Dean and Pagano, 2015, compare such intervals). Unlike rate ± t x error it covers rates near 0 and 1 as
    often as it should (``benchmarks/coverage.py``).

    Args:
        passed: tests passed of each prompt, shape (prompts,).
        tests: tests scored of each prompt, shape (prompts,).
        level: coverage, between 0 and 1.

    Raises:
        ValueError: a count is impossible, or the lengths differ.
    """
    possible = np.less_equal(0, passed) & np.less_equal(passed, tests) & np.isfinite(tests)
    if np.shape(passed) != np.shape(tests) or not possible.all():
        raise ValueError("need 0 <= passed <= tests for every prompt")
    x, n, rate = _as_arrays(passed, tests)
    if n.size < 2:
        return ClusteredMean(rate)
    total, residual = float(n.sum()), x - rate * n
    error = math.sqrt(n.size / (n.size - 1) * float(residual @ residual)) / total
    wider, degrees = _small_sample(residual, n)
    rare = int(min((x > 0).sum(), (x < n).sum()))
    size = effective_tests(rate, wider, total, float(n @ n) / total, rare)
    return ClusteredMean(rate, error, *wilson(rate, size, float(scipy.special.stdtrit(degrees, 0.5 + level / 2))))


def clustered_mean(totals: ArrayLike, tests: ArrayLike, level: float = 0.95) -> ClusteredMean:
    """Compute the mean of a number per test, m = sum(totals) / sum(tests), with errors clustered by prompt.

    Like a rate it is a ratio of totals over prompts, with the same linearised error. The interval is Student's. With equally
    many tests in every prompt it is m ± t(k - 1) x the error; large prompts beside small ones make its error larger and its
    degrees of freedom fewer (Bell and McCaffrey, 2002). Where every prompt has the same mean, the spread is unknown, and there is
    no interval.

    Args:
        totals: of each prompt, the sum of its tests' numbers, shape (prompts,); or (means, prompts) for several means of as
            many tests, which give arrays of shape (means,).
        tests: of each prompt, shape (prompts,).
        level: coverage, between 0 and 1.
    """
    x, n, mean = _as_arrays(totals, tests)
    k, total = n.size, n.sum()
    if k < 2:
        return ClusteredMean(mean, *[_plain(np.full_like(mean, math.nan))] * 3)
    # For counts these are whole numbers, so that prompts with the same mean give a residual of exactly 0.
    residual = (x * total - x.sum(axis=-1, keepdims=True) * n) / total
    squares = np.matmul(residual[..., None, :], residual[..., None])[..., 0, 0]  # `np.vecdot` is of numpy 2
    error = np.sqrt(k / (k - 1) * squares) / float(total)
    wider, degrees = _small_sample(residual, n)
    half = np.where(error == 0, math.nan, float(scipy.special.stdtrit(degrees, 0.5 + level / 2)) * wider)
    return ClusteredMean(*map(_plain, (mean, error, mean - half, mean + half)))


def pooled_means(totals: ArrayLike, tests: ArrayLike) -> tuple[_Floats, _Floats]:
    """Compute many means with their standard errors, without intervals, as `clustered_mean` and `summarize_rate` do.

    Args:
        totals: of each mean and prompt, the sum of its tests' numbers, shape (means, prompts).
        tests: likewise; 0 where a prompt has none.

    Returns:
        Each of shape (means,); a mean without tests is nan, and an error of fewer than two prompts.
    """
    x, n = np.asarray(totals, dtype=np.float64), np.asarray(tests, dtype=np.float64)
    total, k = n.sum(axis=1), np.count_nonzero(n, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = x.sum(axis=1) / total
        error = np.sqrt(k / (k - 1) * ((x - mean[:, None] * n) ** 2).sum(axis=1)) / total
    return mean, np.where(k < 2, math.nan, error)
