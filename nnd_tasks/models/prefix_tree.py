"""Token sequences as prefix trees, laid out in rows that a model can read at once.

Sorted sequences share their beginnings with their neighbours. Within a *pack* of neighbours every token that several
sequences share is read once, in one row (the *trunk*); what belongs to one sequence alone (its *branch*) is read after it,
in rows of several branches, each token seeing its own ancestors only. A small pack, or one of one sequence, is all trunk.
A beginning that is longer than a row is a *stem*, read once before the packs of all that begin with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Branch:
    """The part of one sequence that no other sequence of its pack has.

    Attributes:
        sequence: index of the sequence.
        anchor: index in the trunk of the token before it; -1 where that is the stem's last, or there is none.
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
        paths: for each sequence of the pack, the trunk indices of its shared beginning (after the stem).
        branches: what is left of each sequence, where anything is.
        stem: how many tokens all sequences of the pack begin with that were read before, and are not in the trunk.
        owner: index of a sequence that begins with the stem; packs of one stem have one owner. -1 without a stem.
    """

    tokens: Ints
    positions: Ints
    ends: Ints
    paths: dict[int, Ints]
    branches: list[Branch]
    stem: int = 0
    owner: int = -1

    def trunk_mask(self) -> NDArray[np.bool_] | None:
        """Return which trunk token sees which token of stem and trunk, shape (trunk, stem + trunk).

        None where there is no stem and each sees all before it.
        """
        index = np.arange(len(self.tokens))
        if not self.stem and np.array_equal(self.positions, index):
            return None
        return self._behind_stem((index[None, :] <= index[:, None]) & (index[:, None] < self.ends[None, :]))

    def _behind_stem(self, mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
        return np.concatenate([np.ones((len(mask), self.stem), dtype=bool), mask], axis=1) if self.stem else mask

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


def make_packs(
    sequences: Sequence[tuple[int, ...]], row: int, total: int, worth: int = 8, *, stems: bool = True
) -> Iterator[Pack]:
    """Yield packs that hold every sequence once.

    What fits into one row is read in one row, without branches, and so is one sequence, however long. A pack is closed before
    its trunk or its number of tokens grows too large, and where the next sequence has little in common with the last one.
    What more sequences have in common than a row holds is their stem, and only what follows it goes into packs.

    Args:
        sequences: distinct token sequences, sorted.
        row: most tokens of a row, and of a trunk.
        total: most tokens of a pack.
        worth: fewer common tokens than these are no reason to make a pack that is larger than a row.
        stems: whether packs may have stems; without, long common beginnings are read with each sequence.
    """
    shared = [0, *(common_prefix(a, b) for a, b in pairwise(sequences)), 0]
    first = 0
    for stemmed, run in groupby(range(len(sequences)), lambda i: stems and max(shared[i], shared[i + 1]) > row):
        end = first + len(list(run))
        while first < end:
            last = first
            if stemmed:  # neighbouring runs have less than a row in common
                while last + 1 < end and shared[last + 1] > row:
                    last += 1
                yield from _stemmed(sequences, shared, first, last, row, total, worth)
            else:
                last, whole = _extent(sequences, shared, first, end - 1, row, total, worth)
                yield _pack(sequences, shared, first, last, whole=whole)
            first = last + 1


def _stemmed(
    sequences: Sequence[tuple[int, ...]],
    shared: Sequence[int],
    first: int,
    last: int,
    row: int,
    total: int,
    worth: int,
) -> Iterator[Pack]:
    """Yield the packs of neighbours that all have more than a row in common."""
    stem = min(shared[first + 1 : last + 1])
    if max(shared[first + 1 : last + 1]) - stem > row:
        # Some have much more in common: these have longer stems of their own.
        splits = [i for i in range(first + 1, last + 1) if shared[i] == stem]
        for start, end in pairwise([first, *splits, last + 1]):
            if end - start == 1:
                yield _pack(sequences, shared, start, start, whole=True)
            else:
                yield from _stemmed(sequences, shared, start, end - 1, row, total, worth)
        return
    begin = first
    while begin <= last:
        end, whole = _extent(sequences, shared, begin, last, row, total, worth, stem)
        yield _pack(sequences, shared, begin, end, whole=whole, stem=stem, owner=first)
        begin = end + 1


def _extent(
    sequences: Sequence[tuple[int, ...]],
    shared: Sequence[int],
    first: int,
    bound: int,
    row: int,
    total: int,
    worth: int,
    stem: int = 0,
) -> tuple[int, bool]:
    """Return the last sequence of the pack that begins with ``first``, and whether it is all trunk."""
    last, trunk_size, size = first, 0, len(sequences[first]) - stem
    whole = True  # one sequence, however long
    while last + 1 <= bound:
        # Of the last sequence the next one shares so much that is not in the trunk yet.
        common = shared[last + 1] - stem
        known = shared[last] - stem if last > first else 0
        trunk_size += max(0, common - known)
        size += len(sequences[last + 1]) - stem - common
        if trunk_size > row or size > (total if common >= worth else row):
            break
        last += 1
        whole = size <= row
    return last, whole


def _pack(
    sequences: Sequence[tuple[int, ...]],
    shared: Sequence[int],
    first: int,
    last: int,
    *,
    whole: bool,
    stem: int = 0,
    owner: int = -1,
) -> Pack:
    tokens: list[int] = []
    positions: list[int] = []
    ends: list[int] = []
    path: list[int] = []  # trunk indices of the current sequence, by position after the stem
    paths: dict[int, Ints] = {}
    branches: list[Branch] = []
    for i in range(first, last + 1):
        before = shared[i] - stem if i > first else 0
        after = shared[i + 1] - stem if i < last else 0
        sequence = sequences[i]
        for j in path[before:]:
            ends[j] = len(tokens)
        del path[before:]
        split = len(sequence) - stem if whole else max(before, after)
        for position in range(before, split):
            path.append(len(tokens))
            tokens.append(sequence[stem + position])
            positions.append(stem + position)
            ends.append(-1)
        paths[i] = np.asarray(path[:split], dtype=np.int64)
        if stem + split < len(sequence):
            branches.append(Branch(i, path[split - 1] if split else -1, stem + split))
    for j in path:
        ends[j] = len(tokens)
    return Pack(
        np.asarray(tokens, dtype=np.int64),
        np.asarray(positions, dtype=np.int64),
        np.asarray(ends, dtype=np.int64),
        paths,
        branches,
        stem,
        owner,
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
    """Return which token of a row of branches sees which token of stem, trunk and row.

    Args:
        pack: the pack of the branches.
        owners: branch of each token of the row, ascending, shape (row,).
        anchors: anchor of that branch, shape (row,).

    Returns:
        Shape (row, stem + trunk + row).
    """
    trunk = np.arange(len(pack.tokens))
    left = (trunk[None, :] <= anchors[:, None]) & (anchors[:, None] < pack.ends[None, :])
    index = np.arange(len(owners))
    right = (owners[:, None] == owners[None, :]) & (index[None, :] <= index[:, None])
    return pack._behind_stem(np.concatenate([left, right], axis=1))
