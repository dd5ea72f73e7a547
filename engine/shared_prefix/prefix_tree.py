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
        tokens: ids of the trunk's tokens, depth first, shape (trunk,).
        positions: the position of each of them in its sequences, shape (trunk,).
        ends: end of the subtree below each trunk token, shape (trunk,): token j is token i, or an ancestor of it, if
            j <= i < ends[j].
        paths: index of a sequence -> the trunk indices of its part of the trunk, in order.
        branches: the rest of each sequence that is not wholly in stem and trunk.
        stem: length of the stem, in tokens; 0 without one. These tokens are not in the trunk.
        owner: index of a sequence that begins with the stem, the same for all packs of one stem; -1 without a stem.
        mask: the tree of the trunk; None if there is no stem and every token sees all tokens before it.
    """

    tokens: Ints
    positions: Ints
    ends: Ints
    paths: dict[int, Ints]
    branches: list[Branch]
    stem: int = 0
    owner: int = -1
    mask: TreeMask | None = None

    def rows(self, sequences: Sequence[tuple[int, ...]], most: int) -> Iterator[Row]:
        """Yield the branches in rows of at most ``most`` tokens; a longer branch has a row of its own.

        Args:
            sequences: of which the packs were made.
            most: tokens of a row.
        """
        branches: list[Branch] = []
        size = 0
        for branch in self.branches:
            length = len(sequences[branch.sequence]) - branch.start
            if branches and size + length > most:
                yield _row(branches, self, sequences)
                branches, size = [], 0
            branches.append(branch)
            size += length
        if branches:
            yield _row(branches, self, sequences)

    def without_roots(self) -> tuple[Pack, Ints]:
        """Return this pack, which is all trunk, without the first token of each sequence, and the removed tokens.

        Each path keeps an index in the place of its first token, so that it is as long as its sequence. That index points
        to no token of its own and must not be used.

        Returns:
            The pack, without a mask; and for each token of its trunk, the first token of its sequences, shape (trunk,).
        """
        not_root = self.positions > 0
        new_index = np.maximum(np.cumsum(not_root) - 1, 0)
        roots = np.flatnonzero(~not_root)
        below = np.cumsum(~not_root) - 1
        ends = (np.cumsum([0, *not_root]))[self.ends]
        paths = {i: new_index[path] for i, path in self.paths.items()}
        pack = Pack(self.tokens[not_root], self.positions[not_root] - 1, ends[not_root], paths, [])
        return pack, self.tokens[roots][below[not_root]]


def common_prefix(first: Sequence[int], second: Sequence[int]) -> int:
    """Return the number of tokens that both sequences begin with."""
    length = min(len(first), len(second))
    differ = np.flatnonzero(np.asarray(first[:length]) != np.asarray(second[:length]))
    return int(differ[0]) if differ.size else length


@dataclass(frozen=True)
class PackLimits:
    """How large packs may become.

    Attributes:
        max_row: most tokens of a row, and of a trunk.
        max_pack: most tokens of a pack.
        min_shared: a pack that is larger than a row ends where the next sequence has fewer tokens than this in common with
            the last one.
        max_anchors: most different anchors of a pack's branches; None: any number.
    """

    max_row: int
    max_pack: int
    min_shared: int = 8
    max_anchors: int | None = None


def make_packs(sequences: Sequence[tuple[int, ...]], limits: PackLimits, *, stems: bool = True) -> Iterator[Pack]:
    """Yield packs that together hold every sequence once.

    A pack of one sequence, or one that fits into a row, is all trunk. Sequences that have more than a row in common get a
    stem.

    Args:
        sequences: distinct token sequences, sorted.
        limits: of the packs.
        stems: whether packs may have stems. Without them, a long common beginning is read again for each sequence.
    """
    shared = [0, *(common_prefix(a, b) for a, b in pairwise(sequences)), 0]
    first = 0
    for stemmed, run in groupby(
        range(len(sequences)), lambda i: stems and max(shared[i], shared[i + 1]) > limits.max_row
    ):
        last = first + len(list(run)) - 1
        neighbours = Neighbours(sequences, shared, limits, first, last)
        yield from neighbours.stemmed_packs() if stemmed else neighbours.packs()
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

    def stemmed_packs(self) -> Iterator[Pack]:
        """Yield packs where each sequence has more than a row in common with one beside it."""
        starts = [i for i in range(self.first + 1, self.last + 1) if self.shared[i] <= self.limits.max_row]
        for start, end in pairwise([self.first, *starts, self.last + 1]):  # parts with different stems
            yield from replace(self, first=start, last=end - 1)._packs_of_stem()

    def _packs_of_stem(self) -> Iterator[Pack]:
        """Yield packs where all sequences have more than a row in common."""
        if self.first == self.last:
            yield self.pack(all_trunk=True)
            return
        inner = self.shared[self.first + 1 : self.last + 1]
        stem = min(inner)
        if max(inner) - stem <= self.limits.max_row:
            yield from replace(self, stem=stem, owner=self.first).packs()
            return
        # Some of them have more than a row in common after this stem: split, so that these get a longer stem.
        splits = [i for i in range(self.first + 1, self.last + 1) if self.shared[i] == stem]
        for start, end in pairwise([self.first, *splits, self.last + 1]):
            yield from replace(self, first=start, last=end - 1)._packs_of_stem()

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
            if trunk_size > limits.max_row or size > (limits.max_pack if grows_beyond_row else limits.max_row):
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
            for position in range(before, split):
                path.append(len(tokens))
                tokens.append(sequence[position])
                positions.append(self.stem + position)
                ends.append(-1)
            paths[i] = np.asarray(path[:split], dtype=np.int64)
            if split < len(sequence):
                branches.append(Branch(i, path[split - 1] if split else -1, self.stem + split))
        for j in path:
            ends[j] = len(tokens)
        ids, at, subtrees = (np.asarray(numbers, dtype=np.int64) for numbers in (tokens, positions, ends))
        linear = not self.stem and np.array_equal(at, np.arange(len(at)))
        mask = None if linear else TreeMask(at, subtrees, self.stem)
        return Pack(ids, at, subtrees, paths, branches, self.stem, self.owner, mask)


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


def _row(branches: list[Branch], pack: Pack, sequences: Sequence[tuple[int, ...]]) -> Row:
    rests = [sequences[branch.sequence][branch.start :] for branch in branches]
    lengths = [len(rest) for rest in rests]
    positions = [np.arange(branch.start, len(sequences[branch.sequence])) for branch in branches]
    ends = np.repeat(np.cumsum(lengths), lengths)
    anchors = np.repeat([branch.anchor for branch in branches], lengths)
    mask = TreeMask(np.concatenate(positions), ends, pack.stem, pack.positions, pack.ends, anchors)
    return Row(branches, lengths, np.concatenate(rests), mask)


#: Places from a start to a stop, ascending.
Ranges = tuple[tuple[int, int], ...]


def _path(ends: Ints, token: int, pieces: Ranges) -> Ranges:
    """Return the part of ``pieces``, which lie on one path of the tree, that are ancestors of ``token``."""
    ancestors = []
    for start, stop in pieces:
        # Subtrees on a path lie in each other, so these ends fall.
        inside = int(np.searchsorted(-ends[start:stop], -token, side="left"))
        if inside:
            ancestors.append((start, start + inside))
    return tuple(ancestors)


def chains(ends: Ints) -> Iterator[tuple[int, int, Ranges]]:
    """Yield the chains of a tree, depth first: first token, token after the last one, and the ancestors of the first.

    In a chain, each token is the parent of the next. ``ends`` as in `TreeMask`.
    """
    leaves = np.flatnonzero(ends == np.arange(1, len(ends) + 1)) + 1
    pieces: Ranges = ()
    start = 0
    for stop in leaves.tolist():
        pieces = _path(ends, start, pieces)
        yield start, stop, pieces
        pieces = (*pieces, (start, stop))
        start = stop
