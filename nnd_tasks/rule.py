"""The rule of Near-Negative Distinction: when does a model pass a test? Everything that counts tests asks `passes`.

`passes_all` is the stricter one for a whole prompt.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Likelihood:
    """The log-likelihood of one text, as numbers; or of many texts, as arrays or columns of one length.

    Attributes:
        total: sum of the log-probabilities of the text's tokens, in nats; nan if the text could not be scored.
        tokens: number of those tokens. It stays 1 for a score that is not a sum over tokens, such as a reward.
        size: UTF-8 bytes of the text, without delimiter and end-of-sequence token; at least 1.
    """

    total: Any
    tokens: Any = 1
    size: Any = 1


class Normalization(Enum):
    """What a text's log-likelihood is divided by, so that texts of different lengths can be compared."""

    TOKENS = "the number of its tokens, as in the paper"
    BYTES = "the number of its UTF-8 bytes"
    NONE = "nothing: the sum itself"


class Ties(Enum):
    """What a test counts whose two texts are equally likely."""

    #: It fails: the paper's rule is strict.
    FAIL = "fail"
    #: It passes if the better text comes second in the source, as in the authors' code (`utils_nnd.run_nnd`).
    AUTHORS = "authors"


def normalize(text: Likelihood, by: Normalization = Normalization.TOKENS) -> Any:
    """Divide a log-likelihood by a length.

    By tokens it is Eq. 1 of the paper (Laban et al. 2022, Section 2.2), for a text of N tokens w after a context ct:
    LL(C) = sum over i of log P(w_i | ct, w_1, ..., w_i-1) / N. A text of 4 tokens whose log-probabilities sum to -6 has
    LL = -1.5.
    """
    match by:
        case Normalization.TOKENS:
            return text.total / text.tokens
        case Normalization.BYTES:
            return text.total / text.size
        case Normalization.NONE:
            return text.total


def passes(
    high: Likelihood,
    low: Likelihood,
    by: Normalization = Normalization.TOKENS,
    ties: Ties = Ties.FAIL,
    *,
    high_first: Any = True,
) -> Any:
    """Tell which tests pass: 1 where the better text is likelier, 0 where it is not, nan where a text has no likelihood.

    A model passes a test if LL(C_high) > LL(C_low) (Eq. 2 of the paper), with LL as in `normalize`. Three tests:

    * better text: sum -6 over 4 tokens, LL = -1.5; worse text: sum -5 over 2 tokens, LL = -2.5. It passes, although the sum
      of the worse text is higher.
    * better text: sum -6 over 4 tokens; worse text: sum -3 over 2 tokens. Both have LL = -1.5. A tie fails.
    * worse text: not scored. The test counts neither as passed nor as failed.

    Args:
        high: of the better text of each test.
        low: of its worse text.
        by: what the log-likelihoods are divided by.
        ties: what a tie counts.
        high_first: whether the better text comes first in the source; matters only with `Ties.AUTHORS`.
    """
    better, worse = normalize(high, by), normalize(low, by)
    passed = np.greater(better, worse)
    if ties is Ties.AUTHORS:
        passed |= np.equal(better, worse) & np.logical_not(high_first)
    return np.where(np.isnan(better) | np.isnan(worse), np.nan, passed)
