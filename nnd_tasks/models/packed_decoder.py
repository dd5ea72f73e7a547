"""The decoder of an encoder-decoder, which reads all candidates of a context in one row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch
from transformers import DynamicCache, EncoderDecoderCache

from nnd_tasks.models.architectures import Layout
from nnd_tasks.models.prefix_tree import Pack
from nnd_tasks.models.tree_mask import TreeMask, trunk_mask


class PackedDecoder:
    """The decoder of T5, BART, T5Gemma and similar models, for contexts that are encoded a few at a time.

    Args:
        model: an encoder-decoder of transformers.
        layout: what its config asks for.
    """

    def __init__(self, model: Any, layout: Layout) -> None:
        self._model = model
        self.layout = layout
        self._decoder = model.get_decoder()
        self._encoded: torch.Tensor | None = None
        self._cross: DynamicCache | None = None

    def encode(self, contexts: Sequence[Sequence[int]], *, keep: bool) -> None:
        """Encode the contexts of the rows that will be read next.

        Args:
            contexts: token ids of each; of similar lengths, because the shorter ones are padded.
            keep: store the decoder's keys and values of the contexts, which pays when more than one row is read.
        """
        longest = max(map(len, contexts))
        device = self._decoder.get_input_embeddings().weight.device
        tokens = torch.tensor([[*context, *[0] * (longest - len(context))] for context in contexts], device=device)
        known = torch.tensor(
            [[1] * len(context) + [0] * (longest - len(context)) for context in contexts], device=device
        )
        encoded = self._model.get_encoder()(input_ids=tokens, attention_mask=known).last_hidden_state
        self._encoded = encoded[known.bool()][None]
        self._cross = DynamicCache() if keep else None

    def inputs(self, candidate: torch.Tensor) -> list[int]:
        """Return what the decoder reads to score a candidate of shape (length,): a start token, then all but the last token."""
        shifted: list[int] = self._model.prepare_decoder_input_ids_from_labels(candidate[None])[0].tolist()
        return shifted

    def mask_of(self, rows: Pack) -> TreeMask | None:
        """Return the tree of a row; None where each token sees all tokens before it and the decoder knows that by itself.

        T5Gemma does not: left alone, it hides tokens that have the id of its padding (``modeling_t5gemma.py:754``).
        """
        return trunk_mask(rows) if "" in self.layout.reaches else TreeMask(rows.positions, rows.ends)

    def read(
        self,
        tokens: torch.Tensor,
        positions: torch.Tensor | None = None,
        mask: dict[str, torch.Tensor] | None = None,
        context_mask: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return the final hidden states of a row, shape (row, width).

        Args:
            tokens: shape (row,).
            positions: position of each token in its candidate, shape (row,); None numbers them from 0.
            mask: kind of layer -> added to the attention scores of the row with itself, shape (1, 1, row, row); see `Layout`.
                None lets each token see all tokens before it.
            context_mask: added to the attention scores of the row with the contexts, one context after the other, shape
                (row, contexts' tokens); None lets each token see all of them.
        """
        arguments: dict[str, Any] = {
            "input_ids": tokens[None],
            "encoder_hidden_states": self._encoded,
            "use_cache": self._cross is not None,
        }
        if self._cross is not None:
            arguments["past_key_values"] = EncoderDecoderCache(DynamicCache(), self._cross)
        if mask is not None:
            arguments["attention_mask"] = mask.get("", mask)
        if context_mask is not None:
            arguments["encoder_attention_mask"] = context_mask[None, None]
        with ExitStack() as stack:
            if positions is not None and "" not in self.layout.reaches:
                arguments["position_ids"] = positions[None]
            elif positions is not None:
                stack.enter_context(self._placed(positions))
            hidden: torch.Tensor = self._decoder(**arguments).last_hidden_state[0]
        return hidden

    @contextmanager
    def _placed(self, positions: torch.Tensor) -> Iterator[None]:
        """Within this context, give the decoder ``positions``; it takes none as an argument, and numbers its inputs itself."""
        embedding = getattr(self._decoder, "embed_positions", None)
        if embedding is not None:  # BART and similar: absolute positions

            def replace(_: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
                return args, {**kwargs, "position_ids": positions}

            handle = embedding.register_forward_pre_hook(replace, with_kwargs=True)
            try:
                yield
            finally:
                handle.remove()
            return
        attention = self._decoder.block[0].layer[0].SelfAttention  # T5: relative; the first layer computes them for all

        def bias(*_: Any, **__: Any) -> torch.Tensor:
            buckets = attention._relative_position_bucket(
                positions[None, :] - positions[:, None],
                bidirectional=False,
                num_buckets=attention.relative_attention_num_buckets,
                max_distance=attention.relative_attention_max_distance,
            )
            return attention.relative_attention_bias(buckets).permute(2, 0, 1)[None]

        with patch.object(attention, "compute_bias", bias):
            yield
