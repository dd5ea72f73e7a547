"""Write a small Llama as a GGUF file: ``python write_gguf.py FOLDER OUT ADD_BOS``; needs ``gguf``, in llama.cpp's environment.

FOLDER has ``config.json`` and ``tokenizer.json`` (byte-level BPE, split as GPT-2's) of a Hugging Face model, and its weights
in float32 in ``weights.npz``. ADD_BOS is 1 if the file is to say that a prompt begins with BOS, else 0.
"""

import json
import sys
from pathlib import Path

import gguf
import numpy as np


def pairs_of_rotary(weight, heads):
    """Return rows of queries or keys as llama.cpp rotates them: numbers next to each other, where transformers takes halves."""
    rows, width = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, width).swapaxes(1, 2).reshape(rows, width)


def write(folder, out, *, add_bos):
    config = json.loads((folder / "config.json").read_text("utf-8"))
    tokenizer = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    layers, heads, groups = (config[f"num_{name}"] for name in ("hidden_layers", "attention_heads", "key_value_heads"))
    to = gguf.GGUFWriter(out, "llama")
    to.add_context_length(config["max_position_embeddings"])
    to.add_embedding_length(config["hidden_size"])
    to.add_block_count(layers)
    to.add_feed_forward_length(config["intermediate_size"])
    to.add_head_count(heads)
    to.add_head_count_kv(groups)
    to.add_layer_norm_rms_eps(config["rms_norm_eps"])
    to.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    to.add_rope_dimension_count(config["head_dim"])
    to.add_vocab_size(config["vocab_size"])

    special = {token["id"] for token in tokenizer["added_tokens"]}
    vocabulary = sorted(tokenizer["model"]["vocab"].items(), key=lambda item: item[1])
    to.add_tokenizer_model("gpt2")
    to.add_tokenizer_pre("gpt-2")
    to.add_token_list([token for token, _ in vocabulary])
    to.add_token_types([gguf.TokenType.CONTROL if i in special else gguf.TokenType.NORMAL for _, i in vocabulary])
    to.add_token_merges([" ".join(pair) for pair in tokenizer["model"]["merges"]])
    to.add_bos_token_id(config["bos_token_id"])
    to.add_eos_token_id(config["eos_token_id"])
    to.add_add_bos_token(add_bos)

    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, layers)
    for name, weight in np.load(folder / "weights.npz").items():
        if "q_proj" in name or "k_proj" in name:
            weight = pairs_of_rotary(weight, heads if "q_proj" in name else groups)
        to.add_tensor(names.get_name(name, try_suffixes=(".weight",)), np.ascontiguousarray(weight))
    to.write_header_to_file()
    to.write_kv_data_to_file()
    to.write_tensors_to_file()
    to.close()


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]), add_bos=sys.argv[3] == "1")
