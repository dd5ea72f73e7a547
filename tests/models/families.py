"""Tiny models of every type that may share prefixes, with and without what makes its type special."""

from __future__ import annotations

from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM

VOCABULARY = 64
#: Most tokens that the models read: more than what recurrent layers read at once.
LENGTH = 100
#: Windows and chunks, shorter than most of the tests' requests.
WINDOW = 8

_SIZE: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": LENGTH,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 0,
}
_HEAD_OF_32 = {**_SIZE, "head_dim": None}
_PLAIN = {name: value for name, value in _SIZE.items() if name != "head_dim"}
_UNGROUPED = {name: value for name, value in _PLAIN.items() if name != "num_key_value_heads"}
_EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 16}
_NUMBERED = {**_SIZE, **_EXPERTS, "num_experts": 4}
_LOCAL = {**_SIZE, **_EXPERTS, "num_local_experts": 4}
_ROUTED = {**_SIZE, **_EXPERTS, "n_routed_experts": 4, "n_group": 2, "topk_group": 1, "first_k_dense_replace": 1}
_LATENT = {
    "kv_lora_rank": 16,
    "q_lora_rank": 16,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 4,
    "v_head_dim": 6,
    "head_dim": 4,
    "num_key_value_heads": 4,
}
_KINDS = {"sliding_window": WINDOW, "layer_types": ["sliding_attention", "full_attention"]}
_SWITCHED = {"sliding_window": WINDOW, "use_sliding_window": True}
_GEMMA_3N = {
    **_SIZE,
    "num_hidden_layers": 4,
    "sliding_window": WINDOW,
    "layer_types": ["sliding_attention", "full_attention"] * 2,
    "num_kv_shared_layers": 2,
    "vocab_size_per_layer_input": VOCABULARY,
    "hidden_size_per_layer_input": 8,
}
_LLAMA_4 = {
    **_LOCAL,
    "intermediate_size_mlp": 32,
    "interleave_moe_layer_step": 2,
    "layer_types": ["chunked_attention", "full_attention"],
    "no_rope_layers": [1, 0],
    "attention_chunk_size": WINDOW,
}
_IMAGES = {
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 28,
    "patch_size": 14,
}

#: Name -> (settings, what `Layout.describe` says of it). The first word of a name is the type.
TINY: dict[str, tuple[dict[str, Any], str]] = {}


def _add(name: str, settings: dict[str, Any], layout: str = "full attention") -> None:
    TINY[name] = settings, layout


_WINDOWS = f"windows of {WINDOW}"
_CHUNKS = f"full attention, chunks of {WINDOW}"
_BOTH = f"full attention, {_WINDOWS}"
for _type in ("apertus", "arcee", "glm4", "helium", "seed_oss", "llama", "gemma"):
    _add(_type, _SIZE)
for _type in ("olmo2", "stablelm"):
    _add(_type, _PLAIN)
for _type in ("gpt2", "gpt_neox", "phi"):
    _add(_type, _UNGROUPED)
_add("gpt_oss", {**_LOCAL, **_KINDS, "experts_per_token": 2}, _BOTH)
_add("opt", {**_PLAIN, "ffn_dim": 32, "word_embed_proj_dim": 32})
for _type in ("qwen2", "qwen3", "ministral", "olmo3", "cohere2", "gemma2", "gemma3_text"):
    _add(_type, {**_SIZE, **_KINDS, "use_sliding_window": True}, _BOTH)
for _type in ("mistral", "starcoder2", "ministral3", "phi3"):
    _add(_type, {**_SIZE, "sliding_window": None})
    _add(f"{_type} window", {**_SIZE, "sliding_window": WINDOW}, _WINDOWS)
for _type in ("mistral", "starcoder2"):  # they do not read the switch
    _add(f"{_type} switch", {**_SIZE, "sliding_window": WINDOW, "use_sliding_window": False}, _WINDOWS)
for _type in ("qwen2", "qwen3", "qwen2_moe", "qwen3_moe"):  # they do
    _add(f"{_type} switch", {**_NUMBERED, "sliding_window": WINDOW, "use_sliding_window": False})
_add(
    "ministral3 scaled",
    {
        **_SIZE,
        "sliding_window": None,
        "rope_parameters": {
            "rope_type": "yarn",
            "rope_theta": 1e4,
            "factor": 4.0,
            "original_max_position_embeddings": 8,
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "mscale": 1.0,
            "mscale_all_dim": 1.0,
            "llama_4_scaling_beta": 0.5,
        },
    },
)
_add("smollm3", {**_SIZE, "no_rope_layers": [1, 0]})
_add("smollm3 window", {**_SIZE, **_SWITCHED, "no_rope_layers": [1, 0]}, _BOTH)
_add("cohere", {**_SIZE, "logit_scale": 0.3})
_add("cohere2_moe", {**_NUMBERED, **_KINDS, "num_shared_experts": 1, "logit_scale": 0.3}, _BOTH)
_add(
    "granite",
    {
        **_SIZE,
        "logits_scaling": 3.0,
        "embedding_multiplier": 2.0,
        "residual_multiplier": 0.5,
        "attention_multiplier": 0.4,
    },
)
_add("granitemoe", {**_LOCAL, "logits_scaling": 3.0})
_add("nanochat", {**_SIZE, "final_logit_softcapping": 2.0})
_add("gemma2 capped", {**_SIZE, **_KINDS, "final_logit_softcapping": 1.5, "attn_logit_softcapping": 1.0}, _BOTH)
_add("gemma3_text capped", {**_SIZE, **_KINDS, "final_logit_softcapping": 2.0}, _BOTH)
_add(
    "gemma3",
    {
        "text_config": {**_SIZE, **_KINDS, "final_logit_softcapping": 2.0},
        "vision_config": _IMAGES,
        "mm_tokens_per_image": 4,
        "image_token_index": 60,
        "boi_token_index": 61,
        "eoi_token_index": 62,
    },
    _BOTH,
)
_add(
    "gemma3n_text",
    {**_GEMMA_3N, "final_logit_softcapping": 2.0, "activation_sparsity_pattern": [0.5, 0.5, 0.0, 0.0]},
    _BOTH,
)
_add("gemma4_text", {**_GEMMA_3N, "num_experts": None, "top_k_experts": None, "global_head_dim": 16}, _BOTH)
_add(
    "gemma4_text experts",
    {
        **_GEMMA_3N,
        "num_kv_shared_layers": 0,
        "enable_moe_block": True,
        "num_experts": 4,
        "top_k_experts": 2,
        "moe_intermediate_size": 16,
        "attention_k_eq_v": True,
        "num_global_key_value_heads": 1,
        "hidden_size_per_layer_input": 0,
        "final_logit_softcapping": 2.0,
    },
    _BOTH,
)
_add(
    "gemma4",
    {
        "text_config": _GEMMA_3N,
        "vision_config": {**_IMAGES, "num_key_value_heads": 2, "head_dim": 8},
        "audio_config": None,
    },
    _BOTH,
)
_add("exaone4", {**_SIZE, **_KINDS, "sliding_window_pattern": 2}, _BOTH)
_add("afmoe", {**_NUMBERED, **_KINDS, "num_dense_layers": 1, "num_shared_experts": 1}, _BOTH)
_add("mimo_v2_flash", {**_ROUTED, **_KINDS, "v_head_dim": 4}, _BOTH)
_add("llama4_text", {**_LLAMA_4, "attn_temperature_tuning": False}, _CHUNKS)
_add("llama4_text tuned", {**_LLAMA_4, "floor_scale": 4, "attn_scale": 1.0}, _CHUNKS)
_add("llama4", {"text_config": {**_LLAMA_4, "floor_scale": 4}, "vision_config": {}}, _CHUNKS)
for _type in ("olmoe", "flex_olmo", "hy_v3"):
    _add(_type, {**_NUMBERED, "num_shared_experts": 1})
_add("qwen2_moe", {**_NUMBERED, "shared_expert_intermediate_size": 16})
_add(
    "qwen2_moe window", {**_NUMBERED, **_SWITCHED, "shared_expert_intermediate_size": 16, "max_window_layers": 1}, _BOTH
)
_add("qwen3_moe", _NUMBERED)
_add("qwen3_moe window", {**_NUMBERED, **_SWITCHED}, _WINDOWS)
_add("mixtral", {**_LOCAL, "sliding_window": None})
_add("mixtral window", {**_LOCAL, "sliding_window": WINDOW}, _WINDOWS)
_add("phimoe", {**_LOCAL, "sliding_window": WINDOW, "lm_head_bias": True}, _WINDOWS)
_add("minimax_m2", _LOCAL)
_add("glm4_moe", {**_ROUTED, "n_shared_experts": 1, "use_qk_norm": True})
_add("dots1", {**_ROUTED, **_KINDS, "n_shared_experts": 1}, _BOTH)
_add("deepseek_v2", {**_ROUTED, **_LATENT, "topk_method": "group_limited_greedy", "n_shared_experts": 1})
_add("deepseek_v3", {**_ROUTED, **_LATENT, "n_shared_experts": 1})
_FALCON = {**_PLAIN, "num_kv_heads": 2}
_BIASES = "full attention with linear biases"
_add("bloom", {**_PLAIN, "n_layer": 2, "n_head": 6, "hidden_size": 24}, _BIASES)  # 6 heads: no power of 2
_add("mpt", {**_PLAIN, "d_model": 24, "n_heads": 6, "n_layers": 2, "max_seq_len": LENGTH}, _BIASES)
_add("falcon", _FALCON | {"num_attention_heads": 6, "hidden_size": 24, "alibi": True}, _BIASES)
_add("falcon rotary", {**_FALCON, "new_decoder_architecture": True})
_add("falcon parallel", {**_FALCON, "multi_query": True, "parallel_attn": True})

_COMMON = set(TINY)
for _type in ("glm", "ernie4_5", "jais2", "nemotron", "hunyuan_v1_dense", "internlm3", "iquestcoder"):
    _add(_type, _SIZE)
for _type in ("olmo", "persimmon"):
    _add(_type, _PLAIN)
_add("gpt_bigcode", _UNGROUPED)
_add("gptj", {**_UNGROUPED, "rotary_dim": 4})
_add("codegen", {**_UNGROUPED, "rotary_dim": 4})
_add("cwm", {**_SIZE, **_KINDS}, _BOTH)
_add("mellum", {**_NUMBERED, **_KINDS}, _BOTH)
_add("laguna", {**_NUMBERED, **_KINDS}, _BOTH)
_add("vaultgemma", {**_SIZE, **_KINDS, "final_logit_softcapping": 2.0}, _BOTH)
_add("granite_swa", {**_SIZE, **_KINDS, "logits_scaling": 3.0}, _BOTH)
_add("granitemoe_swa", {**_LOCAL, **_KINDS, "logits_scaling": 3.0}, _BOTH)
_add("granitemoeshared", {**_LOCAL, "logits_scaling": 3.0, "shared_intermediate_size": 16})
_add("hyperclovax", {**_SIZE, "logits_scaling": 0.3})
_add("hunyuan_v1_moe", {**_NUMBERED, "moe_topk": 2})
_add("solar_open", {**_ROUTED, "n_shared_experts": 1})
_SPARSE = {"mlp_layer_types": ["dense", "sparse"]}
_add("glm4_moe_lite", {**_ROUTED, **_LATENT, **_SPARSE, "n_shared_experts": 1})
_add("exaone_moe", {**_NUMBERED, **_KINDS, **_SPARSE, "num_shared_experts": 1}, _BOTH)
_ERNIE = {"moe_num_experts": 4, "moe_k": 2, "moe_num_shared_experts": 1, "moe_layer_start_index": 0}
_add("ernie4_5_moe", {**_SIZE, **_ERNIE, "moe_intermediate_size": 16, "moe_layer_interval": 1})

#: Types that few people run.
RARE = set(TINY) - _COMMON

# Types with recurrent layers, each with all kinds of its layers.
_MIXED = {**_SIZE, "num_hidden_layers": 3}
_GATED = {
    **_MIXED,
    "layer_types": ["linear_attention", "full_attention", "linear_attention"],
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
}
_SHARED = {**_EXPERTS, "num_experts": 4, "shared_expert_intermediate_size": 16}
_MAMBA = {"mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_state": 8, "mamba_n_groups": 1, "mamba_chunk_size": 16}
_MAMBA_2 = {"num_heads": 4, "head_dim": 16, "state_size": 8, "n_groups": 1, "chunk_size": 16}
for _name, _settings in {
    "qwen3_next": {**_GATED, **_SHARED, "mlp_only_layers": [1]},
    "qwen3_5_text": _GATED,
    "qwen3_5_moe_text": {**_GATED, **_SHARED},
    "qwen3_5": {  # what `AutoModelForCausalLM` makes of a checkpoint that could see
        "text_config": {**_GATED, "tie_word_embeddings": True},
        "vision_config": {"depth": 1, "hidden_size": 16, "num_heads": 2},
    },
    "olmo_hybrid": {**_GATED, "linear_num_key_heads": 4, "tie_word_embeddings": True},
    "kimi_linear": {
        **_GATED,
        **_LATENT,
        "num_key_value_heads": 4,
        "mlp_layer_types": ["dense", "sparse", "sparse"],
        "linear_head_dim": 8,
        "linear_num_heads": 4,
        "n_shared_experts": 1,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 16,
    },
    "granitemoehybrid": {
        **_MIXED,
        **_MAMBA,
        "layer_types": ["mamba", "attention", "mamba"],
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "shared_intermediate_size": 16,
        "logits_scaling": 0.7,
        "position_embedding_type": "rope",
    },
    "bamba": {**_SIZE, **_MAMBA, "attn_layer_indices": [1]},
    "nemotron_h": {
        **_ROUTED,
        "layers_block_type": ["mamba", "moe", "attention", "mamba", "mlp"],
        "num_hidden_layers": None,
        "mamba_num_heads": 4,
        "mamba_head_dim": 16,
        "ssm_state_size": 8,
        "n_groups": 2,
        "chunk_size": 16,
        "n_group": 1,
        "moe_shared_expert_intermediate_size": 16,
    },
    "falcon_h1": {**_SIZE, **_MAMBA, "mamba_d_ssm": 64, "lm_head_multiplier": 0.5},
    "lfm2": {**_MIXED, "full_attn_idxs": [1], "conv_bias": True},
    "lfm2_moe": {**_MIXED, **_SHARED, "num_dense_layers": 1, "layer_types": ["conv", "full_attention", "conv"]},
    "mamba2": {**_SIZE, **_MAMBA_2},
}.items():
    _add(_name, _settings, "recurrent layers")

# Encoder-decoders.
_T5 = {
    "vocab_size": VOCABULARY,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 64,
    "num_layers": 2,
    "num_heads": 4,
    "dropout_rate": 0.0,
}
_T5 |= {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0, "n_positions": LENGTH}
_BART = {"vocab_size": VOCABULARY, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 64}
_BART |= {
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "decoder_ffn_dim": 64,
    "decoder_start_token_id": 1,
}
_BART |= {"max_position_embeddings": LENGTH, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 0}
_add("t5", _T5)
_add("t5 gated", {**_T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False})
_add("mt5", _T5)
for _type in ("bart", "mbart", "pegasus"):
    _add(_type, _BART)
_GEMMA = {**_SIZE, "query_pre_attn_scalar": 8, "sliding_window": WINDOW, "attn_logit_softcapping": 3.0}
_GEMMA |= {"final_logit_softcapping": 2.0, "bos_token_id": 2}
for _name, _more in {
    "t5gemma": {},
    "t5gemma uncapped": {"final_logit_softcapping": None},
    "t5gemma exchanged": {"layer_types": ["full_attention", "sliding_attention"]},
}.items():
    _add(_name, {"encoder": _GEMMA, "decoder": {**_GEMMA, **_more}, "vocab_size": VOCABULARY}, _BOTH)


def tiny(name: str) -> Any:
    """Return a model of random weights that are large enough to show a wrong mask or a lost state."""
    config = AutoConfig.for_model(name.split()[0], **TINY[name][0])
    torch.manual_seed(0)
    kind = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    model = kind.from_config(config)
    with torch.no_grad():
        for path, parameter in model.named_parameters():
            if path.endswith("A_log"):
                parameter.sub_(3.0)  # states fade more slowly
            elif parameter.ndim > 1 or not parameter.any():
                # With larger weights, rounding alone exceeds what the tests allow.
                parameter.normal_(0, 0.25 if TINY[name][1] == "recurrent layers" else 0.3)
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.normal_()
    return model.eval()
