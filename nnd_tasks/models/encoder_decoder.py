"""Scoring with encoder-decoders: each context is encoded once, and its candidates are read as one tree."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from nnd_tasks.models.architectures import layout_of
from nnd_tasks.models.packed_decoder import PackedDecoder
from nnd_tasks.models.prefix_scoring import ByInput, PrefixScoring, ScoredRequest, segment_targets
from nnd_tasks.models.prefix_tree import make_packs
from nnd_tasks.models.vocabulary_head import VocabularyHead


class EncoderDecoderScoring(PrefixScoring):
    """The part of `SharedPrefixLM` for encoder-decoders."""

    def score_encoder_decoder(
        self, requests: Sequence[tuple[Any, list[int], list[int]]], done: Callable[[Sequence[ScoredRequest]], None]
    ) -> None:
        """Encode each context once, and read its candidates as one tree, in rows.

        Args:
            requests: (text, context tokens, continuation tokens) of each.
            done: called with the requests of a row of the decoder when they are scored.
        """
        inner = self._inner
        config = inner.config
        scaled = config.model_type == "t5" and config.scale_decoder_outputs
        layout = layout_of(config)
        head = VocabularyHead(
            inner.get_output_embeddings(),
            scale=inner.model_dim**-0.5 if scaled else 1.0,
            bias=getattr(inner, "final_logits_bias", None),
            cap=layout.cap,
            dtype=self.softmax_dtype,
        )
        decoder = PackedDecoder(inner, layout)
        contexts: dict[tuple[int, ...], dict[tuple[int, ...], list[ScoredRequest]]] = {}
        for i, (text, context, continuation) in enumerate(requests):
            by_input = contexts.setdefault(tuple(context[-self.max_length :]), {})
            inputs = tuple(decoder.inputs(torch.tensor(continuation)))
            by_input.setdefault(inputs, []).append(self._scored(i, text, continuation))
        waiting = sorted(contexts, key=len)
        while waiting:
            group = _group(waiting, self.source_tokens)
            # The number of the context comes first, so that candidates of different contexts share nothing.
            by_input = {
                (k, *inputs): kept for k, context in enumerate(group) for inputs, kept in contexts[context].items()
            }
            try:
                for finished in self._score_group(group, by_input, decoder, head):
                    done([request for inputs in finished for request in by_input.pop(inputs)])
                    for numbered in finished:
                        del contexts[group[numbered[0]]][numbered[1:]]
            except torch.OutOfMemoryError as error:
                self._take_smaller_rows([request for kept in by_input.values() for request in kept], error)
            waiting = [context for context in waiting if contexts[context]]

    def _score_group(
        self, group: Sequence[tuple[int, ...]], by_input: ByInput, decoder: PackedDecoder, head: VocabularyHead
    ) -> Iterator[list[tuple[int, ...]]]:
        """Score the candidates of contexts that are encoded together; after each row, yield the inputs that are finished."""
        sequences = sorted(by_input)
        packs = list(make_packs(sequences, self.decoder_row_tokens, self.decoder_row_tokens, stems=False))
        decoder.encode(group, keep=len(packs) > 1)
        source = self._tensor(np.repeat(np.arange(len(group)), [len(context) for context in group]))
        for pack in packs:
            rows, about = pack.without_roots()
            mask = decoder.mask_of(rows)
            positions = bias = None
            if mask is not None:
                positions = self._tensor(mask.positions)
                bias = self._masks(mask, decoder.layout)
            across = self._bias(self._tensor(about)[:, None] == source) if len(group) > 1 else None
            hidden = decoder.read(self._tensor(rows.tokens), positions, bias, across)
            self._settle(head, hidden, segment_targets(rows.paths, 0, sequences, by_input))
            yield [sequences[i] for i in pack.paths]


def _group(contexts: Sequence[tuple[int, ...]], most: int) -> list[tuple[int, ...]]:
    """Return as many of the first contexts as have at most ``most`` tokens when padded to one length; at least one.

    Args:
        contexts: in the order of their lengths.
        most: number of tokens.
    """
    count = 1
    while count < len(contexts) and (count + 1) * len(contexts[count]) <= most:
        count += 1
    return list(contexts[:count])
