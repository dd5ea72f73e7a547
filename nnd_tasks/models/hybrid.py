"""Scoring with decoder-only models that have recurrent layers: common beginnings are read once, and their state is copied.

A recurrent layer (linear attention, state space, short convolution) has no mask that could keep the branches of a tree apart.
So a trunk is read into a cache of transformers, and the candidates after it are read as a batch, each on from a copy of this
cache. They are padded on the right: what comes after a token changes nothing for it, and the state after the padding is not
used. `nnd_tasks.models.snapshot_plan` says which beginnings are trunks.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from transformers import Cache, DynamicCache

from nnd_tasks.models.architectures import DECODERS, layout_of
from nnd_tasks.models.prefix_scoring import ByInput, PrefixScoring, ScoredRequest, TargetTokens, segment_targets
from nnd_tasks.models.prefix_tree import Ints
from nnd_tasks.models.snapshot_plan import Trunk, plan_snapshots

#: Most tokens of a chunk of a scan, on a CPU.
CHUNK = 64
#: Number of hidden states that the vocabulary head takes together. Each call reads all of its weights, and a trunk with its
#: leaves has few of them.
HEAD_ROWS = 512


@dataclass
class _Reading:
    """Sequences that are read as trunks and leaves.

    Attributes:
        sequences: distinct inputs, sorted.
        by_input: the requests of each.
        settle: adds log-probabilities to requests, see `PrefixScoring._settle`.
        end: called with sequences whose requests are scored.
        hidden: final hidden states that wait for the head, each of shape (some, width).
        tokens: what to score at them.
        read: indices of sequences whose last tokens were read, and may wait too.
    """

    sequences: Sequence[tuple[int, ...]]
    by_input: ByInput
    settle: Callable[[torch.Tensor, TargetTokens], None]
    end: Callable[[Sequence[tuple[int, ...]]], None]
    hidden: list[torch.Tensor] = field(default_factory=list)
    tokens: TargetTokens = field(default_factory=TargetTokens)
    read: list[int] = field(default_factory=list)

    def add(self, hidden: torch.Tensor, begin: int, paths: dict[int, Ints], read: Sequence[int]) -> None:
        """Add what was read.

        Args:
            hidden: final hidden states, shape (rows, width).
            begin: position in their sequences of those that ``paths`` begin with.
            paths: index of a sequence -> its rows in ``hidden``.
            read: indices of the sequences that end here.
        """
        new = segment_targets(paths, begin, self.sequences, self.by_input)
        if new.rows:
            needed, rows = np.unique(new.rows, return_inverse=True)
            waiting = sum(map(len, self.hidden))
            self.hidden.append(hidden[torch.as_tensor(needed, device=hidden.device)])
            self.tokens.rows += (rows + waiting).tolist()
            self.tokens.targets += new.targets
            self.tokens.owners += new.owners
        self.read += read
        if sum(map(len, self.hidden)) >= HEAD_ROWS:
            self.finish()

    def finish(self) -> None:
        """Score what waits."""
        if self.hidden:
            self.settle(torch.cat(self.hidden), self.tokens)
        self.end([self.sequences[i] for i in self.read])
        self.hidden, self.tokens, self.read = [], TargetTokens(), []


class HybridScoring(PrefixScoring):
    """The part of `SharedPrefixLM` for decoder-only models with recurrent layers."""

    #: Most keys of a batch: each of its branches is compared with its own copy of the trunk's.
    batch_keys = 16384
    #: What a trunk costs apart from its tokens, in tokens: one more call of the model, and the copies of its state.
    trunk_price = 16

    def score_hybrid(
        self, requests: Sequence[tuple[Any, list[int], list[int]]], done: Callable[[Sequence[ScoredRequest]], None]
    ) -> None:
        """Score requests, trunk by trunk; inputs that are too long are cut from the left, as `HFLM` does.

        Args:
            requests: (text, context tokens, continuation tokens) of each.
            done: called with requests when they are scored.
        """
        by_input = self._by_input(requests)
        head = self._head_of(layout_of(self._inner.config))
        left = sorted(by_input)
        estimating = self._estimating
        while left:
            finished: set[tuple[int, ...]] = set()

            def end(sequences: Sequence[tuple[int, ...]], finished: set[tuple[int, ...]] = finished) -> None:
                finished.update(sequences)
                done([request for sequence in sequences for request in by_input[sequence]])

            root = plan_snapshots(left, self._price)
            if estimating:
                estimating = False
                tokens, work = self._amount_of_trunks(root, left)
                targets = sum(len(continuation) for _, _, continuation in requests)
                self._expect(requests, tokens, work + targets * self._costs.head)
            try:
                reading = _Reading(left, by_input, partial(self._settle, head), end)
                self._score_trunk(root, None, reading)
                reading.finish()
            except torch.OutOfMemoryError as error:
                waiting = [sequence for sequence in left if sequence not in finished]
                self._take_smaller_rows([request for sequence in waiting for request in by_input[sequence]], error)
                self.batch_keys //= 2
            left = [sequence for sequence in left if sequence not in finished]

    @property
    def _price(self) -> int:
        return min(self.trunk_price, self.row_tokens // 8)  # short rows, as in the self-check, take more trunks

    def _amount_of_trunks(self, root: Trunk, sequences: Sequence[tuple[int, ...]]) -> tuple[int, float]:
        """Return how many tokens are read for a plan, and what reading them costs; see `Costs`."""
        tokens, work = 0, 0.0
        for trunk in root.walk():
            lengths = [len(sequences[i]) - trunk.end for i in trunk.leaves]
            tokens += trunk.end - trunk.begin + sum(lengths)
            work += self._costs.read(trunk.end - trunk.begin, trunk.end)
            work += sum(self._costs.read(length, trunk.end + length) for length in lengths)
        return tokens, work

    def _score_trunk(self, trunk: Trunk, around: Cache | None, of: _Reading) -> None:
        """Score what is in a trunk and after it.

        Args:
            trunk: which is to be read.
            around: the state at its beginning; None where this is the beginning of the sequences.
            of: the sequences.
        """
        state = around
        members = range(trunk.first, trunk.last + 1)
        if trunk.end > trunk.begin:
            state = self._empty() if around is None else copied(around)
            for begin, length in self._pieces(trunk.begin, trunk.end):
                hidden = self._step([of.sequences[trunk.first][begin : begin + length]], begin, state)[0]
                ended = [i for i in members if len(of.sequences[i]) == begin + length]
                of.add(hidden, begin, dict.fromkeys(members, np.arange(length)), ended)
        for batch in self._batches(trunk, of.sequences):
            self._score_leaves(batch, trunk.end, state, of)
        for inner in trunk.within:
            self._score_trunk(inner, state, of)

    def _score_leaves(self, batch: Sequence[int], begin: int, state: Cache | None, of: _Reading) -> None:
        """Score the leaves of sequences ``batch``, which begin at position ``begin`` with ``state``; the first is the longest."""
        own = None if state is None else copied(state, len(batch))
        pieces = list(self._pieces(begin, len(of.sequences[batch[0]])))  # several where the batch is one long sequence
        if own is None and len(pieces) > 1:
            own = self._empty()
        for start, length in pieces:
            if own is not None and start == pieces[-1][0]:
                _forget_what_is_read(own)
            parts = [of.sequences[i][start : start + length] for i in batch]
            hidden = self._step(parts, start, own)
            paths = {
                i: row * length + np.arange(len(part)) for row, (i, part) in enumerate(zip(batch, parts, strict=True))
            }
            of.add(hidden.flatten(0, 1), start, paths, batch if start == pieces[-1][0] else [])

    def _pieces(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield (begin, length) of pieces of at most a row, one after the other."""
        for start in range(begin, end, self.row_tokens):
            yield start, min(self.row_tokens, end - start)

    def _batches(self, trunk: Trunk, sequences: Sequence[tuple[int, ...]]) -> Iterator[list[int]]:
        """Yield a trunk's leaves in batches of at most a row of tokens, padding included, the longest one first in each."""
        batch: list[int] = []
        longest = 0
        for i in sorted(trunk.leaves, key=lambda i: -len(sequences[i])):
            size = len(batch) + 1
            if batch and (
                size * longest > self.row_tokens or size * (trunk.end + longest) > max(self.batch_keys, self.row_tokens)
            ):
                yield batch
                batch = []
            if not batch:
                longest = len(sequences[i]) - trunk.end
            batch.append(i)
        if batch:
            yield batch

    def _empty(self) -> Cache:
        """Return the cache that ``generate`` would make."""
        return DynamicCache(config=self._inner.config)

    @cached_property
    def _cache_argument(self) -> str:
        names = inspect.signature(self._inner.base_model.forward).parameters
        return "cache_params" if "cache_params" in names else "past_key_values"

    def _step(self, parts: Sequence[Sequence[int]], begin: int, state: Cache | None) -> torch.Tensor:
        """Read a batch on from a state, which moves on with it.

        Args:
            parts: token ids of each row; the first is the longest.
            begin: number of tokens before them.
            state: with as many rows; None where this is the beginning.

        Returns:
            Final hidden states, shape (rows, longest, width).
        """
        tokens = np.zeros((len(parts), len(parts[0])), dtype=np.int64)
        for row, part in zip(tokens, parts, strict=True):
            row[: len(part)] = part
        if self._estimate is not None:
            self._estimate.add(self._costs.read(sum(map(len, parts)), begin + len(parts[0])))
        arguments: dict[str, Any] = {"input_ids": self._tensor(tokens), "use_cache": state is not None}
        if state is not None:
            arguments[self._cache_argument] = state
        with self._chunks_for(len(parts[0]), arguments):
            hidden: torch.Tensor = self._inner.base_model(**arguments).last_hidden_state
        return hidden

    @contextmanager
    def _chunks_for(self, length: int, arguments: dict[str, Any]) -> Iterator[None]:
        """Within this context, let scans pad rows of ``length`` tokens as little as possible.

        A scan cuts a row into chunks and pads the last one: a candidate of 12 tokens costs 64 or 256, which are the usual
        chunks. Kernels for accelerators want a power of 2, so these are left alone. State spaces take the size of a chunk
        from their layer, delta rules as an argument (transformers 5.23, for example modeling_qwen3_next.py:376).
        """
        chunk = -(-length // -(-length // CHUNK))
        layers = self._scans if self.device.type == "cpu" else []
        sizes = [layer.chunk_size for layer in layers]
        if self.device.type == "cpu" and DECODERS[self._inner.config.model_type].scan:
            arguments["chunk_size"] = chunk
        try:
            for layer in layers:
                layer.chunk_size = min(chunk, layer.chunk_size)
            yield
        finally:
            for layer, size in zip(layers, sizes, strict=True):
                layer.chunk_size = size

    @cached_property
    def _scans(self) -> list[Any]:
        return [module for module in self._inner.modules() if isinstance(getattr(module, "chunk_size", None), int)]


def copied(cache: Cache, rows: int = 1) -> Cache:
    """Return a copy of a cache with one row that can be read on from in ``rows`` rows, and leaves the first as it is.

    Keys and values are not copied: layers replace these tensors, while they overwrite the states of recurrent layers.
    """
    twin = copy.copy(cache)
    twin.layers = []
    for layer in cache.layers:
        own = copy.copy(layer)
        for name, value in vars(layer).items():
            if name in ("keys", "values"):
                setattr(own, name, value.expand(rows, *value.shape[1:]) if _has_rows(value) else value)
            else:
                setattr(own, name, _repeated(value, rows))
        twin.layers.append(own)
    return twin


def _repeated(value: Any, rows: int) -> Any:
    """Return a deep copy of ``value`` in which each tensor that has rows has ``rows`` of them."""
    if isinstance(value, torch.Tensor):
        return value.repeat(rows, *[1] * (value.ndim - 1)) if _has_rows(value) else value.clone()
    if isinstance(value, Mapping):
        return {name: _repeated(part, rows) for name, part in value.items()}
    return [_repeated(part, rows) for part in value] if isinstance(value, list) else value


def _has_rows(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.ndim > 1


def _forget_what_is_read(cache: Cache) -> None:
    """Let attention layers not store keys and values from here on: nothing is read after them."""
    for layer in cache.layers:
        if _has_rows(getattr(layer, "keys", None)):
            layer.update = partial(_joined, layer.keys, layer.values)


def _joined(old_keys: Any, old_values: Any, keys: Any, values: Any, *_: Any, **__: Any) -> tuple[Any, Any]:
    return torch.cat([old_keys, keys], dim=-2), torch.cat([old_values, values], dim=-2)
