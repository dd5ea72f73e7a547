"""How the layers of a decoder-only model read the row of a prefix tree; `along_tree` prepares a model for a row.

Attention takes a mask, which removes most of the scores where a row holds several contexts, or many branches of one trunk.
Here a row is cut into *blocks*: some neighbouring tokens, and the keys that at least one of them sees. Within a block the mask
of the row still holds, so the result is the same.

ALiBi adds to an attention score the position of the key, times a slope of the head. Models take the place of a key in the row
for its position. In a row that holds a tree these differ. So the biases of a row of consecutive positions are computed, and
then those at the positions of the keys are taken (`keys_at`).

Recurrent layers (linear attention, state space, short convolution) read a row from left to right, and no mask keeps the
branches of a tree apart. Nearly all of their computation is per token. Only two functions of a modeling file look at other
tokens, and these are replaced:

- the short convolution: each run of tokens gets its own last inputs in front;
- the scan: the row is cut into segments at its branching points. Segments are read in batches, each from the state at the end
  of its parent segment. A state is what a scan keeps of all tokens before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache, partial
from importlib import import_module
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from shared_prefix.architectures import Layout
from shared_prefix.prefix_tree import Ints, TreeMask


@contextmanager
def along_tree(
    model: Any, layout: Layout, mask: TreeMask, scan: TreeScan | None, before: States | None
) -> Iterator[States | None]:
    """Within this context, a model that is given a cache reads a row as a tree; yield the states of its recurrent layers.

    Args:
        model: of transformers.
        layout: of its config.
        mask: of the row.
        scan: how recurrent layers read the row; None for a model without.
        before: their states before the row; None where it begins the sequences.
    """
    body = body_of(model)
    with ExitStack() as stack:
        if not mask.is_text and layout.alibi:
            stack.enter_context(keys_at(body, mask.key_positions))
        if not mask.is_text and model._supports_attention_backend:
            stack.enter_context(in_blocks(model.config, mask))
        yield None if scan is None else stack.enter_context(_scans_along(body, scan, before))


def body_of(model: Any) -> Any:
    """The model without its output layer. Llama4ForCausalLM names one that it does not have."""
    return model.model if model.base_model is model else model.base_model


# ---------------------------------------------------------------- attention in blocks

#: Name of this attention in transformers' registry.
NAME = "tree_blocks"
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
        seen: whether one of them sees a column of the row's mask, shape (keys,).
    """

    start: int
    stop: int
    seen: NDArray[np.bool_]

    @property
    def keys(self) -> list[tuple[int, int]]:
        """The columns that are seen, from a start to a stop."""
        edges = np.flatnonzero(np.diff(self.seen, prepend=False, append=False)).tolist()
        return list(zip(edges[::2], edges[1::2], strict=True))

    def cost(self) -> int:
        """Return the cost of computing the block, in scores."""
        return CALL + (self.stop - self.start + (COPY if len(self.keys) > 1 else 0)) * int(self.seen.sum())


def chains(ends: Ints) -> Iterator[tuple[int, int, int]]:
    """Yield the chains of a tree, depth first: first token, token after the last one, and parent of the first; -1 if it has none.

    In a chain, each token is the parent of the next. ``ends`` as in `TreeMask`.
    """
    start = 0
    for stop in (np.flatnonzero(ends == np.arange(1, len(ends) + 1)) + 1).tolist():
        above = np.flatnonzero(ends[:start] > start)
        yield start, stop, int(above[-1]) if above.size else -1
        start = stop


def _keys_of(token: int, mask: TreeMask) -> NDArray[np.bool_]:
    """Mark the keys of a token of the row and of its ancestors, shape (keys,)."""
    row, trunk = np.arange(len(mask.ends)), np.arange(len(mask.trunk_ends))
    anchor = mask.anchors[token] if len(trunk) else -1
    seen = [(trunk <= anchor) & (anchor < mask.trunk_ends), (row <= token) & (token < mask.ends)]
    return np.concatenate([np.ones(mask.stem, dtype=bool), *seen])


def blocks_of(mask: TreeMask) -> list[Block]:
    """Return the blocks of a row: its chains, joined with the one before where one call for both costs no more than two."""
    blocks: list[Block] = []
    for start, stop, _ in chains(mask.ends):
        block = Block(start, stop, _keys_of(stop - 1, mask))
        if blocks:
            joined = Block(blocks[-1].start, stop, blocks[-1].seen | block.seen)
            if joined.cost() <= blocks[-1].cost() + block.cost():
                blocks[-1] = joined
                continue
        blocks.append(block)
    return blocks


class _Plan:
    """The blocks of the row that is being read; ``shape`` is that of its mask: (row, keys).

    `parts` returns the part of a mask for each block. Layers with the same mask share them; a model on several devices has a copy
    for each layer.
    """

    def __init__(self, shape: tuple[int, int], blocks: Sequence[Block]) -> None:
        self.shape, self.blocks = shape, [(slice(block.start, block.stop), block.keys) for block in blocks]
        self.parts = lru_cache(_MASKS)(self._cut)

    def _cut(self, mask: torch.Tensor) -> list[torch.Tensor]:
        return [_columns(mask[..., rows, :], keys, -1) for rows, keys in self.blocks]


#: None outside of `in_blocks`.
_plan: ContextVar[_Plan | None] = ContextVar("_plan", default=None)


def _columns(values: torch.Tensor, keys: Sequence[tuple[int, int]], dim: int) -> torch.Tensor:
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
    plan = _plan.get()
    shape = query.shape[2], key.shape[2]
    if plan is None or attention_mask is None or not plan.shape == shape == attention_mask.shape[2:]:
        unblocked: tuple[torch.Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, **kwargs
        )
        return unblocked
    outputs = [
        sdpa_attention_forward(
            module,
            query[:, :, rows],
            _columns(key, keys, 2),
            _columns(value, keys, 2),
            block_mask,
            **kwargs,
        )[0]
        for (rows, keys), block_mask in zip(plan.blocks, plan.parts(attention_mask), strict=True)
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
    blocks = blocks_of(mask) if config._attn_implementation == "sdpa" else []
    if len(blocks) < 2:
        yield
        return
    config._attn_implementation = NAME
    token = _plan.set(_Plan((len(mask.ends), mask.keys), blocks))
    try:
        yield
    finally:
        config._attn_implementation = "sdpa"
        _plan.reset(token)


# ---------------------------------------------------------------- linear biases


@contextmanager
def keys_at(body: Any, positions: Ints) -> Iterator[None]:
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
        return biases[..., torch.from_numpy(positions).to(biases.device)]

    with patch.object(owner, name, of_keys):
        yield


# ---------------------------------------------------------------- recurrent layers

#: Most tokens of a chunk of a scan, on a CPU.
CHUNK = 64
#: Most segments that are read together: each has a state of its own.
BATCH = 128
#: A segment is read again with each segment that follows it if that costs at most 1/AGAIN of a call.
AGAIN = 8

#: The convolution of all types (transformers 5.23, for example ``modeling_mamba2.py:147``).
CONVOLUTION = "causal_conv1d_fn"


@dataclass(frozen=True)
class Scan:
    """A function of modeling files that reads tokens from a state on. A token of zeros changes no state: it is padding.

    Attributes:
        function: its name.
        state: its argument for the state before the tokens.
    """

    function: str
    state: str

    def prepare(self, arguments: dict[Any, Any]) -> dict[Any, Any]:
        """Return the arguments of a call, by place or name, for which a token of zeros is padding."""
        return arguments


class StateSpaceScan(Scan):
    """The scan of Mamba 2 (``modeling_mamba2.py:257``). Its steps, the second argument, are 0 only after the softplus."""

    def prepare(self, arguments: dict[Any, Any]) -> dict[Any, Any]:
        """Return the arguments with ready-made steps."""
        rest = {**arguments, "dt_softplus": False}
        steps = functional.softplus(rest[1].float() + rest.pop("dt_bias")).clamp(*rest.pop("dt_limit"))
        return {**rest, 1: steps}


SCANS = (
    StateSpaceScan("mamba2_chunk_scan", "initial_states"),
    Scan("torch_chunk_gated_delta_rule", "initial_state"),  # ``modeling_qwen3_next.py:370``
    Scan("chunk_kimi_delta_attention", "initial_state"),  # ``modeling_kimi_linear.py:466``
)


@dataclass
class States:
    """The states of a model's recurrent layers after some tokens of a row.

    Attributes:
        places: places of these tokens in the row, ascending; -1 is the place before the row.
        tensors: the states of each call of a convolution or a scan in a pass, in order, shape (places, ...).
    """

    places: Ints
    tensors: list[torch.Tensor] = field(default_factory=list)

    def rows(self, places: Ints) -> Ints:
        """Find the rows of `tensors` that are the states after the tokens at ``places``."""
        return np.searchsorted(self.places, places)


@dataclass(frozen=True)
class Segment:
    """Tokens of a row that are read one after the other.

    Attributes:
        number: counted along the row.
        tokens: places of its tokens; those of segments that are read again with it come first.
        after: number of the segment whose state it goes on from; -1: the state before the row.
        level: how many segments are read one after the other before it.
    """

    number: int
    tokens: Ints
    after: int
    level: int


@dataclass(frozen=True)
class _Batch:
    """Segments that are read together, and their tokens' places, shape (segments, longest); the row's length is padding."""

    segments: list[Segment]
    tokens: Ints


class TreeScan:
    """A row of a prefix tree, cut into segments for recurrent layers.

    Segments are read level by level, each after its parent. A short segment is read again with each of its children instead.

    Args:
        ends: end of the subtree below each token of the row, see `TreeMask`.
        origins: index of the state before the row from which each token's sequence goes on, shape (row,).
        keep: places in the row, ascending, whose states are needed later; -1 is the place before the row.
        price: cost of one more call, in tokens.
    """

    def __init__(self, ends: Ints, origins: Ints, keep: Ints, price: int) -> None:
        self.length, self.origins, self.keep = len(ends), origins, keep
        self.parents = np.arange(self.length) - 1
        self.runs = []
        for start, stop, parent in chains(ends):
            self.runs.append((start, stop))
            self.parents[start] = parent
        self._segment_of: dict[int, int] = {}  # the last token of a segment -> its number
        self.batches = self._batches(self._segments(price), price)
        after = {segment.after for batch in self.batches for segment in batch.segments}
        #: Segments whose last state is needed.
        self.needed = after | {*map(self.segment_at, keep.tolist())}
        self._windows: dict[int, tuple[Ints, Ints, Ints]] = {}

    def _segments(self, price: int) -> list[Segment]:
        """Cut the row where chains begin and branch, and after places to keep; return the segments that are to be read."""
        starts = [start for start, _ in self.runs]
        cuts = {0, self.length, *starts, *(self.parents[starts] + 1).tolist(), *(self.keep + 1).tolist()}
        bounds = sorted(cuts)
        followers = Counter(self.parents[bounds[:-1]].tolist())  # of a token: segments that go on from it
        unread = {*followers} - {*self.keep.tolist()}
        segments: list[Segment] = []
        again: set[int] = set()  # segments that are read with each of those that follow them
        for number, (start, stop) in enumerate(pairwise(bounds)):
            tokens, after = np.arange(start, stop), self._segment_of.get(int(self.parents[start]), -1)
            if after in again:
                tokens, after = np.concatenate([segments[after].tokens, tokens]), segments[after].after
            segments.append(Segment(number, tokens, after, segments[after].level + 1 if after >= 0 else 0))
            last = stop - 1
            self._segment_of[last] = number
            if last in unread and (followers[last] - 1) * len(tokens) <= price // AGAIN:
                again.add(number)
        return [segment for segment in segments if segment.number not in again]

    def _batches(self, segments: Sequence[Segment], price: int) -> list[_Batch]:
        """Return batches, level by level, with no more padding in each than one more call would cost."""
        groups: list[list[Segment]] = []
        padding = 0
        for segment in sorted(segments, key=lambda segment: (segment.level, -len(segment.tokens))):
            if groups and groups[-1][0].level == segment.level:
                padding += len(groups[-1][0].tokens) - len(segment.tokens)
                if padding <= price and len(groups[-1]) < BATCH:
                    groups[-1].append(segment)
                    continue
            groups.append([segment])
            padding = 0
        batches = []
        for group in groups:
            tokens = np.full((len(group), len(group[0].tokens)), self.length, dtype=np.int64)
            for row, segment in zip(tokens, group, strict=True):
                row[: len(segment.tokens)] = segment.tokens
            batches.append(_Batch(group, tokens))
        return batches

    def results(self) -> Ints:
        """Return for each token of the row where its result is among those of all batches, shape (row,)."""
        index_of_place = np.zeros(self.length + 1, dtype=np.int64)
        row_places = np.concatenate([batch.tokens.ravel() for batch in self.batches])
        index_of_place[row_places] = np.arange(len(row_places))
        return index_of_place[: self.length]

    def segment_at(self, place: int) -> int:
        """Return the segment that ends at a place that is kept; -1 for the place before the row."""
        return -1 if place < 0 else self._segment_of[place]

    def windows(self, width: int) -> tuple[Ints, Ints, Ints]:
        """Plan how a convolution over each token and the ``width`` tokens before it reads the row.

        Inputs are numbered: those of the row, then ``width`` of each state before the row.

        Returns:
            The numbers of the inputs to read, run by run; for each token of the row, the index of its result; and for each
            place to keep, the numbers of the last ``width`` inputs, shape (places, width).
        """
        if width not in self._windows:
            reads = []
            for start, stop in self.runs:
                reads += [self._window(self.parents[start], start, width), np.arange(start, stop)]
            run = np.repeat(np.arange(len(self.runs)), [stop - start for start, stop in self.runs])
            results = np.arange(self.length) + width * (run + 1)  # in front of each run there are its last inputs
            last_inputs = [self._window(place, max(place, 0), width) for place in self.keep]
            self._windows[width] = (
                np.concatenate(reads),
                results,
                np.reshape(last_inputs, (len(last_inputs), width)).astype(np.int64),
            )
        return self._windows[width]

    def _window(self, token: int, at: int, width: int) -> Ints:
        """Return the ``width`` inputs up to a token: its own, and of its ancestors; ``at`` is a token with the same origin."""
        path: list[int] = []
        while token >= 0 and len(path) < width:
            path.append(token)
            token = self.parents[token]
        outside = self.length + int(self.origins[at]) * width + np.arange(width)
        return np.concatenate([outside[len(path) :], np.asarray(path[::-1], dtype=np.int64)])


class _Reading:
    """One pass of a model over a row: the states before it, and those that are kept.

    Args:
        scan: how the row is read.
        before: states before the row; None where it begins the sequences.
    """

    def __init__(self, scan: TreeScan, before: States | None) -> None:
        self.scan, self.kept = scan, States(scan.keep)
        self._before = None if before is None else iter(before.tensors)

    def convolve(
        self, original: Callable[..., Any], inputs: torch.Tensor, weight: torch.Tensor, *args: Any, **kwargs: Any
    ) -> Any:
        """Return the convolution of the row; ``inputs`` of shape (1, channels, row)."""
        width = weight.shape[-1] - 1
        reads, results, last_inputs = (
            torch.from_numpy(numbers).to(inputs.device) for numbers in self.scan.windows(width)
        )
        row_inputs = inputs[0].t()
        if self._before is None:
            before = row_inputs.new_zeros(1, width, row_inputs.shape[1])
        else:
            before = next(self._before).to(row_inputs.device)
        all_inputs = torch.cat([row_inputs, before.flatten(0, 1)])
        self.kept.tensors.append(all_inputs[last_inputs])
        convolved = original(all_inputs[reads].t()[None], weight, *args, **kwargs)
        return convolved[..., results]

    def scan_row(self, function: Scan, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Scan the row as the model's own scan, ``original``, would. Arguments of shape (1, row, ...) are of its tokens."""
        scan, device = self.scan, args[0].device
        arguments = function.prepare({**dict(enumerate(args)), **kwargs})
        per_token = {
            name: torch.cat([value[0], torch.zeros_like(value[0, :1])])  # padding is 0
            for name, value in arguments.items()
            if isinstance(value, torch.Tensor) and value.shape[:2] == (1, scan.length)
        }
        before = None if self._before is None else next(self._before).to(device)
        states: dict[int, torch.Tensor] = {}  # after segments; -1: before the row
        outputs = []
        for batch in scan.batches:
            if batch.segments[0].after >= 0:
                arguments[function.state] = torch.stack([states[segment.after] for segment in batch.segments])
            else:
                origins = torch.from_numpy(scan.origins[batch.tokens[:, 0]]).to(device)
                arguments[function.state] = None if before is None else before[origins]
            if device.type == "cpu":  # the last chunk is padded; kernels for accelerators want chunks of a power of 2
                longest = batch.tokens.shape[1]
                arguments["chunk_size"] = -(-longest // -(-longest // CHUNK))
            tokens = torch.from_numpy(batch.tokens).to(device)
            batch_arguments = arguments | {name: value[tokens] for name, value in per_token.items()}
            positional = [batch_arguments.pop(i) for i in range(len(args))]
            output, last = original(*positional, **batch_arguments)
            outputs.append(output.flatten(0, 1))
            for segment, state in zip(batch.segments, last, strict=True):
                if segment.number in scan.needed:
                    states[segment.number] = state
        states[-1] = torch.zeros_like(last[0]) if before is None else before[scan.origins[0]]
        kept_states = [states[scan.segment_at(place)] for place in scan.keep.tolist()]
        self.kept.tensors.append(torch.stack(kept_states) if kept_states else last[:0])
        scanned = torch.cat(outputs)[torch.from_numpy(scan.results()).to(device)][None]
        return scanned, last[:1]  # nobody looks at this state


@contextmanager
def _scans_along(body: Any, scan: TreeScan, before: States | None) -> Iterator[States]:
    """Within this context, recurrent layers read a row as a tree; yield their states.

    Args:
        body: the model without its output layer.
        scan: how the row is read.
        before: states before the row; None where it begins the sequences.
    """
    module = import_module(type(body).__module__)
    reading = _Reading(scan, before)
    ours: dict[str, Any] = {CONVOLUTION: partial(reading.convolve, getattr(module, CONVOLUTION))}
    for scan_function in SCANS:
        if original := getattr(module, scan_function.function, None):
            ours[scan_function.function] = partial(reading.scan_row, scan_function, original)
    with patch.multiple(module, **ours):
        yield reading.kept
