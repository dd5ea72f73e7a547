"""A model whose device runs out of memory."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest
import torch

from nnd_tasks.models.prefix_scoring import Work
from nnd_tasks.models.shared_prefix import SharedPrefixLM


def run_out_of_memory(monkeypatch: pytest.MonkeyPatch, sharing: SharedPrefixLM, at: Collection[int]) -> None:
    """Let memory run out after calls ``at`` of `Work.settle`, counted from 1; sizes of rows are put back after the test."""
    for attribute in ("row_tokens", "decoder_row_tokens", "source_tokens"):  # they are halved
        monkeypatch.setattr(sharing, attribute, getattr(sharing, attribute))
    settle, calls = Work.settle, []

    def failing(self: Work, hidden: Any, segments: Any) -> None:
        calls.append(1)
        settle(self, hidden, segments)
        if len(calls) in at:
            raise torch.OutOfMemoryError

    monkeypatch.setattr(Work, "settle", failing)
