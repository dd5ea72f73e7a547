"""The smallest difference between two models that a number of prompts can show."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

LEVEL = 0.05
POWER = 0.8
FEW = 10  # clusters below which an error bar is not to be relied on
#: A smallest detectable difference above this finds nothing that models really differ by.
HOPELESS = 0.2

#: What is assumed of two models that have not run yet: the share of tests that they decide differently, and how alike their
#: differences are within a prompt. Three small models gave 0.10 to 0.18 and 0.11 to 0.21 on Quiz Design and Challenge 300;
#: models of different families disagree more.
DISAGREEMENT = 0.3
WITHIN = 0.15


def detectable(standard_error: float, clusters: int) -> float:
    """Return the smallest true difference that a two-sided t test at `LEVEL` finds with probability `POWER`.

    (t(1 - level/2) + t(power)) x standard error, with clusters - 1 degrees of freedom (Cohen, 1988; Miller, 2024, section 5);
    nan for fewer than two clusters or without variance.
    """
    if clusters < 2 or math.isnan(standard_error) or standard_error == 0:
        return math.nan
    return float(stdtrit(clusters - 1, 1 - LEVEL / 2) + stdtrit(clusters - 1, POWER)) * standard_error


def planned(tests: ArrayLike, disagreement: float = DISAGREEMENT, within: float = WITHIN) -> float:
    """Return the smallest difference that a category can be expected to show, before any model has run.

    The variance of a sum of n equally correlated differences is n d (1 + (n - 1) r) for a share d of discordant tests and a
    correlation r within a prompt (Kish, 1965, section 5.4), so the standard error of the pooled difference is
    sqrt(sum_i n_i d (1 + (n_i - 1) r)) / sum_i n_i.

    Args:
        tests: of each cluster, shape (clusters,).
        disagreement: share of tests that the two models decide differently.
        within: correlation of the differences within a cluster.
    """
    n = np.asarray(tests, dtype=np.float64)
    n = n[n > 0]
    if not n.size:
        return math.nan
    error = math.sqrt(float((n * disagreement * (1 + (n - 1) * within)).sum())) / float(n.sum())
    return detectable(error, n.size)


def planned_by_category(clusters: Iterable[str], categories: Iterable[str]) -> dict[str, tuple[float, int]]:
    """Return category -> (`planned`, number of clusters) from the cluster and category of each test."""
    sizes: dict[str, dict[str, int]] = {}
    for cluster, category in zip(clusters, categories, strict=True):
        counts = sizes.setdefault(category, {})
        counts[cluster] = counts.get(cluster, 0) + 1
    return {name: (planned(list(counts.values())), len(counts)) for name, counts in sorted(sizes.items())}


def is_hopeless(smallest: float, clusters: int) -> bool:
    """Tell whether a category is too small to tell models apart."""
    return clusters < FEW or smallest > HOPELESS


def shown(found: Mapping[str, tuple[float, int]], category: str) -> str:
    """Return the smallest detectable difference of a category in percentage points, marked where it is hopeless."""
    smallest, clusters = found[category]
    size = "?" if math.isnan(smallest) else f"{100 * smallest:.0f}"
    return f"{size}{' ‡' if is_hopeless(smallest, clusters) else ''}"
