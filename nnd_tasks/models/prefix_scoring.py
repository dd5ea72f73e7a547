"""What decoder-only models and encoder-decoders share in `nnd_tasks.models.shared_prefix`: requests, targets, row sizes."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
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

#: What a model says to one request: the sum of log-probabilities, and whether every token was the likeliest.
Response = tuple[float, bool]


@dataclass
class ScoredRequest:
    """One request while it is scored.

    Attributes:
        index: its place among the requests.
        text: (context, continuation), its key in lm-eval's cache; None for parts of rolling requests.
        targets: the tokens to score.
        total: sum of the log-probabilities of the targets that are scored so far.
        greedy: whether all of these were the likeliest tokens.
        logprobs: the log-probabilities themselves, in the order of the targets; None where only their sum is kept.
    """

    index: int
    text: tuple[str, str] | None
    targets: list[int]
    total: float = 0.0
    greedy: bool = True
    logprobs: list[float] | None = None

    def add(self, logprob: float, likeliest: bool) -> None:
        """Add the next target's log-probability, and whether it was the likeliest token."""
        self.total += logprob
        self.greedy = self.greedy and likeliest
        if self.logprobs is not None:
            self.logprobs.append(logprob)

    def begin_again(self) -> None:
        """Forget what was scored."""
        self.total, self.greedy = 0.0, True
        self.logprobs = None if self.logprobs is None else []

    def response(self) -> Response:
        """Return the answer to the request."""
        if self.logprobs is None:
            return self.total, self.greedy
        return TokenAnswer.of(self.total, self.greedy, self.logprobs)


#: Tokens that the model reads -> the requests that ask for them.
ByInput = dict[tuple[int, ...], list[ScoredRequest]]


@dataclass
class TargetTokens:
    """The tokens to score in one row of hidden states.

    Attributes:
        rows: for each token, the index of its hidden state.
        targets: for each token, its id.
        owners: for each token, its request.
    """

    rows: list[int] = field(default_factory=list)
    targets: list[int] = field(default_factory=list)
    owners: list[ScoredRequest] = field(default_factory=list)

    def add(self, request: ScoredRequest, rows: Sequence[int], targets: Sequence[int]) -> None:
        """Add ``targets`` of one request, whose hidden states are at ``rows``."""
        self.rows += rows
        self.targets += targets
        self.owners += [request] * len(targets)


class PrefixScoring(TokenizingOnce):
    """An `HFLM` with the parts that scoring of both kinds of models needs."""

    #: Most tokens of a row, which is read at once, and of a pack.
    row_tokens, pack_tokens = 1024, 16384
    #: Most tokens that an encoder-decoder's decoder reads at once: T5 keeps this number, squared, for each head as a bias.
    decoder_row_tokens = 256
    #: Most tokens of contexts that are encoded together. A longer context is encoded alone.
    source_tokens = 640
    #: Whether answers keep the log-probability of every token.
    token_scores = False

    @property
    def _inner(self) -> Any:
        """The transformers model below an adapter."""
        return self.model.get_base_model() if hasattr(self.model, "get_base_model") else self.model

    @property
    def _dtype(self) -> Any:
        return next(self._inner.parameters()).dtype

    def _tensor(self, values: Any) -> torch.Tensor:
        return torch.as_tensor(np.asarray(values), device=self.device)

    def _scored(self, index: int, text: tuple[str, str] | None, targets: list[int]) -> ScoredRequest:
        return ScoredRequest(index, text, targets, logprobs=[] if self.token_scores else None)

    def _by_input(self, requests: Sequence[tuple[Any, list[int], list[int]]]) -> ByInput:
        """Return what a decoder-only model reads, cut from the left where it is too long, with the requests that ask for it.

        Args:
            requests: (text, context tokens, continuation tokens) of each.
        """
        by_input: ByInput = {}
        for i, (text, context, continuation) in enumerate(requests):
            inputs = tuple((context + continuation)[-(self.max_length + 1) :][:-1])
            by_input.setdefault(inputs, []).append(self._scored(i, text, continuation))
        return by_input

    def _head_of(self, layout: Layout) -> VocabularyHead:
        """Return the vocabulary head of a decoder-only model."""
        return VocabularyHead(
            self._inner.get_output_embeddings(), logit_scale=layout.scale, cap=layout.cap, dtype=self.softmax_dtype
        )

    def _settle(self, head: VocabularyHead, hidden: torch.Tensor, tokens: TargetTokens) -> None:
        """Add the log-probabilities of ``tokens`` to their requests.

        Args:
            head: gives log-probabilities.
            hidden: final hidden states of a row, shape (positions, width).
            tokens: what to score in the row.
        """
        if not tokens.rows:
            return
        needed, rows = np.unique(tokens.rows, return_inverse=True)
        logprobs, greedy = head(
            hidden[self._tensor(needed).to(hidden.device)], self._tensor(rows), self._tensor(tokens.targets)
        )
        for owner, logprob, likeliest in zip(tokens.owners, logprobs.tolist(), greedy.tolist(), strict=True):
            owner.add(logprob, likeliest)

    def _bias(self, visible: torch.Tensor) -> torch.Tensor:
        """Return what is added to attention scores, of the shape of ``visible``, which is True where a token sees a key.

        It is 0 there, and the lowest number of the model's type elsewhere.
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
            request.begin_again()
        torch.cuda.empty_cache()
        logger.info("out of memory; reading %d tokens at once from here on", self.row_tokens)


def segment_targets(
    paths: Mapping[int, Ints], begin: int, sequences: Sequence[tuple[int, ...]], by_input: ByInput
) -> TargetTokens:
    """Return the targets of the requests whose inputs lie in one segment of their sequences.

    Args:
        paths: index of a sequence -> the rows of hidden states that hold its segment, in order.
        begin: position in each sequence where the segment begins.
        sequences: the inputs of all requests.
        by_input: sequence -> its requests.
    """
    tokens = TargetTokens()
    for i, path in paths.items():
        for request in by_input[sequences[i]]:
            start = len(sequences[i]) - len(request.targets)  # position of the first scored input
            rows = path[max(start - begin, 0) :].tolist()
            skipped = max(begin - start, 0)
            tokens.add(request, rows, request.targets[skipped : skipped + len(rows)])
    return tokens
