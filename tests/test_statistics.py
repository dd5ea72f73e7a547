"""Rates and errors against slow definitions, in exact fractions and by simulation."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from benchmarks.coverage import missed, outcomes, percentiles, plain_t
from nnd_tasks.significance import paired_difference
from nnd_tasks.statistics import WITHIN, clustered_mean, summarize_rate

quick = settings(max_examples=50)

#: One cluster: (passed, tests), also without tests.
cluster = st.integers(0, 30).flatmap(lambda tests: st.tuples(st.integers(0, tests), st.just(tests)))
clusters = st.lists(cluster, max_size=12)


def slow_rate(pairs):
    """Return the share of passed tests, test by test."""
    outcomes = [i < passed for passed, tests in pairs for i in range(tests)]
    return float(Fraction(sum(outcomes), len(outcomes))) if outcomes else math.nan


def slow_error(pairs):
    """Return the linearised error of the ratio of totals over the clusters that have tests, exact up to the root."""
    pairs = [(passed, tests) for passed, tests in pairs if tests]
    k = len(pairs)
    if k < 2:
        return math.nan
    total = sum(tests for _, tests in pairs)
    rate = Fraction(sum(passed for passed, _ in pairs), total)
    mean_size = Fraction(total, k)
    spread = sum((passed - rate * tests) ** 2 for passed, tests in pairs) / (k - 1)  # of the cluster residuals
    return math.sqrt(spread / k / mean_size**2)


def slow_small_sample(residuals, sizes):
    """Return error and degrees of freedom of Bell and McCaffrey for a mean over tests, with matrices."""
    n = np.array(sizes, dtype=float)
    k, share = n.size, n / n.sum()
    scale = np.diag(1 / np.sqrt(1 - share))
    centre = np.eye(k) - np.outer(share, np.ones(k))  # from counts to residuals
    covariance = scale @ centre @ np.diag(n * (1 + (n - 1) * WITHIN)) @ centre.T @ scale
    scaled = scale @ np.array([float(one) for one in residuals])
    return float(np.linalg.norm(scaled) / n.sum()), float(np.trace(covariance) ** 2 / np.trace(covariance @ covariance))


def slow_interval(pairs, level):
    """Return where the score test with an effective number of tests holds a rate possible (Wilson, 1927), found by search."""
    pairs = [(passed, tests) for passed, tests in pairs if tests]
    passed, total = sum(x for x, _ in pairs), sum(n for _, n in pairs)
    rate = Fraction(passed, total)
    error, degrees = slow_small_sample([x - rate * n for x, n in pairs], [n for _, n in pairs])
    p = float(rate)
    rare = min(sum(x > 0 for x, _ in pairs), sum(x < n for x, n in pairs))
    design = max(1.0, error**2 / (p * (1 - p) / total)) if rare else 0.0
    size = total / ((rare * design + 0.5 * sum(n * n for _, n in pairs) / total) / (rare + 0.5))
    t = stats.t.ppf(0.5 + level / 2, degrees)

    def far(q):
        return (p - q) ** 2 * size - t * t * q * (1 - q)

    low = optimize.brentq(far, 0, p, xtol=1e-13) if p and far(p) < 0 < far(0) else p if p else 0.0
    high = optimize.brentq(far, p, 1, xtol=1e-13) if p < 1 and far(p) < 0 < far(1) else p if p < 1 else 1.0
    if p == 1:
        low = 1 / (1 + t * t / size)
    if p == 0:
        high = 1 - 1 / (1 + t * t / size)
    return low, high


def close(value):
    return pytest.approx(value, rel=1e-9, abs=1e-9, nan_ok=True)


# ---------------------------------------------------------------- definitions


@quick
@given(clusters)
def test_rate_and_error_are_those_of_the_definition(pairs):
    found = summarize_rate(*np.reshape(pairs, (-1, 2)).T)
    assert found.mean == close(slow_rate(pairs))
    assert found.standard_error == close(slow_error(pairs))
    if sum(tests > 0 for _, tests in pairs) < 2:
        assert math.isnan(found.low)
        assert math.isnan(found.high)


def test_known_values():
    # 3 of 6 pass; residuals 2 - 1, 0 - 1, 1 - 1: sqrt(3/2 * 2) / 6
    assert summarize_rate([2, 0, 1], [2, 2, 2]).standard_error == close(math.sqrt(3) / 6)
    uneven = summarize_rate(np.array([1, 100], dtype=np.int8), (1, 101))
    assert uneven.mean == close(101 / 102)  # not the mean of 1 and 100/101


WRONG = {
    "more passed than tests": ([1, 3], [1, 2]),
    "negative passed": ([-1, 1], [1, 2]),
    "negative tests": ([-1, 1], [-1, 2]),
    "passed without tests": ([1, 1], [0, 2]),
    "broadcast of a number": (1, [1, 2]),
    "nan passed": ([math.nan, 1], [1, 2]),
    "infinite": ([1, 1], [math.inf, 2]),
}


@pytest.mark.parametrize("name", WRONG)
def test_counts_that_cannot_be_are_refused(name):
    with pytest.raises(ValueError):
        summarize_rate(*WRONG[name])


# ---------------------------------------------------------------- intervals


@quick
@given(clusters, st.sampled_from([0.5, 0.8, 0.95, 0.99]))
@example([(0, 1), (1, 1)], 0.95)
@example([(10, 10), (10, 10), (1, 1)], 0.95)
@example([(0, 10), (0, 2)], 0.95)
@example([(2, 4), (3, 6)], 0.95)  # no spread at all
def test_the_interval_is_wilsons_with_the_effective_number_of_tests(pairs, level):
    assume(sum(tests > 0 for _, tests in pairs) >= 2)
    rate, _, low, high = summarize_rate(*np.transpose(pairs), level)
    assert (low, high) == pytest.approx(slow_interval(pairs, level), abs=1e-6)
    assert 0 <= low <= rate <= high <= 1
    assert high > low, "all alike is no certainty"


@pytest.mark.parametrize(
    ("rates", "prompts", "sizes"),
    [
        ((0.9,), 10, "equal"),
        ((0.98,), 10, "heavy"),
        ((0.5, 0.5), 4, "heavy"),
        ((0.9, 0.9), 20, "heavy"),
    ],
)
def test_intervals_cover_a_rate_near_1_and_a_difference_of_equal_models(rates, prompts, sizes):
    """Of a rate and of a difference, where intervals that are often taken miss the truth."""
    runs, rng = 400, np.random.default_rng(len(rates))
    ours = often_taken = 0
    for n, passed in zip(*outcomes(rng, runs, prompts, rates, sizes), strict=True):
        if len(rates) == 1:
            x = passed[:, 0]
            ours += missed(*summarize_rate(x, n)[2:], rates[0])
            often_taken += missed(*plain_t(x, n), rates[0])
        else:
            ours += missed(*paired_difference(*passed.T, n)[2:], 0)
            often_taken += missed(*percentiles(passed[:, 1] - passed[:, 0], n, rng), 0)
    assert ours / runs < 0.05 + 3 * math.sqrt(0.05 / runs)
    assert often_taken / runs > 0.08, "the test can tell"


def test_the_clustered_error_is_the_spread_of_the_rate_over_repeated_studies():
    generator = np.random.default_rng(7)
    sizes = generator.choice([1, 2, 6, 12], size=(3000, 80))
    passed = generator.binomial(sizes, generator.beta(1.2, 0.8, size=sizes.shape))
    found = [summarize_rate(x, n)[:2] for x, n in zip(passed, sizes, strict=True)]
    rates, errors = np.transpose(found)
    assert errors.mean() == pytest.approx(rates.std(), rel=0.06)


# ---------------------------------------------------------------- two models on the same tests

#: One cluster: (passed by the first, passed by the second, tests), also without tests.
paired_cluster = st.integers(0, 20).flatmap(
    lambda tests: st.tuples(st.integers(0, tests), st.integers(0, tests), st.just(tests))
)
paired_clusters = st.lists(paired_cluster, max_size=12)


def compared(triples):
    return paired_difference(*([triple[i] for triple in triples] for i in range(3)))


def slow_difference(triples):
    """Return the difference of the rates and its linearised error, exact up to the root."""
    triples = [triple for triple in triples if triple[2]]
    k, total = len(triples), sum(n for _, _, n in triples)
    if not k:
        return math.nan, math.nan
    difference = sum(Fraction(b - a, total) for a, b, _ in triples)
    if k < 2:
        return float(difference), math.nan
    spread = sum((b - a - difference * n) ** 2 for a, b, n in triples) / (k - 1)
    return float(difference), math.sqrt(spread * k / total**2)


@quick
@given(paired_clusters)
@example([(1, 2, 4)] * 12)  # all differ alike: the spread is unknown
@example([(1, 3, 4), (0, 0, 0)])
@example([(1, 0, 1), (1, 0, 1), (0, 0, 1)])  # the interval ends at -1
@example([(0, 1, 1), (0, 1, 1), (0, 0, 1)])  # at 1
@example([])
def test_a_difference_has_the_error_of_the_definition_and_the_interval_of_bell_and_mccaffrey(triples):
    result = compared(triples)
    assert (result.mean, result.standard_error) == close(slow_difference(triples))
    triples = [triple for triple in triples if triple[2]]
    if len(triples) < 2 or not result.standard_error:
        assert math.isnan(result.low)
        assert math.isnan(result.high)
        return
    difference = Fraction(sum(b - a for a, b, _ in triples), sum(n for *_, n in triples))
    error, degrees = slow_small_sample([b - a - difference * n for a, b, n in triples], [n for *_, n in triples])
    low, high = stats.t.interval(0.95, degrees, loc=float(difference), scale=error)
    assert (result.low, result.high) == pytest.approx((max(-1, low), min(1, high)), abs=1e-8)


# ---------------------------------------------------------------- a number per test


@quick
@given(st.lists(st.integers(-1000, 1000), min_size=3, max_size=20))
def test_the_mean_of_one_test_per_prompt_has_the_t_interval_of_textbooks(values):
    found = clustered_mean(values, [1] * len(values))
    assert found.mean == close(float(np.mean(values)))
    assert found.standard_error == close(float(stats.sem(values)))
    expected = stats.ttest_1samp(values, 0).confidence_interval() if found.standard_error else (math.nan, math.nan)
    assert (found.low, found.high) == close(tuple(expected))
