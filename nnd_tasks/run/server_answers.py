"""What a server of text completions must answer: the log-probability of every token of a prompt, and in the prompts' order.

lm-eval cuts an answer by the number of the prompt's tokens and checks nothing (`LocalCompletionsAPI.parse_logprobs`, 0.4.13). An
answer that lacks an entry would be scored with those of other tokens.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnd_tasks.models.model_error import ModelError

#: What rounding may make of the log-probability of a token that is certain, in nats.
_CERTAIN = 1e-6
#: More than any log-probability can be, in nats.
_MOST_NATS = 1e12
#: Tokens of a prompt of `check_order`, and most prompts that it asks.
_PROBE_TOKENS, _PROBES = 12, 8
#: Mean difference of two answers to one prompt, in nats per token. Other batches change an answer by some hundredths.
_OTHER_ANSWER = 1.0
#: Difference of two numbers that are to be one, in nats; half of all prompts must show it.
_OTHER_NUMBER = 0.5


class BadAnswerError(ModelError):
    """The answers of a server cannot be right, so that none of a run counts."""

    def __init__(self, answer: str) -> None:
        super().__init__(f"the server answers {answer}; nothing of this run is scored or cached (docs/backends.md)")


@dataclass(frozen=True)
class Answer:
    """What a server says to one prompt.

    Attributes:
        choice: as the server sent it, with exactly one entry after those of the prompt, as lm-eval cuts off one.
        logprobs: of the prompt's tokens but the first, in nats, shape (tokens - 1,).
        likeliest: log-probability of the likeliest token at each of these places, shape (tokens - 1,).
        generated: log-probability of the token that the server added; None if it added none.
    """

    choice: dict[str, Any]
    logprobs: NDArray[np.float64]
    likeliest: NDArray[np.float64]
    generated: float | None


def read_answers(outputs: Any, prompts: Sequence[Sequence[int]], starts: Sequence[int]) -> list[Answer]:
    """Check a server's answer to a batch, and split it by prompts.

    Args:
        outputs: the JSON, or a list of it alone.
        prompts: the token ids that were sent, also if they were sent as text.
        starts: place of the first scored token of each prompt.

    Raises:
        BadAnswerError: the answer is not one log-probability for each token that was sent and each that was generated, with
            nothing in place of the first token's.
    """
    if isinstance(outputs, list) and len(outputs) == 1:
        (outputs,) = outputs
    choices = outputs.get("choices") if isinstance(outputs, Mapping) else None
    if not isinstance(choices, list):
        message = outputs.get("error") if isinstance(outputs, Mapping) else None
        raise BadAnswerError(f"with an error: {_short(message)}" if message else f"without choices: {_short(outputs)}")
    if len(choices) != len(prompts):
        raise BadAnswerError(f"{len(prompts)} prompts with {len(choices)} choices; expected one for each prompt")
    indices = [choice.get("index") if isinstance(choice, Mapping) else None for choice in choices]
    if set(indices) != set(range(len(prompts))):
        raise BadAnswerError(
            f"with choices of the indices {_short(indices)}; expected each of 0 to {len(prompts) - 1} once"
        )
    in_order = sorted(choices, key=lambda choice: int(choice["index"]))
    lists = [_read_lists(choice) for choice in in_order]
    added = [len(values) - len(prompt) for (values, _), prompt in zip(lists, prompts, strict=True)]
    usage = outputs.get("usage")
    generated = usage.get("completion_tokens") if isinstance(usage, Mapping) else None
    if {*added} != {1} and (min(added) < 0 or sum(added) != generated):
        wrong = next(number for number, count in enumerate(added) if count != 1)
        got, sent = len(lists[wrong][0]), len(prompts[wrong])
        raise BadAnswerError(
            f"a prompt of {sent} tokens with {got} log-probabilities; expected {sent + 1}, one for each token that was sent "
            "and one for the token that is generated. It does not echo the whole prompt, or has other tokens or a BOS token "
            "of its own (send token ids, which is the default, and name its tokenizer with tokenizer=...)"
        )
    return [
        _answer(choice, values, tops, len(prompt), start)
        for choice, (values, tops), prompt, start in zip(in_order, lists, prompts, starts, strict=True)
    ]


def _read_lists(choice: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
    """Read ``token_logprobs`` and ``top_logprobs`` of a choice."""
    logprobs = choice.get("logprobs")
    lists = logprobs if isinstance(logprobs, Mapping) else {}
    values, tops = lists.get("token_logprobs"), lists.get("top_logprobs")
    if not isinstance(values, list) or not isinstance(tops, list):
        shape = " (the shape of chat completions)" if "content" in lists else ""
        raise BadAnswerError(f"with logprobs {_short(logprobs)}{shape}; it must heed echo=true and logprobs=1")
    if len(values) != len(tops):
        raise BadAnswerError(f"with {len(values)} token_logprobs and {len(tops)} top_logprobs")
    return values, tops


def _answer(choice: Mapping[str, Any], values: list[Any], tops: list[Any], sent: int, start: int) -> Answer:
    if values[0] is not None:
        raise BadAnswerError(
            f"{_short(values[0])} as log-probability of a prompt's first token, which has none: null was expected. Its "
            f"{len(values)} entries for {sent} tokens are shifted"
        )
    for number in range(1, sent):
        value, top = values[number], tops[number]
        if not _is_number(value) or value > _CERTAIN:
            raise BadAnswerError(
                f"{_short(value)} as log-probability of token {number + 1} of {sent}; expected a number that is not above 0"
            )
        if not isinstance(top, Mapping) or not top or not all(map(_is_number, top.values())):
            raise BadAnswerError(f"top_logprobs {_short(top)} for token {number + 1} of {sent}; expected likely tokens")
    logprobs, scored = values[1:sent], values[start:sent]
    if (len(logprobs) > 1 and len(set(logprobs)) == 1) or (len(scored) > 1 and not any(scored)):
        raise BadAnswerError(
            f"{scored[0]:g} as log-probability of each of {len(scored)} tokens of a candidate; it does not score prompts"
        )
    after = values[sent] if len(values) > sent and _is_number(values[sent]) else None
    cut = {"token_logprobs": [*values[:sent], None], "top_logprobs": [*tops[:sent], None]}
    likeliest = [max(top.values()) for top in tops[1:sent]]
    return Answer({**choice, "logprobs": cut}, np.asarray(logprobs, float), np.asarray(likeliest, float), after)


def _is_number(value: Any) -> bool:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    return value == -math.inf or abs(value) < _MOST_NATS


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:199]}…"


# ---------------------------------------------------------------- what one answer does not show


def _choose_probes(requests: Sequence[list[int]], survives: Callable[[list[int]], bool]) -> list[list[int]]:
    """Choose the ends of some requests, of equal lengths, that differ before their last token."""
    step = max(len(requests) // _PROBES, 1)
    ends = [request[-_PROBE_TOKENS - 1 :] for request in requests if len(request) > _PROBE_TOKENS]
    probes = list({tuple(end[:-1]): end for end in [*ends[::step], *ends]}.values())[:_PROBES]
    return [probe for probe in probes if survives(probe) and survives(probe[:-1])]


def check_order(
    requests: Sequence[list[int]],
    survives: Callable[[list[int]], bool],
    ask: Callable[[list[list[int]]], list[Answer]],
    size: int,
) -> None:
    """Ask for prompts whose answers are known from others: each alone, and all without their last tokens in batches.

    The tokens before the last have the same numbers in both. The likeliest token after a prompt, which the server generates, has
    the number that is the highest at that place in the longer prompt. So answers in another order than the prompts show, and
    numbers that belong to the token before or after.

    Args:
        requests: the tokens of all requests; the ends of some are asked.
        survives: tells whether a prompt reaches the server as these tokens.
        ask: sends a batch of prompts.
        size: number of prompts in a batch.

    Raises:
        BadAnswerError: the answers contradict one another.
    """
    probes = _choose_probes(requests, survives)
    if len(probes) < 2:
        return
    alone = [ask([probe])[0] for probe in probes]
    heads = [probe[:-1] for probe in probes]
    together = [answer for start in range(0, len(heads), size) for answer in ask(heads[start : start + size])]
    # An impossible token may have minus infinity.
    expected = np.clip([answer.logprobs[:-1] for answer in alone], -1e4, 0)
    answered = np.clip([answer.logprobs for answer in together], -1e4, 0)
    # The last number is not compared here: a shifted one may belong to the token after it, which only one of both has.
    distances = np.abs(answered[:, None, :-1] - expected[None, :, :-1]).mean(axis=-1)
    differences = distances.diagonal()
    if (differences > np.minimum(4 * distances.min(axis=1) + _CERTAIN, _OTHER_ANSWER)).any():
        raise BadAnswerError(
            f"prompts in a batch of {min(size, len(probes))} with other numbers than alone ({differences.max():.2f} nats per "
            "token): its answers are not in the order of the prompts; try --batch_size 1"
        )
    moved = np.abs(answered[:, -1] - expected[:, -1]) > _OTHER_NUMBER
    generated = [math.nan if answer.generated is None else answer.generated for answer in together]
    likeliest = np.asarray([answer.likeliest[-1] for answer in alone])
    # Some servers give a token that greedy decoding generates the probability 1: that says nothing.
    informative = np.less(generated, -1e-3)
    strange = informative & (np.abs(generated - likeliest) > _OTHER_NUMBER)
    if moved.mean() > 0.5 or (informative.sum() > 1 and strange.sum() > informative.sum() / 2):
        raise BadAnswerError(
            "log-probabilities that belong to the token before or after (llama-cpp-python does so for models that add no "
            "BOS token)"
        )
