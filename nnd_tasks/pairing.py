"""From qualities to tests: pairs of candidates of one group whose quality differs (paper, section 2.1).

One engine serves every set: a recipe's table becomes `Judgements`, `qualities.gather` puts those of one candidate together, and
`pair` forms the tests within each prompt, or within each group that the publisher names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nnd_tasks.codes import Index, Mask, combine
from nnd_tasks.errors import NNDError
from nnd_tasks.judgements import Dropped
from nnd_tasks.qualities import Candidates

#: More pairs of candidates than this take minutes to compare, more tests than this take gigabytes.
MOST_PAIRS = 500_000_000
MOST_TESTS = 10_000_000


@dataclass
class Pairs:
    """Tests as indices into the candidates; all arrays have shape (tests,).

    Attributes:
        high: the better candidate.
        low: the worse one.
        high_first: whether the better one comes first in the table.
    """

    high: Index
    low: Index
    high_first: Mask


def pair(candidates: Candidates, dropped: Dropped, where: str) -> Pairs:
    """Form every pair of candidates of one group and aspect whose qualities differ by the gap or more.

    Tests are sorted by group, by aspect, and by the places of their two candidates in the table.

    Args:
        candidates: in the order of the table.
        dropped: gets the counts of pairs that make no test and of candidates in no test.
        where: begins an error.

    Raises:
        NNDError: there are more pairs than can be formed.
    """
    order = np.lexsort((np.arange(len(candidates.group)), candidates.aspect, candidates.group))
    group, _ = combine(candidates.group[order], candidates.aspect[order])
    quality = candidates.quality[order]
    sizes = np.bincount(group, minlength=1).astype(np.int64)
    compared = int((sizes * (sizes - 1) // 2).sum())
    if compared > MOST_PAIRS:
        raise NNDError(
            f"{where}: {compared:,} pairs of candidates, {sizes.max():,} candidates in one context; "
            "is --context the right column?"
        )
    firsts: list[Any] = []
    seconds: list[Any] = []
    made = 0
    first = np.arange(len(order))
    for step in range(1, int(sizes.max(initial=0))):
        first = first[: np.searchsorted(first, len(order) - step)]
        first = first[group[first] == group[first + step]]
        known = np.abs(quality[first] - quality[first + step]) >= candidates.gap  # so that nan makes no test
        firsts.append(first[known])
        seconds.append(first[known] + step)
        made += len(firsts[-1])
        if made > MOST_TESTS:
            raise NNDError(
                f"{where}: more than {MOST_TESTS:,} tests come out; take fewer rows, or a rule that leaves out more"
            )
    left = np.concatenate([*firsts, np.empty(0, np.int64)])
    right = np.concatenate([*seconds, np.empty(0, np.int64)])
    sorting = np.lexsort((right, left))
    left, right = left[sorting], right[sorting]
    better = quality[left] > quality[right]
    used = np.zeros(len(order), dtype=bool)
    used[left] = used[right] = True
    dropped.add("no_order", compared - made)
    dropped.add("no_pair", int((~used).sum()), np.unique(candidates.row[order[~used]]))
    high, low = order[np.where(better, left, right)], order[np.where(better, right, left)]
    return Pairs(high, low, better)
