"""Prompts and requests, each with what the later steps need to know of it."""

from __future__ import annotations

import logging
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from random import Random
from typing import TYPE_CHECKING, Any, Literal

from lm_eval.api.instance import Instance
from lm_eval.api.samplers import ContextSampler

from nnd_tasks.errors import NNDError, cut_middle
from nnd_tasks.task.sandbox import doubles_space
from nnd_tasks.text import counted

if TYPE_CHECKING:
    from shared_prefix.lengths import BaseCounter

logger = logging.getLogger("lm_eval.nnd")

#: A prompt with its candidates and the tests between them, see `nnd_tasks.task.documents.cluster_documents`.
Doc = Mapping[str, Any]
#: Key of a document: the candidates that are left out because they do not fit.
LEFT_OUT = "left_out"
#: Is scored, and its score ignored, in the place of an empty text, for which lm-eval has no likelihood.
PLACEHOLDER = "."
#: What a prompt has of its document's context.
ContextPart = Literal["whole", "shortened", "none"]
#: What may be wrong with how a candidate and its prompt become tokens: a token has characters of both, or the prompt begins with
#: the BOS token twice.
FLAWS = ("merged", "bos_twice")
#: What is said of so many requests.
_WARNINGS = {
    "shortened": "contexts lost their end to fit the model's window of {window} tokens",
    "left_out": "candidates do not fit the model's window of {window} tokens; their tests count as unscored",
    "merged": "candidates begin within a token of their prompt, so other tokens than their own are scored; begin "
    "target_delimiter with white space",
    "two_spaces": "candidates begin with a space after a prompt that ends in one, so that the model reads two; end the prompt "
    "without a space, or set target_delimiter: ''",
    "bos_twice": "candidates follow a prompt that begins with the BOS token twice; leave it out of the prompt or the chat "
    "template, or add add_bos_token=False to --model_args",
    "empty": "candidates are empty or white space; only with append_eos they have a token to score, else their tests count as "
    "unscored",
}


class ClusterSampler(ContextSampler):  # type: ignore[misc]
    """Draws few-shot exemplars for a prompt from prompts about other contexts.

    The draw depends on the seed and the prompt's ``cluster_id`` alone. lm-eval's own sampler draws for one document after
    the other, so the exemplars of a document depend on which others are evaluated.
    """

    def __init__(self, df: Sequence[Doc] | None = None, *, rnd: int | None = None) -> None:
        super().__init__(df)
        self.seed = rnd  # lm-eval 0.5 gives the few-shot seed of the run here

    def set_rnd(self, rnd: int | None) -> ClusterSampler:
        """Take the few-shot seed of the run, as lm-eval 0.4.13 gives it."""
        self.seed = rnd
        return self

    def sample(
        self,
        n: int,
        eval_doc: Doc | None = None,
        df: Sequence[Doc] | None = None,
        **kwargs: Any,
    ) -> list[Doc]:
        """Draw ``n`` documents with other prompts than ``eval_doc``, and about other contexts.

        Several prompts can ask about one context. A good candidate for one of them would give away another's.

        Raises:
            NNDError: the set has fewer such documents.
        """
        documents = df or self.df
        cluster = eval_doc["cluster_id"] if eval_doc else ""
        # The context is looked up by the id: in eval_doc it may be shortened, which must not change the exemplars.
        contexts = {doc.get("context") for doc in documents if doc["cluster_id"] == cluster} - {"", None}
        pool = [doc for doc in documents if doc["cluster_id"] != cluster and doc.get("context") not in contexts]
        if n > len(pool):
            raise NNDError(
                f"--num_fewshot {n}: the set has only {counted(len(pool), 'prompt')} about other contexts to take exemplars "
                "from"
            )
        return Random(f"{self.seed}:{cluster}").sample(pool, n)  # noqa: S311 - no cryptography


class Prompt(str):
    """A rendered prompt with the arguments of lm-eval that it was rendered with.

    Attributes:
        arguments: keyword arguments of `NNDTask.fewshot_context`, to render the prompt again with less context.
        chat: whether it went through the chat template.
        rendered: the prompt as lm-eval sends it to a chat API, which applies the template itself; else None.
    """

    arguments: Mapping[str, Any]
    chat: bool
    rendered: Any = None

    @classmethod
    def of(cls, text: str, **arguments: Any) -> Prompt:
        """Return a text with the arguments that it was rendered with."""
        prompt = cls(text)
        prompt.arguments, prompt.chat = arguments, bool(arguments.get("apply_chat_template"))
        return prompt


class ClosedPrompt(str):
    """A prompt whose white space at the end is conditioned on and not scored.

    `TemplateLM._encode_pair` of lm-eval moves what ``rstrip`` removes from a prompt to the continuation. Every backend splits
    with that method, so that here nothing moves in any of them.
    """

    def rstrip(self, chars: str | None = None, /) -> str:
        """Return the prompt as it is."""
        return self


def split_before_candidate(context: str, continuation: str, counter: BaseCounter) -> tuple[str, str]:
    """Move the end of a chat-templated prompt to where the first token with a character of the candidate begins.

    A chat template ends in a line feed, which is a token of its own and the same for all candidates. A space at the end of a
    prompt is part of the candidate's first token, as ``" word"`` is one token.

    Args:
        context: the prompt, with the chat template.
        continuation: the candidate.
        counter: with the tokenizer.

    Returns:
        (context, continuation) of the same text together. As much of the white space between them is in the context as has
        tokens of its own.
    """
    end = len(context.rstrip())
    for place in range(len(context), end, -1):
        closed = ClosedPrompt(context[:place])
        rest = context[place:] + continuation
        if not counter.merges(closed, rest):
            return closed, rest
    return context, continuation


@dataclass
class Request(Instance):  # type: ignore[misc]
    """A request of lm-eval for the log-likelihood of one candidate, or for an answer about it.

    Attributes:
        candidate: index of the candidate in its document; None for the placeholder that stands for a document without any
            candidate to score.
        context_part: what the prompt has of the document's context.
        prompt_tokens: number of tokens that the model is conditioned on.
        tokens: number of tokens whose log-probabilities the model sums, or that it writes at most.
        flaws: names of `FLAWS` that it has.
        target: a better candidate, for the samples.
    """

    candidate: int | None = None
    context_part: ContextPart = "whole"
    prompt_tokens: int = 0
    tokens: int = 0
    flaws: list[str] = field(default_factory=list)
    target: Any = None

    def describe(self) -> str:
        """Return the request's task, candidate and a test that needs it, for an error message."""
        text = self.args[1] if self.request_type == "loglikelihood" else self.doc["candidates"][self.candidate or 0]
        excerpt = repr(cut_middle(text, 80))
        tests = self.doc["tests"]
        test = next((test for test in tests if self.candidate in (test["high"], test["low"])), tests[0])
        return f"task {self.task_name}: the candidate {excerpt} of test {test['test_id']}"

    def refuse(self, counter: BaseCounter) -> None:
        """Say why the request cannot be scored.

        Raises:
            NNDError: the candidate has no token of its own, or more tokens than the window holds.
        """
        if self.tokens < 1:
            raise NNDError(
                f"{self.describe()} has no token of its own after its prompt with the tokenizer {counter.name}; change "
                "target_delimiter, or use append_eos"
            )
        raise OverlongError(
            f"{self.describe()} has {self.tokens:,} tokens, more than the model's window of {counter.window:,}; take a "
            """model with a larger window, or leave such candidates out: --metadata '{"overlong": "leave_out"}'""",
            self,
        )


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


def count_flaws(found: Iterable[Iterable[str]]) -> dict[str, int]:
    """Return how many candidates have each of `FLAWS`.

    Args:
        found: of each candidate the names of its flaws; other names are not counted.
    """
    counts = Counter(chain.from_iterable(found))
    return {name: counts[name] for name in FLAWS}


def warn_of_requests(
    requests: Sequence[Request], documents: Iterable[Doc], task: str | None, window: int | None
) -> dict[str, int]:
    """Warn of contexts that were shortened and candidates that were left out, to fit the model's window, and of flaws.

    A space on either side of the border between prompt and candidate is one of them.

    Args:
        requests: of a run.
        documents: that they are about.
        task: its task.
        window: of the model, in tokens.

    Returns:
        Name of a flaw -> number of candidates that have it, and the number of ``empty`` ones.
    """
    of_candidates = [request for request in requests if request.candidate is not None]
    flaws = count_flaws(request.flaws for request in of_candidates if request.context_part != "none")
    flaws["empty"] = sum(not text.strip() for doc in documents for text in doc["candidates"])
    left_out = {request.doc_id: len(request.doc.get(LEFT_OUT, ())) for request in requests}
    counts = {
        "shortened": len({request.doc_id for request in of_candidates if request.context_part == "shortened"}),
        "left_out": sum(left_out.values()),
        "two_spaces": sum(
            request.request_type == "loglikelihood" and doubles_space(*request.args) for request in of_candidates
        ),
        **flaws,
    }
    for name, count in counts.items():
        if count:
            logger.warning("%s: %d %s", task, count, _WARNINGS[name].format(window=window))
    return flaws


# ---------------------------------------------------------------- contexts that do not fit

# lm-eval cuts an overlong prompt from the left, which drops the lead of a news article, the instruction and the few-shot
# examples. Here the context loses its end, before the prompt is rendered.

_WORD = 40  # characters; a longer run without white space, such as a Chinese sentence, may be cut anywhere


def _ends(text: str) -> list[int]:
    """Return where ``text`` may be cut, in characters: after each word but the last, and anywhere within an overlong word."""
    ends: list[int] = []
    for word in re.finditer(r"\S+", text):
        start, end = word.span()
        ends += [end] if end - start <= _WORD else range(start + 1, end + 1)
    return ends[:-1]


def shorten(text: str, fits: Callable[[str], bool]) -> str | None:
    """Return the longest beginning of a text that fits, cut between words; None when not even the first word does.

    Whether a beginning fits need not be monotone: a tokenizer may need one token more for a shorter text. What is found then
    fits, but a longer beginning might fit too.

    Args:
        text: a context that does not fit as a whole.
        fits: tells whether a beginning fits.
    """
    ends = _ends(text)[::-1]
    longest = bisect_left(ends, True, key=lambda end: fits(text[:end]))
    return text[: ends[longest]] if longest < len(ends) else None
