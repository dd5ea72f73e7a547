"""Everything that the engine imports from lm-eval, the same in releases 0.4.13 and 0.5."""

from __future__ import annotations

from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM, TemplateLM, hash_args
from lm_eval.api.registry import get_model, register_model
from lm_eval.models.huggingface import HFLM

__all__ = ["HFLM", "LM", "Instance", "TemplateLM", "get_model", "hash_args", "register_model", "vllm_class"]


def vllm_class() -> Any:
    """Return lm-eval's `VLLM`. A vLLM that does not fit can raise any error in this import."""
    from lm_eval.models.vllm_causallms import VLLM

    return VLLM
