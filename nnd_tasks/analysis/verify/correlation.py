"""Rank and gap correlation between two scorings of the same models (Laban et al., EMNLP 2022, section 2.3).

Every function takes one vector of scores per scoring, or many at once: the last axis is that of models, the axes before it
are those of resamples and categories.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

#: Every correlation of two models is 1 or -1.
MIN_MODELS = 3
#: Relative: means that are equal on paper may differ in their last bits.
_ROUNDING = 1e-12

Array = NDArray[np.float64]


def gaps(scores: ArrayLike) -> Array:
    """Return the difference of every pair of models, first less second, the pairs in the order of the models.

    Args:
        scores: shape (..., models).

    Returns:
        Shape (..., models * (models - 1) / 2). A difference within rounding of the scores is exactly 0, a tie.
    """
    values = np.asarray(scores, dtype=np.float64)
    first, second = np.triu_indices(values.shape[-1], k=1)
    differences = values[..., first] - values[..., second]
    scale = np.abs(values).max(axis=-1, keepdims=True, initial=0.0)
    return np.where(np.abs(differences) <= _ROUNDING * scale, 0.0, differences)


def rank_correlation(x: ArrayLike, y: ArrayLike) -> Array:
    """Return Kendall's tau-b over models, which accounts for ties (Kendall, 1945).

    It is the cosine of the signs of the gaps: concordant less discordant pairs, over the geometric mean of the numbers of
    pairs that are not tied in ``x`` and in ``y``.

    Args:
        x: scores, shape (..., models).
        y: scores of the same models.

    Returns:
        Shape (...); nan where one of them has all models tied.
    """
    return _cosine(np.sign(gaps(x)), np.sign(gaps(y)))


def gap_correlation(x: ArrayLike, y: ArrayLike) -> Array:
    """Return Pearson's r over the gaps of all pairs of models, each pair taken in both orders.

    In both orders the gaps have mean 0, so r is the cosine of the gaps in any one order. It also equals Pearson's r between
    the scores themselves, since a sum of squared gaps is a multiple of the variance.

    Args:
        x: scores, shape (..., models).
        y: scores of the same models.

    Returns:
        Shape (...); nan where one of them has all models tied.
    """
    return _cosine(gaps(x), gaps(y))


def gap_correlation_in_order(x: ArrayLike, y: ArrayLike) -> Array:
    """Return Pearson's r over the gaps, each pair taken once: the earlier model less the later one.

    The paper's definition, which depends on the order of the models.

    Args:
        x: scores, shape (..., models).
        y: scores of the same models, in the same order.

    Returns:
        Shape (...); nan where one of them has all models tied.
    """
    a, b = gaps(x), gaps(y)
    return _cosine(a - a.mean(axis=-1, keepdims=True), b - b.mean(axis=-1, keepdims=True))


#: Name -> statistic, in the order of tables.
STATISTICS: Mapping[str, Callable[[ArrayLike, ArrayLike], Array]] = {
    "tau": rank_correlation,
    "r": gap_correlation,
    "r_in_order": gap_correlation_in_order,
}


def _cosine(a: Array, b: Array) -> Array:
    """Return the cosine of vectors on the last axis; nan where one of them is 0."""
    norm = np.sqrt((a * a).sum(axis=-1)) * np.sqrt((b * b).sum(axis=-1))
    with np.errstate(invalid="ignore", divide="ignore"):
        cosine = (a * b).sum(axis=-1) / norm
    return np.asarray(np.clip(np.where(norm > 0, cosine, np.nan), -1.0, 1.0))
