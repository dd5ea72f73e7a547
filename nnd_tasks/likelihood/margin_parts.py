"""Where a test is won or lost: parts of its margin, by token.

The margin of sums is the log-probability of the better candidate less that of the worse one, in nats. It is a sum over tokens, so
it can be divided where the two texts share most of their words: at the words that differ, after them, and before them.
Token scores are needed (``--metadata '{"tokens": true}'``).

Known limits: words that only the worse text has make the part of the differing words higher, words that it lacks make it lower,
whether the model notices or not. Tests whose texts share little (`SHARED`) are left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import accumulate
from operator import and_, eq
from typing import TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nnd_tasks.baselines import ALL
from nnd_tasks.likelihood.span_metrics import split_words
from nnd_tasks.results.paired import Paired, sum_by_prompt
from nnd_tasks.results.runs import Run
from nnd_tasks.results.samples import CandidateTokens, read_tokens
from nnd_tasks.show.report import Report, make_table
from nnd_tasks.statistics import clustered_mean, summarize_rate

# ---------------------------------------------------------------- two texts side by side

#: (same, start, length, start, length): a stretch of each of two texts in characters, shared or different, in order.
Block: TypeAlias = tuple[bool, int, int, int, int]

#: With more words than this between the first and the last difference, all between them is one difference.
MANY = 2_000


def character_blocks(high: str, low: str) -> list[Block]:
    """What two texts share and where they differ, compared word by word (`split_words`), in characters."""
    a = split_words(high)
    b = split_words(low)
    head = count_equal(a, b)
    tail = count_equal(a[head:][::-1], b[head:][::-1])
    middles = a[head : len(a) - tail], b[head : len(b) - tail]
    a_size, b_size = map(len, middles)
    edits = [("replace", 0, a_size, 0, b_size)]
    if max(a_size, b_size) <= MANY:
        edits = [*SequenceMatcher(None, *middles, autojunk=False).get_opcodes()]
    # Words are counted from the first difference.
    edits = [("equal", -head, 0, -head, 0), *edits, ("equal", a_size, a_size + tail, b_size, b_size + tail)]
    i, j = ([0, *accumulate(map(len, words))] for words in (a, b))
    blocks = [
        (tag == "equal", i[head + a0], i[head + a1] - i[head + a0], j[head + b0], j[head + b1] - j[head + b0])
        for tag, a0, a1, b0, b1 in edits
    ]
    return [block for block in blocks if block[2] or block[4]]


def count_equal(first: Sequence[object], second: Sequence[object]) -> int:
    """With how many equal items two sequences begin."""
    return sum(accumulate(map(eq, first, second), and_))


# ---------------------------------------------------------------- the margin of one test

#: What each token belongs to: the common beginning, the words that differ, or what both texts share after the first of them.
BEFORE, AT, AFTER = range(3)
#: Share of the characters of the longer text that two texts must have in common, in order. With less, more of the text was
#: written anew than kept: there is no one place of an error, and what is shared are common words that stand in any two texts.
SHARED = 0.5


@lru_cache(maxsize=1 << 16)  # the runs of a comparison have the same texts
def alignment_of(high: str, low: str) -> tuple[Block, ...] | None:
    """Align two candidates (`character_blocks`); None where they are equal or too different."""
    blocks = character_blocks(high, low)
    shared = sum(size for same, _, size, _, _ in blocks if same)
    return tuple(blocks) if high != low and shared >= SHARED * max(len(high), len(low)) else None


def label_tokens(alignment: Sequence[Block], high: CandidateTokens, low: CandidateTokens) -> list[NDArray[np.int64]]:
    """Tell what each token of two candidates belongs to: `BEFORE`, `AT` or `AFTER`, shape (tokens,) each.

    After the first difference every shared stretch is `AFTER`, every other difference is `AT`. A token with a character of a
    difference is `AT`. So is what stands beside it in the other text: a shared stretch counts only between characters where
    tokens of both texts begin, so that `AFTER` covers the same characters in both. In the common beginning tokens must also be
    the same; those that are others because of what follows are `AT`. Of the tokens around a candidate, those at its beginning
    go with the common beginning, those at its end (such as an end-of-sequence token) are `AFTER`.

    Args:
        alignment: of the two texts, which differ somewhere; see `alignment_of`.
        high: tokens of the better candidate.
        low: tokens of the worse one.
    """
    sides = high, low
    labels = [np.full(len(tokens.ids), AT) for tokens in sides]
    _, i, i_size, j, j_size = alignment[-1]
    lengths = i + i_size, j + j_size
    borders = [_find_borders(tokens, length) for tokens, length in zip(sides, lengths, strict=True)]
    for number, (same, i, size, j, _) in enumerate(alignment):
        if not same:
            continue
        clean = np.flatnonzero(borders[0][i : i + size + 1] & borders[1][j : j + size + 1])
        if not len(clean):
            continue
        for tokens, labels_of_side, begin in zip(sides, labels, (i, j), strict=True):
            first, last = begin + clean[0], begin + clean[-1]
            inside = (tokens.starts >= first) & (tokens.ends <= last)
            # An empty token at the border of a difference belongs to the difference.
            labels_of_side[inside & (tokens.ends > first) & (tokens.starts < last)] = AFTER if number else BEFORE
    prefix = count_equal(
        *([*zip(side.ids.tolist(), side.starts.tolist(), side.ends.tolist(), strict=True)] for side in sides)
    )
    for tokens, labels_of_side, length in zip(sides, labels, lengths, strict=True):
        labels_of_side[prefix:][labels_of_side[prefix:] == BEFORE] = AT
        labels_of_side[:prefix][tokens.ends[:prefix] == 0] = BEFORE
        labels_of_side[(tokens.starts == length) & (tokens.ends == length)] = AFTER
    return labels


def _find_borders(tokens: CandidateTokens, length: int) -> NDArray[np.bool_]:
    """Tell of each place between characters, shape (length + 1,), whether no token has characters on both sides of it."""
    long = tokens.ends > tokens.starts
    begun, ended = (np.bincount(at[long], minlength=length + 1) for at in (tokens.starts + 1, tokens.ends))
    return np.asarray(np.cumsum(begun - ended) == 0)


# ---------------------------------------------------------------- all tests of a run

#: Columns of `margin_table`.
_VALUES = ["before", "at", "after", "tokens_high", "tokens_low"]


def margin_table(run: Run) -> pd.DataFrame:
    """Divide the margin of each test of a run with token scores.

    Returns:
        One row per test that was scored, with its ``test_id``, ``cluster_id`` and ``category``; ``before``, ``at`` and ``after``:
        the parts, which add up to the margin of sums, in nats; ``tokens_high`` and ``tokens_low``: how many tokens are `AT`.
        The numbers are nan for a test that is left out, as its texts are equal or share too little.

    Raises:
        NNDError: the file of token scores is damaged or belongs to another run.
    """
    scores, tests = read_tokens(run), run.tests.dropna(subset="passed")
    rows = []
    for index, *pair in tests[["document", "high", "low"]].itertuples(index=False):
        document = run.documents[index]
        alignment = alignment_of(*(document["candidates"][candidate] for candidate in pair))
        tokens = (scores[document["cluster_id"], candidate, True] for candidate in pair)
        rows.append(_divide_margin(alignment, *tokens) if alignment else [math.nan] * len(_VALUES))
    parts = pd.DataFrame(rows, tests.index, _VALUES, dtype=float)
    return tests[["test_id", "cluster_id", "category"]].join(parts)


def _divide_margin(alignment: Sequence[Block], high: CandidateTokens, low: CandidateTokens) -> tuple[float, ...]:
    """A row of `margin_table`, its columns `_VALUES`."""
    labels_high, labels_low = label_tokens(alignment, high, low)
    sums = np.bincount(labels_high, high.logprobs, 3) - np.bincount(labels_low, low.logprobs, 3)
    return *sums, np.count_nonzero(labels_high == AT), np.count_nonzero(labels_low == AT)


# ---------------------------------------------------------------- per category


def add_margin_parts(report: Report, paired: Paired) -> Report:
    """Add the table of margin parts to a comparison, as the last one; without any part it stays as it is.

    Args:
        report: of `nnd_tasks.results.comparison_report.report_comparison`.
        paired: the runs that it compares.

    Raises:
        NNDError: a file of token scores is damaged or belongs to another run.
    """
    parts = margin_parts(paired)
    return report if parts.empty else replace(report, tables=[*report.tables, make_table("margin_parts", parts)])


def margin_parts(paired: Paired) -> pd.DataFrame:
    """Tell where the models win and lose the tests that all of them have scored.

    Models without token scores are left out, and so is all where no test's texts share enough.

    Returns:
        A row per category (``all`` first) and model. ``tests``: number of tests that count; ``left_out``: of those that do not,
        as their texts are equal or share less than `SHARED`; ``before``: mean part of the common beginning in nats, 0 but for
        rounding; ``at``: of the words that differ, and ``after``: of what both texts share after the first difference, each with
        ``NAME_standard_error``, ``NAME_low`` and ``NAME_high``; ``tokens_high``, ``tokens_low``: mean number of tokens of the
        better and the worse text at the differing words; ``noticed``: share of the tests whose part ``at`` is positive;
        ``only_after``: not positive, while the whole margin is; ``lost_after``: positive, while the whole margin is not, each
        with its error and interval. ``noticed`` + ``only_after`` - ``lost_after`` have a positive margin of sums.

    Raises:
        NNDError: a file of token scores is damaged or belongs to another run.
    """
    tables = [margin_table(run).assign(model=run.model) for run in paired.runs if run.tokens]
    if not tables:
        return pd.DataFrame()
    every = pd.concat(tables)
    every = every[every["test_id"].isin(paired.tests["test_id"])]
    rows = [
        {"category": category, "model": model, **_summarize(of_model)}
        for category, of_category in [(ALL, every), *every.groupby("category")]
        for model, of_model in of_category.groupby("model", sort=False)
    ]
    return pd.DataFrame(rows) if every["at"].notna().any() else pd.DataFrame()


def _summarize(table: pd.DataFrame) -> dict[str, float]:
    """The means and shares of some tests."""
    tests = table[table["at"].notna()]
    noticed, won = tests["at"] > 0, tests["before"] + tests["at"] + tests["after"] > 0
    tests = tests.assign(noticed=noticed, only_after=~noticed & won, lost_after=noticed & ~won)
    row: dict[str, float] = {"tests": len(tests), "left_out": len(table) - len(tests)}
    row |= tests[["before", "tokens_high", "tokens_low"]].mean().to_dict()
    for name in ("at", "after"):
        row |= clustered_mean(*sum_by_prompt(tests[name], tests["cluster_id"])).columns(name)
    for name in ("noticed", "only_after", "lost_after"):
        row |= summarize_rate(*sum_by_prompt(tests[name], tests["cluster_id"])).columns(name)
    return row
