"""Which token of a row sees which key. A few numbers per token describe it; the mask is made from them on the device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from nnd_tasks.models.architectures import Reach
from nnd_tasks.models.prefix_tree import Branch, Ints, Pack

#: Places from a start to a stop, ascending.
Ranges = tuple[tuple[int, int], ...]


def _path(ends: Ints, token: int, pieces: Ranges) -> Ranges:
    """Return the part of ``pieces``, which lie on one path of the tree, that are ancestors of ``token``."""
    kept = []
    for start, stop in pieces:
        # Subtrees on a path lie in each other, so these ends fall.
        inside = int(np.searchsorted(-ends[start:stop], -token, side="left"))
        if inside:
            kept.append((start, start + inside))
    return tuple(kept)


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

    @property
    def length(self) -> int:
        """Length of the longest sequence that ends in the row, in tokens."""
        return int(self.positions.max()) + 1

    def visible(self, device: Any, reach: Reach = Reach()) -> torch.Tensor:  # noqa: B008 - it never changes
        """Return which token of the row sees which key, shape (row, keys), made on ``device``.

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
        own, keys = put(self.positions)[:, None], put(self.key_positions)
        if reach.window is not None:
            seen &= own - keys < reach.window
        if reach.chunk is not None:
            seen &= own // reach.chunk == keys // reach.chunk
        return seen


def trunk_mask(pack: Pack) -> TreeMask | None:
    """Return the tree of a pack's trunk; None if there is no stem and every token sees all tokens before it."""
    if not pack.stem and np.array_equal(pack.positions, np.arange(len(pack.tokens))):
        return None
    return TreeMask(pack.positions, pack.ends, pack.stem)


def branch_mask(pack: Pack, row: Sequence[Branch], lengths: Sequence[int]) -> TreeMask:
    """Return the tree of a row of branches.

    Args:
        pack: the pack of the branches.
        row: the branches.
        lengths: number of tokens of each.
    """
    positions = [np.arange(branch.start, branch.start + length) for branch, length in zip(row, lengths, strict=True)]
    ends = np.repeat(np.cumsum(lengths), lengths)
    anchors = np.repeat([branch.anchor for branch in row], lengths)
    return TreeMask(np.concatenate(positions), ends, pack.stem, pack.positions, pack.ends, anchors)
