"""Attention over the rows of a prefix tree: block by block, and with linear biases.

A row holds several contexts, or many branches of one trunk, and most of its tokens do not see each other. One call of
attention over the whole row computes all scores, and the mask removes most of them. Here a row is cut into *blocks*: some
neighbouring tokens, and the keys that at least one of them sees. Within a block the mask of the row still holds, so the
result is the same.

ALiBi adds to an attention score the position of the key, times a slope of the head. Models take the place of a key in the row
for its position. In a row that holds a tree these differ. So the biases of a row of consecutive positions are computed, and
then those at the positions of the keys are taken (`keys_at`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from nnd_tasks.models.prefix_tree import Ranges, TreeMask, chains

#: Name of this attention in transformers' registry.
NAME = "nnd_blocks"
#: Cost of a call, and of each key that must be copied, in scores (one score is a query times a key). Measured on a CPU with
#: models of width 512; on accelerators both matter little.
CALL, COPY = 4096, 10

#: Most masks of a row whose parts are kept. A model has fewer kinds of layers.
_MASKS = 4


@dataclass(frozen=True)
class Block:
    """Neighbouring tokens of a row, and the keys that they see.

    Attributes:
        start: the first token.
        stop: the token after the last one.
        keys: the columns of the row's mask.
    """

    start: int
    stop: int
    keys: Ranges

    def cost(self) -> int:
        """Return the cost of computing the block, in scores."""
        keys = sum(stop - start for start, stop in self.keys)
        return CALL + (self.stop - self.start + (COPY if len(self.keys) > 1 else 0)) * keys


def _union(first: Ranges, second: Ranges) -> Ranges:
    merged: list[tuple[int, int]] = []
    for start, stop in sorted((*first, *second)):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], stop)
        else:
            merged.append((start, stop))
    return tuple(merged)


def merge(runs: Sequence[Block]) -> list[Block]:
    """Join neighbouring blocks where one call for both costs no more than two calls."""
    blocks: list[Block] = []
    for run in runs:
        if blocks:
            last = blocks[-1]
            joined = Block(last.start, run.stop, _union(last.keys, run.keys))
            if joined.cost() <= last.cost() + run.cost():
                blocks[-1] = joined
                continue
        blocks.append(run)
    return blocks


def _shifted(pieces: Ranges, offset: int) -> Ranges:
    return tuple((start + offset, stop + offset) for start, stop in pieces)


def blocks_of(mask: TreeMask) -> list[Block]:
    """Return the blocks of a row. The keys are numbered as in `TreeMask`: stem, trunk, row."""
    stem: Ranges = ((0, mask.stem),) if mask.stem else ()
    trunk = list(chains(mask.trunk_ends))
    starts = [start for start, _, _ in trunk]
    row = mask.stem + len(mask.trunk_ends)
    runs = []
    for start, stop, pieces in chains(mask.ends):
        ancestors: Ranges = ()
        if trunk and (anchor := int(mask.anchors[start])) >= 0:
            begin, _, above = trunk[int(np.searchsorted(starts, anchor, side="right")) - 1]
            ancestors = _shifted((*above, (begin, anchor + 1)), mask.stem)
        inside = _shifted((*pieces, (start, stop)), row)
        runs.append(Block(start, stop, _union(stem, (*ancestors, *inside))))
    return merge(runs)


@dataclass
class _Plan:
    """The blocks of the row that is being read.

    Attributes:
        shape: of the row's mask: (row, keys).
        blocks: of the row.
        masks: address of a mask -> the mask itself, and its part for each block.
    """

    shape: tuple[int, int]
    blocks: Sequence[Block]
    masks: dict[int, tuple[torch.Tensor, list[torch.Tensor]]] = field(default_factory=dict)

    def parts(self, mask: torch.Tensor) -> list[torch.Tensor]:
        """Return the part of a mask for each block; layers with the same mask share them."""
        if id(mask) not in self.masks:  # the mask is kept, so that no other gets its address
            if len(self.masks) == _MASKS:  # a model on several devices has a copy for each layer
                self.masks.pop(next(iter(self.masks)))
            parts = [_columns(mask[..., block.start : block.stop, :], block.keys, -1) for block in self.blocks]
            self.masks[id(mask)] = mask, parts
        return self.masks[id(mask)][1]


_plan: _Plan | None = None


def _columns(values: torch.Tensor, keys: Ranges, dim: int) -> torch.Tensor:
    parts = [values.narrow(dim, start, stop - start) for start, stop in keys]
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=dim)


def block_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Attend block by block within `in_blocks`. Elsewhere, and with masks of other shapes, attend as ``sdpa`` does.

    Args and returns as transformers' attention functions: query of shape (1, heads, row, width of a head), output of shape
    (1, row, heads, width of a head).
    """
    plan = _plan
    shape = query.shape[2], key.shape[2]
    if plan is None or attention_mask is None or not plan.shape == shape == attention_mask.shape[2:]:
        unblocked: tuple[torch.Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, **kwargs
        )
        return unblocked
    outputs = [
        sdpa_attention_forward(
            module,
            query[:, :, block.start : block.stop],
            _columns(key, block.keys, 2),
            _columns(value, block.keys, 2),
            block_mask,
            **kwargs,
        )[0]
        for block, block_mask in zip(plan.blocks, plan.parts(attention_mask), strict=True)
    ]
    return torch.cat(outputs, dim=1), None


AttentionInterface.register(NAME, block_attention)
AttentionMaskInterface.register(NAME, sdpa_mask)


@contextmanager
def in_blocks(config: Any, mask: TreeMask) -> Iterator[None]:
    """Within this context, a model with ``sdpa`` attention reads a row in blocks, if there is more than one.

    Args:
        config: of a model that takes attention from transformers' registry (``_supports_attention_backend``).
        mask: of the row.
    """
    global _plan
    blocks = blocks_of(mask) if config._attn_implementation == "sdpa" else []
    if len(blocks) < 2:
        yield
        return
    config._attn_implementation, _plan = NAME, _Plan((len(mask.ends), mask.keys), blocks)
    try:
        yield
    finally:
        config._attn_implementation, _plan = "sdpa", None


@contextmanager
def keys_at(body: Any, positions: torch.Tensor) -> Iterator[None]:
    """Within this context, the biases of a model's attention are those of keys at ``positions``.

    Args:
        body: the model without its output layer: of BLOOM, Falcon or MPT (``modeling_bloom.py:438``, ``modeling_falcon.py:149``,
            ``modeling_mpt.py:250`` of transformers 5.23).
        positions: of the keys in their sequences, shape (keys,).
    """
    length = int(positions.max()) + 1
    name = "build_mpt_alibi_tensor" if body.config.model_type == "mpt" else "build_alibi_tensor"
    owner = body if hasattr(body, name) else import_module(type(body).__module__)
    original = getattr(owner, name)

    def of_keys(first: Any, second: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Return the biases, shape (heads, 1, keys); takes (mask, heads ...), or of MPT (heads, length ...)."""
        if isinstance(first, torch.Tensor):
            first = torch.ones(1, length, dtype=torch.long, device=first.device)
        else:
            second = length
        biases: torch.Tensor = original(first, second, *args, **kwargs)
        return biases[..., positions.to(biases.device)]

    with patch.object(owner, name, of_keys):
        yield
