"""How two models differ, which differences are shown, and which could be: the permutation test, Holm's correction, and the MDE.

The MDE (minimum detectable effect) is the smallest difference between two models that so many prompts can show.

Known limits: the MDE of fewer than `FEW` prompts, or above 0.4, is rough, as real pass rates end at 1 and counts
tie. Prompts that share a source, such as an article, count as independent.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, stdtrit

from nnd_tasks.statistics import FEW, ClusteredMean, clustered_mean

if TYPE_CHECKING:
    import pandas as pd

#: p values below this are significant.
LEVEL = 0.05
#: Random sign flips of a permutation test, and prompts up to which all flips are counted instead.
RESAMPLES = 10_000
EXACT = 13
#: Random flips that are drawn at a time, and pairs whose sums are looked at: numpy draws four signs at once, so a multiple of
#: four.
_BLOCK = 500
#: Probability with which a difference as large as the MDE is found.
POWER = 0.8
#: Prompts up to which the power of the permutation test is simulated, and sums that are drawn for it: studies times flips.
SIMULATED = 50
DRAWN_SUMS = 2_000_000
#: A comparison whose MDE is above this share of the largest difference, or of fewer than `FEW` prompts, cannot separate
#: realistic models: it is underpowered, unless a difference is shown.
LARGEST_MDE = 0.2


# ---------------------------------------------------------------- two models


def paired_difference(passed_a: ArrayLike, passed_b: ArrayLike, tests: ArrayLike, span: float = 1.0) -> ClusteredMean:
    """Compute how much higher the second model's pooled pass rate is, with an interval paired by test and clustered by prompt.

    The difference of the pooled rates is the `clustered_mean` of the differences, d = sum(passed_b - passed_a) / sum(tests).
    What is hard or easy for both models cancels within each prompt, which is what pairing gains. Where every prompt differs by
    the same share, as with two equal models, there is no interval. It lies between -1 and 1, and is unreliable for small k (below
    about 10) where the rates are near 0 or 1.

    Args:
        passed_a: tests that the first model passes of each prompt, shape (prompts,), or (pairs, prompts).
        passed_b: tests that the second one passes, in the same order and shape.
        tests: tests scored of each prompt, shape (prompts,).
        span: how large a difference of other numbers than counts can be.
    """
    difference = clustered_mean(np.subtract(passed_b, passed_a), tests)
    low, high = np.clip(difference[2:], -span, span)
    return difference._replace(low=low, high=high)


def permutation_p(
    differences: ArrayLike, pairs: tuple[ArrayLike, ArrayLike] | None = None, resamples: int = RESAMPLES, seed: int = 0
) -> NDArray[np.float64]:
    """Return two-sided p values of the paired permutation test: the two models trade places in random prompts.

    All pairs of models share the same flips. With up to `EXACT` prompts that differ for a pair, all flips are counted; with
    more the p value is (1 + flips as extreme) / (1 + resamples), which is never 0 (Phipson and Smyth, 2010).

    Args:
        differences: tests passed by the second model less those by the first, shape (prompts, pairs); or any other numbers
            whose signs the trade changes. Beside ``pairs``: tests passed by each model, shape (prompts, models).
        pairs: the first and the second models, as columns, shape (pairs,) each: flips are then summed for each model, not for
            each pair.
        resamples: number of flips that are drawn.
        seed: of the flips.

    Returns:
        Shape (pairs,).
    """
    values = np.asarray(differences, dtype=np.float64)
    if pairs is None:
        values = np.column_stack([np.zeros(len(values)), values])
        pairs = np.zeros(values.shape[1] - 1, int), np.arange(1, values.shape[1])
    firsts, seconds = map(np.asarray, pairs)
    blocks = [slice(start, start + _BLOCK) for start in range(0, len(firsts), _BLOCK)]
    p, least, many = np.empty(len(firsts)), np.empty(len(firsts)), np.empty(len(firsts), bool)
    for block in blocks:
        moved = values[:, seconds[block]] - values[:, firsts[block]]
        # Rounding must not decide whether two sums are equal; whole numbers stay exact.
        least[block] = observed = np.abs(moved.sum(axis=0)) - 1e-9 * np.abs(moved).sum(axis=0)
        many[block] = few = np.count_nonzero(moved, axis=0) > EXACT
        for j in np.flatnonzero(~few):
            sums = np.zeros(1)
            for value in moved[moved[:, j] != 0, j]:
                sums = np.concatenate([sums + value, sums - value])
            p[block.start + j] = np.mean(np.abs(sums) >= observed[j])
    if many.any():
        most = np.abs(values).sum(axis=0).max()
        whole = (values == np.rint(values)).all() and most < 2**23
        # The sums of whole numbers are exact in half the bits, or a quarter, which takes less time.
        kind, small = (np.float32 if whole else np.float64), (np.int16 if whole and most < 2**14 else None)
        least = np.ceil(least) if whole else least
        moved, extreme, rng = values.astype(kind), np.ones(len(firsts), int), np.random.default_rng(seed)
        for start in range(0, resamples, _BLOCK):
            size = min(_BLOCK, resamples - start), len(values)
            sums = ((rng.integers(0, 2, size, dtype=np.int8).astype(kind) * 2 - 1) @ moved).T.astype(
                small or kind, order="C"
            )
            for block in blocks:
                drawn = sums[seconds[block]] - sums[firsts[block]]
                extreme[block] += np.count_nonzero(
                    np.abs(drawn, out=drawn) >= least[block, None].astype(drawn.dtype), axis=1
                )
        p[many] = extreme[many] / (1 + resamples)
    return p


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Return p values after Holm's step-down correction (Holm, 1979), in the same order; nan, which counts for none, stays.

    Shape (hypotheses,), as that of ``p_values``.
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = p.argsort()
    hypotheses = np.count_nonzero(~np.isnan(p)) - np.arange(len(p))
    corrected = np.empty_like(p)
    corrected[order] = np.maximum.accumulate(np.minimum(1, hypotheses * p[order]))
    return corrected


# ---------------------------------------------------------------- what can be detected


def _count_flips(prompts: int) -> int:
    """How many flips the permutation test looks at, mirror images left out, with the one that was observed."""
    return 2 ** (prompts - 1) if prompts <= EXACT else 1 + RESAMPLES


def detectable(standard_error: float, prompts: int, hypotheses: int = 1) -> float:
    """The MDE: the smallest true difference that the permutation test finds with probability `POWER`.

    A difference is found when its p value is below `LEVEL` after Holm's correction over ``hypotheses``. The MDE takes the
    hardest case, where nothing else is significant: p must be below level / hypotheses.

    Args:
        standard_error: of the difference.
        prompts: how many.
        hypotheses: number of p values that are corrected together.

    Returns:
        A share, which exceeds 1 where even the largest possible difference is found less often. Infinity where sign flips of so
        few prompts allow no such p value; nan for fewer than two prompts or a standard error of 0.
    """
    if prompts < 2 or math.isnan(standard_error) or standard_error == 0:
        return math.nan
    return standard_error * _detectable_errors(prompts, LEVEL / hypotheses)


@lru_cache(maxsize=1024)
def _detectable_errors(prompts: int, level: float) -> float:
    """`detectable` in standard errors, for a test at a level; infinity where no flip is rare enough.

    Up to `SIMULATED` prompts their differences are drawn from a normal distribution, always the same draws. Let r_i be the
    differences of one draw less their mean, and d a true difference that is added to all. Then the flip with signs s_i is at
    least as extreme as what was observed if |sum s_i r_i + d N| >= d k, with N = sum s_i. That is so if d is at most the larger
    one of sum s_i r_i / (k - N) and -sum s_i r_i / (k + N). So d is found if it is above all but the few largest of these
    limits, as many as the level allows. The mean of a draw is normal and independent of its r_i, so it needs no drawing.

    With more prompts the test is as good as Student's: t(1 - level / 2) + t(`POWER`) (Cohen, 1988; Miller, 2024, section 5).
    """
    flips = _count_flips(prompts)
    allowed = math.ceil(level * flips) - 2  # flips beside the observed one that may be as extreme, as p < level
    if allowed < 0:
        return math.inf
    if prompts > SIMULATED:
        return float(stdtrit(prompts - 1, [1 - level / 2, POWER]).sum())
    rng = np.random.default_rng(prompts)
    if prompts <= EXACT:
        signs = 1 - 2 * ((np.arange(1, flips)[:, None] >> np.arange(prompts)) & 1)
    else:
        signs = rng.choice([-1, 1], size=(flips - 1, prompts))
    residuals = rng.normal(size=(min(4000, DRAWN_SUMS // flips), prompts))
    residuals -= residuals.mean(axis=1, keepdims=True)
    sums, total = residuals @ signs.T, signs.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):  # a drawn flip of all signs, or of none, is always as extreme
        limits = np.maximum(sums / (prompts - total), -sums / (prompts + total))
    limits[:, np.abs(total) == prompts] = np.inf
    found_above = math.sqrt(prompts) * np.partition(limits, -1 - allowed, axis=1)[:, -1 - allowed]
    differences = np.linspace(0, found_above.max() + 2, 500)
    power = ndtr(differences[:, None] - found_above).mean(axis=1)
    return float(np.interp(POWER, power, differences))


def needed(standard_error: float, prompts: int, difference: float, hypotheses: int = 1) -> float:
    """Return the number of prompts at which a difference is `detectable`, if all are like those measured; rounded to two digits.

    The standard error falls with the square root of the number of prompts.

    Args:
        standard_error: of the difference, as measured, above 0.
        prompts: with how many.
        difference: to be found.
        hypotheses: as for `detectable`.

    Returns:
        Infinity where no number is enough, as a permutation test gives no such p value.
    """

    def enough(count: int) -> bool:
        return detectable(standard_error * math.sqrt(prompts / count), count, hypotheses) <= difference

    counts = range(2, 10**9)  # more than any study has
    place = bisect_left(counts, True, key=enough)
    return float(f"{counts[place]:.2g}") if place < len(counts) else math.inf


# ---------------------------------------------------------------- many differences


def judge_differences(differences: pd.DataFrame) -> pd.DataFrame:
    """Add what the p values of differences say when they are corrected together.

    Args:
        differences: a row per category and pair of models, with ``prompts``, what `paired_difference` gives of it, its ``p``, its
            ``span``, and its ``question``: which models differ, or on which parts. The answers to each have one chance of a
            false alarm.

    Returns:
        The same without ``span`` and ``question``, and from ``mde`` on with the rest of `nnd_tasks.results.compare.Comparison`.
    """
    question, span = differences.groupby(differences.pop("question"))["p"], differences.pop("span")
    hypotheses = question.transform("size")
    differences["mde"] = [*map(detectable, differences["standard_error"], differences["prompts"], hypotheses)]
    differences.loc[differences["mde"] > span, "mde"] = math.inf  # outcomes cannot differ by so much
    differences["p_holm"] = question.transform(holm)
    differences["significant"] = differences["p_holm"] < LEVEL
    excludes_zero = (differences["low"] > 0) | (differences["high"] < 0)
    differences["disagrees"] = differences["low"].notna() & (excludes_zero != differences["significant"])
    too_few = (differences["prompts"] < FEW) | (differences["mde"] / span > LARGEST_MDE)
    differences["underpowered"] = ~differences["significant"] & too_few
    # Where a difference is shown, as others made Holm's correction milder, the hardest case says nothing.
    differences.loc[differences["significant"] & np.isinf(differences["mde"]), "mde"] = math.nan
    return differences.assign(hypotheses=hypotheses)
