"""What scoring with decoder-only models and with encoder-decoders has in common: requests, masks, sizes of rows."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.nn.attention.flex_attention import create_block_mask

from nnd_tasks.models.architectures import FLEX, Layout
from nnd_tasks.models.encodings import TokenizingOnce
from nnd_tasks.models.prefix_tree import Ints
from nnd_tasks.models.token_scores import TokenAnswer
from nnd_tasks.models.tree_mask import TreeMask
from nnd_tasks.models.vocabulary_head import VocabularyHead

logger = logging.getLogger("lm_eval.nnd")

#: When memory runs out, rows of fewer tokens than this are not halved again.
_SMALLEST_ROW = 64


@dataclass
class ScoredRequest:
    """A request while it is scored.

    Attributes:
        index: of the request in the call.
        targets: tokens to score.
        logprobs: log-probabilities of the targets that are scored so far, in nats, in the order of the targets.
        greedy: whether all of these targets were the likeliest tokens.
    """

    index: int
    targets: list[int]
    logprobs: list[float] = field(default_factory=list)
    greedy: bool = True

    def answer(self) -> tuple[int, TokenAnswer]:
        """Return the request's index and the answer to it."""
        return self.index, TokenAnswer.of(sum(self.logprobs), self.greedy, self.logprobs)


#: Tokens that the model reads -> the requests that need them.
ByInput = dict[tuple[int, ...], list[ScoredRequest]]


@dataclass
class SortedRequests:
    """Requests, sorted by what the model reads, and the head that scores them.

    Attributes:
        head: the model's vocabulary head.
        by_input: tokens that the model reads -> the requests that need them.
        sequences: the keys of ``by_input``, sorted.
    """

    head: VocabularyHead
    by_input: ByInput

    def __post_init__(self) -> None:
        self.sequences = sorted(self.by_input)

    def score_targets(self, hidden: torch.Tensor, segments: Iterable[tuple[int, int, Sequence[int] | Ints]]) -> None:
        """Add the log-probabilities of the targets in a row to their requests.

        Args:
            hidden: final hidden states of the row, shape (row, width).
            segments: parts of sequences that are in the row: (index of the sequence, position in it where the part begins,
                places of its tokens in the row).
        """
        rows: list[int] = []
        targets: list[int] = []
        owners: list[ScoredRequest] = []
        for i, begin, places in segments:
            for request in self.by_input[self.sequences[i]]:
                start = len(self.sequences[i]) - len(request.targets)  # position of the first scored input
                skipped = max(begin - start, 0)
                inside = places[max(start - begin, 0) :]
                rows.extend(inside)
                targets += request.targets[skipped : skipped + len(inside)]
                owners += [request] * len(inside)
        if not rows:
            return
        needed, where = (torch.from_numpy(part).to(hidden.device) for part in np.unique(rows, return_inverse=True))
        logprobs, greedy = self.head(hidden[needed], where, torch.tensor(targets, device=hidden.device))
        for owner, logprob, likeliest in zip(owners, logprobs.tolist(), greedy.tolist(), strict=True):
            owner.logprobs.append(logprob)
            owner.greedy &= likeliest


class PrefixScoring(TokenizingOnce):
    """An `HFLM` with what scoring needs for both kinds of models."""

    #: Most tokens of a row, which is read at once, and of a pack.
    row_tokens, pack_tokens = 1024, 16384
    #: Most tokens that an encoder-decoder's decoder reads at once: T5 keeps this number, squared, for each head as a bias.
    decoder_row_tokens = 256
    #: Most tokens of contexts that are encoded together. A longer context is encoded alone.
    source_tokens = 640

    @property
    def _inner(self) -> Any:
        """The transformers model below an adapter."""
        return self.model.get_base_model() if hasattr(self.model, "get_base_model") else self.model

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
        return VocabularyHead(inner.get_output_embeddings(), scale, layout.cap, bias, self.softmax_dtype)

    def _bias(self, visible: torch.Tensor) -> torch.Tensor:
        """Return what is added to attention scores: 0 where ``visible`` is True, else the lowest number of the model's type.

        ``visible`` says which token sees which key; the result has its shape.
        """
        bias = torch.zeros(visible.shape, dtype=self._dtype, device=visible.device)
        return bias.masked_fill_(~visible, torch.finfo(bias.dtype).min)

    def _masks(self, mask: TreeMask, layout: Layout) -> dict[str, Any]:
        """Return the mask, shape (1, 1, row, keys), for each kind of layer."""
        reaches = {kind: reach.within(mask.length) for kind, reach in layout.reaches.items()}
        made = {reach: self._mask_of(mask.visible(self.device, reach)) for reach in set(reaches.values())}
        return {kind: made[reach] for kind, reach in reaches.items()}

    def _mask_of(self, visible: torch.Tensor) -> Any:
        """Return what the model's attention takes as a mask: flex attention the blocks of ``visible``, all others a bias."""
        if self._inner.config._attn_implementation != FLEX:
            return self._bias(visible)[None, None]
        return create_block_mask(
            lambda batch, head, row, key: visible[row, key], None, None, *visible.shape, device=visible.device
        )

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
            request.logprobs, request.greedy = [], True
        torch.cuda.empty_cache()
        logger.info("out of memory; reading %d tokens at once from here on", self.row_tokens)
