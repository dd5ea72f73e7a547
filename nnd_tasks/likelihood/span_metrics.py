"""Error-span NND: are the tokens that are marked as errors more surprising to a model than the others of the same text?

The surprise of a token is its log-probability, negated. A language model is surprised by rare words wherever they are, and errors
have many; so the AUC of a model that knows only how often each token occurs in the set is taken off. The two are compared by
word, where the surprise of a word is the sum over its tokens: the later tokens of a word are easy for a language model, which
has read the first, but rare by count.

Known limits: a text counts only where some tokens are marked and some are not. Frequency is all that is taken off, so an excess
of 0 does not say that a model notices nothing, nor one below 0 that it prefers errors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy  # imports scipy.stats when it is first used
from numpy.typing import ArrayLike, NDArray

from nnd_tasks.errors import NNDError
from nnd_tasks.likelihood.scored_tokens import unigram_surprise
from nnd_tasks.schema import Breakdown, break_down
from nnd_tasks.task.metrics import Counts, aggregate_rate, aggregate_stderr
from nnd_tasks.task.signature import digest

if TYPE_CHECKING:
    from nnd_tasks.task.reader import Answer

#: ``span_auc``: within a text, the probability that a marked token is more surprising than one that is not marked, averaged over
#: texts. ``span_excess``: the same of words, less that of `unigram_surprise`. With ``context_reliance`` also without the context.
RATES = ("span_auc", "span_excess")
BARE = "_no_context"

#: Scripts that put no space between words: Thai, Lao, Burmese, Khmer, Chinese and Japanese. Each character is a word.
_NO_SPACES = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
#: A word or a single other character, with the white space before it.
_WORD = re.compile(rf"\s*(?:[{_NO_SPACES}]|(?:(?![{_NO_SPACES}])\w)+|[^\w\s])|\s+")


def marked_tokens(spans: NDArray[np.int64], errors: Iterable[Mapping[str, Any]]) -> NDArray[np.bool_]:
    """Return whether each token has a character of an error, shape (tokens,).

    Args:
        spans: start and end of each token in the text, shape (tokens, 2).
        errors: each with ``start`` and ``end``.
    """
    marked = np.zeros(len(spans), dtype=bool)
    for error in errors:
        marked |= (spans[:, 0] < error["end"]) & (spans[:, 1] > error["start"])
    return marked


def split_words(text: str) -> list[str]:
    """Split a text into words and marks of punctuation, each with the white space before it; together they are the text.

    In scripts without spaces between words, every character is a word.
    """
    return _WORD.findall(text)


def auc(surprise: ArrayLike, marked: ArrayLike) -> float:
    """Return the probability that a marked token is more surprising than an unmarked one; a tie counts half (Mann-Whitney).

    Args:
        surprise: of each token of a text, shape (tokens,).
        marked: whether it is part of an error, shape (tokens,); some are and some are not.
    """
    inside = np.asarray(marked, dtype=bool)
    ranks, n = scipy.stats.rankdata(surprise)[inside], np.count_nonzero(inside)
    return float((ranks.sum() - n * (n + 1) / 2) / (n * (len(inside) - n)))


def first_tokens(text: str, spans: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the places of the tokens that begin a word, shape (words,); a token with characters of two words joins them.

    Args:
        text: of the tokens.
        spans: start and end of each token in it, in their order, none empty, shape (tokens, 2).
    """
    ends = np.cumsum([len(word) for word in split_words(text)])
    first, last = (np.searchsorted(ends, positions, side="right") for positions in (spans[:, 0], spans[:, 1] - 1))
    return np.flatnonzero(first > np.concatenate([[-1], np.maximum.accumulate(last)[:-1]])[: len(first)])


def _aucs(
    spans: NDArray[np.int64],
    errors: Iterable[Mapping[str, Any]],
    chosen: Iterable[Mapping[str, Any]],
    *surprises: NDArray[np.float64],
) -> list[float]:
    """Return `auc` of what the chosen errors mark against what no error marks, by each surprise; empty without one of the two."""
    marked, free = marked_tokens(spans, chosen), ~marked_tokens(spans, errors)
    compared = marked | free
    return [auc(values[compared], marked[compared]) for values in surprises if marked.any() and free.any()]


class SpanMetrics:
    """The rates of `RATES` for a set with error spans, overall and by category and severity of the errors.

    Of each document a rate keeps (sum of values, texts). An excess e, from -1 to 1, is kept as (e + 1) / 2, so that both rates
    are shares, pooled and with clustered errors like pass rates.

    Args:
        breakdown: which categories and severities to report.
        context_reliance: whether there are answers to prompts without their context.
        digest: of the error spans of the set.
    """

    unigram = staticmethod(unigram_surprise)

    def __init__(self, breakdown: Breakdown, *, context_reliance: bool, digest: str = "") -> None:
        self.digest = digest
        self._selectors: dict[str, tuple[str, str] | None] = {"": None}
        self._selectors |= {name.removeprefix("pass_rate"): selector for name, selector in breakdown.items()}
        parts = ("", BARE)[: 1 + context_reliance]
        #: Names of all rates.
        self.names = [f"{rate}{suffix}{name}" for suffix in parts for rate in RATES for name in self._selectors]

    @classmethod
    def of(
        cls,
        documents: Sequence[Sequence[Sequence[Mapping[str, Any]]]],
        tests: Breakdown,
        *,
        context_reliance: bool,
    ) -> SpanMetrics:
        """Return the rates by the categories and severities of error spans, which need not be those of tests.

        Args:
            documents: of each document the errors of each candidate.
            tests: the rates of tests; they are taken where categories of errors cannot name metrics.
            context_reliance: as in the class.
        """
        with suppress(NNDError):
            every = [error for document in documents for errors in document for error in errors]
            tests = break_down(*([error[name] for error in every] for name in ("category", "severity")))
        return cls(tests, context_reliance=context_reliance, digest=digest(list(documents)))

    def score(
        self,
        candidates: Sequence[str],
        errors: Sequence[Sequence[Mapping[str, Any]]],
        answers: Iterable[Answer],
        unigram: Callable[[Sequence[int]], NDArray[np.float64]],
    ) -> dict[str, Any]:
        """Return the values of one document, and its number of texts that count.

        A text counts where some of its tokens are marked and some are not; for ``span_excess``, some of its words. The errors of
        a category are compared with what is not marked at all. Tokens around the text (a space before it, an end-of-sequence
        token) are left out.

        Args:
            candidates: texts of the document.
            errors: of each candidate, each with ``start``, ``end``, ``category`` and ``severity``.
            answers: to the requests of the document, with their tokens.
            unigram: see `unigram_surprise`.
        """
        values_of: dict[str, list[float]] = {name: [] for name in self.names}
        for answer in answers:
            if answer.candidate is None or answer.tokens is None or not (every := errors[answer.candidate]):
                continue
            in_text = answer.tokens.spans[:, 0] < answer.tokens.spans[:, 1]
            if not in_text.any():
                continue
            spans, surprise = answer.tokens.spans[in_text], -answer.tokens.logprobs[in_text].astype(np.float64)
            first = first_tokens(candidates[answer.candidate], spans)
            words = np.stack([np.minimum.reduceat(spans[:, 0], first), np.maximum.reduceat(spans[:, 1], first)], axis=1)
            common = unigram(np.asarray(answer.tokens.ids)[in_text].tolist())
            of_words = [np.add.reduceat(values, first) for values in (surprise, common)]
            suffix = BARE if answer.context_part == "none" else ""
            for name, selector in self._selectors.items():
                chosen = [error for error in every if selector is None or error[selector[0]] == selector[1]]
                values_of[f"span_auc{suffix}{name}"] += _aucs(spans, every, chosen, surprise)
                if both := _aucs(words, every, chosen, *of_words):
                    values_of[f"span_excess{suffix}{name}"].append((both[0] - both[1] + 1) / 2)
        pairs = {name: (sum(values, 0.0), len(values)) for name, values in values_of.items()}
        texts = len(values_of["span_auc"])
        return {"span_texts": texts, **pairs, **{f"{name}_stderr": pair for name, pair in pairs.items()}}

    def aggregations(self) -> dict[str, Callable[[Any], Any]]:
        """Return metric name -> function that pools it over documents."""
        functions: dict[str, Callable[[Any], Any]] = {"span_texts": sum}
        for name in self.names:
            excess = name.startswith("span_excess")
            functions[name] = _excess if excess else aggregate_rate
            functions[f"{name}_stderr"] = partial(aggregate_stderr, unit=2.0) if excess else aggregate_stderr
        return functions


def _excess(items: Sequence[Counts]) -> float | str:
    share = aggregate_rate(items)
    return share if isinstance(share, str) else 2 * share - 1
