"""Answers of a model that keep the log-probability of every scored token, besides their sum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


class TokenAnswer(tuple[float, bool]):
    """A model's response to a request: (sum of log-probabilities in nats, whether every token was the likeliest).

    lm-eval passes this object on as it is, from the model to the filters of a task.

    Attributes:
        logprobs: log-probability of each scored token, in nats, float32, shape (tokens,).
    """

    logprobs: NDArray[np.float32]

    @classmethod
    def of(cls, total: float, greedy: bool, logprobs: Sequence[float] | NDArray[Any]) -> TokenAnswer:
        """Return an answer. The sum is given too, because the model may have added numbers with more digits."""
        answer = cls((float(total), bool(greedy)))
        answer.logprobs = np.asarray(logprobs, dtype=np.float32)
        return answer
