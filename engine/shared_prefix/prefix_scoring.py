"""Scoring requests whose common beginnings are read once, with decoder-only models and with encoder-decoders.

A decoder-only model reads packs: trunk, then branches. An encoder-decoder encodes each context once, and reads its candidates
as one tree.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence
from transformers import DynamicCache, EncoderDecoderCache

from shared_prefix.architectures import FULL, Layout, Reach, layout_of
from shared_prefix.encodings import TokenizingOnce
from shared_prefix.prefix_tree import Ints, Pack, PackLimits, TreeMask, make_packs
from shared_prefix.token_requests import ScoredRequest, TokenRequest
from shared_prefix.tree_layers import States, TreeScan, along_tree, body_of

logger = logging.getLogger("lm_eval.shared_prefix")

#: Tokens that the model reads -> the requests that need them.
ByInput = dict[tuple[int, ...], list[ScoredRequest]]
#: When memory runs out, rows of fewer tokens than this are not halved again.
_SMALLEST_ROW = 64


class PrefixScoring(TokenizingOnce):
    """An `HFLM` that reads the common beginnings of requests once."""

    #: Most tokens of a row, which is read at once, and of a pack.
    row_tokens, pack_tokens = 1024, 16384
    #: Most tokens that an encoder-decoder's decoder reads at once: T5 keeps this number, squared, for each head as a bias.
    decoder_row_tokens = 256
    #: Most tokens of contexts that are encoded together. A longer context is encoded alone.
    source_tokens = 640
    #: Whether ranks and entropies are computed, see `shared_prefix.token_requests.TokenStats`.
    token_stats = False
    #: Cost of one more call of a scan, in tokens; and the most states of recurrent layers that a pack keeps. A state is as
    #: large as the keys and values of some hundreds of tokens.
    scan_price, most_states = 64, 32

    _layout = Layout({"": Reach()})  # of the model, known when it scores
    #: The transformers model below an adapter.
    _inner: Any

    @property
    def _dtype(self) -> Any:
        return next(self._inner.parameters()).dtype

    def _tensor(self, values: Any) -> torch.Tensor:
        return torch.as_tensor(np.asarray(values), device=self.device)

    def _head_of(self, layout: Layout) -> VocabularyHead:
        inner, scale = self._inner, layout.scale
        if inner.config.model_type == "t5" and inner.config.scale_decoder_outputs:
            scale *= inner.model_dim**-0.5
        bias = getattr(inner, "final_logits_bias", None)
        return VocabularyHead(
            inner.get_output_embeddings(), scale, layout.cap, bias, self.softmax_dtype, token_stats=self.token_stats
        )

    def _bias(self, visible: torch.Tensor) -> torch.Tensor:
        """Make the bias of attention scores: 0 where ``visible`` is True, else the lowest number of the model's type.

        ``visible`` says which token sees which key; the result has its shape.
        """
        bias = torch.zeros(visible.shape, dtype=self._dtype, device=visible.device)
        return bias.masked_fill_(~visible, torch.finfo(bias.dtype).min)

    def _masks(self, mask: TreeMask, layout: Layout) -> dict[str, torch.Tensor]:
        """Make the bias of attention scores, shape (1, 1, row, keys), for each kind of layer."""
        biases = {
            reach: self._bias(mask.visible(self.device, reach))[None, None] for reach in {*layout.reaches.values()}
        }
        return {layer_kind: biases[reach] for layer_kind, reach in layout.reaches.items()}

    def _take_smaller_rows(self, unfinished: Sequence[ScoredRequest], error: Exception) -> None:
        """Halve the rows after a lack of memory, and reset the requests that were being scored.

        Raises ``error`` if the rows are too small to be halved.
        """
        if self.row_tokens < _SMALLEST_ROW:
            raise error
        self.row_tokens //= 2
        self.decoder_row_tokens //= 2
        self.source_tokens //= 2
        for request in unfinished:
            request.logprobs, request.greedy, request.stats = [], True, []
        torch.cuda.empty_cache()
        logger.info("out of memory; reading %d tokens at once from here on", self.row_tokens)

    # ------------------------------------------------------------ decoder-only models

    def score_decoder_only(self, requests: Sequence[TokenRequest]) -> Iterator[ScoredRequest]:
        """Score requests in packs with a common beginning; yield those of a pack when they are scored.

        Inputs that are too long are cut from the left, as `HFLM` does.
        """
        by_input: ByInput = {}
        longest = self.max_length + 1  # HFLM looks it up in the model's configuration each time
        for i, (_, context, continuation) in enumerate(requests):
            inputs = tuple((context + continuation)[-longest:-1])
            by_input.setdefault(inputs, []).append(ScoredRequest(i, continuation))
        self._layout = layout_of(self._inner.config)
        head = self._head_of(self._layout)
        most_states = self.most_states if self._layout.recurrent else None
        while by_input:
            sequences = sorted(by_input)
            work = SortedRequests(head, sequences, [by_input[inputs] for inputs in sequences])
            limits = PackLimits(self.row_tokens, self.pack_tokens, max_anchors=most_states)
            owner, stem, hidden = -1, None, None
            for pack in make_packs(sequences, limits):
                try:
                    if pack.owner != owner:  # else it begins with the stem that was read last
                        owner, stem, hidden = pack.owner, None, None
                        if pack.mask.stem:
                            stem = RowCache(None, np.array([pack.mask.stem - 1]))
                            text = np.asarray(sequences[owner][: pack.mask.stem])
                            hidden = self._read(text, TreeMask.of_text(pack.mask.stem), stem)
                    if hidden is not None:
                        work.score_targets(hidden, [(i, 0, range(pack.mask.stem)) for i in pack.paths])
                    self._score_pack(pack, work, stem)
                except torch.OutOfMemoryError as error:
                    self._take_smaller_rows([request for i in pack.paths for request in work.requests[i]], error)
                    break
                for i in pack.paths:
                    yield from by_input.pop(sequences[i])

    def _score_pack(self, pack: Pack, work: SortedRequests, before: RowCache | None) -> None:
        if len(pack.tokens):
            anchors = [branch.anchor for branch in pack.branches]
            cache = RowCache(before, np.unique(np.array(anchors, dtype=np.int64)) if anchors else None)
            hidden = self._read(pack.tokens, pack.mask, cache)
            work.score_targets(hidden, [(i, pack.mask.stem, path) for i, path in pack.paths.items()])
            before = cache  # what branches go on from
        for row in pack.rows(work.sequences, self.row_tokens):
            hidden = self._read(row.tokens, row.mask, RowCache(before))
            starts = np.cumsum(row.lengths) - row.lengths
            work.score_targets(
                hidden,
                [
                    (branch.sequence, branch.start, range(start, start + length))
                    for branch, start, length in zip(row.branches, starts, row.lengths, strict=True)
                ],
            )

    def _read(self, tokens: Ints, mask: TreeMask, cache: RowCache) -> torch.Tensor:
        """Compute the final hidden states of one row, shape (row, width)."""
        layout = self._layout
        arguments: dict[str, Any] = {"input_ids": self._tensor(tokens)[None], name_cache(self._parameters): cache}
        if not mask.is_text:
            positions = self._tensor(mask.positions)
            arguments |= {"attention_mask": self._attention(mask), "position_ids": positions[None]}
            if layout.places:
                cache.count_from(positions)
        scan = cache.plan_scan(mask, self.scan_price) if layout.recurrent else None
        with along_tree(self._inner, layout, mask, scan, cache.states_before) as cache.states:
            output = body_of(self._inner)(**arguments, use_cache=True)
        hidden: torch.Tensor = output.last_hidden_state[0]
        return hidden

    @cached_property
    def _parameters(self) -> Collection[str]:
        return inspect.signature(self._inner.base_model.forward).parameters

    def _attention(self, mask: TreeMask) -> Any:
        """Return the mask of a row, or one for each kind of layer where the model has kinds."""
        if self._layout.recurrent and "position_ids" not in self._parameters:  # a model without attention
            return None
        masks = self._masks(mask, self._layout)
        if self._layout.recurrent:
            return {FULL: masks[""], "linear_attention": None, "conv": None}
        return masks.get("", masks)

    # ------------------------------------------------------------ encoder-decoders

    def score_encoder_decoder(self, requests: Sequence[TokenRequest]) -> Iterator[ScoredRequest]:
        """Encode each context once and read its candidates as one tree; yield requests as they are scored, row by row."""
        layout = layout_of(self._inner.config)
        head = self._head_of(layout)
        contexts: dict[tuple[int, ...], ByInput] = {}
        for i, (_, context, continuation) in enumerate(requests):
            by_input = contexts.setdefault(tuple(context[-self.max_length :]), {})
            shifted = self._inner.prepare_decoder_input_ids_from_labels(torch.tensor([continuation]))
            by_input.setdefault(tuple(shifted[0].tolist()), []).append(ScoredRequest(i, continuation))
        waiting = sorted(contexts, key=len)
        while waiting:
            group = _group(waiting, self.source_tokens)
            try:
                yield from self._score_group({context: contexts[context] for context in group}, head, layout)
            except torch.OutOfMemoryError as error:
                left = [request for context in group for requests in contexts[context].values() for request in requests]
                self._take_smaller_rows(left, error)
            waiting = [context for context in waiting if contexts[context]]

    def _score_group(
        self, contexts: dict[tuple[int, ...], ByInput], head: VocabularyHead, layout: Layout
    ) -> Iterator[ScoredRequest]:
        """Score the candidates of contexts that are encoded together; yield those of each row, and remove them."""
        decoder = PackedDecoder(self._inner, [*contexts])
        source = self._tensor(np.repeat(np.arange(len(contexts)), [*map(len, contexts)]))
        candidates = [
            (number, *each) for number, by_input in enumerate(contexts.values()) for each in sorted(by_input.items())
        ]
        numbers, sequences, requests = ([*part] for part in zip(*candidates, strict=True))
        work = SortedRequests(head, sequences, requests)
        by_number = [*contexts.values()]
        limits = PackLimits(self.decoder_row_tokens, self.decoder_row_tokens)
        for pack in make_packs(sequences, limits, groups=numbers):
            own = np.empty(len(pack.tokens), dtype=np.int64)  # number of the context of each token
            for i, path in pack.paths.items():
                own[path] = numbers[i]
            across = self._bias(self._tensor(own)[:, None] == source) if len(contexts) > 1 else None
            masks = self._masks(pack.mask, layout)
            hidden = decoder.read(self._tensor(pack.tokens), self._tensor(pack.mask.positions), masks, across)
            work.score_targets(hidden, [(i, 0, path) for i, path in pack.paths.items()])
            for i in pack.paths:
                yield from by_number[numbers[i]].pop(sequences[i])


# ---------------------------------------------------------------- what was read before a row


class RowCache(DynamicCache):  # type: ignore[misc]
    """What the tokens of a row see of what was read before it, and what is kept of the row for others that follow it.

    Layers with a window see all of it too, because the mask says what a token sees.

    Args:
        before: the cache of the row that this one follows; None where it begins the sequences.
        keep: places in the row after which others go on, ascending; -1 is the place before the row. None keeps nothing.

    Attributes:
        states: states of recurrent layers at these places; None without such layers, or before the row is read.
    """

    def __init__(self, before: RowCache | None, keep: Ints | None = None) -> None:
        super().__init__()
        self._before, self._keep = before, keep
        self.states: States | None = None
        self._shift: torch.Tensor | None = None

    def count_from(self, positions: torch.Tensor) -> None:
        """Give the row's tokens their positions, shape (row,), for models that do not read them from ``position_ids``."""
        self._shift = positions - torch.arange(len(positions), device=positions.device)

    def get_seq_length(self, layer_idx: int = 0) -> Any:
        """Return what must be added to places in the row to get positions, where that was told by `count_from`.

        Llama 4's layers without rotary embeddings scale queries by the place in the row plus this number
        (``attn_temperature_tuning`` in ``modeling_llama4.py``).
        """
        return super().get_seq_length(layer_idx) if self._shift is None else self._shift

    def update(self, key_states: Any, value_states: Any, layer_idx: int, *args: Any, **kwargs: Any) -> Any:
        """Return the keys and values of the rows before, and of the row."""
        if self._keep is not None:
            key_states, value_states = super().update(key_states, value_states, layer_idx, *args, **kwargs)
        seen = [(key_states, value_states)]
        before = self._before
        while before is not None:
            seen.insert(0, (before.layers[layer_idx].keys, before.layers[layer_idx].values))
            before = before._before
        if len(seen) == 1:
            return seen[0]
        keys, values = zip(*seen, strict=True)
        return torch.cat(keys, dim=-2), torch.cat(values, dim=-2)

    @property
    def states_before(self) -> States | None:
        """States of recurrent layers before the row; None without such layers, or where it begins the sequences."""
        return None if self._before is None else self._before.states

    def plan_scan(self, mask: TreeMask, price: int) -> TreeScan:
        """Plan how recurrent layers read the row."""
        length, states = len(mask.ends), self.states_before
        anchors = mask.anchors if len(mask.anchors) else np.full(length, -1)
        origins = np.zeros(length, dtype=np.int64) if states is None else states.rows(anchors)
        return TreeScan(mask.ends, origins, np.zeros(0, dtype=np.int64) if self._keep is None else self._keep, price)

    def get_conv_state(self, *_: Any, **__: Any) -> None:
        """Give none: `shared_prefix.tree_layers` keeps the states of recurrent layers."""

    get_recurrent_state = get_conv_state

    def update_conv_state(self, state: Any, *_: Any, **__: Any) -> Any:
        """Return the state without storing it."""
        return state

    update_recurrent_state = update_conv_state


def name_cache(parameters: Collection[str]) -> str:
    """Name the parameter of a forward pass that takes the cache: until transformers 5.23 it had two other names."""
    return next(name for name in ("cache", "cache_params", "past_key_values") if name in parameters)


class PackedDecoder:
    """The decoder of T5, BART, T5Gemma and similar models, with a few contexts that are encoded together.

    Args:
        model: an encoder-decoder of transformers.
        contexts: token ids of each; of similar lengths, because the shorter ones are padded.
    """

    def __init__(self, model: Any, contexts: Sequence[Sequence[int]]) -> None:
        self._decoder = model.get_decoder()
        self._cache_name = name_cache(inspect.signature(self._decoder.forward).parameters)
        rows = [torch.tensor(context) for context in contexts]
        lengths = [torch.ones_like(row) for row in rows]
        device = self._decoder.get_input_embeddings().weight.device
        tokens, mask = (pad_sequence(parts, batch_first=True).to(device) for parts in (rows, lengths))
        encoded = model.get_encoder()(input_ids=tokens, attention_mask=mask).last_hidden_state
        self._encoded = encoded[mask.bool()][None]
        self._cross = DynamicCache()  # the decoder's keys and values of the contexts, made with the first row

    def read(
        self,
        tokens: torch.Tensor,
        positions: torch.Tensor,
        masks: dict[str, torch.Tensor],
        context_mask: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return the final hidden states of a row, shape (row, width).

        Args:
            tokens: shape (row,).
            positions: position of each token in its candidate, shape (row,).
            masks: kind of layer -> added to the attention scores of the row with itself, shape (1, 1, row, row); see `Layout`.
            context_mask: added to the attention scores of the row with the contexts, one context after the other, shape
                (row, contexts' tokens); None lets each token see all of them.
        """
        arguments: dict[str, Any] = {
            "input_ids": tokens[None],
            "attention_mask": masks.get("", masks),
            "encoder_hidden_states": self._encoded,
            "encoder_attention_mask": None if context_mask is None else context_mask[None, None],
            self._cache_name: EncoderDecoderCache(DynamicCache(), self._cross),
        }
        if "" not in masks:  # T5Gemma
            hidden: torch.Tensor = self._decoder(**arguments, position_ids=positions[None]).last_hidden_state[0]
            return hidden
        with self._placed(positions):
            return self._decoder(**arguments).last_hidden_state[0]

    def _placed(self, positions: torch.Tensor) -> AbstractContextManager[Any]:
        """Return a context in which the decoder, which would number its inputs itself, gives them ``positions``."""
        if hasattr(self._decoder, "embed_positions"):  # BART and similar: absolute positions
            embedding = self._decoder.embed_positions
            forward = embedding.forward

            def at_positions(*args: Any, **kwargs: Any) -> Any:
                return forward(*args, **{**kwargs, "position_ids": positions})

            return patch.object(embedding, "forward", at_positions)
        attention = self._decoder.block[0].layer[0].SelfAttention  # T5: relative; the first layer computes them for all

        def bias(*_: Any, **__: Any) -> torch.Tensor:
            buckets = attention._relative_position_bucket(
                positions[None, :] - positions[:, None],
                bidirectional=False,
                num_buckets=attention.relative_attention_num_buckets,
                max_distance=attention.relative_attention_max_distance,
            )
            return attention.relative_attention_bias(buckets).permute(2, 0, 1)[None]

        return patch.object(attention, "compute_bias", bias)


def _group(contexts: Sequence[tuple[int, ...]], most: int) -> list[tuple[int, ...]]:
    """Return the first contexts, sorted by length, that have at most ``most`` tokens when padded; at least one."""
    count = 1
    while count < len(contexts) and (count + 1) * len(contexts[count]) <= most:
        count += 1
    return list(contexts[:count])


# ---------------------------------------------------------------- the vocabulary head, and what it scores

_ELEMENTS = 1 << 21  # number of logits in a slice: 8 MiB in float32
_FAR = -1e4  # stands for the logarithm of 0, so that 0 times it is 0


class VocabularyHead:
    """The last layer of a language model, applied in slices of the vocabulary with a running logsumexp.

    Args:
        linear: the output embedding, a `torch.nn.Linear`.
        scale: the logits are multiplied with this number.
        cap: then they become ``cap * tanh(logits / cap)``; None leaves them as they are.
        bias: added to the logits, shape (vocabulary,); None takes the bias of ``linear``, if it has one.
        dtype: type in which the softmax is computed; None takes float32.
        token_stats: whether ranks and entropies are computed too.
    """

    def __init__(
        self,
        linear: Any,
        scale: float = 1.0,
        cap: float | None = None,
        bias: torch.Tensor | None = None,
        dtype: Any = None,
        *,
        token_stats: bool = False,
    ) -> None:
        self.weight, self.scale, self.cap = linear.weight, scale, cap
        self.bias = linear.bias if bias is None else bias.reshape(-1).to(linear.weight.device)
        self.dtype = dtype or torch.float32
        self.token_stats = token_stats

    def __call__(
        self, hidden: torch.Tensor, rows: torch.Tensor, targets: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Score tokens.

        Args:
            hidden: final hidden states, shape (positions, width).
            rows: for each scored token, the index of its hidden state, shape (tokens,).
            targets: ids of the scored tokens, shape (tokens,).

        Returns:
            The log-probability of each token, in nats, and whether it is the likeliest one, both of shape (tokens,). Then, if
            asked for, its `shared_prefix.token_requests.TOKEN_COLUMNS`, shape (tokens, 6), else (tokens, 0). A rank may be off
            by one next to a token that is as likely up to rounding.
        """
        hidden = hidden.to(self.weight.device)
        rows, targets = rows.to(hidden.device), targets.to(hidden.device)
        count, size = hidden.shape[0], self.weight.shape[0]
        step = min(size, max(1024, _ELEMENTS // max(count, 1)))
        # ``mass``, ``first`` and ``second``: sums over the vocabulary of exp(x - top), times (x - top), times (x - top) squared.
        mass, first, second = torch.zeros(3, count, dtype=self.dtype, device=hidden.device)
        top = torch.full_like(mass, torch.finfo(self.dtype).min)
        best = torch.zeros(count, dtype=torch.long, device=hidden.device)
        chosen, likelier = torch.zeros(2, len(targets), dtype=self.dtype, device=hidden.device)
        if self.token_stats:
            kinds, places = targets.unique(return_inverse=True)
            threshold = self._logits(hidden, kinds)[rows, places]
        for start in range(0, size, step):
            vocabulary_slice = slice(start, min(start + step, size))
            logits = self._logits(hidden, vocabulary_slice)
            inside = (targets >= vocabulary_slice.start) & (targets < vocabulary_slice.stop)
            chosen[inside] = logits[rows[inside], targets[inside] - vocabulary_slice.start]
            high, likeliest = logits.max(dim=-1)
            new = torch.maximum(top, high)
            moved = top - new
            scale = torch.exp(moved)
            if self.token_stats:
                likelier += logits[rows].gt_(threshold[:, None]).sum(dim=-1)
                distance = logits.sub_(new[:, None])
                if self.bias is not None:
                    distance.clamp_(min=_FAR)
                odds = torch.exp(distance)
                second = scale * (second + moved * (2 * first + moved * mass))
                first = scale * (first + moved * mass)
                mass = mass * scale + odds.sum(dim=-1)
                first += odds.mul_(distance).sum(dim=-1)
                second += odds.mul_(distance).sum(dim=-1)
            else:
                mass = mass * scale + torch.exp_(logits.sub_(new[:, None])).sum(dim=-1)
            best = torch.where(high > top, likeliest + vocabulary_slice.start, best)
            top = new
        greedy, total = best[rows] == targets, top + mass.log()
        stats = torch.empty(len(targets), 0)
        if self.token_stats:
            likelier -= (chosen > threshold).to(
                self.dtype
            )  # a token is not likelier than itself, whatever the rounding
            mean = first / mass
            spread = (second / mass - mean * mean).clamp_(min=0).sqrt()
            of_rows = torch.stack([mass.log() - mean, spread, total, -mass.log()], dim=1)[rows]
            stats = torch.cat([greedy[:, None], torch.log2(1 + likelier)[:, None], of_rows], dim=1)
        return chosen - total[rows], greedy, stats

    def _logits(self, hidden: torch.Tensor, tokens: slice | torch.Tensor) -> torch.Tensor:
        """Return the logits of some tokens of the vocabulary, shape (positions, tokens)."""
        bias = None if self.bias is None else self.bias[tokens]
        return self.bend(functional.linear(hidden, self.weight[tokens], bias))

    def bend(self, logits: torch.Tensor) -> torch.Tensor:
        """Bring logits to the type of the softmax, then scale and cap them."""
        logits = logits.to(self.dtype)
        if self.scale != 1.0:
            logits *= self.scale
        if self.cap is not None:
            logits = logits.div_(self.cap).tanh_().mul_(self.cap)
        return logits


def stats_of(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return `TOKEN_COLUMNS` of each token, shape (tokens, 6), by the logits in its place, shape (tokens, vocabulary)."""
    likelier = (logits > logits.gather(1, targets[:, None])).sum(dim=-1)
    logprobs = logits.log_softmax(dim=-1).clamp_(min=_FAR)
    probabilities = logprobs.exp()
    entropy = -(probabilities * logprobs).sum(dim=-1)
    spread = (probabilities * (logprobs + entropy[:, None]) ** 2).sum(dim=-1).sqrt()
    greedy, top = logits.argmax(dim=-1) == targets, logprobs.amax(dim=-1)
    return torch.stack([greedy, torch.log2(1 + likelier), entropy, spread, logits.logsumexp(dim=-1), top], dim=1)


class SortedRequests:
    """Requests, sorted by what the model reads, and the head that scores them.

    Args:
        head: the model's vocabulary head.
        sequences: tokens that the model reads, sorted.
        requests: those that need each of them.
    """

    def __init__(
        self, head: VocabularyHead, sequences: Sequence[tuple[int, ...]], requests: Sequence[list[ScoredRequest]]
    ) -> None:
        self.head, self.sequences, self.requests = head, sequences, requests

    def score_targets(self, hidden: torch.Tensor, segments: Iterable[tuple[int, int, Sequence[int] | Ints]]) -> None:
        """Add the log-probabilities of the targets in a row to their requests.

        Args:
            hidden: final hidden states of the row, shape (row, width).
            segments: parts of sequences that are in the row: (index of the sequence, position in it where the part begins,
                places of its tokens in the row).
        """
        rows: list[Ints] = []
        targets: list[int] = []
        owners: list[tuple[ScoredRequest, int]] = []  # and how many of its tokens are in the row
        for i, begin, row_indices in segments:
            for request in self.requests[i]:
                start = len(self.sequences[i]) - len(request.targets)  # position of the first scored input
                skipped = max(begin - start, 0)
                inside = np.asarray(row_indices[max(start - begin, 0) :])
                if len(inside):
                    rows.append(inside)
                    targets += request.targets[skipped : skipped + len(inside)]
                    owners.append((request, len(inside)))
        if not rows:
            return
        needed, row_of_target = (
            torch.from_numpy(numbers).to(hidden.device)
            for numbers in np.unique(np.concatenate(rows), return_inverse=True)
        )
        scores = self.head(hidden[needed], row_of_target, torch.tensor(targets, device=hidden.device))
        logprobs, greedy, stats = (numbers.tolist() for numbers in scores)
        end = 0
        for owner, count in owners:
            part = slice(end, end := end + count)
            owner.logprobs += logprobs[part]
            owner.greedy &= all(greedy[part])
            owner.stats += stats[part] if self.head.token_stats else ()
