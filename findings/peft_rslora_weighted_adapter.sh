#!/usr/bin/env bash
# peft 0.21.2: `add_weighted_adapter` on adapters with `use_rslora=True` makes one that is the square root of the rank times
# too strong, also from a single adapter with weight 1. The new adapter has `lora_alpha` equal to its rank, which is a scale
# of 1 for LoRA; `use_rslora` is taken over from the first adapter, and with it the scale is alpha / sqrt(rank).
# Seen for rank 4: 1 without rsLoRA; with it 2 by "linear" and "svd", 2.83 (rank 8) by "cat" of two adapters.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet torch==2.13.0 transformers==5.23.0 peft==0.21.2
cd "$folder"
HF_HUB_OFFLINE=1 "$folder/venv/bin/python" -W ignore - <<'PYTHON'
import peft
import torch
import transformers


def strength(names, how, **settings):
    """Return the norm of the weighted adapter's change of a layer, divided by that of the sum of its parts."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=8, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2
    )
    model = transformers.LlamaForCausalLM(config)
    lora = peft.LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj"], init_lora_weights=False, **settings)
    model = peft.get_peft_model(model, lora, adapter_name="first")
    model.add_adapter("second", lora)
    model.add_weighted_adapter(names, [1.0] * len(names), "both", combination_type=how)
    layer = model.base_model.model.model.layers[0].self_attn.q_proj
    parts = sum(layer.get_delta_weight(name) for name in names)
    return (layer.get_delta_weight("both").norm() / parts.norm()).item()


for names, how, expected in ((["first"], "linear", 2), (["first"], "svd", 2), (["first", "second"], "cat", 8**0.5)):
    plain, stabilized = strength(names, how), strength(names, how, use_rslora=True)
    print(f"{how} of {names}: {plain:.3f}, with use_rslora {stabilized:.3f}")
    assert abs(plain - 1) < 1e-3 and abs(stabilized - expected) < 1e-3
PYTHON
