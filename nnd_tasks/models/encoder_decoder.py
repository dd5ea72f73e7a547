"""Scoring with encoder-decoders: each context is encoded once, and its candidates are read as one tree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import chain
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import DynamicCache, EncoderDecoderCache

from nnd_tasks.models.architectures import Layout, layout_of
from nnd_tasks.models.prefix_scoring import ByInput, PrefixScoring, SortedRequests
from nnd_tasks.models.prefix_tree import PackLimits, TreeMask, make_packs
from nnd_tasks.models.token_requests import ScoredRequest, TokenRequest


class PackedDecoder:
    """The decoder of T5, BART, T5Gemma and similar models, with a few contexts that are encoded together.

    Args:
        model: an encoder-decoder of transformers.
        contexts: token ids of each; of similar lengths, because the shorter ones are padded.
    """

    def __init__(self, model: Any, contexts: Sequence[Sequence[int]]) -> None:
        self._decoder = model.get_decoder()
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
            "past_key_values": EncoderDecoderCache(DynamicCache(), self._cross),
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


class EncoderDecoderScoring(PrefixScoring):
    """The part of `SharedPrefixLM` for encoder-decoders."""

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
            # The number of the context comes first, so that candidates of different contexts share nothing.
            by_input = {
                (number, *inputs): waiting_requests
                for number, context in enumerate(group)
                for inputs, waiting_requests in contexts[context].items()
            }
            work = SortedRequests(head, by_input)
            try:
                for finished in self._score_group(group, work, layout):
                    for inputs in finished:
                        yield from work.by_input.pop(inputs)
                        del contexts[group[inputs[0]]][inputs[1:]]
            except torch.OutOfMemoryError as error:
                self._take_smaller_rows(list(chain.from_iterable(work.by_input.values())), error)
            waiting = [context for context in waiting if contexts[context]]

    def _score_group(
        self, group: Sequence[tuple[int, ...]], work: SortedRequests, layout: Layout
    ) -> Iterator[list[tuple[int, ...]]]:
        """Score the candidates of contexts that are encoded together; after each row, yield the inputs that are finished."""
        decoder = PackedDecoder(self._inner, group)
        source = self._tensor(np.repeat(np.arange(len(group)), [len(context) for context in group]))
        limits = PackLimits(self.decoder_row_tokens, self.decoder_row_tokens)
        for pack in make_packs(work.sequences, limits, stems=False):
            rows, context_numbers = pack.without_roots()
            across = self._bias(self._tensor(context_numbers)[:, None] == source) if len(group) > 1 else None
            masks = self._masks(TreeMask(rows.positions, rows.ends), layout)
            hidden = decoder.read(self._tensor(rows.tokens), self._tensor(rows.positions), masks, across)
            work.score_targets(hidden, [(i, 0, path) for i, path in rows.paths.items()])
            yield [work.sequences[i] for i in pack.paths]


def _group(contexts: Sequence[tuple[int, ...]], most: int) -> list[tuple[int, ...]]:
    """Return the first contexts, sorted by length, that have at most ``most`` tokens when padded; at least one."""
    count = 1
    while count < len(contexts) and (count + 1) * len(contexts[count]) <= most:
        count += 1
    return list(contexts[:count])
