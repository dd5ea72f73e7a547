"""Requests that fit the model's window, or an error that names the test.

lm-eval cuts an overlong prompt from the left, which drops the lead of a news article, the instruction and the few-shot
examples. Here the context loses its end, before the prompt is rendered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nnd_tasks.errors import NNDError
from nnd_tasks.harness.lengths import TokenCounter

#: Renders the prompt of a document with another context (None: its own) and returns its requests.
Build = Callable[[str | None], list[Any]]

_WORD = 40  # characters; what is longer, as a sentence in Chinese, may be cut anywhere


def _ends(text: str) -> list[int]:
    """Return where ``text`` may be cut: after each word but the last, and anywhere in what is too long for a word."""
    ends: list[int] = []
    for word in re.finditer(r"\S+", text):
        start, end = word.span()
        ends += [end] if end - start <= _WORD else range(start + 1, end + 1)
    return ends[:-1]


def shorten(text: str, fits: Callable[[str], bool]) -> str | None:
    """Return the longest beginning of ``text`` that fits, cut between words; None when not even the first word does.

    Args:
        text: a context that does not fit as a whole.
        fits: tells whether the prompt with this beginning fits. It need not be exactly monotone, as a tokenizer may
            need a token more for a shorter text.
    """
    ends = _ends(text)
    # The last end that fits, if `fits` is monotone; else one that fits.
    low, high = -1, len(ends) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if fits(text[: ends[middle]]):
            low = middle
        else:
            high = middle - 1
    return text[: ends[low]] if low >= 0 else None


class Fitter:
    """Counts the tokens of requests, and shortens contexts.

    Args:
        task: its name, for errors.
        counter: the tokenizer and the window of the evaluated model.
        refuse: make a prompt that does not fit an error.

    Attributes:
        tokens: (document, request) -> number of tokens that are scored.
        shortened: ids of the clusters whose context lost its end.
    """

    def __init__(self, task: str, counter: TokenCounter, *, refuse: bool) -> None:
        self.task = task
        self.counter = counter
        self.refuse = refuse
        self.tokens: dict[tuple[int, int], int] = {}
        self.shortened: set[str] = set()

    def fit(self, doc: Mapping[str, Any], build: Build, used_by: Callable[[int], str], shots: int = 0) -> list[Any]:
        """Return the requests of one document.

        Args:
            doc: the document; ``context`` is what may be shortened.
            build: see `Build`.
            used_by: index of a request -> a test that needs it.
            shots: number of exemplars, for the error.

        Raises:
            NNDError: a candidate has no token of its own, or does not fit with anything of its context.
        """
        instances = build(None)
        sizes = self._sizes(instances, used_by)
        if any(self.counter.overlong(*size) for size in sizes):
            kept = self._shorten(doc, build, max(range(len(sizes)), key=lambda i: sizes[i][1]), used_by, shots)
            instances = build(kept)
            sizes = self._sizes(instances, used_by)
            self.shortened.add(doc["cluster_id"])
        return self._counted(instances, sizes)

    def count(self, instances: list[Any], used_by: Callable[[int], str]) -> list[Any]:
        """Return requests whose context is not to be shortened.

        Raises:
            NNDError: a candidate has no token of its own, or is longer than the model's window.
        """
        return self._counted(instances, self._sizes(instances, used_by))

    def _counted(self, instances: list[Any], sizes: Sequence[tuple[int, int]]) -> list[Any]:
        for instance, (_, tokens) in zip(instances, sizes, strict=True):
            self.tokens[instance.doc_id, instance.idx] = tokens
        return instances

    def _sizes(self, instances: Sequence[Any], used_by: Callable[[int], str]) -> list[tuple[int, int]]:
        """Return (tokens of the context, tokens that are scored) of each request; none of them is beyond scoring."""
        sizes = [self.counter.lengths(*instance.args) for instance in instances]
        window = self.counter.window
        for instance, (_, tokens) in zip(instances, sizes, strict=True):
            if tokens < 1:
                raise NNDError(
                    f"{self._name(instance, used_by)} has no token of its own after its prompt with the tokenizer "
                    f"{self.counter.name}; change target_delimiter, or use append_eos"
                )
            if window is not None and tokens > window:
                raise NNDError(
                    f"{self._name(instance, used_by)} has {tokens:,} tokens, more than the model's window of {window:,}; "
                    "take a model with a larger window, or leave its document out with --samples"
                )
        return sizes

    def _name(self, instance: Any, used_by: Callable[[int], str]) -> str:
        text = instance.args[1]
        shown = repr(text if len(text) <= 80 else f"{text[:79]}…")
        return f"task {self.task}: the candidate {shown} of test {used_by(instance.idx)}"

    def _shorten(
        self, doc: Mapping[str, Any], build: Build, longest: int, used_by: Callable[[int], str], shots: int
    ) -> str:
        """Return as much of the context as fits beside the longest candidate."""
        where = self._name(build(None)[longest], used_by)
        window = f"the model's window of {self.counter.window:,} tokens"
        if self.refuse:
            raise NNDError(f"{where} and its prompt do not fit {window} (overlong=refuse)")

        def fits(context: str, requests: slice = slice(longest, longest + 1)) -> bool:
            return not any(self.counter.overlong(*self.counter.lengths(*i.args)) for i in build(context)[requests])

        kept = shorten(doc["context"], fits)
        # Another candidate may need a token more in the shorter prompt: tokens can merge at the boundary.
        while kept and not fits(kept, slice(None)):
            kept = shorten(kept, fits)
        if not kept:
            beside = f" beside {shots} few-shot examples; lower --num_fewshot" if shots else ""
            raise NNDError(f"{where}: {window} has no room for any of its context{beside}")
        return kept
