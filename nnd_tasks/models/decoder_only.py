"""Scoring with decoder-only models: common beginnings of requests are read once.

A row holds several contexts, or many branches of one trunk, and most of its tokens do not see each other. One call of
attention over the whole row computes all scores, and the mask removes most of them. Here a row is cut into *blocks*: some
neighbouring tokens, and the keys that at least one of them sees. Within a block the mask of the row still holds, so the
result is the same.

ALiBi adds to an attention score the position of the key, times a slope of the head. Models take the place of a key in the row
for its position. In a row that holds a tree these differ. So the biases of a row of consecutive positions are computed, and
then those at the positions of the keys are taken (`keys_at`).
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from transformers import AttentionInterface, AttentionMaskInterface, DynamicCache
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from nnd_tasks.models.architectures import FULL, Layout, Reach, layout_of
from nnd_tasks.models.hybrid import States, TreeScan, along_tree
from nnd_tasks.models.prefix_scoring import ByInput, PrefixScoring, SortedRequests
from nnd_tasks.models.prefix_tree import (
    Ints,
    Pack,
    PackLimits,
    Ranges,
    TreeMask,
    chains,
    make_packs,
    make_rows,
)
from nnd_tasks.models.token_requests import ScoredRequest, TokenRequest


class _Trunk(DynamicCache):  # type: ignore[misc]
    """The keys and values of a trunk, which its branches see. Those of branches are not stored.

    Layers with a window keep all of them too, because the mask says what a token sees.

    Args:
        stem: the stem that comes before the trunk, if any.

    Attributes:
        complete: whether the whole trunk was read; set by the caller.
        shift: position of each token of the row, minus its place in the row, shape (row,); None for models that read
            positions from ``position_ids`` alone.
        keep: places in the trunk after which branches begin, ascending; -1 is the place before the trunk.
        states: states of recurrent layers after the stem and, once the trunk was read, at the places of ``keep``; None without
            such layers or tokens.
    """

    def __init__(self, stem: _Trunk | None = None) -> None:
        super().__init__()
        self.stem = stem
        self.complete = False
        self.shift: torch.Tensor | None = None
        self.keep = np.zeros(0, dtype=np.int64)
        self.states: States | None = None if stem is None else stem.states

    def get_seq_length(self, layer_idx: int = 0) -> Any:
        """Return the number of tokens read before; with `shift`, what must be added to places in the row to get positions.

        Llama 4's layers without rotary embeddings scale queries by the place in the row plus this number
        (``attn_temperature_tuning`` in ``modeling_llama4.py``).
        """
        return super().get_seq_length(layer_idx) if self.shift is None else self.shift

    def update(self, key_states: Any, value_states: Any, layer_idx: int, *args: Any, **kwargs: Any) -> Any:
        """Store keys and values until the trunk is complete; return those of the stem, the trunk and the row."""
        seen = [(key_states, value_states)]
        if not self.complete:
            seen = [super().update(key_states, value_states, layer_idx, *args, **kwargs)]
        elif layer_idx < len(self.layers):  # a trunk after a stem can be empty
            seen.insert(0, (self.layers[layer_idx].keys, self.layers[layer_idx].values))
        if self.stem is not None:
            seen.insert(0, (self.stem.layers[layer_idx].keys, self.stem.layers[layer_idx].values))
        if len(seen) == 1:
            return seen[0]
        keys, values = zip(*seen, strict=True)
        return torch.cat(keys, dim=-2), torch.cat(values, dim=-2)

    def get_conv_state(self, *_: Any, **__: Any) -> None:
        """Return None: `nnd_tasks.models.hybrid` keeps the states of recurrent layers."""

    get_recurrent_state = get_conv_state

    def update_conv_state(self, state: Any, *_: Any, **__: Any) -> Any:
        """Return the state without storing it."""
        return state

    update_recurrent_state = update_conv_state


@dataclass
class _Stem:
    """A beginning of many sequences that was read before their packs.

    Attributes:
        owner: see `Pack`.
        cache: the stem's keys and values.
        hidden: final hidden states, shape (stem, width), for the targets that lie in the stem.
    """

    owner: int
    cache: _Trunk
    hidden: torch.Tensor


class DecoderOnlyScoring(PrefixScoring):
    """The part of `SharedPrefixLM` for decoder-only models."""

    #: Cost of one more call of a scan, in tokens; and the most states of recurrent layers that a pack keeps. A state is as
    #: large as the keys and values of some hundreds of tokens.
    scan_price, most_states = 64, 32

    _layout = Layout({"": Reach()})  # of the model, known when it scores

    def score_decoder_only(self, requests: Sequence[TokenRequest]) -> Iterator[ScoredRequest]:
        """Score requests in packs with a common beginning; yield those of a pack when they are scored.

        Inputs that are too long are cut from the left, as `HFLM` does.
        """
        by_input: ByInput = {}
        for i, (_, context, continuation) in enumerate(requests):
            inputs = tuple((context + continuation)[-(self.max_length + 1) :][:-1])
            by_input.setdefault(inputs, []).append(ScoredRequest(i, continuation))
        self._layout = layout_of(self._inner.config)
        head = self._head_of(self._layout)
        most_states = self.most_states if self._layout.recurrent else None
        while by_input:
            work = SortedRequests(head, by_input)
            limits = PackLimits(self.row_tokens, self.pack_tokens, max_anchors=most_states)
            stem: _Stem | None = None
            for pack in make_packs(work.sequences, limits):
                held = [work.sequences[i] for i in pack.paths]
                try:
                    stem = self._stem_of(pack, work, stem)
                    self._score_pack(pack, work, stem)
                except torch.OutOfMemoryError as error:
                    self._take_smaller_rows([request for inputs in held for request in by_input[inputs]], error)
                    break
                for inputs in held:
                    yield from by_input.pop(inputs)

    def _stem_of(self, pack: Pack, work: SortedRequests, stem: _Stem | None) -> _Stem | None:
        """Return the stem of a pack, or None if it has none; reuse ``stem``, that of the last pack, if it is the same."""
        if not pack.stem or (stem is not None and stem.owner == pack.owner):
            return stem if pack.stem else None
        cache = _Trunk()
        cache.keep = np.array([pack.stem - 1])
        hidden = self._read(np.asarray(work.sequences[pack.owner][: pack.stem]), None, cache)
        cache.complete = True
        return _Stem(pack.owner, cache, hidden)

    def _score_pack(self, pack: Pack, work: SortedRequests, stem: _Stem | None) -> None:
        if stem is not None:
            work.score_targets(stem.hidden, [(i, 0, range(pack.stem)) for i in pack.paths])
        cache = _Trunk(stem.cache if stem else None) if pack.branches or stem else None
        if cache is not None:
            cache.keep = np.unique(np.array([branch.anchor for branch in pack.branches], dtype=np.int64))
        if len(pack.tokens):
            hidden = self._read(pack.tokens, pack.mask, cache)
            work.score_targets(hidden, [(i, pack.stem, path) for i, path in pack.paths.items()])
        if cache is not None:
            cache.complete = True
        for row in make_rows(pack, work.sequences, self.row_tokens):
            hidden = self._read(row.tokens, row.mask, cache)
            starts = np.cumsum(row.lengths) - row.lengths
            work.score_targets(
                hidden,
                [
                    (branch.sequence, branch.start, range(start, start + length))
                    for branch, start, length in zip(row.branches, starts, row.lengths, strict=True)
                ],
            )

    def _read(self, tokens: Any, mask: TreeMask | None, cache: _Trunk | None) -> torch.Tensor:
        """Return the final hidden states of one row, shape (row, width). Without a mask, each token sees all before it."""
        layout, body = self._layout, self._inner.base_model
        if body is self._inner:  # Llama4ForCausalLM names a part that it does not have
            body = self._inner.model
        if cache is None and (layout.places or layout.recurrent):
            cache = _Trunk()
            cache.complete = True  # nothing was read before, and nothing is kept
        attention = {} if mask is None else {"attention_mask": self._attention(mask)}
        arguments: dict[str, Any] = {
            **attention,
            "input_ids": self._tensor(tokens)[None],
            "use_cache": cache is not None,
        }
        if cache is not None:
            arguments[self._cache_argument] = cache
        with ExitStack() as stack:
            if mask is not None:
                positions = self._tensor(mask.positions)
                arguments["position_ids"] = positions[None]
                if cache is not None and layout.places:
                    cache.shift = positions - torch.arange(len(positions), device=positions.device)
                if layout.alibi:
                    stack.enter_context(keys_at(body, self._tensor(mask.key_positions)))
                if self._inner._supports_attention_backend:
                    stack.enter_context(in_blocks(self._inner.config, mask))
            if cache is not None and layout.recurrent:
                scan = TreeScan(*_scanned(mask, len(tokens), cache), self.scan_price)
                states = stack.enter_context(along_tree(body, scan, cache.states))
                if not cache.complete:
                    cache.states = states
            hidden: torch.Tensor = body(**arguments).last_hidden_state[0]
        return hidden

    @cached_property
    def _cache_argument(self) -> str:
        names = inspect.signature(self._inner.base_model.forward).parameters
        return "cache_params" if "cache_params" in names else "past_key_values"

    def _attention(self, mask: TreeMask) -> Any:
        """Return the mask of a row, or one for each kind of layer where the model has kinds."""
        if self._cache_argument == "cache_params":  # a model without attention
            return None
        masks = self._masks(mask, self._layout)
        if self._layout.recurrent:
            return {FULL: masks[""], "linear_attention": None, "conv": None}
        return masks.get("", masks)


def _scanned(mask: TreeMask | None, length: int, cache: _Trunk) -> tuple[Ints, Ints, Ints]:
    """Return the ends, origins and places to keep of a row, see `TreeScan`."""
    ends = np.full(length, length) if mask is None else mask.ends
    anchors = np.full(length, -1) if mask is None or not len(mask.anchors) else mask.anchors
    origins = np.zeros(length, dtype=np.int64) if cache.states is None else cache.states.rows(anchors)
    return ends, origins, np.zeros(0, dtype=np.int64) if cache.complete else cache.keep


# ---------------------------------------------------------------- attention in blocks

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
    row = mask.keys - len(mask.ends)  # the first key of the row
    trunk = list(chains(mask.trunk_ends))
    starts = [start for start, _, _ in trunk]
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
