"""Requests while they are scored: the targets that are in a row, and the vocabulary head that scores them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from nnd_tasks.models.prefix_tree import Ints
from nnd_tasks.models.token_requests import TokenAnswer, TokenStats


@dataclass
class ScoredRequest:
    """A request while it is scored.

    Attributes:
        index: of the request in the call.
        targets: tokens to score.
        logprobs: log-probabilities of the targets that are scored so far, in nats, in the order of the targets.
        greedy: whether all of these targets were the likeliest tokens.
        stats: of each of these targets, as in `TokenStats`; empty where nobody asks for them.
    """

    index: int
    targets: list[int]
    logprobs: list[float] = field(default_factory=list)
    greedy: bool = True
    stats: list[list[float]] = field(default_factory=list)

    @property
    def answer(self) -> TokenAnswer:
        """What the model says to the request, when all of its targets are scored."""
        answer = TokenAnswer.of(sum(self.logprobs), self.greedy, self.logprobs)
        top1, *sums = np.sum(self.stats, axis=0).tolist() or [None]
        answer.stats = TokenStats(int(top1), *sums) if sums else None
        return answer


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
        for i, begin, row_indices in segments:
            for request in self.by_input[self.sequences[i]]:
                start = len(self.sequences[i]) - len(request.targets)  # position of the first scored input
                skipped = max(begin - start, 0)
                inside = row_indices[max(start - begin, 0) :]
                rows.extend(inside)
                targets += request.targets[skipped : skipped + len(inside)]
                owners += [request] * len(inside)
        if not rows:
            return
        needed, row_of_target = (
            torch.from_numpy(numbers).to(hidden.device) for numbers in np.unique(rows, return_inverse=True)
        )
        logprobs, greedy, stats = self.head(hidden[needed], row_of_target, torch.tensor(targets, device=hidden.device))
        scores = zip(owners, logprobs.tolist(), greedy.tolist(), stats.tolist(), strict=True)
        for owner, logprob, likeliest, of_token in scores:
            owner.logprobs.append(logprob)
            owner.greedy &= likeliest
            owner.stats.append(of_token)


# ---------------------------------------------------------------- the vocabulary head

_ELEMENTS = 1 << 21  # number of logits in a slice: 8 MiB in float32
_ROWS = 32  # positions whose ranks and entropies are computed together on a CPU, so few that its cache holds them


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
            asked for, its `nnd_tasks.models.token_requests.TokenStats`, shape (tokens, 3), else (tokens, 0).
        """
        hidden = hidden.to(self.weight.device)
        rows, targets = rows.to(hidden.device), targets.to(hidden.device)
        count, size = hidden.shape[0], self.weight.shape[0]
        step = min(size, max(1024, _ELEMENTS // max(count, 1)))
        top = torch.full((count,), -torch.inf, dtype=self.dtype, device=hidden.device)
        best = torch.zeros(count, dtype=torch.long, device=hidden.device)
        mass = torch.zeros(count, dtype=self.dtype, device=hidden.device)
        chosen = torch.empty(len(targets), dtype=self.dtype, device=hidden.device)
        expected = _Expected(self, hidden, rows, targets) if self.token_stats else None
        for start in range(0, size, step):
            vocabulary_slice = slice(start, min(start + step, size))
            bias = None if self.bias is None else self.bias[vocabulary_slice]
            logits = self.bend(functional.linear(hidden, self.weight[vocabulary_slice], bias))
            inside = (targets >= vocabulary_slice.start) & (targets < vocabulary_slice.stop)
            chosen[inside] = logits[rows[inside], targets[inside] - vocabulary_slice.start]
            high, likeliest = logits.max(dim=-1)
            new = torch.maximum(top, high)
            if expected is None:
                added = torch.exp_(logits.sub_(new[:, None])).sum(dim=-1)
            else:
                expected.logits[inside] = chosen[inside]
                added = expected.add_slice(logits, top, new, mass)
            mass = mass * torch.exp(top - new) + added
            best = torch.where(high > top, likeliest + vocabulary_slice.start, best)
            top = new
        greedy = best[rows] == targets
        stats = torch.empty(len(targets), 0) if expected is None else expected.finish(greedy, mass)
        return chosen - (top + mass.log())[rows], greedy, stats

    def bend(self, logits: torch.Tensor) -> torch.Tensor:
        """Bring logits to the type of the softmax, then scale and cap them."""
        logits = logits.to(self.dtype)
        if self.scale != 1.0:
            logits *= self.scale
        if self.cap is not None:
            logits = logits.div_(self.cap).tanh_().mul_(self.cap)
        return logits


class _Expected:
    """What a model expects in the places of tokens, while a head goes through the vocabulary.

    Attributes:
        logits: of the tokens, shape (tokens,). Before their slice comes they are computed apart, and may differ from those in
            the last digit: where two tokens are nearly as likely, a rank may be off by one.
    """

    def __init__(self, head: VocabularyHead, hidden: torch.Tensor, rows: torch.Tensor, targets: torch.Tensor) -> None:
        weight = head.weight[targets]
        logits = torch.bmm(hidden[rows][:, None].to(weight.dtype), weight[:, :, None]).reshape(-1)
        self.logits = head.bend(logits if head.bias is None else logits + head.bias[targets])
        self._rows, self._likelier = rows, torch.zeros_like(self.logits)
        self._spread: Any = 0.0  # sum over the vocabulary of exp(logit - top) (logit - top), shape (positions,)

    def add_slice(self, logits: torch.Tensor, top: torch.Tensor, new: torch.Tensor, mass: torch.Tensor) -> torch.Tensor:
        """Add a slice of the vocabulary; return what it adds to the mass.

        Args:
            logits: shape (positions, slice); they are overwritten.
            top: highest logit before this slice, shape (positions,).
            new: and with it.
            mass: sum of exp(logit - top) before this slice.
        """
        added, spread = torch.empty_like(new), torch.empty_like(new)
        step = _ROWS if logits.is_cpu else max(len(logits), len(self._rows))
        for few in (slice(start, start + step) for start in range(0, len(self._rows), step)):
            of_tokens = logits[self._rows[few]]
            self._likelier[few] += torch.gt(of_tokens, self.logits[few, None], out=of_tokens).sum(dim=-1)
        # No slice of one row, unless there is but one: its sum would be divided among threads, and round otherwise.
        bounds = [*range(0, max(len(logits) - 1, 1), step), len(logits)]
        for few in (slice(start, end) for start, end in pairwise(bounds)):
            shifted = logits[few].sub_(new[few, None])
            weights = shifted.exp()
            added[few] = weights.sum(dim=-1)
            # A logit of minus infinity has no weight.
            spread[few] = shifted.clamp_(min=-1e4).mul_(weights).sum(dim=-1)
        # Before the first slice top is infinite.
        self._spread = ((self._spread + (top - new) * mass) * torch.exp(top - new)).nan_to_num() + spread
        return added

    def finish(self, likeliest: torch.Tensor, mass: torch.Tensor) -> torch.Tensor:
        """Return `TokenStats` of each token, shape (tokens, 3); ``likeliest`` tells which are the likeliest."""
        entropy = mass.log() - self._spread / mass
        return torch.stack([likeliest, torch.log2(1 + self._likelier), entropy[self._rows]], dim=1)
