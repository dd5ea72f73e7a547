"""Compare models on the same tests: paired by test, clustered by prompt."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binomtest

from nnd_tasks.analysis.compare.power import EXACT, LEVEL, RESAMPLES, detectable
from nnd_tasks.analysis.results import Run
from nnd_tasks.analysis.side_by_side import Paired, not_compared, pair
from nnd_tasks.baselines import ALL
from nnd_tasks.errors import NNDError
from nnd_tasks.statistics import clustered_standard_error, confidence_interval, paired_difference, pooled_rate

if TYPE_CHECKING:
    from nnd_tasks.analysis.compare.adjusted import Adjusted
    from nnd_tasks.analysis.compare.margin_parts import MarginParts

#: More resamples would take hours.
MOST_RESAMPLES = 1_000_000
_CHUNK = 1 << 22  # entries of a block of resamples


@dataclass(frozen=True, slots=True)
class Rate:
    """A pass rate of one model on one category.

    Attributes:
        rate: between 0 and 1.
        standard_error: clustered by prompt.
        low: lower end of the 95% interval (`nnd_tasks.statistics.confidence_interval`).
        high: its upper end.
    """

    rate: float
    standard_error: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Difference:
    """How much higher the second model's rate is than the first's, on one category.

    Attributes:
        first: name of the model whose rate is subtracted.
        second: name of the other model.
        difference: rate of the second less rate of the first.
        low: lower end of the 95% interval (`nnd_tasks.statistics.paired_difference`); nan where there is none.
        high: its upper end.
        p: two-sided, by paired permutation over prompts.
        p_holm: p after Holm's correction: on all tests over the pairs of models, on a category over the pairs and the
            categories.
        mcnemar: exact p value of McNemar's test, which takes tests for independent; for reference.
        detectable: the MDE (`nnd_tasks.analysis.compare.power.detectable`) from the paired variance.
        standard_error: of the difference, clustered by prompt.
    """

    first: str
    second: str
    difference: float
    low: float
    high: float
    p: float
    p_holm: float
    mcnemar: float
    detectable: float
    standard_error: float

    @property
    def disagrees(self) -> bool:
        """Tell whether interval and p disagree on whether the true difference can be 0."""
        return not math.isnan(self.low) and (self.low > 0 or self.high < 0) != (self.p < LEVEL)


@dataclass(frozen=True, slots=True)
class CategoryResult:
    """All models on one category.

    Attributes:
        category: its name, or ``all``.
        tests: number of tests.
        clusters: number of prompts that have such tests.
        rates: model -> rate.
        differences: one per pair of models; empty where models are not compared.
    """

    category: str
    tests: int
    clusters: int
    rates: dict[str, Rate]
    differences: list[Difference]


@dataclass(frozen=True, slots=True)
class Rank:
    """A model's place.

    Attributes:
        model: its name.
        rate: overall.
        best: 1 + number of models that are significantly better (Holm over pairs).
        worst: number of models less those that are significantly worse.
        group: number of its rank group, from 1. Every model of a group is significantly better than every model of the
            groups below (as in the rankings of the WMT shared tasks). Within a group some pairs may differ, but it cannot be
            divided into two such groups.
    """

    model: str
    rate: float
    best: int
    worst: int
    group: int


@dataclass(frozen=True)
class Comparison:
    """Models on one set.

    Attributes:
        paired: what was compared.
        categories: ``all``, then each category.
        ranks: the best first; empty for fewer than three models.
        resamples: of the permutation test.
        seed: of its sign flips.
        not_compared: a line for each run that no other could be compared with.
        adjusted: model -> its rates without length and word frequency; empty where nobody asked for them.
        parts: model -> category -> parts of its margins; empty where they were not asked for, or no run has token scores.
    """

    paired: Paired
    categories: list[CategoryResult]
    ranks: list[Rank]
    resamples: int
    seed: int
    not_compared: list[str] = field(default_factory=list)
    adjusted: dict[str, Adjusted] = field(default_factory=dict)
    parts: Mapping[str, Mapping[str, MarginParts]] = field(default_factory=dict)


def cluster_counts(passed: NDArray[np.bool_], clusters: Sequence[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sum outcomes by prompt.

    Args:
        passed: shape (tests, models).
        clusters: the prompt (``cluster_id``) of each test.

    Returns:
        Tests passed, shape (prompts, models), and tests, shape (prompts,); prompts in order of appearance.
    """
    place = {name: i for i, name in enumerate(dict.fromkeys(clusters))}
    rows = np.fromiter((place[name] for name in clusters), dtype=np.int64, count=len(clusters))
    counts = np.zeros((len(place), passed.shape[1]), dtype=np.int64)
    np.add.at(counts, rows, passed.astype(np.int64))
    return counts, np.bincount(rows, minlength=len(place))


def _outcomes(paired: Paired, category: str) -> tuple[NDArray[np.bool_], NDArray[np.int64], NDArray[np.int64]]:
    """Return the outcomes of a category's tests, shape (tests, models), and what `cluster_counts` makes of them."""
    chosen = paired.tests["category"].eq(category).to_numpy(dtype=bool) | (category == ALL)
    passed = paired.passed[chosen]
    return passed, *cluster_counts(passed, paired.tests.loc[chosen, "cluster_id"].tolist())


def category_rates(paired: Paired) -> list[CategoryResult]:
    """Return the rates of each model on all tests, then on each category, without differences."""
    results = []
    for category in [ALL, *sorted(set(paired.tests["category"]))]:
        _, counts, tests = _outcomes(paired, category)
        rates = {
            model: Rate(
                pooled_rate(passed, tests), clustered_standard_error(passed, tests), *confidence_interval(passed, tests)
            )
            for model, passed in zip(paired.models, counts.T, strict=True)
        }
        results.append(CategoryResult(category, int(tests.sum()), len(tests), rates, []))
    return results


def permutation_p(differences: ArrayLike, resamples: int = RESAMPLES, seed: int = 0) -> NDArray[np.float64]:
    """Return two-sided p values of the paired permutation test: the two models trade places in random prompts.

    All pairs of models share the same flips. With up to `EXACT` prompts that differ for a pair, all flips are counted; with
    more the p value is (1 + flips as extreme) / (1 + resamples), which is never 0 (Phipson and Smyth, 2010).

    Args:
        differences: tests passed by the second model less those by the first, shape (prompts, pairs); or any other numbers
            whose signs the trade changes.
        resamples: number of flips that are drawn.
        seed: of the flips.

    Returns:
        Shape (pairs,).
    """
    values = np.asarray(differences, dtype=np.float64)
    # Rounding must not decide whether two sums are equal; whole numbers stay exact.
    observed = np.abs(values.sum(axis=0)) - 1e-9 * np.abs(values).sum(axis=0)
    p = np.empty(values.shape[1])
    many = np.count_nonzero(values, axis=0) > EXACT
    for j in np.flatnonzero(~many):
        p[j] = _exact_p(values[values[:, j] != 0, j], float(observed[j]))
    if many.any():
        extreme = np.zeros(int(many.sum()), dtype=np.int64)
        rng = np.random.default_rng(seed)
        k = values.shape[0]
        drawn = values[:, many]
        step = max(4, _CHUNK // max(k, 1) // 4 * 4)  # numpy draws four signs at a time: blocks must not change them
        for start in range(0, resamples, step):
            size = min(step, resamples - start)
            signs = rng.integers(0, 2, size=(size, k), dtype=np.int8).astype(np.float64) * 2 - 1
            extreme += (np.abs(signs @ drawn) >= observed[many]).sum(axis=0)
        p[many] = (1 + extreme) / (1 + resamples)
    return p


def _exact_p(values: NDArray[np.float64], observed: float) -> float:
    """Return the share of all sign flips of a few numbers whose sum is at least as far from 0 as ``observed``."""
    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate([sums + value, sums - value])
    return float(np.mean(np.abs(sums) >= observed))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p values after Holm's step-down correction (Holm, 1979), in the same order."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    corrected = [0.0] * len(p_values)
    highest = 0.0
    for rank, i in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[i]))
        corrected[i] = highest
    return corrected


def mcnemar(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> float:
    """Return the exact two-sided p value of McNemar's test on paired outcomes, shape (tests,); 1 where all are equal."""
    only_second, only_first = int((second & ~first).sum()), int((first & ~second).sum())
    discordant = only_first + only_second
    return float(binomtest(only_second, discordant).pvalue) if discordant else 1.0


def compare_runs(
    runs: Sequence[Run], allow: Sequence[str] = (), resamples: int = RESAMPLES, seed: int = 0
) -> list[Comparison]:
    """Compare the models on every set that at least two of them ran on.

    Args:
        runs: as `nnd_tasks.analysis.results.read_results` returns them.
        allow: parts of the protocol that may differ.
        resamples: of the permutation test, 100 to `MOST_RESAMPLES`.
        seed: of its sign flips, 0 or more.

    Raises:
        NNDError: no set has two models, runs cannot be compared, or ``resamples`` or ``seed`` is out of range.
    """
    if not 100 <= resamples <= MOST_RESAMPLES:
        raise NNDError(f"--resamples {resamples}: expected 100 to {MOST_RESAMPLES:,}")
    if seed < 0:
        raise NNDError(f"--seed {seed}: expected 0 or more")
    groups = pair(runs, allow)
    several = [paired for paired in groups if len(paired.runs) > 1]
    if not several:
        if any(one.set == other.set and one.model != other.model for one, other in combinations(runs, 2)):
            raise NNDError(not_compared(runs, groups)[0])  # on one set, but not asked the same
        raise NNDError(
            f"no set has two models: {', '.join(f'{run.model} on {run.set}' for run in runs)}; name runs of two models or more"
        )
    for paired in several:
        if paired.tests.empty:
            raise NNDError(f"{paired.set}: no test was scored by all of {', '.join(paired.models)}")
    notes = not_compared(runs, groups)
    return [replace(compare(paired, resamples, seed), not_compared=notes) for paired in several]


def compare(paired: Paired, resamples: int = RESAMPLES, seed: int = 0) -> Comparison:
    """Compare every pair of models on all tests and on each category.

    Args:
        paired: models on the same tests, at least two.
        resamples: of the permutation test.
        seed: of its sign flips.
    """
    overall, *categories = category_rates(paired)
    # Two questions: which models differ, and on which categories. The answers to each have one chance of a false alarm.
    for family in ([overall], categories):
        hypotheses = math.comb(len(paired.runs), 2) * len(family)
        differences = [_differences(result.category, paired, resamples, seed, hypotheses) for result in family]
        corrected = iter(holm([one.p for several in differences for one in several]))
        for result, several in zip(family, differences, strict=True):
            result.differences[:] = [replace(one, p_holm=next(corrected)) for one in several]
    ranks = rank(overall) if len(paired.runs) > 2 else []
    return Comparison(paired, [overall, *categories], ranks, resamples, seed)


def _differences(category: str, paired: Paired, resamples: int, seed: int, hypotheses: int) -> list[Difference]:
    """Return the differences of all pairs of models on a category; `Difference.p_holm` is still nan."""
    passed, counts, tests = _outcomes(paired, category)
    models = paired.models
    pairs = list(combinations(range(len(models)), 2))
    p_values = permutation_p(np.stack([counts[:, b] - counts[:, a] for a, b in pairs], axis=1), resamples, seed)
    differences = []
    for (a, b), p in zip(pairs, p_values, strict=True):
        exact = paired_difference(counts[:, a], counts[:, b], tests)
        differences.append(
            Difference(
                first=models[a],
                second=models[b],
                difference=exact.difference,
                low=exact.low,
                high=exact.high,
                p=float(p),
                p_holm=math.nan,
                mcnemar=mcnemar(passed[:, a], passed[:, b]),
                detectable=detectable(exact.standard_error, exact.clusters, hypotheses, resamples),
                standard_error=exact.standard_error,
            )
        )
    return differences


def rank(overall: CategoryResult) -> list[Rank]:
    """Return the models in order of their rates, with the places that the corrected p values leave them.

    Args:
        overall: all tests; the differences have their `Difference.p_holm`.
    """
    # Model -> the models that are significantly better than it.
    better: dict[str, set[str]] = {model: set() for model in overall.rates}
    for one in overall.differences:
        if one.p_holm < LEVEL and one.difference:
            winner, loser = (one.second, one.first) if one.difference > 0 else (one.first, one.second)
            better[loser].add(winner)
    order = sorted(overall.rates, key=lambda model: (-overall.rates[model].rate, model))
    group, groups = 1, {order[0]: 1}
    for i, model in enumerate(order[1:], start=1):
        group += all(set(order[:i]) <= better[lower] for lower in order[i:])
        groups[model] = group
    return [
        Rank(
            model=model,
            rate=overall.rates[model].rate,
            best=1 + len(better[model]),
            worst=len(order) - sum(model in winners for winners in better.values()),
            group=groups[model],
        )
        for model in order
    ]
