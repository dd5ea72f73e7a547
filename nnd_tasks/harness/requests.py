"""Prompts and requests, each with what the later steps need to know of it. The answers are in `nnd_tasks.harness.answers`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from nnd_tasks.errors import NNDError
from nnd_tasks.harness.base_task import Instance

if TYPE_CHECKING:
    from nnd_tasks.harness.lengths import TokenCounter

logger = logging.getLogger("lm_eval.nnd")

#: Key of a document: the candidates that are left out because they do not fit.
LEFT_OUT = "left_out"
#: What a prompt has of its document's context.
ContextPart = Literal["whole", "shortened", "none"]


class Prompt(str):
    """A rendered prompt with the arguments of lm-eval that it was rendered with.

    Attributes:
        arguments: keyword arguments of `NNDTask.fewshot_context`, to render the prompt again with less context.
    """

    arguments: Mapping[str, Any]

    @classmethod
    def of(cls, text: str, arguments: Mapping[str, Any]) -> Prompt:
        """Return the prompt ``text``, rendered with ``arguments``."""
        prompt = cls(text)
        prompt.arguments = arguments
        return prompt


@dataclass
class Request(Instance):  # type: ignore[misc]
    """A request of lm-eval for the log-likelihood of one candidate.

    Attributes:
        candidate: index of the candidate in its document; None for the placeholder that stands for a document without any
            candidate to score.
        context_part: what the prompt has of the document's context.
        prompt_tokens: number of tokens that the model is conditioned on.
        tokens: number of tokens whose log-probabilities the model sums.
        target: a better candidate, for the samples.
    """

    candidate: int | None = None
    context_part: ContextPart = "whole"
    prompt_tokens: int = 0
    tokens: int = 0
    target: Any = None

    def describe(self) -> str:
        """Return the request's task, candidate and a test that needs it, for an error message."""
        text = self.args[1]
        shown = repr(text if len(text) <= 80 else f"{text[:79]}…")
        tests = self.doc["tests"]
        test = next((test for test in tests if self.candidate in (test["high"], test["low"])), tests[0])
        return f"task {self.task_name}: the candidate {shown} of test {test['test_id']}"


def with_tokens(
    pairs: Sequence[tuple[str, str]], candidates: Sequence[int], about: Mapping[str, Any], counter: TokenCounter
) -> list[Request]:
    """Return the requests of one document, with their numbers of tokens.

    Args:
        pairs: (context, continuation) of each candidate, or one pair for a placeholder.
        candidates: index of the candidate of each; empty for a placeholder.
        about: fields that all of them have.
        counter: counts the tokens.

    Raises:
        NNDError: a candidate has no token of its own, or more tokens than the model's window holds.
    """
    requests = []
    owners: Sequence[int | None] = candidates or [None]
    for idx, (candidate, pair) in enumerate(zip(owners, pairs, strict=True)):
        prompt_tokens, tokens = counter.lengths(*pair)
        own: dict[str, Any] = {"candidate": candidate, "prompt_tokens": prompt_tokens, "tokens": tokens}
        requests.append(Request(request_type="loglikelihood", arguments=pair, idx=idx, **about, **own))
    for request in requests:
        if request.tokens < 1:
            raise NNDError(
                f"{request.describe()} has no token of its own after its prompt with the tokenizer {counter.name}; change "
                "target_delimiter, or use append_eos"
            )
        if counter.window is not None and request.tokens > counter.window:
            raise OverlongError(
                f"{request.describe()} has {request.tokens:,} tokens, more than the model's window of "
                f"{counter.window:,}; take a model with a larger window, or leave such candidates out: "
                """--metadata '{"overlong": "leave_out"}'""",
                request,
            )
    return requests


class OverlongError(NNDError):
    """A candidate does not fit the model's window, with its context shortened as far as it may be.

    Args:
        message: what does not fit, and what to do.
        request: of the candidate.

    Attributes:
        candidate: index of the candidate in its document; None for a placeholder.
    """

    def __init__(self, message: str, request: Request) -> None:
        super().__init__(message)
        self.candidate = request.candidate


def leaving_out(
    make: Callable[[Mapping[str, Any]], list[Request]], doc: Mapping[str, Any], *, allowed: bool
) -> list[Request]:
    """Return the requests that ``make`` makes of a document; candidates that do not fit are left out if that is allowed.

    Raises:
        OverlongError: a candidate does not fit, and may not be left out.
    """
    while True:
        try:
            return make(doc)
        except OverlongError as error:
            if not allowed or error.candidate is None:
                raise
            doc = {**doc, LEFT_OUT: [*doc.get(LEFT_OUT, ()), error.candidate]}


def tell_of_window(requests: Sequence[Request], task: str | None, window: int | None) -> None:
    """Warn of contexts that were shortened and candidates that were left out, to fit the model's window."""
    shortened = {one.doc_id for one in requests if one.context_part == "shortened" and one.candidate is not None}
    if shortened:
        logger.warning(
            "%s: %d contexts lost their end to fit the model's window of %d tokens", task, len(shortened), window
        )
    left_out = sum({request.doc_id: len(request.doc.get(LEFT_OUT, ())) for request in requests}.values())
    if left_out:
        logger.warning(
            "%s: %d candidates do not fit the model's window of %d tokens; their tests count as unscored",
            task,
            left_out,
            window,
        )
