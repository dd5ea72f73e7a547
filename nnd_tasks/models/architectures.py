"""Which models may share prefixes; the scores of other models might change."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch
from transformers import PreTrainedModel

#: ``model_type`` of the decoder-only architectures that take a mask of four dimensions and explicit positions, and whose
#: logits are one linear layer of the final hidden states.
CAUSAL = {
    "gpt2",
    "llama",
    "mistral",
    "qwen2",
    "qwen3",
    "gpt_neox",
    "opt",
    "phi",
    "gemma",
    "olmo2",
    "starcoder2",
    "stablelm",
}
#: ``model_type`` of those with recurrent layers, which read on from a state, several tokens at once, as if they had read all
#: before it (transformers 5.23).
HYBRID = {
    "qwen3_next",
    "qwen3_5",
    "qwen3_5_text",
    "qwen3_5_moe",
    "qwen3_5_moe_text",
    "granitemoehybrid",
    "nemotron_h",
    "olmo_hybrid",
    "lfm2",
    "lfm2_moe",
    "falcon_h1",
    "kimi_linear",
    "mamba2",
}
#: Those of `HYBRID` whose recurrent layers are delta rules, which read chunks of 64 tokens that no config names.
DELTA_RULE = {"qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text", "olmo_hybrid", "kimi_linear"}
#: Encoder-decoders whose decoder reuses the keys and values of the encoder's output from a cache.
SEQ2SEQ = {"t5", "mt5", "bart", "mbart", "pegasus"}

#: The types of `CAUSAL` whose sliding window ``use_sliding_window`` turns on or off (transformers 5.23); the others have a
#: window whenever ``sliding_window`` is set.
WINDOW_SWITCH = {"qwen2", "qwen3"}

#: Kinds of rotary embedding whose frequencies do not depend on the length of the input.
ROPE = {"default", "linear", "llama3", "yarn"}

_WINDOW_NAME = re.compile("window|chunk|local|d_conv|conv_kernel|conv_L_cache")


def why_unsuitable(model: Any, inner: Any, backend: str) -> str | None:
    """Return why a model cannot share prefixes; None if it may be tried.

    Args:
        model: the model with its adapters.
        inner: the transformers model without them.
        backend: ``causal`` or ``seq2seq``.
    """
    config = inner.config
    text = getattr(config, "text_config", None) or config
    known = SEQ2SEQ if backend == "seq2seq" else CAUSAL | HYBRID
    hybrid = backend != "seq2seq" and config.model_type in HYBRID
    if config.model_type not in known:
        return f"the architecture {config.model_type} is not known to allow it"
    switched_off = config.model_type in WINDOW_SWITCH and not getattr(text, "use_sliding_window", True)
    if getattr(text, "sliding_window", None) is not None and not switched_off and not hybrid:
        return "sliding-window attention"
    kinds = set(getattr(text, "layer_types", None) or ["full_attention"])
    if kinds != {"full_attention"} and not hybrid:
        return f"attention layers of other kinds ({', '.join(sorted(kinds - {'full_attention'}))})"
    for name in ("attn_logit_softcapping", "final_logit_softcapping", "logit_scale", "logits_scaling"):
        if getattr(text, name, None) and not hybrid:
            return f"its config sets {name}"
    ropes = {kind for kind in _rope_kinds(text) if kind not in ROPE}
    if ropes:
        return f"rotary embeddings of type {min(ropes)} depend on how much is read at once"
    if getattr(config, "quantization_config", None) or getattr(inner, "is_quantized", False):
        return "a quantized model, whose numbers depend on what is read together"
    if not type(inner).__module__.startswith("transformers.models."):
        return f"{type(inner).__name__} is not part of transformers"
    if getattr(config, "_attn_implementation", "sdpa") not in ("sdpa", "eager"):
        return f"attn_implementation={config._attn_implementation} takes no custom mask"
    for adapter in (getattr(model, "peft_config", None) or {}).values():
        if adapter.is_prompt_learning or getattr(adapter, "alora_invocation_tokens", None):
            return "an adapter that looks at the whole prompt"
    if not isinstance(inner.get_output_embeddings(), torch.nn.Linear):
        return "its output layer is not a plain linear layer"
    if not hasattr(model, "get_base_model") and not isinstance(model, PreTrainedModel):
        return f"the model is wrapped in {type(model).__name__}"
    return None


def head_scale(config: Any) -> float:
    """Return the factor of a hybrid's logits, after the output layer."""
    if config.model_type == "granitemoehybrid":
        return 1 / float(config.logits_scaling)
    return float(config.lm_head_multiplier) if config.model_type == "falcon_h1" else 1.0


def windows(config: Any) -> set[int]:
    """Return all positive whole numbers in a model's config whose name tells of a window, a chunk or a convolution.

    Not all of them count tokens: ``max_window_layers``, for example, counts layers.
    """
    sizes: set[int] = {64} if config.model_type in DELTA_RULE else set()
    waiting: list[tuple[bool, Any]] = [(False, config.to_dict())]
    while waiting:
        named, value = waiting.pop()
        if isinstance(value, Mapping):
            waiting += [(bool(_WINDOW_NAME.search(str(name))), part) for name, part in value.items()]
        elif isinstance(value, (list, tuple)):
            waiting += [(named, part) for part in value]
        elif named and isinstance(value, int) and not isinstance(value, bool) and value > 0:
            sizes.add(value)
    return sizes


def _rope_kinds(config: Any) -> set[str]:
    """Return the kinds of rotary embedding that a config names, for all layers or for each type of layer."""
    settings = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    parts = [settings, *(part for part in settings.values() if isinstance(part, Mapping))]
    return {str(part.get("rope_type") or part.get("type")) for part in parts} - {"None"}
