"""Baselines: how often rules that understand nothing pass the tests of a set.

A set on which "the shorter candidate wins" passes most tests says little about a model that does the same.
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

ALL = "all"
_WORD = re.compile(r"\w+")


def words(text: str) -> list[str]:
    """Return the words of a text in lower case, without punctuation."""
    return _WORD.findall(text.lower())


def overlap(text: str, context: str) -> float:
    """Return the share of a text's words that the context has; 0 without words."""
    return _share(words(text), set(words(context)))


def _share(said: Sequence[str], known: Collection[str]) -> float:
    return sum(word in known for word in said) / len(said) if said else 0.0


class Unigrams:
    """Maximum-likelihood word frequencies of some texts.

    Args:
        texts: those of the set that is looked at, so that every word is known.
        split: returns the words of a text.
    """

    def __init__(self, texts: Iterable[str], split: Callable[[str], list[str]] = words) -> None:
        self._split = split
        counts = Counter(word for text in texts for word in split(text))
        total = sum(counts.values())
        self._log = {word: math.log(count / total) for word, count in counts.items()}

    def mean(self, text: str) -> float:
        """Return the mean log-likelihood per word, in nats; -inf without words or with an unknown one."""
        said = self._split(text)
        if not said or any(word not in self._log for word in said):
            return -math.inf
        return sum(self._log[word] for word in said) / len(said)


#: Baseline -> what it does: each prefers one of two candidates without understanding either.
BASELINES: Mapping[str, str] = {
    "shorter": "the shorter candidate wins (characters)",
    "longer": "the longer candidate wins (characters)",
    "overlap": "the candidate with the larger share of words from the context wins",
    "unigram": "the candidate with the higher mean word frequency in the set's own candidates wins (log-likelihood per word)",
}


def baseline_passes(
    pairs: Sequence[tuple[str, str, str]], texts: Sequence[str] | None = None
) -> dict[str, np.ndarray[Any, np.dtype[np.bool_]]]:
    """Tell which tests each of `BASELINES` passes; a tie fails, as for a model.

    Args:
        pairs: (context, better candidate, worse candidate) of each test.
        texts: distinct candidates to count words in; None takes those of ``pairs``.

    Returns:
        Baseline -> shape (tests,).
    """
    split = cache(words)  # for as long as this call takes
    known = cache(lambda context: set(words(context)))
    unigrams = Unigrams(texts or dict.fromkeys(text for _, high, low in pairs for text in (high, low)), split)
    frequency = cache(unigrams.mean)
    shared = cache(lambda context, text: _share(split(text), known(context)))
    rules: Mapping[str, Callable[[str, str], float]] = {
        "shorter": lambda _, text: -len(text),
        "longer": lambda _, text: len(text),
        "overlap": shared,
        "unigram": lambda _, text: frequency(text),
    }
    return {
        name: np.array([score(context, high) > score(context, low) for context, high, low in pairs], dtype=bool)
        for name, score in rules.items()
    }


def baseline_rates(
    pairs: Sequence[tuple[str, str, str]], categories: Sequence[str], texts: Sequence[str] | None = None
) -> dict[str, dict[str, float]]:
    """Return how often each baseline passes: category, or ``all``, -> baseline -> pass rate.

    Args:
        pairs: (context, better candidate, worse candidate) of each test.
        categories: of each test.
        texts: as for `baseline_passes`.
    """
    passes = baseline_passes(pairs, texts)
    labels = np.asarray(categories, dtype=object)
    return {
        name: {
            rule: float(found[np.full(len(labels), True) if name == ALL else labels == name].mean())
            for rule, found in passes.items()
        }
        for name in [ALL, *sorted(set(categories))]
        if len(labels)
    }


#: Tests that the rates of a large set are taken on; of more, so many are drawn at random.
SAMPLE = 20_000


def table_rates(tests: pa.Table, sample: int | None = None) -> dict[str, dict[str, float]]:
    """Return `baseline_rates` of a table of tests.

    Args:
        tests: the table.
        sample: draw so many tests where there are more, always the same; None takes all.
    """
    part = tests.select(["context", "high", "low", "category"])
    if sample is not None and part.num_rows > sample:
        part = part.take(sorted(random.Random(0).sample(range(part.num_rows), sample)))  # noqa: S311
    columns = part.to_pydict()
    triples = list(zip(columns["context"], columns["high"], columns["low"], strict=True))
    return baseline_rates(triples, columns["category"])
