"""Where to keep a snapshot of a model's state, so that sequences with a common beginning go on from it.

A recurrent layer reads a row from its first token to its last: it cannot read a tree of tokens in one row. But its state after
a beginning can be kept, and read on from as often as needed. Sequences that begin with the same tokens are grouped in *trunks*,
and trunks can have trunks within. What a sequence has after the last trunk that it is in, is its *leaf*.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from nnd_tasks.models.prefix_tree import common_prefix

#: Most trunks within one another: each keeps a snapshot while those within it are read.
DEEPEST = 12


@dataclass
class Trunk:
    """A beginning of some neighbouring sequences that is read once, on from the snapshot of the trunk around it.

    Attributes:
        first: index of the first of the sequences.
        last: index of the last one.
        begin: position in the sequences where the trunk begins, the end of the trunk around it.
        end: position after its last token.
        within: trunks that begin at ``end``.
        leaves: indices of those sequences that are in none of these and are longer than ``end``.
    """

    first: int
    last: int
    begin: int
    end: int
    within: list[Trunk] = field(default_factory=list)
    leaves: list[int] = field(default_factory=list)

    def walk(self) -> Iterator[Trunk]:
        """Yield this trunk and all trunks within it."""
        waiting = [self]
        while waiting:
            trunk = waiting.pop()
            yield trunk
            waiting += trunk.within


def plan_snapshots(sequences: Sequence[tuple[int, ...]], price: int) -> Trunk:
    """Return the trunks of sequences, all within one that is empty.

    A common beginning becomes a trunk if that saves more than ``price`` tokens, compared with reading it again for each of its
    sequences, and no longer beginning around it does so already.

    Args:
        sequences: distinct token sequences, sorted.
        price: what a trunk costs, apart from its tokens, in tokens.
    """
    shared = [0, *(common_prefix(one, two) for one, two in pairwise(sequences))]
    root = Trunk(0, len(sequences) - 1, 0, 0)
    # Neighbours that may have more in common than the trunk they are in, or than a beginning that was no trunk.
    waiting = [(root, 0, len(sequences) - 1, 0, 0)]
    while waiting:
        trunk, first, last, common, depth = waiting.pop()
        for start, end in _runs(shared, first, last, common):
            if start == end:
                if len(sequences[start]) > trunk.end:
                    trunk.leaves.append(start)
                continue
            longer = min(shared[start + 1 : end + 1])
            if depth < DEEPEST and (end - start) * (longer - trunk.end) > price:
                inner = Trunk(start, end, trunk.end, longer)
                trunk.within.append(inner)
                waiting.append((inner, start, end, longer, depth + 1))
            else:
                waiting.append((trunk, start, end, longer, depth))
    return root


def _runs(shared: Sequence[int], first: int, last: int, common: int) -> Iterator[tuple[int, int]]:
    """Yield the runs (first, last) of neighbours that have more than ``common`` tokens in common, or are alone."""
    start = first
    for i in range(first + 1, last + 2):
        if i > last or shared[i] <= common:
            yield start, i - 1
            start = i
