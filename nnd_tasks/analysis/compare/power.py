"""The smallest difference between two models that a number of prompts can show."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from nnd_tasks.statistics import WITHIN

LEVEL = 0.05
#: Random sign flips of a permutation test, and clusters up to which all flips are counted instead.
RESAMPLES = 10_000
EXACT = 13
POWER = 0.8
FEW = 10  # clusters below which an error bar is not to be relied on
#: A smallest detectable difference above this finds nothing that models really differ by.
HOPELESS = 0.2

#: What is assumed of two models that have not run yet: the share of tests that they decide differently, and (`WITHIN`) how
#: alike their differences are within a prompt. Three small models gave 0.10 to 0.18 and 0.11 to 0.21 on Quiz Design and
#: Challenge 300; models of different families disagree more.
DISAGREEMENT = 0.3


def least_p(clusters: int, resamples: int = RESAMPLES) -> float:
    """Return the smallest two-sided p value that sign flips of so many clusters allow: one pattern and its mirror image."""
    return 2.0 ** (1 - clusters) if clusters <= EXACT else 1 / (1 + resamples)


def detectable(
    standard_error: float, clusters: int, hypotheses: int = 1, resamples: int = RESAMPLES, most: float = 1.0
) -> float:
    """Return the smallest true difference that is found with probability `POWER`.

    *Found* is a p below `LEVEL` after Holm's correction over ``hypotheses`` of which no other is found: below level /
    hypotheses. The difference is (t(1 - level / hypotheses / 2) + t(power)) x standard error, with clusters - 1 degrees of
    freedom (Cohen, 1988; Miller, 2024, section 5).

    Args:
        standard_error: of the difference.
        clusters: how many.
        hypotheses: that the p value is corrected over.
        resamples: of the permutation test.
        most: what no difference can exceed.

    Returns:
        Infinity where no difference can be found: so few clusters allow no such p, or it would have to be above ``most``;
        nan for fewer than two clusters or without variance.
    """
    if clusters < 2 or math.isnan(standard_error) or standard_error == 0:
        return math.nan
    level = LEVEL / hypotheses
    if least_p(clusters, resamples) >= level:
        return math.inf
    found = float(stdtrit(clusters - 1, 1 - level / 2) + stdtrit(clusters - 1, POWER)) * standard_error
    return found if found <= most else math.inf


def planned(tests: ArrayLike, disagreement: float = DISAGREEMENT, within: float = WITHIN, hypotheses: int = 1) -> float:
    """Return the smallest difference that a category can be expected to show, before any model has run.

    The variance of a sum of n equally correlated differences is n d (1 + (n - 1) r) for a share d of discordant tests and a
    correlation r within a prompt (Kish, 1965, section 5.4), so the standard error of the pooled difference is
    sqrt(sum_i n_i d (1 + (n_i - 1) r)) / sum_i n_i.

    Args:
        tests: of each cluster, shape (clusters,).
        disagreement: share of tests that the two models decide differently.
        within: correlation of the differences within a cluster.
        hypotheses: as for `detectable`.

    Returns:
        As `detectable`; infinity also above ``disagreement``, which bounds the difference.
    """
    n = np.asarray(tests, dtype=np.float64)
    n = n[n > 0]
    if not n.size:
        return math.nan
    error = math.sqrt(float((n * disagreement * (1 + (n - 1) * within)).sum())) / float(n.sum())
    return detectable(error, n.size, hypotheses, most=disagreement)


def planned_by_category(clusters: Iterable[str], categories: Iterable[str]) -> dict[str, tuple[float, int]]:
    """Return category -> (`planned`, number of clusters) from the cluster and category of each test.

    Two models are taken to be compared on all of the categories at once.
    """
    sizes: dict[str, dict[str, int]] = {}
    for cluster, category in zip(clusters, categories, strict=True):
        counts = sizes.setdefault(category, {})
        counts[cluster] = counts.get(cluster, 0) + 1
    found = {name: list(counts.values()) for name, counts in sorted(sizes.items())}
    return {name: (planned(counts, hypotheses=len(found)), len(counts)) for name, counts in found.items()}


def is_hopeless(smallest: float, clusters: int) -> bool:
    """Tell whether a category is too small to tell models apart; infinity is above all."""
    return clusters < FEW or smallest > HOPELESS


def points(smallest: float) -> str:
    """Return a smallest detectable difference in percentage points, as text."""
    return "?" if math.isnan(smallest) else "none" if math.isinf(smallest) else f"{100 * smallest:.0f}"


def shown(found: Mapping[str, tuple[float, int]], category: str) -> str:
    """Return the smallest detectable difference of a category in percentage points, marked where it is hopeless."""
    smallest, clusters = found[category]
    return f"{points(smallest)}{' ‡' if is_hopeless(smallest, clusters) else ''}"
