"""Models of lm-eval in several processes: each scores a share of the requests, and all of them get all answers.

lm-eval would divide the *documents*, and HFLM does so on GPUs only. Here every process makes all requests, as if it were alone,
and only what reaches the model is divided. So everything after the model (few-shot examples, metrics, samples) is what one
process gives, for all tasks, and requests are divided by what they cost.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar
from unittest.mock import patch

import numpy as np
import torch
from lm_eval.models.huggingface import HFLM

from nnd_tasks.errors import NNDError
from nnd_tasks.models.masked_lm import MaskedLM
from nnd_tasks.models.ranks import ALONE, Ranks
from nnd_tasks.models.shares import owners_of_inputs, owners_of_masked, owners_of_pairs, owners_of_texts

logger = logging.getLogger("lm_eval.nnd")

Request = TypeVar("Request")
#: (text, context tokens, continuation tokens).
Encoded = tuple[Any, list[int], list[int]]

if TYPE_CHECKING:
    _Model = Any
else:
    _Model = object


class OverRanks(_Model):  # type: ignore[misc]
    """What a model class needs to score its share of the requests; comes before that class among the bases.

    lm-eval sees one process in each: rank 0 of a world of 1.
    """

    ranks: Ranks = ALONE

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._alone = False  # whether a share is being scored
        with _placed(self, kwargs):
            super().__init__(*args, **kwargs)
        # HFLM divides documents if it knows of several processes, and numbers these within a machine
        # (lm_eval/models/huggingface.py:486), so that two machines would score the same documents.
        self._rank, self._world_size = 0, 1

    def _loglikelihood_tokens(self, requests: list[Encoded], *args: Any, **kwargs: Any) -> list[tuple[float, bool]]:
        """Score requests of tokens."""
        score = super()._loglikelihood_tokens
        texts = [np.asarray([len(context), *context, *rest], dtype=np.int64) for _, context, rest in requests]
        return self._divided(requests, texts, lambda: self._owners(requests), lambda mine: score(mine, *args, **kwargs))

    def loglikelihood_rolling(self, requests: list[Any], *args: Any, **kwargs: Any) -> list[float]:
        """Score whole texts."""
        answers: list[float] = self._divided_texts(requests, super().loglikelihood_rolling, *args, **kwargs)
        return answers

    def generate_until(self, requests: list[Any], *args: Any, **kwargs: Any) -> list[str]:
        """Continue texts."""
        answers: list[str] = self._divided_texts(requests, super().generate_until, *args, **kwargs)
        return answers

    def _divided_texts(self, requests: list[Any], answer: Callable[..., list[Any]], *args: Any, **kwargs: Any) -> Any:
        texts = [str(request.args[0]) for request in requests]
        return self._divided(
            requests,
            [text.encode("utf-8", "surrogatepass") for text in texts],
            lambda: owners_of_texts(texts, self.ranks.count),
            lambda mine: answer(mine, *args, **kwargs),
        )

    def _owners(self, requests: Sequence[Encoded]) -> list[int]:
        """Return the number of the process for each request."""
        count = self.ranks.count
        pairs = [(tuple(context), tuple(continuation)) for _, context, continuation in requests]
        if isinstance(self, MaskedLM):
            return owners_of_masked(pairs, count)
        shared = hasattr(self, "why_not") and self.why_not() is None
        if self.backend == "seq2seq":
            return owners_of_pairs(
                [(context[-self.max_length :], rest) for context, rest in pairs], count, shared=shared
            )
        inputs = [(context + rest)[-(self.max_length + 1) :][:-1] for context, rest in pairs]
        return owners_of_inputs(inputs, count, shared=shared)

    def _divided(
        self,
        requests: list[Request],
        contents: Sequence[Any],
        owners: Callable[[], list[int]],
        answer: Callable[[list[Request]], list[Any]],
    ) -> list[Any]:
        """Return the answers to all requests; each is answered in one process.

        Args:
            requests: the same in all processes.
            contents: bytes of each, to see whether they are the same.
            owners: returns the number of the process for each; called in the first process.
            answer: answers requests.

        Raises:
            NNDError: the processes have other requests, or one of them has failed.
        """
        if self._alone or self.ranks.count == 1:
            return answer(requests)
        found = hashlib.blake2b(str(len(contents)).encode())
        for content in contents:
            found.update(hashlib.blake2b(content).digest())
        if len(set(self.ranks.gather(found.hexdigest()))) > 1:
            raise NNDError(
                "the processes of this run have different requests; every machine needs the same data, tokenizer and packages"
            )
        with _recorded() as lines:
            numbers = self.ranks.from_first(owners)
            mine = [i for i, owner in enumerate(numbers) if owner == self.ranks.index]

            def share() -> tuple[list[int], list[Any], list[tuple[int, str]]]:
                self._alone = True
                try:
                    return mine, answer([requests[i] for i in mine]) if mine else [], lines
                finally:
                    self._alone = False

            replies = self.ranks.together(share)
        answers: dict[int, Any] = {}
        for indices, given, _ in replies:
            answers |= dict(zip(indices, given, strict=True))
        if len(answers) != len(requests):
            raise RuntimeError("a request has no answer")
        if self.ranks.first:
            self._repeat([lines for _, _, lines in replies])
        return [answers[i] for i in range(len(requests))]

    def _repeat(self, lines: Sequence[Sequence[tuple[int, str]]]) -> None:
        """Log what the other processes have logged and this one has not; only this one is heard."""
        known = {line for _, line in lines[0]}
        for k, others in enumerate(lines):
            for level, line in others:
                if line not in known:
                    logger.log(level, "process %d of %d: %s", k + 1, self.ranks.count, line)


def divided(model_class: type, ranks: Ranks) -> type:
    """Return a model class that scores its share of the requests.

    Args:
        model_class: of lm-eval.
        ranks: the processes.

    Raises:
        NNDError: it is not known how to divide the requests of such a model.
    """
    if not issubclass(model_class, (HFLM, MaskedLM)):
        raise NNDError(
            f"{ranks.count} processes were started, and models of class {model_class.__name__} score all requests in one; start "
            "one without torchrun or accelerate launch (vLLM starts its own: tensor_parallel_size=, data_parallel_size=)"
        )
    return type(model_class.__name__, (OverRanks, model_class), {"ranks": ranks, "__doc__": model_class.__doc__})


@contextmanager
def _placed(model: OverRanks, arguments: dict[str, Any]) -> Iterator[None]:
    """Let a model be loaded on the device of its process.

    Upstream: HFLM (lm_eval/models/huggingface.py:252) asks accelerate, which takes a GPU wherever there is one, even for
    ``device=cpu``.
    """
    device = arguments.get("device")
    if isinstance(model, MaskedLM) and device in (None, "cuda", "cuda:0") and torch.cuda.is_available():
        arguments["device"] = f"cuda:{model.ranks.local % torch.cuda.device_count()}"
    with patch.dict(os.environ, {"ACCELERATE_USE_CPU": "true"} if device == "cpu" else {}):
        yield


@contextmanager
def _recorded() -> Iterator[list[tuple[int, str]]]:
    """Within this context, keep the log lines that lm-eval's models and ours write in this thread, as (level, line)."""
    lines: list[tuple[int, str]] = []
    thread = threading.get_ident()

    class Recorder(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.thread == thread:
                lines.append((record.levelno, record.getMessage()))

    recorder = Recorder(logging.INFO)
    log = logging.getLogger("lm_eval")
    log.addHandler(recorder)
    try:
        yield lines
    finally:
        log.removeHandler(recorder)
