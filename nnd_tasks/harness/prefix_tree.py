"""Token sequences as prefix trees, laid out in rows that a model can read at once.

Sorted sequences share their beginnings with their neighbours. Within a *pack* of neighbours every token that several
sequences share is read once, in one row (the *trunk*); what belongs to one sequence alone (its *branch*) is read after it,
in rows of several branches, each token seeing its own ancestors only. A small pack, or one of one sequence, is all trunk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Branch:
    """The part of one sequence that no other sequence of its pack has.

    Attributes:
        sequence: index of the sequence.
        anchor: index in the trunk of the token before it; -1 for none.
        start: its first position in the sequence.
    """

    sequence: int
    anchor: int
    start: int


@dataclass(frozen=True)
class Pack:
    """Some neighbouring sequences.

    Attributes:
        tokens: of the trunk, depth first, shape (trunk,).
        positions: of these tokens in their sequences, shape (trunk,).
        ends: end of the subtree below each trunk token, shape (trunk,): j is an ancestor of i when j <= i < ends[j].
        paths: for each sequence of the pack, the trunk indices of its shared beginning.
        branches: what is left of each sequence, where anything is.
    """

    tokens: Ints
    positions: Ints
    ends: Ints
    paths: dict[int, Ints]
    branches: list[Branch]

    def trunk_mask(self) -> NDArray[np.bool_]:
        """Return which trunk token sees which, shape (trunk, trunk)."""
        index = np.arange(len(self.tokens))
        return (index[None, :] <= index[:, None]) & (index[:, None] < self.ends[None, :])

    def without_roots(self) -> tuple[Pack, Ints]:
        """Return a pack that is all trunk without the first token of each sequence, and that token for each that is left.

        The paths keep an index for the root, so that they count like the sequences; it means nothing.
        """
        kept = self.positions > 0
        place = np.maximum(np.cumsum(kept) - 1, 0)
        roots = np.flatnonzero(~kept)
        below = np.cumsum(~kept) - 1
        ends = (np.cumsum([0, *kept]))[self.ends]
        paths = {i: place[path] for i, path in self.paths.items()}
        pack = Pack(self.tokens[kept], self.positions[kept] - 1, ends[kept], paths, [])
        return pack, self.tokens[roots][below[kept]]


def common_prefix(one: Sequence[int], two: Sequence[int]) -> int:
    """Return how many tokens both begin with."""
    length = min(len(one), len(two))
    differ = np.flatnonzero(np.asarray(one[:length]) != np.asarray(two[:length]))
    return int(differ[0]) if differ.size else length


def make_packs(sequences: Sequence[tuple[int, ...]], row: int, total: int, worth: int = 8) -> Iterator[Pack]:
    """Yield packs that hold every sequence once.

    What fits into one row is read in one row, without branches, and so is one sequence, however long. A pack is closed before
    its trunk or its number of tokens grows too large, and where the next sequence has little in common with the last one.

    Args:
        sequences: distinct token sequences, sorted.
        row: most tokens of a row, and of a trunk.
        total: most tokens of a pack.
        worth: fewer common tokens than these are no reason to make a pack that is larger than a row.
    """
    shared = [0, *(common_prefix(a, b) for a, b in pairwise(sequences)), 0]
    first = 0
    while first < len(sequences):
        last, trunk_size, size = first, 0, len(sequences[first])
        fits = size <= row
        while last + 1 < len(sequences):
            # Of the last sequence the next one shares so much that is not in the trunk yet.
            common = shared[last + 1]
            known = shared[last] if last > first else 0
            trunk_size += max(0, common - known)
            size += len(sequences[last + 1]) - common
            if trunk_size > row or size > (total if common >= worth else row):
                break
            last += 1
            fits = size <= row
        yield _pack(sequences, shared, first, last, whole=fits or first == last)
        first = last + 1


def _pack(sequences: Sequence[tuple[int, ...]], shared: Sequence[int], first: int, last: int, *, whole: bool) -> Pack:
    tokens: list[int] = []
    positions: list[int] = []
    ends: list[int] = []
    path: list[int] = []  # trunk indices of the current sequence, by position
    paths: dict[int, Ints] = {}
    branches: list[Branch] = []
    for i in range(first, last + 1):
        before = shared[i] if i > first else 0
        after = shared[i + 1] if i < last else 0
        sequence = sequences[i]
        for j in path[before:]:
            ends[j] = len(tokens)
        del path[before:]
        split = len(sequence) if whole else max(before, after)
        for position in range(before, split):
            path.append(len(tokens))
            tokens.append(sequence[position])
            positions.append(position)
            ends.append(-1)
        paths[i] = np.asarray(path[:split], dtype=np.int64)
        if split < len(sequence):
            branches.append(Branch(i, path[split - 1] if split else -1, split))
    for j in path:
        ends[j] = len(tokens)
    return Pack(
        np.asarray(tokens, dtype=np.int64),
        np.asarray(positions, dtype=np.int64),
        np.asarray(ends, dtype=np.int64),
        paths,
        branches,
    )


def rows_of(branches: Sequence[Branch], sequences: Sequence[tuple[int, ...]], most: int) -> Iterator[list[Branch]]:
    """Yield branches in rows of at most ``most`` tokens; a longer branch has a row of its own."""
    row: list[Branch] = []
    size = 0
    for branch in branches:
        length = len(sequences[branch.sequence]) - branch.start
        if row and size + length > most:
            yield row
            row, size = [], 0
        row.append(branch)
        size += length
    if row:
        yield row


def branch_mask(pack: Pack, owners: Ints, anchors: Ints) -> NDArray[np.bool_]:
    """Return which token of a row of branches sees which trunk token and which token of the row.

    Args:
        pack: the pack of the branches.
        owners: branch of each token of the row, ascending, shape (row,).
        anchors: anchor of that branch, shape (row,).

    Returns:
        Shape (row, trunk + row).
    """
    trunk = np.arange(len(pack.tokens))
    left = (trunk[None, :] <= anchors[:, None]) & (anchors[:, None] < pack.ends[None, :])
    index = np.arange(len(owners))
    right = (owners[:, None] == owners[None, :]) & (index[None, :] <= index[:, None])
    return np.concatenate([left, right], axis=1)
