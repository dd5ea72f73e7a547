"""Baselines: how often rules that understand nothing pass the tests of a set.

A set on which "the shorter candidate wins" passes most tests says little about a model that does the same.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain, count
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from nnd_tasks.categories import ALL

_PIECE = 4_000  # texts that are taken at a time

#: Baseline -> its rule for which of two candidates wins, without understanding either.
BASELINES: Mapping[str, str] = {
    "shorter": "the shorter candidate wins (characters)",
    "longer": "the longer candidate wins (characters)",
    "lines": "the candidate with fewer lines wins, such as a paragraph over a list; where texts have several lines",
    "overlap": "the candidate with the larger share of words from the context wins",
    "unigram": "the candidate with the higher mean word frequency in the set's own candidates wins (log-likelihood per word)",
    "system": "the texts of one system win, of the one with which most tests pass; of the tests with a text of it",
}
#: Names of those who wrote the better candidates of tests, and those of the worse; several names are separated by bars. Empty
#: where they are not known.
Writers: TypeAlias = Sequence[Sequence[str]]


def favourite(writers: Writers) -> str:
    """Find the system whose texts most often win over those of another, the first in the alphabet of several; else ``""``."""
    wins = Counter[str]()
    for (high, low), tests in Counter(zip(*writers, strict=True)).items():
        if high and low:
            wins.update(dict.fromkeys({*high.split("|")} - {*low.split("|")}, tests))
    return min(wins, key=lambda name: (-wins[name], name), default="")


#: The words of texts, one text after the other, each as its number; and how many each text has.
Words: TypeAlias = tuple[NDArray[np.int32], NDArray[np.int64]]


class _Blanks(dict[int, int]):
    """For `str.translate`: a blank for each character that is in no word."""

    def __missing__(self, code: int) -> int:
        self[code] = code if chr(code).isalnum() or chr(code) in "_\0" else ord(" ")
        return self[code]


def _number_texts(*columns: pa.ChunkedArray) -> tuple[NDArray[np.int64], pa.Array]:
    """Number the distinct texts of columns; return the number of each text, one column after the other, and the texts."""
    chunks = chain.from_iterable(column.chunks for column in columns)
    encoded = pa.chunked_array(chunks, columns[0].type).dictionary_encode().combine_chunks()
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary


def _split_words(texts: pa.Array, number: Mapping[str, int]) -> Words:
    """Split texts into words, in lower case and without punctuation; ``number`` gives a new word its number."""
    found, sizes, blanks = [np.empty(0, np.int32)], [np.empty(0, np.int64)], _Blanks()
    for begin in range(0, len(texts), _PIECE):
        piece = [text.replace("\0", " ") for text in texts[begin : begin + _PIECE].to_pylist()]
        joined = " \0 ".join(["", *piece, ""]).lower().translate(blanks).strip(" ")
        words = pc.ascii_split_whitespace(pa.array([joined])).flatten().dictionary_encode()
        distinct = words.dictionary.to_pylist()
        numbers = np.fromiter(map(number.__getitem__, distinct), np.int32, len(distinct))[words.indices]
        is_end = numbers == number["\0"]
        found.append(numbers[~is_end])
        sizes.append(np.diff(np.flatnonzero(is_end)) - 1)
    return np.concatenate(found), np.concatenate(sizes)


def _share_words(
    prompt: NDArray[np.int64], candidate: NDArray[np.int64], of_candidates: Words, of_prompts: Words
) -> NDArray[np.float64]:
    """Compute which share of the words of each candidate its prompt has; shape (pairs of both,)."""
    (words, sizes), (words_of_prompts, sizes_of_prompts) = of_candidates, of_prompts
    starts, starts_of_prompts = (np.concatenate([[0], np.cumsum(lengths)]) for lengths in (sizes, sizes_of_prompts))
    most = 1 + max(words.max(initial=0), words_of_prompts.max(initial=0))
    keys, place = np.unique(prompt * len(starts) + candidate, return_inverse=True)
    shares = np.zeros(len(keys))
    for begin in range(0, len(keys), _PIECE):
        prompt, candidate = divmod(keys[begin : begin + _PIECE], len(starts))
        there = slice(*starts_of_prompts[[prompt[0], prompt[-1] + 1]])
        of_each = np.repeat(np.arange(prompt[0], prompt[-1] + 1), sizes_of_prompts[prompt[0] : prompt[-1] + 1])
        known = np.sort(of_each * most + words_of_prompts[there])
        size = sizes[candidate]
        pair = np.repeat(np.arange(len(size)), size)
        index = np.arange(len(pair)) + (starts[candidate] - np.cumsum(size) + size)[pair]
        sought = prompt[pair] * most + words[index]
        inside = np.append(known, -1)[np.searchsorted(known, sought)] == sought
        shares[begin : begin + _PIECE] = np.bincount(pair, inside, minlength=len(size)) / np.maximum(size, 1)
    return shares[place]


def baseline_passes(tests: pa.Table, texts: Sequence[pa.ChunkedArray] = ()) -> dict[str, NDArray[np.float64]]:
    """Tell which tests each of `BASELINES` passes; a tie fails, as for a model.

    Args:
        tests: with ``context``, ``high`` and ``low``, and the columns of `WRITERS` where they are known.
        texts: columns of candidates, to count words in those that differ; without any, in those of the tests.

    Returns:
        Baseline -> 1 where it passes a test, 0 where it fails, nan where it says nothing (``system`` of a test without a text of
        that system), shape (tests,).
    """
    prompt, prompts = _number_texts(tests["context"])
    candidate, candidates = _number_texts(tests["high"], tests["low"])
    high, low = np.split(candidate, 2)
    number: defaultdict[str, int] = defaultdict(count().__next__)  # of each distinct word: a million texts have few
    words, sizes = _split_words(candidates, number)
    counts = np.bincount(_split_words(_number_texts(*texts)[1], number)[0] if texts else words, minlength=len(number))
    total = counts.sum()
    logs = np.array([math.log(of_word / total) if of_word else -math.inf for of_word in counts.tolist()])
    mean = np.full(len(sizes), -math.inf)
    first = 0
    for begin in range(0, len(sizes), _PIECE):
        size = sizes[begin : begin + _PIECE]
        last = first + size.sum()
        sums = np.bincount(np.repeat(np.arange(len(size)), size), logs[words[first:last]], len(size))
        np.divide(sums, size, out=mean[begin : begin + _PIECE], where=size > 0)
        first = last
    lengths, lines = pc.utf8_length(candidates).to_numpy(), pc.count_substring(candidates, "\n").to_numpy()
    del candidates  # their texts take much memory
    shares = _share_words(np.tile(prompt, 2), candidate, (words, sizes), _split_words(prompts, number))
    share_of_high, share_of_low = np.split(shares, 2)
    wins = {
        "shorter": lengths[high] < lengths[low],
        "longer": lengths[high] > lengths[low],
        **({"lines": lines[high] < lines[low]} if lines.any() else {}),
        "overlap": share_of_high > share_of_low,
        "unigram": mean[high] > mean[low],
    }
    passes = {name: won.astype(float) for name, won in wins.items()}
    writers = writers_of(tests)
    if best := favourite(writers):
        is_best = {names: best in names.split("|") for names in {*chain(*writers)}}
        won, lost = (np.array([*map(is_best.__getitem__, side)]) for side in writers)
        passes["system"] = np.where(won | lost, won > lost, math.nan)
    return passes


def baseline_rates(tests: pa.Table, texts: Sequence[pa.ChunkedArray] = ()) -> dict[str, dict[str, float]]:
    """Compute how often each baseline passes: category, or ``all``, -> baseline -> pass rate, over the tests that it decides.

    A baseline that decides no test of a category is left out.

    Args:
        tests: as for `baseline_passes`, with ``category``.
        texts: likewise.
    """
    import pandas as pd  # slow to import

    passes = pd.DataFrame(baseline_passes(tests, texts))
    groups = [*passes.groupby(np.asarray(tests["category"], dtype=object))]
    if not groups:
        return {}
    return {str(name): group.mean().dropna().to_dict() for name, group in [(ALL, passes), *groups]}


#: Columns of those who wrote the better and the worse candidate.
WRITERS = ("high_system", "low_system")


def writers_of(tests: pa.Table) -> Writers:
    """Read who wrote the candidates of tests, where they say it."""
    return [tests[name].fill_null("").to_pylist() for name in WRITERS if {*WRITERS} <= {*tests.column_names}]
