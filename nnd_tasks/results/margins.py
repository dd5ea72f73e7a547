"""Where a test is won or lost: the margin of sums in three parts, at the words that differ, after them, and before them.

The margin of sums is the log-probability of the better candidate less that of the worse one, in nats. It is a sum over tokens, so
it can be divided where the two texts share most of their words. Token scores are needed (``--metadata '{"tokens": true}'``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nnd_tasks.baselines import ALL
from nnd_tasks.results.alignment import Block, character_blocks, count_equal
from nnd_tasks.results.paired import Paired
from nnd_tasks.results.runs import Run
from nnd_tasks.results.token_files import CandidateTokens, run_tokens
from nnd_tasks.show.report import Table
from nnd_tasks.statistics import clustered_mean, summarize_rate

#: What each token belongs to: the common beginning, the words that differ, or what both texts share after the first of them.
BEFORE, AT, AFTER = range(3)
#: Share of the characters of the longer text that two texts must have in common, in order. With less, more of the text was
#: written anew than kept: there is no one place of an error, and what is shared are common words that stand in any two texts.
SHARED = 0.5


# ---------------------------------------------------------------- one test


@lru_cache(maxsize=1 << 16)  # the runs of a comparison have the same texts
def alignment_of(high: str, low: str) -> tuple[Block, ...] | None:
    """Return what two candidates share and where they differ, in characters; None where they are equal or too different."""
    blocks = character_blocks(high, low)
    shared = sum(size for same, _, size, _, _ in blocks if same)
    return tuple(blocks) if high != low and shared >= SHARED * max(len(high), len(low)) else None


def label_tokens(alignment: Sequence[Block], high: CandidateTokens, low: CandidateTokens) -> list[NDArray[np.int64]]:
    """Return what each token of two candidates belongs to: `BEFORE`, `AT` or `AFTER`, shape (tokens,) each.

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
    borders = [_borders(tokens, length) for tokens, length in zip(sides, lengths, strict=True)]
    for place, (same, i, size, j, _) in enumerate(alignment):
        if not same:
            continue
        clean = np.flatnonzero(borders[0][i : i + size + 1] & borders[1][j : j + size + 1])
        if len(clean):
            for tokens, own, begin in zip(sides, labels, (i, j), strict=True):
                first, last = begin + clean[0], begin + clean[-1]
                inside = (tokens.starts >= first) & (tokens.ends <= last)
                # An empty token at the border of a difference belongs to the difference.
                own[inside & (tokens.ends > first) & (tokens.starts < last)] = AFTER if place else BEFORE
    prefix = count_equal(
        *([*zip(one.ids.tolist(), one.starts.tolist(), one.ends.tolist(), strict=True)] for one in sides)
    )
    for tokens, own, length in zip(sides, labels, lengths, strict=True):
        own[prefix:][own[prefix:] == BEFORE] = AT
        own[:prefix][tokens.ends[:prefix] == 0] = BEFORE
        own[(tokens.starts == length) & (tokens.ends == length)] = AFTER
    return labels


def _borders(tokens: CandidateTokens, length: int) -> NDArray[np.bool_]:
    """Return for each place between characters, shape (length + 1,), whether no token has characters on both sides of it."""
    long = tokens.ends > tokens.starts
    begun, over = (np.bincount(at[long], minlength=length + 1) for at in (tokens.starts + 1, tokens.ends))
    return np.asarray(np.cumsum(begun - over) == 0)


# ---------------------------------------------------------------- all tests of a run

#: Columns of `margin_table`.
_VALUES = ["before", "at", "after", "tokens_high", "tokens_low"]


def margin_table(run: Run) -> pd.DataFrame | None:
    """Return the parts of the margin of each test of a run; None where it has no token scores.

    Returns:
        One row per test that was scored, with its ``test_id``, ``cluster_id`` and ``category``; ``before``, ``at`` and ``after``:
        the parts, which add up to the margin of sums, in nats; ``tokens_high`` and ``tokens_low``: how many tokens are `AT`.
        The numbers are nan for a test that is left out, as its texts are equal or share too little.

    Raises:
        NNDError: the file of token scores is damaged or belongs to another run.
    """
    scores = run_tokens(run)
    if scores is None:
        return None
    tests = run.tests.dropna(subset="passed")
    rows = []
    for place, *pair in tests[["document", "high", "low"]].itertuples(index=False):
        document = run.documents[place]
        alignment = alignment_of(*(document["candidates"][one] for one in pair))
        tokens = (scores[document["cluster_id"], one, True] for one in pair)
        rows.append(_parts(alignment, *tokens) if alignment else [math.nan] * len(_VALUES))
    parts = pd.DataFrame(rows, tests.index, _VALUES, dtype=float)
    return tests[["test_id", "cluster_id", "category"]].join(parts)


def _parts(alignment: Sequence[Block], high: CandidateTokens, low: CandidateTokens) -> tuple[float, ...]:
    """Return a row of `margin_table`, its columns `_VALUES`."""
    labels = label_tokens(alignment, high, low)
    sums, sums_low = (np.bincount(own, one.logprobs, 3) for own, one in zip(labels, (high, low), strict=True))
    return *(sums - sums_low), *(np.count_nonzero(own == AT) for own in labels)


# ---------------------------------------------------------------- per category


def margin_parts(paired: Paired) -> pd.DataFrame:
    """Return where the models win and lose the tests that all of them have scored.

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
    tables = [table.assign(model=run.model) for run in paired.runs if (table := margin_table(run)) is not None]
    if not tables:
        return pd.DataFrame()
    every = pd.concat(tables)
    every = every[every["test_id"].isin(paired.tests["test_id"])]
    rows = [
        {"category": category, "model": model, **_summarize(of_model)}
        for category, part in [(ALL, every), *every.groupby("category")]
        for model, of_model in part.groupby("model", sort=False)
    ]
    return pd.DataFrame(rows) if every["at"].notna().any() else pd.DataFrame()


def _summarize(table: pd.DataFrame) -> dict[str, float]:
    """Return the means and shares of some tests."""
    tests = table[table["at"].notna()]
    noticed, won = tests["at"] > 0, tests["before"] + tests["at"] + tests["after"] > 0
    tests = tests.assign(noticed=noticed, only_after=~noticed & won, lost_after=noticed & ~won)
    prompts = tests.groupby("cluster_id", sort=False)
    totals, counts = prompts.sum(numeric_only=True), prompts.size()
    row: dict[str, float] = {"tests": len(tests), "left_out": len(table) - len(tests)}
    row |= tests[["before", "tokens_high", "tokens_low"]].mean().to_dict()
    for name in ("at", "after"):
        row |= clustered_mean(totals[name], counts).columns(name)
    for name in ("noticed", "only_after", "lost_after"):
        row |= summarize_rate(totals[name], counts).columns(name)
    return row


def margins_table(parts: pd.DataFrame) -> Table:
    """Return the table of `margin_parts`."""
    columns = {
        "category": "{category}",
        "model": "{model}",
        "tests": "{tests:,}",
        "left out": "{left_out:,}",
        "tokens at (better / worse)": "{tokens_high:.1f} / {tokens_low:.1f}",
        "at": "{at:+.2f} [{at_low:+.2f}, {at_high:+.2f}]",
        "after": "{after:+.2f} [{after_low:+.2f}, {after_high:+.2f}]",
        "noticed at": "{noticed:.3f}",
        "only after": "{only_after:.3f}",
        "lost after": "{lost_after:.3f}",
    }
    caption = (
        "Margin parts: log-probability of the better text less that of the worse one, in nats, at the words that differ and "
        "after the first of them, with 95% intervals clustered by prompt. Noticed at: share of tests whose part at those words "
        "is positive. Only after: it is not, but the whole margin is. Lost after: it is, but the whole margin is not. Of two "
        "texts the one with more tokens at those words loses there in any case, noticed or not."
    )
    return Table("margin_parts", parts, columns, caption)
