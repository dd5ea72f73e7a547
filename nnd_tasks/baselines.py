"""Baselines: how often rules that understand nothing pass the tests of a set.

A set on which "the shorter candidate wins" passes most tests says little about a model that does the same.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

#: What results on all tests are called, beside those on each category.
ALL = "all"


def is_of_category(tests: pd.DataFrame, category: str) -> NDArray[np.bool_]:
    """Tell which tests are of a category, by their column ``category``; of `ALL` every test is. Shape (tests,)."""
    return np.asarray(tests["category"].eq(category) | (category == ALL), dtype=bool)


_WORD = re.compile(r"\w+")


def words(text: str) -> list[str]:
    """Split a text into its words, in lower case and without punctuation."""
    return _WORD.findall(text.lower())


def mean_frequency(texts: Iterable[str]) -> Callable[[str], float]:
    """Make a function that gives a text its mean log-likelihood per word, in nats, by the frequencies of words in ``texts``.

    A text without words, or with an unknown one, has -inf.
    """
    counts = Counter(chain.from_iterable(map(words, texts)))
    total = counts.total()
    logs = {word: math.log(count / total) for word, count in counts.items()}

    def mean(text: str) -> float:
        log_likelihoods = [logs.get(word, -math.inf) for word in words(text)]
        return sum(log_likelihoods) / len(log_likelihoods) if log_likelihoods else -math.inf

    return mean


#: Baseline -> its rule for which of two candidates wins, without understanding either.
BASELINES: Mapping[str, str] = {
    "shorter": "the shorter candidate wins (characters)",
    "longer": "the longer candidate wins (characters)",
    "lines": "the candidate with fewer lines wins, such as a paragraph over a list; where texts have several lines",
    "overlap": "the candidate with the larger share of words from the context wins",
    "unigram": "the candidate with the higher mean word frequency in the set's own candidates wins (log-likelihood per word)",
    "system": "the texts of one system win, of the one with which most tests pass; of the tests with a text of it",
}
#: Names of those who wrote the better and the worse candidate of a test; several names are separated by bars.
Writers: TypeAlias = tuple[str, str]


def favourite(writers: Iterable[Writers]) -> str:
    """Find the system whose texts most often win over those of another, the first in the alphabet of several; else ``""``."""
    both = ((high.split("|"), low.split("|")) for high, low in writers if high and low)
    wins = Counter(name for high, low in both for name in {*high} - {*low})
    return min(wins, key=lambda name: (-wins[name], name), default="")


def baseline_passes(
    pairs: Sequence[tuple[str, str, str]], texts: Sequence[str] | None = None, writers: Sequence[Writers] = ()
) -> dict[str, NDArray[np.float64]]:
    """Tell which tests each of `BASELINES` passes; a tie fails, as for a model.

    Args:
        pairs: (context, better candidate, worse candidate) of each test.
        texts: distinct candidates to count words in; None takes those of ``pairs``.
        writers: of each test; empty where they are not known, and then there is no ``system``.

    Returns:
        Baseline -> 1 where it passes a test, 0 where it fails, nan where it says nothing (``system`` of a test without a text of
        that system), shape (tests,).
    """
    words_of_context = cache(lambda context: set(words(context)))  # remembered until this call ends
    frequency = cache(mean_frequency(texts or {text for _, *both in pairs for text in both}))

    def share(context: str, text: str) -> float:
        of_text, of_context = words(text), words_of_context(context)
        return sum(word in of_context for word in of_text) / len(of_text) if of_text else 0.0

    rules: Mapping[str, Callable[[str, str], float]] = {
        "shorter": lambda _, text: -len(text),
        "longer": lambda _, text: len(text),
        **({"lines": lambda _, text: -text.count("\n")} if any("\n" in high + low for _, high, low in pairs) else {}),
        "overlap": cache(share),
        "unigram": lambda _, text: frequency(text),
    }
    passes = {
        name: np.array([score(context, high) > score(context, low) for context, high, low in pairs], dtype=float)
        for name, score in rules.items()
    }
    if best := favourite(writers):
        wrote = np.array([[best in names.split("|") for names in pair] for pair in writers])
        passes["system"] = np.where(wrote.any(axis=1), wrote[:, 0] > wrote[:, 1], math.nan)
    return passes


def baseline_rates(
    pairs: Sequence[tuple[str, str, str]],
    categories: Sequence[str],
    texts: Sequence[str] | None = None,
    writers: Sequence[Writers] = (),
) -> dict[str, dict[str, float]]:
    """Compute how often each baseline passes: category, or ``all``, -> baseline -> pass rate, over the tests that it decides.

    A baseline that decides no test of a category is left out.

    Args:
        pairs: (context, better candidate, worse candidate) of each test.
        categories: of each test.
        texts: as for `baseline_passes`.
        writers: likewise.
    """
    import pandas as pd  # slow to import

    passes = pd.DataFrame(baseline_passes(pairs, texts, writers))
    groups = [*passes.groupby(np.asarray(categories, dtype=object))]
    if not groups:
        return {}
    return {str(name): group.mean().dropna().to_dict() for name, group in [(ALL, passes), *groups]}


#: Columns of those who wrote the better and the worse candidate.
WRITERS = ("high_system", "low_system")


def writers_of(tests: pa.Table) -> list[Writers]:
    """Read who wrote the candidates of each test of a table; an empty list where it does not say."""
    if not {*WRITERS} <= {*tests.column_names}:
        return []
    high, low = (tests[name].fill_null("").to_pylist() for name in WRITERS)
    return [*zip(high, low, strict=True)]
