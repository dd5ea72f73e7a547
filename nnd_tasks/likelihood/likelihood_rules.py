"""Rules: readings of a likelihood, each a number of a text that should be higher for the better one; `RULES` names them.

A rule is arithmetic on what one pass over a text keeps of each token (`nnd_tasks.likelihood.scored_tokens`). `adjust` takes
length and word frequency out of all margins of a run.

Known limits: a rule says nothing (nan) of a text without a token that it asks for. `adjust` also takes out knowledge that grows
with the difference in length, as of words left out or added.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.interpolate import CubicSpline

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Text:
    """What is known of a text of a test.

    Attributes:
        logprobs: log-probability of each token, in nats, shape (tokens,).
        total: their sum, as the samples hold it.
        size: UTF-8 bytes of the text.
        bare: mean log-probability per token without the context, in nats.
        expected: `nnd_tasks.likelihood.scored_tokens.STATS` -> of each token, shape (tokens,).
        differs: number of the first token of the first word that the other text of the test has not.
        goes_on: number of the first token after that word.
        stretches: log-probabilities that the model, then the amateur, gives to stretches of the text, shape (2, stretches).
    """

    logprobs: ArrayLike
    total: float = math.nan
    size: int = 1
    bare: float = math.nan
    expected: Mapping[str, ArrayLike] = field(default_factory=dict)
    differs: int = 0
    goes_on: int = 0
    stretches: ArrayLike = ((), ())


def average(values: Any) -> float:
    """Return the mean; nan of no values."""
    return float(np.mean(values)) if np.size(values) else math.nan


# ---------------------------------------------------------------- of one model


def mean(text: Text) -> float:
    """Σ log p / n, over n tokens (Laban et al., 2022, Eq. 1): the rule of our tasks.

    >>> mean(Text([-1, -2, -6], total=-9))
    -3.0
    """
    return text.total / np.size(text.logprobs)


def total(text: Text) -> float:
    """Σ log p: how likely the text is as a whole.

    >>> total(Text([-1, -2, -6], total=-9))
    -9
    """
    return text.total


def by_byte(text: Text) -> float:
    """Σ log p / UTF-8 bytes (``acc_bytes`` of lm-eval).

    >>> by_byte(Text([-1, -2, -6], total=-9, size=18))
    -0.5
    """
    return text.total / text.size


def pmi(text: Text) -> float:
    """Mean of log p(token | context) - log p(token): pointwise mutual information with the context (Li et al., 2016), by token.

    >>> pmi(Text([-1, -2, -6], total=-9, bare=-4.5))
    1.5
    """
    return mean(text) - text.bare


def z_score(text: Text) -> float:
    """Mean of (log p + H) / s, with the entropy H and the standard deviation s of log-probabilities in the token's place.

    It is Min-K%++ (Zhang et al., 2024, Eq. 3) of all tokens. Where s is 0 the model leaves no choice, and the token counts 0.

    >>> z_score(Text([-1, -2, -6], expected={"entropy": [1, 3, 2], "deviation": [0, 2, 2]}))
    -0.5
    """
    excess, deviation = np.add(text.logprobs, text.expected["entropy"]), np.asarray(text.expected["deviation"])
    return average(np.divide(excess, deviation, np.zeros(len(excess)), where=deviation != 0))


def by_entropy(text: Text) -> float:
    """Σ log p / Σ H: how much less likely the text is than the model's own would be.

    It is the Binoculars score (Hans et al., 2024, Eq. 4) of one model, negated.

    >>> by_entropy(Text([-1, -2, -6], total=-9, expected={"entropy": [1, 3, 2]}))
    -1.5
    """
    return text.total / (float(np.sum(text.expected["entropy"])) or math.nan)


def lowest(text: Text, percent: int) -> float:
    """Mean of the ``percent`` % lowest log p, at least one: Min-K% Prob (Shi et al., 2024, Eq. 1).

    >>> lowest(Text([-1, -2, -6, -3, -4]), 40)
    -5.0
    """
    return average(np.sort(text.logprobs)[: max(1, np.size(text.logprobs) * percent // 100)])


def opening(text: Text, tokens: int) -> float:
    """Mean log p of the first ``tokens`` tokens, which no later token can outweigh.

    >>> opening(Text([-1, -2, -6]), 2)
    -1.5
    """
    return average(np.asarray(text.logprobs)[:tokens])


def from_difference(text: Text) -> float:
    """Mean log p from the first word on that the other text has not, as of minimal pairs (Salazar et al., 2020, compare sums).

    >>> from_difference(Text([-1, -2, -6], differs=1))
    -4.0
    """
    return average(np.asarray(text.logprobs)[text.differs :])


def after_difference(text: Text) -> float:
    """Mean log p after that word: whether the model notices by what follows, which the length of the word cannot tell.

    >>> after_difference(Text([-1, -2, -6], differs=1, goes_on=2))
    -6.0
    """
    return average(np.asarray(text.logprobs)[text.goes_on :])


def endogenous(text: Text) -> float:
    """Mean of log p + V(s) - V(s'), with the logsumexp V of the logits before and after a token (Li et al., 2025, EndoRM).

    The last token is left out, as nothing was read after it. (With V = 0 at the end, the paper's sum is Σ log p and V of the
    prompt, which both texts share: `total`.)

    >>> endogenous(Text([-1, -2, -6], expected={"logsumexp": [9, 8, 5]}))
    0.5
    """
    return average(np.asarray(text.logprobs)[:-1] - np.diff(text.expected["logsumexp"]))


# ---------------------------------------------------------------- of two models

#: Weight of the amateur, and the lowest number of which a logarithm is taken: both are those of the authors' code.
GAMMA, TINY = 0.5, 1e-10


def contrast(text: Text) -> float:
    """Mean of log |p - q / 2|, with an amateur's probabilities q: ContrastScore (Wang et al., 2025), by token.

    Of another tokenizer, p and q are those of stretches that end with a token of both.

    >>> round(contrast(Text((), stretches=np.log([[0.5, 0.25], [0.2, 0.9]]))), 4)  # log 0.4 and log 0.2
    -1.2629
    """
    expert, amateur = np.exp(text.stretches)
    return average(np.log(np.maximum(np.abs(expert - GAMMA * amateur), TINY)))


# ---------------------------------------------------------------- of all tests of a run

#: Share of the two sums below which what is left of a margin is rounding: sums have the seven digits of a 32-bit float.
ROUNDING = 1e-6
#: Number of knots of f. With five, and with no noise at all, all curves that were tried (powers, logarithm, 1/n, exponential,
#: a bend) leave rates within 0.02 of 0.5; straight lines miss it by up to 0.09.
KNOTS = 5


def adjust(tests: pd.DataFrame, rarer: Floats) -> Floats:
    """Take what tokens, and rare tokens, cost a model out of its margins of sums, as learned from all other prompts.

    With a natural cubic spline f of the number of tokens n, and unigram surprise U, for a test of category c,

        S_better - S_worse = knowledge_c + f(n_better) - f(n_worse) + b (U_better - U_worse) + noise

    by least squares, weighted by 1 / tokens of both texts; what f and b do not explain decides the test. The idea is that of SLOR
    (Pauls and Klein, 2012). If each token costs 2 nats, a margin of -3 nats of a text with two tokens more becomes +1.

    Args:
        tests: with ``margin_sum``, ``high_sum``, ``high_tokens`` and so on, ``category`` and ``cluster_id``, as of a run.
        rarer: unigram surprise of the better text less that of the worse one, shape (tests,).

    Returns:
        Margins in nats, shape (tests,); 0 where only rounding can be left.
    """
    lengths = tests[["high_tokens", "low_tokens"]].to_numpy(dtype=float)
    knots = np.unique(np.quantile(lengths, np.linspace(0, 1, KNOTS)))
    columns = pd.DataFrame({"rarer": rarer}, tests.index)
    if len(knots) > 1:
        spline = CubicSpline(knots, np.eye(len(knots)), bc_type="natural")
        columns = columns.join(pd.DataFrame(spline(lengths[:, 0]) - spline(lengths[:, 1]), tests.index))
    # A category has a constant, so that knowledge is not taken for a price of tokens. What does not vary within a category has no
    # price.
    centred = columns - columns.groupby(tests["category"]).transform("mean")
    varies = centred.abs().max() > 1e-5 * columns.abs().max()
    columns, centred = columns.loc[:, varies].to_numpy(), centred.loc[:, varies]
    rows = np.column_stack([centred, pd.get_dummies(tests["category"]), tests["margin_sum"]]).astype(float)
    rows /= np.sqrt(np.maximum(lengths.sum(axis=1), 1))[:, None]
    whole, left = rows.T @ rows, tests["margin_sum"].to_numpy(dtype=float, copy=True)
    for own in tests.reset_index().groupby("cluster_id").indices.values():
        others = whole - rows[own].T @ rows[own]
        left[own] -= columns[own] @ np.linalg.lstsq(others[:-1, :-1], others[:-1, -1], rcond=1e-10)[0][: varies.sum()]
    sums = tests["high_sum"].abs() + tests["low_sum"].abs()
    return np.where(np.abs(left) <= ROUNDING * sums, 0.0, left)


#: Name -> rule. `adjust` is beside them.
RULES: Mapping[str, Callable[[Text], float]] = {
    "mean": mean,
    "sum": total,
    "byte": by_byte,
    "pmi": pmi,
    "z": z_score,
    "entropy": by_entropy,
    **{f"min_{percent}": partial(lowest, percent=percent) for percent in (10, 20, 40)},
    "first_10": partial(opening, tokens=10),
    "from_difference": from_difference,
    "after_difference": after_difference,
    "endogenous": endogenous,
    "contrast": contrast,
}
