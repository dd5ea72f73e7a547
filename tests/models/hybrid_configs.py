"""Tiny configs of every type with recurrent layers, each with all kinds of its layers."""

from __future__ import annotations

from typing import Any

import transformers as tf

WORDS, WINDOW = 211, 100
ENDS = {"vocab_size": WORDS, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 0}
SMALL = {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4, "max_position_embeddings": 256, **ENDS}
GROUPED = {**SMALL, "num_key_value_heads": 2}
DELTA = {
    **GROUPED,
    "num_hidden_layers": 3,
    "layer_types": ["linear_attention", "full_attention", "linear_attention"],
    "head_dim": 8,
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
SHARED = {**EXPERTS, "shared_expert_intermediate_size": 16}
MAMBA = {
    "mamba_n_heads": 4,
    "mamba_d_head": 16,
    "mamba_d_state": 8,
    "mamba_n_groups": 1,
    "mamba_chunk_size": 16,
}

#: Architecture -> (config class, its arguments).
MODELS: dict[str, tuple[Any, dict[str, Any]]] = {
    "qwen3_next": (tf.Qwen3NextConfig, {**DELTA, **SHARED, "mlp_only_layers": [1]}),
    "qwen3_5_text": (tf.Qwen3_5TextConfig, DELTA),
    "qwen3_5_moe_text": (tf.Qwen3_5MoeTextConfig, {**DELTA, **SHARED}),
    "olmo_hybrid": (tf.OlmoHybridConfig, {**DELTA, "linear_num_key_heads": 4, "tie_word_embeddings": True}),
    "kimi_linear": (
        tf.KimiLinearConfig,
        {
            **SMALL,
            "num_hidden_layers": 3,
            "layer_types": ["linear_attention", "full_attention", "linear_attention"],
            "mlp_layer_types": ["dense", "sparse", "sparse"],
            "linear_head_dim": 8,
            "linear_num_heads": 4,
            "kv_lora_rank": 8,
            "qk_rope_head_dim": 4,
            "qk_nope_head_dim": 8,
            "v_head_dim": 8,
            "n_shared_experts": 1,
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 16,
        },
    ),
    "granitemoehybrid": (
        tf.GraniteMoeHybridConfig,
        {
            **GROUPED,
            **MAMBA,
            "num_hidden_layers": 3,
            "layer_types": ["mamba", "attention", "mamba"],
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "shared_intermediate_size": 16,
            "logits_scaling": 0.7,
            "embedding_multiplier": 3.0,
            "position_embedding_type": "rope",
        },
    ),
    "bamba": (tf.BambaConfig, {**GROUPED, **MAMBA, "num_hidden_layers": 2, "attn_layer_indices": [1]}),
    "nemotron_h": (
        tf.NemotronHConfig,
        {
            **GROUPED,
            "layers_block_type": ["mamba", "moe", "attention", "mamba", "mlp"],
            "head_dim": 8,
            "mamba_num_heads": 4,
            "mamba_head_dim": 16,
            "ssm_state_size": 8,
            "n_groups": 2,
            "chunk_size": 16,
            "n_routed_experts": 4,
            "num_experts_per_tok": 2,
            "n_group": 1,
            "topk_group": 1,
            "moe_intermediate_size": 16,
            "moe_shared_expert_intermediate_size": 16,
        },
    ),
    "falcon_h1": (
        tf.FalconH1Config,
        {**GROUPED, **MAMBA, "mamba_d_ssm": 64, "num_hidden_layers": 2, "lm_head_multiplier": 0.5},
    ),
    "lfm2": (tf.Lfm2Config, {**GROUPED, "num_hidden_layers": 3, "full_attn_idxs": [1], "conv_bias": True}),
    "lfm2_moe": (
        tf.Lfm2MoeConfig,
        {
            **GROUPED,
            **EXPERTS,
            "num_hidden_layers": 3,
            "num_dense_layers": 1,
            "layer_types": ["conv", "full_attention", "conv"],
        },
    ),
    "mamba2": (
        tf.Mamba2Config,
        {
            **ENDS,
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "state_size": 8,
            "num_heads": 4,
            "head_dim": 16,
            "n_groups": 1,
            "chunk_size": 16,
        },
    ),
}
#: Those that cannot read on from a state: they take the plain path.
PLAIN: dict[str, tuple[Any, dict[str, Any]]] = {
    "mamba": (tf.MambaConfig, {**ENDS, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8}),
    "jamba": (
        tf.JambaConfig,
        {**GROUPED, "num_hidden_layers": 2, "attn_layer_period": 2, "attn_layer_offset": 1, "mamba_d_state": 8},
    ),
}
