"""Compare models on the same tests: paired by test, by cluster."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binomtest

from nnd_tasks.analysis.compare.power import EXACT, LEVEL, RESAMPLES, detectable
from nnd_tasks.analysis.results import Paired, Run, left_out, pair
from nnd_tasks.baselines import ALL
from nnd_tasks.errors import NNDError
from nnd_tasks.statistics import clustered_standard_error, confidence_interval, paired_difference, pooled_rate

#: More would take hours.
MOST_RESAMPLES = 1_000_000
_CHUNK = 1 << 22  # entries of a block of resamples


@dataclass(frozen=True, slots=True)
class Rate:
    """A pass rate of one model on one category.

    Attributes:
        rate: between 0 and 1.
        standard_error: clustered.
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
        first: the model that is subtracted.
        second: the other one.
        difference: of the rates.
        low: lower end of the 95% interval (`nnd_tasks.statistics.paired_difference`); nan where there is none.
        high: its upper end.
        p: two-sided, by paired permutation over clusters.
        p_holm: the same after Holm's correction: on all tests over the pairs of models, on a category over the pairs and the
            categories.
        mcnemar: exact p value of McNemar's test, which takes tests for independent; for reference.
        detectable: smallest true difference found with probability 0.8 at level 0.05 after that correction, from the paired
            variance; infinity where none can be found, nan where nothing tells.
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

    @property
    def disagrees(self) -> bool:
        """Tell whether interval and p give different answers to: can the true difference be 0?"""
        return not math.isnan(self.low) and (self.low > 0 or self.high < 0) != (self.p < LEVEL)


@dataclass(frozen=True, slots=True)
class CategoryResult:
    """All models on one category.

    Attributes:
        category: its name, or ``all``.
        tests: how many.
        clusters: that have any.
        rates: model -> rate.
        differences: one per pair of models.
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
        best: 1 + how many models are significantly better (Holm over pairs).
        worst: number of models less those that are significantly worse.
        cluster: number of its rank group. Every model of a group is significantly better than every model of the groups
            below (as in the rankings of the WMT shared tasks); within a group some pairs may differ, but no line between
            its models parts all above from all below.
    """

    model: str
    rate: float
    best: int
    worst: int
    cluster: int


@dataclass(frozen=True)
class Comparison:
    """Models on one set.

    Attributes:
        paired: what was compared.
        categories: ``all``, then each category.
        ranks: the best first; empty for fewer than three models.
        resamples: of the permutation test.
        seed: of it.
        alone: a line per run that nothing could be compared with.
    """

    paired: Paired
    categories: list[CategoryResult]
    ranks: list[Rank]
    resamples: int
    seed: int
    alone: list[str] = field(default_factory=list)


def cluster_counts(
    passed: NDArray[np.bool_], clusters: Sequence[Any]
) -> tuple[NDArray[np.int64], NDArray[np.int64], list[Any]]:
    """Sum outcomes by cluster.

    Args:
        passed: shape (tests, models).
        clusters: of each test.

    Returns:
        Tests passed, shape (clusters, models), tests, shape (clusters,), and the clusters in order of appearance.
    """
    names = list(dict.fromkeys(clusters))
    place = {name: i for i, name in enumerate(names)}
    rows = np.fromiter((place[name] for name in clusters), dtype=np.int64, count=len(clusters))
    counts = np.zeros((len(names), passed.shape[1]), dtype=np.int64)
    np.add.at(counts, rows, passed.astype(np.int64))
    return counts, np.bincount(rows, minlength=len(names)), names


def permutation_p(differences: ArrayLike, resamples: int = RESAMPLES, seed: int = 0) -> NDArray[np.float64]:
    """Return two-sided p values of the paired permutation test: the two models trade places in random clusters.

    One mask of flips serves all pairs of models. With up to `EXACT` clusters that differ for a pair all flips are counted;
    else the p value is (1 + flips as extreme) / (1 + resamples), which is never 0 (Phipson and Smyth, 2010).

    Args:
        differences: tests passed by the second model less those by the first, shape (clusters, pairs), whole numbers.
        resamples: how many flips are drawn.
        seed: of the flips.

    Returns:
        Shape (pairs,).
    """
    found = np.asarray(differences, dtype=np.int64)
    observed = np.abs(found.sum(axis=0))
    p = np.empty(found.shape[1])
    many = np.count_nonzero(found, axis=0) > EXACT
    for j in np.flatnonzero(~many):
        p[j] = _exact_p(found[found[:, j] != 0, j], int(observed[j]))
    if many.any():
        extreme = np.zeros(int(many.sum()), dtype=np.int64)
        rng = np.random.default_rng(seed)
        k = found.shape[0]
        values = found[:, many].astype(np.float64)  # whole numbers stay exact
        step = max(4, _CHUNK // max(k, 1) // 4 * 4)  # numpy draws four signs at a time: blocks must not change them
        for start in range(0, resamples, step):
            size = min(step, resamples - start)
            signs = rng.integers(0, 2, size=(size, k), dtype=np.int8).astype(np.float64) * 2 - 1
            extreme += (np.abs(signs @ values) >= observed[many] - 0.5).sum(axis=0)
        p[many] = (1 + extreme) / (1 + resamples)
    return p


def _exact_p(values: NDArray[np.int64], observed: int) -> float:
    """Count all sign flips of a few whole numbers."""
    sums = np.zeros(1, dtype=np.int64)
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
    """Return the exact two-sided p value of McNemar's test on paired outcomes, shape (tests,); 1 where none differ."""
    only_second, only_first = int((second & ~first).sum()), int((first & ~second).sum())
    discordant = only_first + only_second
    return float(binomtest(only_second, discordant).pvalue) if discordant else 1.0


def compare_runs(
    runs: Sequence[Run], allow: Sequence[str] = (), resamples: int = RESAMPLES, seed: int = 0
) -> list[Comparison]:
    """Compare the models on every set that at least two of them ran on.

    Args:
        runs: as `nnd_tasks.analysis.results.read_runs` returns them.
        allow: parts of the protocol that may differ.
        resamples: of the permutation test, 100 to `MOST_RESAMPLES`.
        seed: of it, 0 or more.

    Raises:
        NNDError: no set has two models, runs cannot be compared, or ``resamples`` or ``seed`` is out of range.
    """
    if not 100 <= resamples <= MOST_RESAMPLES:
        raise NNDError(f"--resamples {resamples}: expected 100 to {MOST_RESAMPLES:,}")
    if seed < 0:
        raise NNDError(f"--seed {seed}: expected 0 or more")
    pairs = pair(runs, allow)
    found = [paired for paired in pairs if len(paired.runs) > 1]
    if not found:
        if any(one.set == other.set and one.model != other.model for one, other in combinations(runs, 2)):
            raise NNDError(left_out(runs, pairs)[0])  # on one set, but not asked the same
        raise NNDError(
            f"no set has two models: {', '.join(f'{run.model} on {run.set}' for run in runs)}; name runs of two models or more"
        )
    for paired in found:
        if not len(paired.tests):
            raise NNDError(f"{paired.set}: no test was scored by all of {', '.join(paired.models)}")
    notes = left_out(runs, pairs)
    return [replace(compare(paired, resamples, seed), alone=notes) for paired in found]


def compare(paired: Paired, resamples: int = RESAMPLES, seed: int = 0) -> Comparison:
    """Compare every pair of models on all tests and on each category.

    Args:
        paired: models on the same tests, at least two.
        resamples: of the permutation test.
        seed: of it.
    """
    categories = [ALL, *sorted(set(paired.tests["category"]))]
    pairs = math.comb(len(paired.runs), 2)
    asked = {name: pairs if name == ALL else pairs * (len(categories) - 1) for name in categories}
    results = [_category(name, paired, resamples, seed, asked[name]) for name in categories]
    # Two questions: which models differ, and on which categories. Each table of answers has one chance of a false alarm.
    for family in (results[:1], results[1:]):
        corrected = iter(holm([difference.p for result in family for difference in result.differences]))
        for result in family:
            result.differences[:] = [replace(found, p_holm=next(corrected)) for found in result.differences]
    ranks = rank(results[0]) if len(paired.runs) > 2 else []
    return Comparison(paired, results, ranks, resamples, seed)


def _category(name: str, paired: Paired, resamples: int, seed: int, hypotheses: int) -> CategoryResult:
    chosen = np.ones(len(paired.tests), dtype=bool) if name == ALL else (paired.tests["category"] == name).to_numpy()
    passed = paired.passed[chosen]
    counts, tests, clusters = cluster_counts(passed, paired.tests["cluster_id"][chosen].tolist())
    models = paired.models
    rates = {
        model: Rate(
            pooled_rate(counts[:, j], tests),
            clustered_standard_error(counts[:, j], tests),
            *confidence_interval(counts[:, j], tests),
        )
        for j, model in enumerate(models)
    }
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
            )
        )
    return CategoryResult(name, int(chosen.sum()), len(clusters), rates, differences)


def rank(overall: CategoryResult) -> list[Rank]:
    """Return the models in order of their rates, with what the corrected pairwise tests tell of their places."""
    corrected = holm([difference.p for difference in overall.differences])
    better: dict[str, set[str]] = {model: set() for model in overall.rates}  # who is significantly better
    for difference, p in zip(overall.differences, corrected, strict=True):
        if p < LEVEL and difference.difference:
            winner, loser = (
                (difference.second, difference.first)
                if difference.difference > 0
                else (difference.first, difference.second)
            )
            better[loser].add(winner)
    order = sorted(overall.rates, key=lambda model: (-overall.rates[model].rate, model))
    cluster, clusters = 1, {order[0]: 1}
    for i, (_, lower) in enumerate(pairwise(order), start=1):
        cluster += all(set(order[:i]) <= better[model] for model in order[i:])
        clusters[lower] = cluster
    return [
        Rank(
            model=model,
            rate=overall.rates[model].rate,
            best=1 + len(better[model]),
            worst=len(order) - sum(model in found for found in better.values()),
            cluster=clusters[model],
        )
        for model in order
    ]
