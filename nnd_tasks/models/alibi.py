"""Attention with linear biases (ALiBi) in the rows of a prefix tree.

ALiBi adds to an attention score the position of the key, times a slope of the head. Models take the place of a key in the row
for its position. In a row that holds a tree these differ. So the biases of a row of consecutive positions are computed, and
then those at the positions of the keys are taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any
from unittest.mock import patch

import torch


@contextmanager
def keys_at(body: Any, positions: torch.Tensor) -> Iterator[None]:
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
        return biases[..., positions.to(biases.device)]

    with patch.object(owner, name, of_keys):
        yield
