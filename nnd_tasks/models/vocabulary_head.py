"""Log-probabilities of given tokens, computed without holding the logits of the whole vocabulary in memory."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

_ELEMENTS = 1 << 21  # number of logits in a slice: 8 MiB in float32


class VocabularyHead:
    """The last layer of a language model, applied in slices of the vocabulary with a running logsumexp.

    Args:
        linear: the output embedding, a `torch.nn.Linear`.
        scale: the logits are multiplied with this number.
        cap: then they become ``cap * tanh(logits / cap)``; None leaves them as they are.
        bias: added to the logits, shape (vocabulary,); None takes the bias of ``linear``, if it has one.
        dtype: type in which the softmax is computed; None takes float32.
    """

    def __init__(
        self,
        linear: Any,
        scale: float = 1.0,
        cap: float | None = None,
        bias: torch.Tensor | None = None,
        dtype: Any = None,
    ) -> None:
        self.weight, self.scale, self.cap = linear.weight, scale, cap
        self.bias = linear.bias if bias is None else bias.reshape(-1).to(linear.weight.device)
        self.dtype = dtype or torch.float32

    def __call__(
        self, hidden: torch.Tensor, rows: torch.Tensor, targets: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Score tokens.

        Args:
            hidden: final hidden states, shape (positions, width).
            rows: for each scored token, the index of its hidden state, shape (tokens,).
            targets: ids of the scored tokens, shape (tokens,).

        Returns:
            The log-probability of each token, in nats, and whether it is the likeliest one, both of shape (tokens,).
        """
        hidden = hidden.to(self.weight.device)
        rows, targets = rows.to(hidden.device), targets.to(hidden.device)
        count, size = hidden.shape[0], self.weight.shape[0]
        step = min(size, max(1024, _ELEMENTS // max(count, 1)))
        top = torch.full((count,), -torch.inf, dtype=self.dtype, device=hidden.device)
        best = torch.zeros(count, dtype=torch.long, device=hidden.device)
        mass = torch.zeros(count, dtype=self.dtype, device=hidden.device)
        chosen = torch.empty(len(targets), dtype=self.dtype, device=hidden.device)
        for start in range(0, size, step):
            part = slice(start, min(start + step, size))
            bias = None if self.bias is None else self.bias[part]
            logits = functional.linear(hidden, self.weight[part], bias).to(self.dtype)
            if self.scale != 1.0:
                logits *= self.scale
            if self.cap is not None:
                logits = logits.div_(self.cap).tanh_().mul_(self.cap)
            inside = (targets >= part.start) & (targets < part.stop)
            chosen[inside] = logits[rows[inside], targets[inside] - part.start]
            high, where = logits.max(dim=-1)
            new = torch.maximum(top, high)
            mass = mass * torch.exp(top - new) + torch.exp_(logits.sub_(new[:, None])).sum(dim=-1)
            best = torch.where(high > top, where + part.start, best)
            top = new
        return chosen - (top + mass.log())[rows], best[rows] == targets
