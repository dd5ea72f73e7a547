"""Baselines: how often rules that understand nothing pass the tests of a set.

A set on which "the shorter candidate wins" passes most tests says little about a model that does the same.
"""

from __future__ import annotations

import math
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, count
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nnd_tasks.categories import ALL

_WORD = re.compile(r"\w+")


def words(text: str) -> list[str]:
    """Split a text into its words, in lower case and without punctuation."""
    return _WORD.findall(text.lower())


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
    wins = Counter[str]()
    for (high, low), tests in Counter(map(tuple, writers)).items():
        if high and low:
            wins.update(dict.fromkeys({*high.split("|")} - {*low.split("|")}, tests))
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
    contexts, *sides = zip(*pairs, strict=True) if pairs else ((), (), ())
    candidates, prompts = (
        {text: i for i, text in enumerate(dict.fromkeys(some))} for some in (chain(*sides), contexts)
    )
    high, low = (np.array([candidates[text] for text in side], np.int64) for side in sides)
    number: defaultdict[str, int] = defaultdict(count().__next__)  # of each distinct word: a million texts have few

    def split(some: Iterable[str]) -> tuple[array[int], list[int]]:
        """Return the words of all texts, one text after the other, and where each text ends."""
        ends, flat = [0], array("i")
        for text in some:
            flat.extend(map(number.__getitem__, words(text)))
            ends.append(len(flat))
        return flat, ends

    flat, ends = split(candidates)
    counts = np.bincount(flat if texts is None else split(texts)[0], minlength=len(number))
    total = counts.sum()
    logs = np.array([math.log(of_word / total) if of_word else -math.inf for of_word in counts.tolist()])
    sizes = np.diff(ends)
    sums = np.bincount(np.repeat(np.arange(len(sizes)), sizes), logs[np.array(flat)], minlength=len(sizes))
    lengths, lines = (np.array([*map(measure, candidates)]) for measure in (len, lambda text: text.count("\n")))

    def share(keys: NDArray[np.int64]) -> NDArray[np.float64]:
        """Compute the share of the words of a candidate that its context has, of their numbers in one, in order."""
        shares, last, of_context = np.zeros(len(keys)), -1, set[int]()
        for i, (prompt, candidate) in enumerate(zip(*map(np.ndarray.tolist, divmod(keys, len(ends))), strict=True)):
            if prompt != last:
                last, of_context = prompt, {*map(number.__getitem__, words(distinct[prompt]))}
            if of_text := flat[ends[candidate] : ends[candidate + 1]]:
                shares[i] = sum(map(of_context.__contains__, of_text)) / len(of_text)
        return shares

    distinct = [*prompts]
    prompt = np.array([prompts[text] for text in contexts], np.int64)
    keys, place = np.unique(
        np.concatenate([prompt, prompt]) * len(ends) + np.concatenate([high, low]), return_inverse=True
    )
    share_of_high, share_of_low = np.split(share(keys)[place], 2)
    mean = np.divide(sums, sizes, out=np.full(len(sizes), -math.inf), where=sizes > 0)
    wins = {
        "shorter": lengths[high] < lengths[low],
        "longer": lengths[high] > lengths[low],
        **({"lines": lines[high] < lines[low]} if lines.any() else {}),
        "overlap": share_of_high > share_of_low,
        "unigram": mean[high] > mean[low],
    }
    passes = {name: won.astype(float) for name, won in wins.items()}
    if best := favourite(writers):
        is_best = {names: best in names.split("|") for names in {*chain(*writers)}}
        won, lost = (np.array([is_best[names] for names in side]) for side in zip(*writers, strict=True))
        passes["system"] = np.where(won | lost, won > lost, math.nan)
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
