"""Which process scores which request: common beginnings stay together, and all processes read as many tokens.

Requests are put in the order of their tokens, which makes a tree of their common beginnings. It is divided in two ways, by
dealing out its branches and by cutting it into runs. Of those with equal shares, that is taken which has the fewest tokens read
twice; if there is none, that in which the busiest process has the least to read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush, heapreplace
from itertools import pairwise, takewhile
from typing import TypeVar

import numpy as np

from nnd_tasks.models.prefix_tree import Ints, common_prefix

#: Branches are split until the largest share is at most this much larger than the mean; a cut between runs may be this far from
#: the place of equal shares, as a part of a share.
SLACK = 0.03
#: With so many branches, each split is tried; with more, one in some.
_FEW = 100

#: What a decoder-only model reads for a request, or (context, candidate) of other models.
Tokens = tuple[int, ...]
Pair = tuple[Tokens, Tokens]
Key = TypeVar("Key", str, Tokens, Pair)


def divide(costs: Ints, common: Ints, count: int, *, shared: bool) -> Ints:
    """Return the number of the process for each item, shape (items,).

    Args:
        costs: of each item alone, shape (items,).
        common: how much each item begins with in common with the one before it, shape (items,); 0 for the first.
        count: number of processes.
        shared: whether a process reads once what its items begin with in common.
    """
    fresh = costs - common if shared else costs.copy()
    every = int(common[1:].min()) if shared and len(common) > 1 else 0  # all begin with it, so every process reads it
    fresh[:1] -= every
    before = np.concatenate([[0], np.cumsum(fresh)])  # cost of all items before this one
    proposals = [_branches(before, common, count), _runs(before, common, count)]

    def merit(owners: Ints) -> tuple[bool, int]:
        each = loads(costs, common, owners, count, shared=shared)
        equal = max(each) <= (1 + 2 * SLACK) * (every + before[-1] / count)
        return not equal, sum(each) if equal else max(each)

    return min(proposals, key=merit)


def loads(costs: Ints, common: Ints, owners: Ints, count: int, *, shared: bool) -> list[int]:
    """Return what each process has to read; arguments as for `divide`."""
    totals = [0] * count
    kept = [0] * count  # what the next item has in common with the last one of the process
    for cost, same, owner in zip(costs.tolist(), common.tolist(), owners.tolist(), strict=True):
        kept = [min(one, same) for one in kept]
        totals[owner] += cost - kept[owner] * shared
        kept[owner] = cost
    return totals


def _runs(before: Ints, common: Ints, count: int) -> Ints:
    """Return owners, each of neighbours: cut where these have the least in common, of the places near equal shares."""
    torn = np.concatenate([common, [0]])
    share = before[-1] / count
    cuts = [0]
    for k in range(1, count):
        off = np.abs(before - k * share)
        near = np.flatnonzero(off <= max(SLACK * share, off.min()))
        best = near[np.lexsort((off[near], torn[near]))[0]]
        cuts.append(max(int(best), cuts[-1]))
    return np.searchsorted(np.asarray(cuts[1:], dtype=np.int64), np.arange(len(common)), side="right").astype(np.int64)


def _branches(before: Ints, common: Ints, count: int) -> Ints:
    """Return owners: branches, the largest first, go to whoever has the least; the largest are split until that is balanced."""
    owners = np.zeros(len(common), dtype=np.int64)
    # (minus its cost, first item, end) of each branch, so that the largest one comes first.
    branches = [(-int(before[-1]), 0, len(common))]
    whole: list[tuple[int, int, int]] = []  # those of one item
    tried = 0
    while branches or whole:
        if (made := len(branches) + len(whole)) <= _FEW or made >= 1.2 * tried or not branches:
            tried = made
            busy = [(0, k) for k in range(count)]
            for cost, first, end in sorted(branches + whole):
                load, k = busy[0]
                owners[first:end] = k
                heapreplace(busy, (load - cost, k))
            if not branches or max(busy)[0] <= (1 + SLACK) * before[-1] / count:
                break
        cost, first, end = heappop(branches)
        if end - first < 2:
            whole.append((cost, first, end))
            continue
        # In two, where neighbours have the least in common, and as near to the middle as such a place is.
        inside = common[first + 1 : end]
        places = first + 1 + np.flatnonzero(inside == inside.min())
        place = int(places[np.argmin(np.abs(before[places] - (before[first] + before[end]) / 2))])
        for begin, stop in ((first, place), (place, end)):
            heappush(branches, (int(before[begin] - before[stop]), begin, stop))
    return owners


def owners_of(
    keys: Sequence[Key], common: Callable[[Key, Key], int], cost: Callable[[Key], int], count: int, *, shared: bool
) -> list[int]:
    """Return the number of the process for each request; equal requests go to one process.

    Args:
        keys: what is read for each request; ordered by it, those with a common beginning are neighbours.
        common: returns how many tokens two keys begin with in common.
        cost: returns how many tokens are read for a key.
        count: number of processes.
        shared: whether a process reads once what its requests begin with in common.
    """
    distinct: list[Key] = sorted(set(keys))
    together = np.asarray([0, *(common(one, two) for one, two in pairwise(distinct))][: len(distinct)], dtype=np.int64)
    costs = np.asarray([cost(key) for key in distinct], dtype=np.int64)
    number = dict(zip(distinct, divide(costs, together, count, shared=shared).tolist(), strict=True))
    return [number[key] for key in keys]


def owners_of_inputs(inputs: Sequence[Tokens], count: int, *, shared: bool) -> list[int]:
    """Return the number of the process for each request of a decoder-only model; ``inputs`` are the tokens it reads."""
    return owners_of(inputs, common_prefix, len, count, shared=shared)


def owners_of_pairs(pairs: Sequence[Pair], count: int, *, shared: bool) -> list[int]:
    """Return the number of the process for each (context, candidate) of an encoder-decoder.

    Contexts are encoded as a whole: two that only begin alike have nothing in common.
    """

    def common(one: Pair, two: Pair) -> int:
        return len(one[0]) + common_prefix(one[1], two[1]) if one[0] == two[0] else 0

    return owners_of(pairs, common, lambda pair: len(pair[0]) + len(pair[1]), count, shared=shared)


def owners_of_masked(pairs: Sequence[Pair], count: int) -> list[int]:
    """Return the number of the process for each (context, candidate) of a masked model, which reads both for each token."""

    def common(one: Pair, two: Pair) -> int:
        return common_prefix(one[0] + one[1], two[0] + two[1])

    def cost(pair: Pair) -> int:
        return len(pair[1]) * (len(pair[0]) + len(pair[1]))

    return owners_of(pairs, common, cost, count, shared=False)


def owners_of_texts(texts: Sequence[str], count: int) -> list[int]:
    """Return the number of the process for each text that is to be read as a whole or continued."""

    def common(one: str, two: str) -> int:
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, two, strict=False)))

    return owners_of(texts, common, len, count, shared=False)
