"""Rank and gap correlation between two scorings of the same models, with intervals (Laban et al., EMNLP 2022, section 2.3)."""

from __future__ import annotations

import warnings
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
CONFIDENCE = 0.95
#: Name of an interval -> whether its bootstrap draws new (prompts, models).
DESIGNS: Mapping[str, tuple[bool, bool]] = {"contexts": (True, False), "models": (False, True), "both": (True, True)}
#: Every correlation of two models is 1 or -1.
MIN_MODELS = 3
#: With fewer models than this, resamples with three different ones are nearly the models themselves.
_MIN_RESAMPLED = 5
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


def verify_rates(
    rates: Mapping[str, Mapping[str, float]],
    human: Mapping[str, Mapping[str, float]],
    *,
    resamples: int = RESAMPLES,
) -> pd.DataFrame:
    """Compare rates, such as NND pass rates that you measured, with human scores.

    Args:
        rates: model -> category -> rate. The order of models is that of r_in_order.
        human: model -> category -> human score, higher is better: 1 less the share of the model's outputs with that error.
            It may hold other models and categories too.
        resamples: of the bootstrap over models; 0 for none. It needs at least five models.

    Returns:
        As `verify_scores`.

    Raises:
        NNDError: there are fewer than three models, or a model has no rate or human score for a category.
    """
    x = pd.DataFrame(rates, dtype=float).T
    y = pd.DataFrame(human, dtype=float).T.reindex_like(x)
    lacking = (x + y).isna().stack()
    if lacking.any():
        model, category = lacking.idxmax()
        raise NNDError(f"model {model!r} has no rate or no human score for category {category!r}")
    return verify_scores([*x.index], [*x.columns], x.to_numpy(), y.to_numpy(), resamples=resamples)


def verify_scores(
    models: Sequence[str],
    categories: Sequence[str],
    scores: Array,
    human: Array,
    *,
    resamples: int = RESAMPLES,
) -> pd.DataFrame:
    """Compare a scoring with people's, with percentile bootstrap intervals (Deutsch et al., TACL 2021).

    Scores that are given per prompt are resampled by prompt, with the same draw for both sides; means are not. Resamples of
    models need three different ones, as every correlation of two models is 1 or -1. Resamples in which a correlation is
    undefined are left out.

    Args:
        models: names.
        categories: names, of the human scores.
        scores: means, shape (models, categories) or (models, 1), or per prompt, as `add_up` returns them.
        human: people's scores in the same form.
        resamples: of the bootstrap; 0 for none.

    Returns:
        A row per category, then `AVERAGE`, and statistic: value, and the ends of an interval of each of `DESIGNS`, such as
        contexts_low and contexts_high; nan where it is undefined.

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
    per_prompt = 3 in (scores.ndim, human.ndim)
    for design, (by_prompt, by_model) in DESIGNS.items():
        low = high = np.full(len(table), np.nan)
        if resamples and (per_prompt or not by_prompt) and (len(models) >= _MIN_RESAMPLED or not by_model):
            drawn = _resample(scores, human, by_prompt, by_model, resamples).reshape(-1, len(table))
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="All-NaN slice")
                low, high = np.nanquantile(drawn, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2], axis=0)
        table[f"{design}_low"], table[f"{design}_high"] = low, high
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


def _resample(scores: Array, human: Array, by_prompt: bool, by_model: bool, resamples: int) -> Array:
    """Return the statistics of each resample, shape (resamples, categories + 1, 3)."""
    rng = np.random.default_rng(_SEED)
    parts = []
    for start in range(0, resamples, _BATCH):
        size = min(_BATCH, resamples - start)
        weights = None
        if by_prompt:
            [n] = {len(side) for side in (scores, human) if side.ndim == 3}
            weights = rng.multinomial(n, np.full(n, 1 / n), size=size).astype(np.float64)
        x, y = mean_scores(scores, weights), mean_scores(human, weights)
        if by_model:
            draws = _draw_models(rng, x.shape[-2], size)
            x, y = (
                np.take_along_axis(np.broadcast_to(side, (size, *side.shape[-2:])), draws[..., None], axis=1)
                for side in (x, y)
            )
        parts.append(_correlate(x, y))
    return np.concatenate(parts)


def _draw_models(rng: np.random.Generator, models: int, size: int) -> NDArray[np.int64]:
    """Return draws of models with replacement, shape (size, models) or a few rows fewer.

    Each draw is in the order of the models and has three different ones.
    """
    # Of twice as many draws enough are left: with five models nine in ten, with more nearly all.
    draws = np.sort(rng.integers(models, size=(2 * size, models)), axis=1)
    different = 1 + (np.diff(draws, axis=1) > 0).sum(axis=1)
    return np.asarray(draws[different >= MIN_MODELS][:size])
