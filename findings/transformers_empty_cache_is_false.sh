#!/usr/bin/env bash
# transformers 5.23.0: `len()` of a cache counts its layers, and a `DynamicCache()` makes its layers as they are filled. So a new
# one is false, and `cache or other` and `if cache:` take it for none; one made with a config is true, with nothing in it.
# Whether anything is cached, `get_seq_length()` tells.
# Seen: len 0 and False when new; 2 and True after a text of 3 tokens; 2 and True when new with the config of two layers.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet torch==2.13.0 transformers==5.23.0
cd "$folder"
HF_HUB_OFFLINE=1 "$folder/venv/bin/python" - <<'PYTHON'
import torch
import transformers

config = transformers.LlamaConfig(
    vocab_size=8, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2
)
model = transformers.LlamaForCausalLM(config).eval()
cache, configured = transformers.DynamicCache(), transformers.DynamicCache(config=config)
print("new:", len(cache), bool(cache), " with a config:", len(configured), bool(configured))
assert (len(cache), bool(cache), len(configured), bool(configured)) == (0, False, 2, True)
assert cache.get_seq_length() == configured.get_seq_length() == 0
with torch.no_grad():
    model(torch.tensor([[1, 2, 3]]), past_key_values=cache)
print("after 3 tokens:", len(cache), bool(cache), cache.get_seq_length())
assert (len(cache), bool(cache), cache.get_seq_length()) == (2, True, 3)
PYTHON
