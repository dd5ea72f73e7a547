"""Requests of lm-eval in tokens: what cannot be scored, and the responses to a call, with or without those of each token."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from shared_prefix.model_error import ModelError

#: What a model expected in the place of a token: whether the token is the likeliest (1 or 0); the binary logarithm of its rank,
#: which is 1 more than the number of likelier ones; of what the model expects there, the entropy and the standard deviation of
#: the log-probabilities, in nats; the logsumexp of its logits; the log-probability of its likeliest token, in nats.
TOKEN_COLUMNS = ("top1", "rank", "entropy", "deviation", "logsumexp", "top")


class TokenStats(NamedTuple):
    """What a model expected in the places of the tokens of a text, added up over them.

    Attributes:
        top1: number of tokens that the model finds likeliest.
        rank: of the binary logarithms of the tokens' ranks.
        entropy: of the entropies of what the model expects, in nats.
    """

    top1: int = 0
    rank: float = 0.0
    entropy: float = 0.0


class TokenAnswer(tuple[float, bool]):
    """A model's response to a request: (sum of log-probabilities in nats, whether every token was the likeliest).

    lm-eval passes this object on as it is, from the model to the filters of a task.

    Attributes:
        logprobs: log-probability of each scored token, in nats, float32, shape (tokens,); None where they are not kept.
        stats: of the scored tokens; None where the model was not asked for them.
        expected: `TOKEN_COLUMNS` of each scored token, shape (tokens, 6); None likewise, and where tokens are not kept.
    """

    logprobs: NDArray[np.float32] | None
    stats: TokenStats | None = None
    expected: NDArray[np.float32] | None = None

    @classmethod
    def of(cls, total: float, greedy: bool, logprobs: Sequence[float] | NDArray[Any]) -> TokenAnswer:
        """Return an answer. The sum is given too, because the model may have added numbers with more digits."""
        answer = cls((float(total), bool(greedy)))
        answer.logprobs = np.asarray(logprobs, dtype=np.float32)
        return answer


@dataclass
class ScoredRequest:
    """A request while it is scored.

    Attributes:
        index: of the request in the call.
        targets: tokens to score.
        logprobs: log-probabilities of the targets that are scored so far, in nats, in the order of the targets.
        greedy: whether all of these targets were the likeliest tokens.
        stats: `TOKEN_COLUMNS` of each of these targets; empty where nobody asks for them.
    """

    index: int
    targets: list[int]
    logprobs: list[float] = field(default_factory=list)
    greedy: bool = True
    stats: list[list[float]] = field(default_factory=list)

    @property
    def answer(self) -> TokenAnswer:
        """What the model says to the request, when all of its targets are scored."""
        answer = TokenAnswer.of(sum(self.logprobs), self.greedy, self.logprobs)
        if any(self.stats):
            top1, rank, entropy, *_ = np.sum(self.stats, axis=0).tolist()
            answer.stats, answer.expected = (
                TokenStats(int(top1), rank, entropy),
                np.asarray(self.stats, dtype=np.float32),
            )
        return answer


#: Text (context, continuation), tokens of the context, tokens of the continuation. Parts of rolling requests have no text.
TokenRequest = tuple[Any, list[int], list[int]]
#: What a model says to a request: the sum of log-probabilities in nats, and whether every token was the likeliest.
Response = tuple[float, bool]


def check_requests(requests: Iterable[TokenRequest], window: int) -> None:
    """Raise ModelError if a request has no token to score, or none before it, or more than ``window`` to score."""
    for text, context, continuation in requests:
        text_shown = f"{text[1]!r:.80}" if text else "a part of a rolling request"
        if not context or not continuation:
            missing = "the context of" if continuation else "the continuation"
            raise ModelError(f"{missing} {text_shown} has no token of its own; it cannot be scored")
        if len(continuation) > window:
            raise ModelError(
                f"the continuation {text_shown} has more than {window} tokens, which do not fit the model's window"
            )


def collect_responses(
    lm: Any, requests: Sequence[TokenRequest], scored: Iterable[ScoredRequest], disable_tqdm: bool
) -> list[Response]:
    """Return the responses in the order of the requests. Each goes to lm-eval's cache as soon as it is known.

    Args:
        lm: a model of lm-eval; ``lm.token_scores`` says whether responses keep the log-probability of every token, and
            ``lm.token_stats``, where it has that, whether they keep `TokenStats`.
        requests: of one call.
        scored: each of them with all of its targets scored, in any order.
        disable_tqdm: whether to show no progress.
    """
    responses: list[Response] = [(math.nan, False)] * len(requests)
    silent, has_stats = disable_tqdm or lm.rank != 0, getattr(lm, "token_stats", False)
    for request in tqdm(scored, total=len(requests), disable=silent, desc="Running loglikelihood requests"):
        i, answer = request.index, request.answer
        if not lm.token_scores:
            answer.logprobs = answer.expected = None
        responses[i] = response = answer if lm.token_scores or has_stats else (answer[0], answer[1])
        if requests[i][0] is not None:
            lm.cache_hook.add_partial("loglikelihood", requests[i][0], response)
    return responses
