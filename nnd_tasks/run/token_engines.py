"""Asking a model for the log-probability of every token, where a task's metadata say ``tokens``."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from nnd_tasks.errors import NNDError
from nnd_tasks.run.vllm_choice import SHARED, VLLM, why_too_old

#: Model types -> ours, which can keep what each token gets. Ours also scores as the other does.
_KEEPING = {"hf": "hf-shared-prefix", "hf-auto": "hf-shared-prefix", "huggingface": "hf-shared-prefix", VLLM: SHARED}


def keeping_tokens(model: Any, arguments: Mapping[str, Any], tracker: Any) -> tuple[Any, dict[str, Any]]:
    """Return the model and its arguments so that its answers keep the log-probability of every token.

    Args:
        model: what ``--model`` names, or a ready-made model.
        arguments: its arguments.
        tracker: lm-eval's writer of results; None where a caller gets them.

    Raises:
        NNDError: the model gives sums only, or there is no place for the file.
    """
    if tracker is not None and not tracker.output_path:
        raise NNDError("metadata tokens: the token scores go to a file beside the results; add --output_path FOLDER")
    if not isinstance(model, str):
        if not hasattr(model, "token_scores"):
            raise NNDError(f"metadata tokens: a ready-made {type(model).__name__} gives sums only; {_WHO}")
        model.token_scores = True
        return model, dict(arguments)
    keeping = _KEEPING.get(model, model)
    if keeping not in _KEEPING.values():
        raise NNDError(f"metadata tokens: --model {model} gives sums only; {_WHO}")
    if keeping == SHARED:
        if (reason := why_too_old()) is not None:
            raise NNDError(f"metadata tokens: {reason}")
        import_module("nnd_tasks.models.vllm_shared_prefix")  # registers it
    more = {} if keeping == model else {"shared_prefix": False}
    return keeping, {**arguments, **more, "token_scores": True}


_WHO = "hf and vllm keep the log-probabilities of tokens"
