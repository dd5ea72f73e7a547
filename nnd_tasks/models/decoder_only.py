"""Scoring with decoder-only models: common beginnings of requests are read once."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache

from nnd_tasks.models.architectures import FULL, Layout, Reach, layout_of
from nnd_tasks.models.hybrid import States, TreeScan, along_tree
from nnd_tasks.models.prefix_scoring import ByInput, PrefixScoring, ScoredRequest, SortedRequests
from nnd_tasks.models.prefix_tree import Ints, Pack, PackLimits, TreeMask, branch_mask, make_packs, rows_of, trunk_mask
from nnd_tasks.models.token_requests import TokenRequest
from nnd_tasks.models.tree_attention import in_blocks, keys_at


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
            hidden = self._read(pack.tokens, trunk_mask(pack), cache)
            work.score_targets(hidden, [(i, pack.stem, path) for i, path in pack.paths.items()])
        if cache is not None:
            cache.complete = True
        for row in rows_of(pack.branches, work.sequences, self.row_tokens):
            rests = [work.sequences[branch.sequence][branch.start :] for branch in row]
            lengths = [len(rest) for rest in rests]
            hidden = self._read(np.concatenate(rests), branch_mask(pack, row, lengths), cache)
            starts = np.cumsum(lengths) - lengths
            row_indices = [range(start, start + length) for start, length in zip(starts, lengths, strict=True)]
            work.score_targets(
                hidden, [(b.sequence, b.start, indices) for b, indices in zip(row, row_indices, strict=True)]
            )

    def _read(self, tokens: Any, mask: TreeMask | None, cache: _Trunk | None) -> torch.Tensor:
        """Return the final hidden states of one row, shape (row, width). Without a mask, each token sees all before it."""
        layout, body = self._layout, self._inner.base_model
        if body is self._inner:  # Llama4ForCausalLM names a part that it does not have
            body = self._inner.model
        if cache is None and (layout.places or layout.recurrent):
            cache = _Trunk()
            cache.complete = True  # nothing was read before, and nothing is kept
        arguments: dict[str, Any] = {"input_ids": self._tensor(tokens)[None], "use_cache": cache is not None}
        if cache is not None:
            arguments[self._cache_argument] = cache
        with ExitStack() as stack:
            if mask is not None:
                positions = self._tensor(mask.positions)
                arguments |= {"attention_mask": self._attention(mask), "position_ids": positions[None]}
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
