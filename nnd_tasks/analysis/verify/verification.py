"""Does a score rank models, and the gaps between them, as people do? (Laban et al., EMNLP 2022, sections 2.3 and 4)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnd_tasks.analysis.verify.correlation import MIN_MODELS, STATISTICS
from nnd_tasks.analysis.verify.human_scores import Array, HumanJudgements, means_by_model
from nnd_tasks.errors import NNDError
from nnd_tasks.wording import counted
from nnd_tasks.yaml_json import read_json

PUBLISHED = Path(__file__).with_name("published.json")
#: Name of the row that averages the categories.
AVERAGE = "average"
RESAMPLES = 10_000
CONFIDENCE = 0.95
#: Name of an interval -> whether its bootstrap draws new (prompts, models). The names are keys of files.
DESIGNS: Mapping[str, tuple[bool, bool]] = {"contexts": (True, False), "models": (False, True), "both": (True, True)}
#: With fewer models than this, resamples with three different ones are nearly the models themselves.
_MIN_RESAMPLED = 5
#: Resamples that are computed at a time; the memory that they need grows with them, the prompts and the models.
_BATCH = 1000


@lru_cache(maxsize=1)
def published() -> dict[str, Any]:
    """Return the authors' figures: NND rates of seven models on Quiz Design, and the paper's Table 1."""
    figures: dict[str, Any] = read_json(PUBLISHED)
    return figures


@dataclass(frozen=True, slots=True)
class Estimate:
    """A correlation.

    Attributes:
        value: the correlation; nan where it is undefined, because all models are tied.
        intervals: name of what was resampled (see `DESIGNS`) -> lower and upper end of the interval.
    """

    value: float
    intervals: Mapping[str, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class VerificationRow:
    """Agreement with people on one category, or on average over categories.

    Attributes:
        category: its name, or `AVERAGE`.
        tau: rank correlation, Kendall's tau-b.
        r: gap correlation over both orders of every pair of models.
        r_in_order: gap correlation with each pair subtracted in the order of the models.
    """

    category: str
    tau: Estimate
    r: Estimate
    r_in_order: Estimate


@dataclass(frozen=True)
class Verification:
    """How one scoring of models agrees with people's scores.

    Attributes:
        scorer: what scored: ``nnd``, or a metric.
        models: names, in the order that `VerificationRow.r_in_order` uses.
        categories: names, of the human scores.
        rows: one per category, then the average.
        scores: model -> category -> score; one category where the scorer has none of its own.
        human: model -> category -> human score.
    """

    scorer: str
    models: tuple[str, ...]
    categories: tuple[str, ...]
    rows: tuple[VerificationRow, ...]
    scores: Mapping[str, Mapping[str, float]]
    human: Mapping[str, Mapping[str, float]]

    @property
    def average(self) -> VerificationRow:
        """The row of the paper's Table 1."""
        return self.rows[-1]

    def table(self) -> list[dict[str, str | float]]:
        """Return category, tau, r, r_in_order and the ends of their intervals, one mapping per row."""
        lines = []
        for row in self.rows:
            line: dict[str, str | float] = {"category": row.category}
            for name in STATISTICS:
                estimate: Estimate = getattr(row, name)
                line[name] = estimate.value
                for design, (low, high) in estimate.intervals.items():
                    line |= {f"{name}_{design}_low": low, f"{name}_{design}_high": high}
            lines.append(line)
        return lines


def verify_rates(
    rates: Mapping[str, Mapping[str, float]],
    human: Mapping[str, Mapping[str, float]],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Verification:
    """Compare rates, such as NND pass rates that you measured, with human scores.

    Args:
        rates: model -> category -> rate. The order of models is that of `VerificationRow.r_in_order`.
        human: model -> category -> human score, higher is better: 1 less the share of the model's outputs with that error.
            It may hold other models and categories too.
        resamples: of the bootstrap over models; 0 for none. It needs at least five models.
        seed: of its draws.

    Raises:
        NNDError: there are fewer than three models, a model or category of ``rates`` has no human score, or a score is no
            finite number.
    """
    models = tuple(rates)
    categories = tuple(dict.fromkeys(category for row in rates.values() for category in row))
    for model in models:
        if model not in human:
            raise NNDError(f"model {model!r} has no human score; there are: {', '.join(human)}")
    x, y = (
        np.array([[_score(table, model, category, what) for category in categories] for model in models])
        for table, what in ((rates, "rate"), (human, "human score"))
    )
    return verify_scores("nnd", models, categories, x, y, resamples=resamples, seed=seed)


def _score(table: Mapping[str, Mapping[str, float]], model: str, category: str, what: str) -> float:
    """Return a finite number of a table; raise NNDError, which calls it ``what``, where there is none."""
    try:
        value = float(table[model][category])
    except KeyError:
        raise NNDError(f"model {model!r} has no {what} for category {category!r}") from None
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise NNDError(
            f"model {model!r}, category {category!r}: the {what} is not a number, found {table[model][category]!r}"
        )
    return value


def verify_scores(
    scorer: str,
    models: Sequence[str],
    categories: Sequence[str],
    scores: HumanJudgements | Array,
    human: HumanJudgements | Array,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Verification:
    """Compare a scoring with people's, with percentile bootstrap intervals (Deutsch et al., TACL 2021).

    Scores that are given per prompt are resampled by prompt, with the same draw for both sides; arrays of means are not.
    Resamples of models need three different ones, as every correlation of two models is 1 or -1. Resamples in which a
    correlation is undefined are left out.

    Args:
        scorer: name of what scored.
        models: names.
        categories: names, of the human scores.
        scores: means, shape (models, categories) or (models, 1), or the scores per prompt that they are the means of.
        human: people's scores in the same form, shape (models, categories).
        resamples: of the bootstrap; 0 for none.
        seed: of its draws.

    Raises:
        NNDError: there are fewer than three models, or no category.
    """
    if len(models) < MIN_MODELS:
        raise NNDError(
            f"{counted(len(models), 'model')} ({', '.join(models)}): a correlation over models needs at least {MIN_MODELS}, "
            "of two it is 1 or -1"
        )
    if not categories:
        raise NNDError("there is no category to verify")
    x, y = _means(scores, None), _means(human, None)
    values = _correlate(x, y)
    intervals: dict[str, dict[str, Array]] = {}
    per_prompt = any(isinstance(side, HumanJudgements) for side in (scores, human))
    for design, (by_prompt, by_model) in DESIGNS.items():
        if resamples and (per_prompt or not by_prompt) and (len(models) >= _MIN_RESAMPLED or not by_model):
            drawn = _resample(scores, human, by_prompt, by_model, resamples, seed)
            intervals[design] = {name: _ends(values) for name, values in drawn.items()}
    return Verification(
        scorer=scorer,
        models=tuple(models),
        categories=tuple(categories),
        rows=_rows((*categories, AVERAGE), values, intervals),
        scores=means_by_model(x, models, categories if x.shape[-1] == len(categories) else (scorer,)),
        human=means_by_model(y, models, categories),
    )


def _rows(
    names: Sequence[str], values: Mapping[str, Array], intervals: Mapping[str, Mapping[str, Array]]
) -> tuple[VerificationRow, ...]:
    """Return a row per name; ``values`` have shape (names,), ends of intervals (2, names)."""
    rows = []
    for i, category in enumerate(names):
        estimates = {}
        for name, value in values.items():
            ends = {design: of_design[name][:, i] for design, of_design in intervals.items()}
            estimates[name] = Estimate(
                float(value[i]), {design: (float(pair[0]), float(pair[1])) for design, pair in ends.items()}
            )
        rows.append(VerificationRow(category, **estimates))
    return tuple(rows)


def _correlate(x: Array, y: Array) -> dict[str, Array]:
    """Return statistic -> its values, shape (..., categories + 1), the last being the mean over categories.

    Args:
        x: scores, shape (..., models, categories) or (..., models, 1).
        y: scores of the same models, shape (..., models, categories).
    """
    a, b = np.swapaxes(x, -1, -2), np.swapaxes(y, -1, -2)
    values = {name: statistic(a, b) for name, statistic in STATISTICS.items()}
    return {
        name: np.concatenate([value, value.mean(axis=-1, keepdims=True)], axis=-1) for name, value in values.items()
    }


def _means(scores: HumanJudgements | Array, weights: Array | None) -> Array:
    """Return mean scores; scores per prompt are weighted as `HumanJudgements.means` says."""
    return scores.means(weights) if isinstance(scores, HumanJudgements) else scores


def _resample(
    scores: HumanJudgements | Array,
    human: HumanJudgements | Array,
    by_prompt: bool,
    by_model: bool,
    resamples: int,
    seed: int,
) -> dict[str, Array]:
    """Return statistic -> its values in each resample, shape (resamples, categories + 1)."""
    rng = np.random.default_rng(seed)
    prompts = {side.prompts for side in (scores, human) if isinstance(side, HumanJudgements)}
    if len(prompts) > 1:
        raise ValueError(f"scores and human scores are over different prompts: {sorted(prompts)}")
    parts: list[dict[str, Array]] = []
    for start in range(0, resamples, _BATCH):
        size = min(_BATCH, resamples - start)
        weights = None
        if by_prompt:
            [n] = prompts
            weights = rng.multinomial(n, np.full(n, 1 / n), size=size).astype(np.float64)
        x, y = _means(scores, weights), _means(human, weights)
        if by_model:
            draws = _draw_models(rng, x.shape[-2], size)
            x, y = (
                np.take_along_axis(np.broadcast_to(side, (size, *side.shape[-2:])), draws[..., None], axis=1)
                for side in (x, y)
            )
        parts.append(_correlate(x, y))
    return {name: np.concatenate([part[name] for part in parts]) for name in STATISTICS}


def _draw_models(rng: np.random.Generator, models: int, size: int) -> NDArray[np.int64]:
    """Return draws of models with replacement, shape (size, models) or a few rows fewer.

    Each draw is in the order of the models and has three different ones.
    """
    # Of twice as many draws enough are left: with five models nine in ten, with more nearly all.
    draws = np.sort(rng.integers(models, size=(2 * size, models)), axis=1)
    different = 1 + (np.diff(draws, axis=1) > 0).sum(axis=1)
    return np.asarray(draws[different >= MIN_MODELS][:size])


def _ends(values: Array) -> Array:
    """Return the ends of percentile intervals, shape (2, columns), of values of shape (resamples, columns)."""
    ends = np.full((2, values.shape[1]), np.nan)
    for i, column in enumerate(values.T):
        defined = column[~np.isnan(column)]
        if defined.size:
            ends[:, i] = np.quantile(defined, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return ends
