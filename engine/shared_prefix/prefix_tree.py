"""Token sequences as prefix trees, laid out in rows that a model can read at once.

When sequences are sorted, those with a common beginning are neighbours. A *pack* is a run of neighbours. The tokens that several
sequences of a pack share are its *trunk*, which is read once, in one row. The rest of each sequence is its *branch*.
Branches are read after the trunk, several in one row, and each token sees its own ancestors only. A pack that fits into one
row, or has one sequence, is all trunk. A common beginning that is longer than a row is a *stem*, which is read once, before
all packs that begin with it.

A `TreeMask` says which token of a row sees which key: a few numbers per token, of which the mask is made on the device.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from shared_prefix.architectures import Reach

Ints = NDArray[np.int64]


def _none() -> Ints:
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class TreeMask:
    """The tree that a row is a part of. Its keys are the tokens of stem, trunk and row, in this order.

    Attributes:
        positions: position of each token of the row in its sequence, shape (row,).
        ends: end of the subtree below each token of the row, shape (row,): token j is token i, or an ancestor of it, if
            j <= i < ends[j].
        stem: number of tokens of the stem; each token of the row sees them.
        trunk_positions: of each token of the trunk, if it was read before the row, shape (trunk,).
        trunk_ends: as ``ends``, in the trunk, shape (trunk,).
        anchors: the last token of the trunk that each token of the row follows, shape (row,); -1 if it follows none.
    """

    positions: Ints
    ends: Ints
    stem: int = 0
    trunk_positions: Ints = field(default_factory=_none)
    trunk_ends: Ints = field(default_factory=_none)
    anchors: Ints = field(default_factory=_none)

    @classmethod
    def of_text(cls, length: int) -> TreeMask:
        """Return the tree of a text of ``length`` tokens, in which each token sees all before it."""
        return cls(np.arange(length), np.full(length, length))

    @property
    def is_text(self) -> bool:
        """Whether each token sees all before it, and the row begins the text."""
        return self.keys == len(self.ends) and bool((self.positions == np.arange(self.keys)).all())

    @property
    def keys(self) -> int:
        """Number of keys."""
        return self.stem + len(self.trunk_ends) + len(self.ends)

    @property
    def key_positions(self) -> Ints:
        """Position of each key in its sequences, shape (keys,)."""
        return np.concatenate([np.arange(self.stem), self.trunk_positions, self.positions])

    def visible(self, device: Any, reach: Reach = Reach()) -> torch.Tensor:  # noqa: B008 - it never changes
        """Mark which token of the row sees which key, shape (row, keys), made on ``device``.

        Args:
            device: of torch.
            reach: how far tokens see among their ancestors and themselves.
        """

        def put(values: Ints) -> torch.Tensor:
            return torch.from_numpy(values).to(device)

        index = torch.arange(len(self.ends), device=device)
        parts = [torch.ones(len(index), self.stem, dtype=torch.bool, device=device)]
        if len(self.trunk_ends):
            trunk, anchors = torch.arange(len(self.trunk_ends), device=device), put(self.anchors)[:, None]
            parts.append((trunk <= anchors) & (anchors < put(self.trunk_ends)))
        parts.append((index <= index[:, None]) & (index[:, None] < put(self.ends)))
        seen = torch.cat(parts, dim=1)
        if reach == Reach():
            return seen
        query_positions, keys = put(self.positions)[:, None], put(self.key_positions)
        if reach.window is not None:
            seen &= query_positions - keys < reach.window
        if reach.chunk is not None:
            seen &= query_positions // reach.chunk == keys // reach.chunk
        return seen


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
        tokens: ids of the trunk's tokens, depth first, shape (trunk,); those of the stem are not among them.
        mask: their tree.
        paths: index of a sequence -> the trunk indices of its part of the trunk, in order.
        branches: the rest of each sequence that is not wholly in stem and trunk.
        owner: index of a sequence that begins with the stem, the same for all packs of one stem; -1 without a stem.
    """

    tokens: Ints
    mask: TreeMask
    paths: dict[int, Ints]
    branches: list[Branch]
    owner: int = -1

    def rows(self, sequences: Sequence[tuple[int, ...]], most: int) -> Iterator[Row]:
        """Yield the branches in rows of at most ``most`` tokens; a longer branch has a row of its own.

        Args:
            sequences: of which the packs were made.
            most: tokens of a row.
        """
        groups: list[list[Branch]] = []
        size = 0
        for branch in self.branches:
            length = len(sequences[branch.sequence]) - branch.start
            if not groups or size + length > most:
                groups.append([])
                size = 0
            groups[-1].append(branch)
            size += length
        for branches in groups:
            rests = [sequences[branch.sequence][branch.start :] for branch in branches]
            lengths = [len(rest) for rest in rests]
            positions = [np.arange(branch.start, len(sequences[branch.sequence])) for branch in branches]
            ends = np.repeat(np.cumsum(lengths), lengths)
            anchors = np.repeat([branch.anchor for branch in branches], lengths)
            tree = np.concatenate(positions), ends, self.mask.stem, self.mask.positions, self.mask.ends, anchors
            yield Row(branches, lengths, np.concatenate(rests), TreeMask(*tree))


def common_prefix(first: Sequence[int], second: Sequence[int]) -> int:
    """Return the number of tokens that both sequences begin with."""
    same, end = 0, min(len(first), len(second)) + 1  # they share at least so many, and fewer than so many
    while end - same > 1:
        middle = (same + end) // 2
        same, end = (middle, end) if first[same:middle] == second[same:middle] else (same, middle)
    return same


@dataclass(frozen=True)
class PackLimits:
    """How large packs may become.

    Attributes:
        max_row: most tokens of a row, and of a trunk.
        max_pack: most tokens of a pack.
        min_shared: a pack that is larger than a row ends where the next sequence has fewer tokens than this in common with
            the last one.
        max_anchors: most different anchors of a pack's branches; None: any number.
        max_sequences: most sequences of a pack; None: any number.
    """

    max_row: int
    max_pack: int
    min_shared: int = 8
    max_anchors: int | None = None
    max_sequences: int | None = None


def make_packs(
    sequences: Sequence[tuple[int, ...]], limits: PackLimits, *, groups: Sequence[int] | None = None
) -> Iterator[Pack]:
    """Yield packs that together hold every sequence once.

    A pack of one sequence, or one that fits into a row, is all trunk. Sequences that have more than a row in common get a
    stem.

    Args:
        sequences: distinct token sequences, sorted.
        limits: of the packs.
        groups: number of the group of each sequence, ascending. Those of different groups share nothing, even where they are the
            same, and no pack has a stem, so that a long common beginning is read again for each sequence.
    """
    stems = groups is None
    groups = groups or [0] * len(sequences)
    common = [
        one == two and common_prefix(a, b) for (a, one), (b, two) in pairwise(zip(sequences, groups, strict=True))
    ]
    shared = [0, *map(int, common), 0]
    first = 0
    for stemmed, run in groupby(
        range(len(sequences)), lambda i: stems and max(shared[i], shared[i + 1]) > limits.max_row
    ):
        last = first + len(list(run)) - 1
        neighbours = Neighbours(sequences, shared, limits, first, last)
        yield from neighbours.stemmed_packs(limits.max_row) if stemmed else neighbours.packs()
        first = last + 1


@dataclass(frozen=True)
class Neighbours:
    """Sorted sequences ``first`` to ``last``, of which packs are made.

    Six sequences (letters are tokens) and their ``shared``, where a row has at most 3 tokens, a pack 6, and ``min_shared`` is 2::

        0  a b c d e    0    ┐ They have more than a row in common: the stem a b c d, which 0 owns. What follows it, e f g h, is
        1  a b c d f    4    │ more than a row, and g shares nothing with f. So 0 and 1 are a pack, all trunk (e f), and 2 is
        2  a b c d g h  4    ┘ another one (g h).
        3  x y p q      0    ┐ No stem: x y fits into a row. As a tree they have 6 tokens, more than a row, and share 2. So they
        4  x y r        2    │ are one pack with the trunk x y. The branches p q, r and s have the anchor 1, the place of y in
        5  x y s        2    ┘ the trunk.

    Attributes:
        sequences: all of them, distinct and sorted.
        shared: for each sequence, the number of tokens in common with the one before; and a 0.
        limits: of the packs.
        first: index of a sequence.
        last: index of a sequence.
        stem: number of tokens of the stem that all of these sequences begin with; 0 without one.
        owner: see `Pack`.
    """

    sequences: Sequence[tuple[int, ...]]
    shared: Sequence[int]
    limits: PackLimits
    first: int
    last: int
    stem: int = 0
    owner: int = -1

    def stemmed_packs(self, least: int) -> Iterator[Pack]:
        """Yield packs with stems: of runs of sequences that have more than ``least`` tokens in common, at least a row."""
        starts = [i for i in range(self.first + 1, self.last + 1) if self.shared[i] <= least]
        for start, end in pairwise([self.first, *starts, self.last + 1]):
            run = replace(self, first=start, last=end - 1)
            inner = self.shared[start + 1 : end]
            if not inner:
                yield run.pack(all_trunk=True)
            elif max(inner) - min(inner) <= self.limits.max_row:
                yield from replace(run, stem=min(inner), owner=start).packs()
            else:  # some of them have more than a row in common after this stem: these get a longer stem
                yield from run.stemmed_packs(min(inner))

    def packs(self) -> Iterator[Pack]:
        """Yield packs, all with the same stem, if any."""
        first = self.first
        while first <= self.last:
            last, all_trunk = replace(self, first=first).extent()
            yield replace(self, first=first, last=last).pack(all_trunk=all_trunk)
            first = last + 1

    def extent(self) -> tuple[int, bool]:
        """Find the last sequence of the pack that begins with the first one, and whether the pack is all trunk.

        The next pack reads again what its first sequence shares with the last one of this pack. So a full pack ends where
        neighbours share least, but not in its first third. Of six sequences that share 90, 90, 90, 2 and 90 tokens with the
        next one it holds four.
        """
        first, limits = self.first, self.limits
        last, trunk_size = first, 0
        sizes = [len(self.sequences[first]) - self.stem]  # of the pack, if it ends with sequence first, first + 1, ...
        branching_points = 0  # no fewer than the different anchors: neighbours that share equally much have one
        while last < self.last:
            # The next sequence adds to the trunk what it shares with the last one and is not in the trunk yet.
            common = self.shared[last + 1] - self.stem
            in_trunk = self.shared[last] - self.stem if last > first else 0
            trunk_size += max(0, common - in_trunk)
            size = sizes[-1] + len(self.sequences[last + 1]) - self.stem - common
            branching_points += last == first or common != in_trunk
            too_many_anchors = limits.max_anchors is not None and branching_points > limits.max_anchors
            grows_beyond_row = common >= limits.min_shared and not too_many_anchors
            full = limits.max_sequences is not None and last - first + 1 >= limits.max_sequences
            if full or trunk_size > limits.max_row or size > (limits.max_pack if grows_beyond_row else limits.max_row):
                third = bisect_left(sizes, sizes[-1] // 3)
                last = min(range(first + third, last + 1), key=lambda end: (self.shared[end + 1], -end))
                break
            last += 1
            sizes.append(size)
        return last, last == first or sizes[last - first] <= limits.max_row

    def pack(self, *, all_trunk: bool) -> Pack:
        """Return one pack of all of these sequences."""
        tokens: list[int] = []
        positions: list[int] = []
        ends: list[int] = []
        path: list[int] = []  # trunk indices of the current sequence, by position after the stem
        paths: dict[int, Ints] = {}
        branches: list[Branch] = []
        for i in range(self.first, self.last + 1):
            before = self.shared[i] - self.stem if i > self.first else 0
            after = self.shared[i + 1] - self.stem if i < self.last else 0
            sequence = self.sequences[i][self.stem :]
            for j in path[before:]:
                ends[j] = len(tokens)
            del path[before:]
            split = len(sequence) if all_trunk else max(before, after)
            new = range(before, split)
            path += range(len(tokens), len(tokens) + len(new))
            tokens += sequence[before:split]
            positions += range(self.stem + before, self.stem + split)
            ends += [-1] * len(new)
            paths[i] = np.asarray(path[:split], dtype=np.int64)
            if split < len(sequence):
                branches.append(Branch(i, path[split - 1] if split else -1, self.stem + split))
        for j in path:
            ends[j] = len(tokens)
        ids, at, subtrees = (np.asarray(numbers, dtype=np.int64) for numbers in (tokens, positions, ends))
        return Pack(ids, TreeMask(at, subtrees, self.stem), paths, branches, self.owner)


@dataclass(frozen=True)
class Row:
    """Branches of a pack that are read together.

    Attributes:
        branches: in the order of the row.
        lengths: number of tokens of each.
        tokens: ids of all of them, shape (row,).
        mask: the tree of the row.
    """

    branches: list[Branch]
    lengths: list[int]
    tokens: Ints
    mask: TreeMask
