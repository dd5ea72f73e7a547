"""Token sequences as prefix trees, laid out in rows that a model can read at once.

When sequences are sorted, those with a common beginning are neighbours. A *pack* is a run of neighbours. The tokens that several
sequences of a pack share are its *trunk*, which is read once, in one row. The rest of each sequence is its *branch*.
Branches are read after the trunk, several in one row, and each token sees its own ancestors only. A pack that fits into one
row, or has one sequence, is all trunk. A common beginning that is longer than a row is a *stem*, which is read once, before
all packs that begin with it.
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
        anchor: index in the trunk of the token before the branch; -1 if the branch follows the stem, or nothing.
        start: position in the sequence where the branch begins.
    """

    sequence: int
    anchor: int
    start: int


@dataclass(frozen=True)
class Pack:
    """Some neighbouring sequences as a tree of tokens.

    Attributes:
        tokens: ids of the trunk's tokens, depth first, shape (trunk,).
        positions: the position of each of them in its sequences, shape (trunk,).
        ends: end of the subtree below each trunk token, shape (trunk,): token j is token i, or an ancestor of it, if
            j <= i < ends[j].
        paths: index of a sequence -> the trunk indices of its part of the trunk, in order.
        branches: the rest of each sequence that is not wholly in stem and trunk.
        stem: length of the stem, in tokens; 0 without one. These tokens are not in the trunk.
        owner: index of a sequence that begins with the stem, the same for all packs of one stem; -1 without a stem.
    """

    tokens: Ints
    positions: Ints
    ends: Ints
    paths: dict[int, Ints]
    branches: list[Branch]
    stem: int = 0
    owner: int = -1

    def without_roots(self) -> tuple[Pack, Ints]:
        """Return this pack, which is all trunk, without the first token of each sequence, and the removed tokens.

        Each path keeps an index in the place of its first token, so that it is as long as its sequence. That index points
        to no token of its own and must not be used.

        Returns:
            The pack; and for each token of its trunk, the first token of its sequences, shape (trunk,).
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
    """Return the number of tokens that both sequences begin with."""
    length = min(len(one), len(two))
    differ = np.flatnonzero(np.asarray(one[:length]) != np.asarray(two[:length]))
    return int(differ[0]) if differ.size else length


def make_packs(
    sequences: Sequence[tuple[int, ...]],
    row: int,
    total: int,
    worth: int = 8,
    *,
    stems: bool = True,
    anchors: int | None = None,
) -> Iterator[Pack]:
    """Yield packs that together hold every sequence once.

    A pack of one sequence, or with at most ``row`` tokens, is all trunk. A pack ends before its trunk has more than ``row``
    tokens or the pack more than ``total``. A pack that is larger than a row also ends where the next sequence has fewer than
    ``worth`` tokens in common with the last one. Sequences that have more than ``row`` tokens in common get a stem.

    Args:
        sequences: distinct token sequences, sorted.
        row: most tokens of a row, and of a trunk.
        total: most tokens of a pack.
        worth: see above.
        stems: whether packs may have stems. Without them, a long common beginning is read again for each sequence.
        anchors: most different anchors of a pack's branches; None: any number.
    """
    shared = [0, *(common_prefix(a, b) for a, b in pairwise(sequences)), 0]
    first = 0
    for stemmed, run in groupby(range(len(sequences)), lambda i: stems and max(shared[i], shared[i + 1]) > row):
        end = first + len(list(run))
        while first < end:
            last = first
            if stemmed:  # this run may have parts with different stems
                while last + 1 < end and shared[last + 1] > row:
                    last += 1
                yield from _stemmed(sequences, shared, first, last, row, total, worth, anchors)
            else:
                last, whole = _extent(sequences, shared, first, end - 1, row, total, worth, anchors)
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
    anchors: int | None,
) -> Iterator[Pack]:
    """Yield the packs of sequences ``first`` to ``last``, each of which has more than a row in common with the next."""
    stem = min(shared[first + 1 : last + 1])
    if max(shared[first + 1 : last + 1]) - stem > row:
        # Some of them have more than a row in common after this stem: split, so that these get a longer stem.
        splits = [i for i in range(first + 1, last + 1) if shared[i] == stem]
        for start, end in pairwise([first, *splits, last + 1]):
            if end - start == 1:
                yield _pack(sequences, shared, start, start, whole=True)
            else:
                yield from _stemmed(sequences, shared, start, end - 1, row, total, worth, anchors)
        return
    begin = first
    while begin <= last:
        end, whole = _extent(sequences, shared, begin, last, row, total, worth, anchors, stem)
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
    anchors: int | None,
    stem: int = 0,
) -> tuple[int, bool]:
    """Return the index of the last sequence of the pack that begins with sequence ``first``, and whether it is all trunk."""
    last, trunk_size, size = first, 0, len(sequences[first]) - stem
    places = 0  # no fewer than the different anchors: neighbours that share equally much have one
    whole = True  # one sequence, however long
    while last + 1 <= bound:
        # The next sequence adds to the trunk what it shares with the last one and is not in the trunk yet.
        common = shared[last + 1] - stem
        in_trunk = shared[last] - stem if last > first else 0
        trunk_size += max(0, common - in_trunk)
        size += len(sequences[last + 1]) - stem - common
        places += last == first or common != in_trunk
        many = anchors is not None and places > anchors
        if trunk_size > row or size > (total if common >= worth and not many else row):
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
