"""The MDE (minimum detectable effect): the smallest difference between two models that so many prompts can show."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from nnd_tasks.statistics import FEW, WITHIN

#: p values below this are significant.
LEVEL = 0.05
#: Random sign flips of a permutation test, and prompts up to which all flips are counted instead.
RESAMPLES = 10_000
EXACT = 13
#: Probability with which a difference as large as the MDE is found.
POWER = 0.8
#: A comparison whose MDE is above this cannot separate realistic models: it is underpowered.
LARGEST_MDE = 0.2

#: Assumed share of tests that two models decide differently, before they have run. On Quiz Design and Challenge 300 three
#: models of at most 3.9M parameters gave 0.10 to 0.18; each of them and SmolLM2-135M gave 0.29 to 0.45. (`WITHIN` is the assumed
#: correlation of their differences within a prompt: 0.11 to 0.21, and 0.15 to 0.40.)
DISAGREEMENT = 0.3


def least_p(prompts: int) -> float:
    """Return the smallest two-sided p value that sign flips of so many prompts allow: one pattern and its mirror image."""
    return 2.0 ** (1 - prompts) if prompts <= EXACT else 1 / (1 + RESAMPLES)


def detectable(standard_error: float, prompts: int, hypotheses: int = 1, most: float = 1.0) -> float:
    """Return the MDE: the smallest true difference that is found with probability `POWER`.

    A difference counts as found when its p value is below `LEVEL` after Holm's correction over ``hypotheses``. The MDE takes
    the hardest case, where nothing else is significant: p must be below level / hypotheses. It is
    (t(1 - level / hypotheses / 2) + t(power)) x standard error, with prompts - 1 degrees of freedom (Cohen, 1988; Miller,
    2024, section 5).

    Args:
        standard_error: of the difference.
        prompts: how many.
        hypotheses: number of p values that are corrected together.
        most: largest difference that is possible.

    Returns:
        Infinity where no difference can be found, because so few prompts allow no such p value or because the MDE would be
        above ``most``; nan for fewer than two prompts or a standard error of 0.
    """
    if prompts < 2 or math.isnan(standard_error) or standard_error == 0:
        return math.nan
    level = LEVEL / hypotheses
    if least_p(prompts) >= level:
        return math.inf
    mde = float(stdtrit(prompts - 1, [1 - level / 2, POWER]).sum()) * standard_error
    return mde if mde <= most else math.inf


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


def planned(tests: ArrayLike, hypotheses: int = 1) -> float:
    """Return the MDE that a category can be expected to have, before any model has run.

    The variance of a sum of n equally correlated differences is n d (1 + (n - 1) r) for a share d of discordant tests
    (`DISAGREEMENT`) and a correlation r within a prompt (`WITHIN`; Kish, 1965, section 5.4), so the standard error of the pooled
    difference is sqrt(sum_i n_i d (1 + (n_i - 1) r)) / sum_i n_i.

    Args:
        tests: of each prompt, at least one, shape (prompts,).
        hypotheses: as for `detectable`.

    Returns:
        As `detectable`; infinity also where the MDE is above d, the largest difference possible.
    """
    n = np.asarray(tests, dtype=np.float64)
    error = math.sqrt(float((n * DISAGREEMENT * (1 + (n - 1) * WITHIN)).sum())) / float(n.sum())
    return detectable(error, n.size, hypotheses, most=DISAGREEMENT)


def planned_by_category(clusters: Iterable[str], categories: Iterable[str]) -> dict[str, tuple[float, int]]:
    """Return category -> (`planned` MDE, number of prompts) from the prompt (``cluster_id``) and category of each test.

    The categories are taken to be compared, and corrected, together.
    """
    tests = pd.Series(1, [list(categories), list(clusters)]).groupby(level=[0, 1]).size().groupby(level=0)
    return {name: (planned(sizes, tests.ngroups), len(sizes)) for name, sizes in tests}


def is_underpowered(mde: float, prompts: int) -> bool:
    """Tell whether a category cannot separate realistic models: too few prompts, or an MDE above `LARGEST_MDE`."""
    return prompts < FEW or mde > LARGEST_MDE


def points(mde: float) -> str:
    """Return an MDE in percentage points, as text."""
    return "?" if math.isnan(mde) else "none" if math.isinf(mde) else f"{100 * mde:.0f}"


def marked_points(mde: float, prompts: int) -> str:
    """Return an MDE in percentage points, as text, with a mark where it is underpowered."""
    return f"{points(mde)}{' ‡' if is_underpowered(mde, prompts) else ''}"
