"""Rank and gap correlation between two scorings of the same models, with intervals (Laban et al., EMNLP 2022, section 2.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from nnd_tasks.errors import NNDError
from nnd_tasks.wording import counted

Array = NDArray[np.float64]
#: What `correlate` returns: Kendall's tau-b over models, and Pearson's r over gaps, of each pair in both orders and in one.
STATISTICS = ("tau", "r", "r_in_order")
#: Name of the row that averages the categories.
AVERAGE = "average"
RESAMPLES = 10_000
#: Ends of an interval of 95%.
ENDS = (0.025, 0.975)
#: Every correlation of two models is 1 or -1.
MIN_MODELS = 3
_SEED = 0
#: Resamples that are computed at a time; the memory that they need grows with them, the prompts and the models.
_BATCH = 1000
#: Relative: means that are equal on paper may differ in their last bits.
_ROUNDING = 1e-12


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


def correlate(x: ArrayLike, y: ArrayLike) -> Array:
    """Return the `STATISTICS` of two scorings of the same models, all of them functions of the gaps.

    - tau, Kendall's tau-b, which accounts for ties (Kendall, 1945), is the cosine of the signs of the gaps: concordant less
      discordant pairs, over the geometric mean of the numbers of pairs that are not tied in ``x`` and in ``y``.
    - r takes each pair of models in both orders. The gaps then have mean 0, so r is their cosine. It also equals Pearson's r
      between the scores themselves, since a sum of squared gaps is a multiple of the variance.
    - r_in_order, the paper's definition, takes each pair once, the earlier model less the later one.

    Args:
        x: scores, shape (..., models).
        y: scores of the same models, in the same order.

    Returns:
        Shape (..., 3); nan where one of them has all models tied.
    """
    a, b = gaps(x), gaps(y)
    centred = (side - side.mean(axis=-1, keepdims=True) for side in (a, b))
    return np.stack([_cosine(np.sign(a), np.sign(b)), _cosine(a, b), _cosine(*centred)], axis=-1)


def _cosine(a: Array, b: Array) -> Array:
    with np.errstate(invalid="ignore"):  # nan for a vector of zeros
        cosine = (a * b).sum(axis=-1) / (np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1))
    return np.asarray(np.clip(cosine, -1.0, 1.0))


def verify_rates(rates: Mapping[str, Mapping[str, float]], human: Mapping[str, Mapping[str, float]]) -> pd.DataFrame:
    """Compare rates, such as NND pass rates that you measured, with human scores.

    Args:
        rates: model -> category -> rate. The order of models is that of r_in_order.
        human: model -> category -> human score, higher is better: 1 less the share of the model's outputs with that error.
            It may hold other models and categories too.

    Returns:
        As `verify_scores`, without intervals.

    Raises:
        NNDError: there are fewer than three models, or a model has no rate or human score for a category.
    """
    x = pd.DataFrame(rates, dtype=float).T
    y = pd.DataFrame(human, dtype=float).T.reindex_like(x)
    lacking = (x + y).isna().stack()
    if lacking.any():
        model, category = lacking.idxmax()
        raise NNDError(f"model {model!r} has no rate or no human score for category {category!r}")
    return verify_scores([*x.index], [*x.columns], x.to_numpy(), y.to_numpy())


def verify_scores(models: Sequence[str], categories: Sequence[str], scores: Array, human: Array) -> pd.DataFrame:
    """Compare a scoring with people's, with percentile bootstrap intervals over prompts (Deutsch et al., TACL 2021).

    Scores that are given per prompt are resampled, with the same draw for both sides; means are not. Resamples in which a
    correlation is undefined are left out.

    Args:
        models: names.
        categories: names, of the human scores.
        scores: means, shape (models, categories) or (models, 1), or per prompt, as `add_up` returns them.
        human: people's scores in the same form.

    Returns:
        A row per category, then `AVERAGE`, and statistic: value, and, where scores are per prompt, the ends of its interval,
        low and high; nan where it is undefined.

    Raises:
        NNDError: there are fewer than three models.
    """
    if len(models) < MIN_MODELS:
        raise NNDError(
            f"{counted(len(models), 'model')} ({', '.join(models)}): a correlation over models needs at least {MIN_MODELS}, "
            "of two it is 1 or -1"
        )
    index = pd.MultiIndex.from_product([[*categories, AVERAGE], STATISTICS], names=["category", "statistic"])
    table = pd.DataFrame({"value": _correlate(mean_scores(scores), mean_scores(human)).ravel()}, index)
    if prompts := {len(side) for side in (scores, human) if side.ndim == 3}:
        [n] = prompts
        rng = np.random.default_rng(_SEED)
        drawn = []
        for start in range(0, RESAMPLES, _BATCH):
            size = min(_BATCH, RESAMPLES - start)
            weights = rng.multinomial(n, np.full(n, 1 / n), size=size).astype(np.float64)
            drawn.append(_correlate(mean_scores(scores, weights), mean_scores(human, weights)))
        resampled = pd.DataFrame(np.concatenate(drawn).reshape(-1, len(table)), columns=index)
        table["low"], table["high"] = (resampled.quantile(end) for end in ENDS)
    return table.reset_index()


def mean_scores(scores: Array, weights: Array | None = None) -> Array:
    """Return the mean score of each model over its outputs.

    Args:
        scores: means, which are returned as they are, or per prompt, as `add_up` returns them.
        weights: how often each prompt counts, shape (resamples, prompts); None counts each once.

    Returns:
        Shape (models, categories), or (resamples, models, categories); nan for a model without outputs.
    """
    if scores.ndim == 2:
        return scores
    sums = np.tensordot(np.ones(len(scores)) if weights is None else weights, scores, axes=1)
    with np.errstate(invalid="ignore"):
        return np.asarray(sums[..., :-1] / sums[..., -1:])


def _correlate(x: Array, y: Array) -> Array:
    """Return statistics, shape (..., categories + 1, 3), the last category being the mean over categories.

    Args:
        x: scores, shape (..., models, categories) or (..., models, 1).
        y: scores of the same models, shape (..., models, categories).
    """
    values = correlate(np.swapaxes(x, -1, -2), np.swapaxes(y, -1, -2))
    return np.concatenate([values, values.mean(axis=-2, keepdims=True)], axis=-2)
