"""From the model's answers to the metrics of a document."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nnd_tasks.errors import NNDError
from nnd_tasks.harness.metrics import ENOUGH, Breakdown, Score, coarse_precision, score_document
from nnd_tasks.harness.requests import ContextPart, Request
from nnd_tasks.harness.scored_tokens import ScoredTokens, scored_tokens
from nnd_tasks.harness.settings import Settings

if TYPE_CHECKING:
    from nnd_tasks.harness.lengths import TokenCounter

logger = logging.getLogger("lm_eval.nnd")


class Answer(tuple[float, bool, int]):
    """What lm-eval writes to the samples for one request: (sum of log-probabilities, is_greedy, number of tokens).

    Attributes:
        candidate: see `Request`.
        context_part: see `Request`.
        tokens: its scored tokens, where the setting ``tokens`` keeps them.
    """

    candidate: int | None
    context_part: ContextPart
    tokens: ScoredTokens | None

    @classmethod
    def to(cls, request: Request, response: Sequence[Any], counter: TokenCounter | None = None) -> Answer:
        """Return the model's ``response`` (sum, is_greedy) to a request, with its tokens if there is a ``counter``.

        With lm-eval 0.5, it is the only response in a list.

        Raises:
            NNDError: the model gave no log-probabilities of tokens, or the tokenizer does not tell what tokens stand for.
        """
        if isinstance(response, list):
            (response,) = response
        answer = cls((*response[:2], request.tokens))
        answer.candidate, answer.context_part = request.candidate, request.context_part
        answer.tokens = None if counter is None else scored_tokens(request, response, counter)
        return answer


def check_sums(sums: Sequence[float], task: str | None) -> str | None:
    """Return the 16-bit type that the model rounded its sums to, and warn of it; None where it did not.

    Also warns of sums that are not finite.

    Args:
        sums: sums of log-probabilities, shape (answers,).
        task: name of the task.

    Raises:
        NNDError: all of them are 0, as from a server that gives no log-probabilities of the prompt.
    """
    if len(sums) >= ENOUGH and not any(sums):
        raise NNDError(
            f"task {task}: every log-likelihood is 0: the server does not give the log-probabilities of the "
            "prompt (it must answer echo=true with logprobs); see docs/backends.md"
        )
    rounded_to = coarse_precision(sums)
    if rounded_to:
        logger.warning(
            "%s: the log-likelihoods are rounded to %s, which makes ties and wrong outcomes; add "
            "softmax_dtype=float32 to --model_args",
            task,
            rounded_to,
        )
    broken = sum(not math.isfinite(total) for total in sums)
    if broken:
        logger.warning(
            "%s: %d of %d log-likelihoods are infinite or no number; tests with nan count as unscored",
            task,
            broken,
            len(sums),
        )
    return rounded_to


def document_metrics(
    doc: Mapping[str, Any], answers: Sequence[Answer], settings: Settings, breakdown: Breakdown
) -> dict[str, Any]:
    """Return the metrics of one document, and what ``--log_samples`` writes of its candidates.

    Args:
        doc: the document.
        answers: to all of its requests.
        settings: of the task.
        breakdown: which rates to report.
    """
    scores = _scores(doc, [answer for answer in answers if answer.context_part != "none"], settings)
    without = None
    if settings.context_reliance:
        without = _scores(doc, [answer for answer in answers if answer.context_part == "none"], settings)
    return {
        **score_document(doc["tests"], scores, breakdown, ties=settings.ties, without_context=without),
        "truncated_contexts": int(
            any(one.context_part == "shortened" and one.candidate is not None for one in answers)
        ),
        "candidates": _records(scores),
        **({} if without is None else {"no_context": _records(without)}),
    }


def _scores(doc: Mapping[str, Any], answers: Iterable[Answer], settings: Settings) -> list[Score | None]:
    """Return the score of each candidate of a document; None for one that could not be scored."""
    scores: list[Score | None] = [None] * len(doc["candidates"])
    for answer in answers:
        if answer.candidate is not None:
            total, _, tokens = answer
            text = settings.scored(doc["candidates"][answer.candidate])
            scores[answer.candidate] = Score(float(total), tokens, max(len(text.encode("utf-8")), 1))
    return scores


def _records(scores: Sequence[Score | None]) -> list[dict[str, Any] | None]:
    return [
        {"sum": _finite(score.total), "mean": _finite(score.mean), "tokens": score.tokens, "bytes": score.size}
        if score
        else None
        for score in scores
    ]


def _finite(value: float) -> float | None:
    """Return ``value``, or None where JSON has no number for it."""
    return value if math.isfinite(value) else None
