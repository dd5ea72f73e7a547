#!/usr/bin/env bash
# llama-cpp-python 0.3.36 (llama.cpp of it), on a CPU: what a text gets depends on what is read together with it, in two ways.
# Flash attention adds up tiles of 64 x 64 cells where 64 rows or more are read at once (`use_tiled`, ggml-cpu/ops.cpp), and in
# a unified cache a text's cells lie elsewhere in the tiles than alone; with fewer rows it goes cell by cell, and skips others.
# Weights that are laid out anew are multiplied with tiles of 4 rows (16 with AVX-512), and rows that are left over by other
# functions, which round activations otherwise (`forward_mul_mat`, ggml-cpu/repack.cpp). Rounded activations make much of a last
# bit. The head has rows of its own: those whose logits are asked for.
# Seen (AVX-512), largest difference of a log-probability alone and behind another text, Q4_K_M: 0.14 nats with n_ubatch=512;
# 4.6e-06 with n_ubatch=48; 0 with n_ubatch=48 where all pieces, and the logits asked for, are filled up to 16 rows.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet llama-cpp-python==0.3.36 gguf==0.19.0 # compiles: some 20 minutes on two cores
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import ctypes

import gguf
import llama_cpp
import numpy as np

WIDTH, WORDS, TILE = 256, 512, 16
draw = np.random.default_rng(0)
to = gguf.GGUFWriter("f32.gguf", "llama")
to.add_context_length(1024)
to.add_embedding_length(WIDTH)
to.add_block_count(2)
to.add_feed_forward_length(WIDTH)
to.add_head_count(4)
to.add_layer_norm_rms_eps(1e-5)
to.add_rope_dimension_count(WIDTH // 4)
to.add_vocab_size(WORDS)
to.add_tokenizer_model("none")
shapes = {"token_embd": WORDS, "output": WORDS, **{f"blk.{i}.{name}": WIDTH for i in (0, 1) for name in (
    "attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")}}
for name, rows in shapes.items():
    to.add_tensor(f"{name}.weight", draw.normal(0, 0.15, (rows, WIDTH)).astype(np.float32))
for name in ("output_norm", *(f"blk.{i}.{name}" for i in (0, 1) for name in ("attn_norm", "ffn_norm"))):
    to.add_tensor(f"{name}.weight", np.ones(WIDTH, np.float32))
to.write_header_to_file()
to.write_kv_data_to_file()
to.write_tensors_to_file()
to.close()

quiet = llama_cpp.llama_log_callback(lambda *_: None)
llama_cpp.llama_log_set(quiet, None)
how = llama_cpp.llama_model_quantize_default_params()
how.ftype = llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_K_M
assert llama_cpp.llama_model_quantize(b"f32.gguf", b"q4_k_m.gguf", ctypes.byref(how)) == 0
model = llama_cpp.llama_model_load_from_file(b"q4_k_m.gguf", llama_cpp.llama_model_default_params())


def read(texts, piece, fill):
    """Return the log-probabilities of the next token after each token of the last text, shape (tokens, words)."""
    settings = llama_cpp.llama_context_default_params()
    settings.n_ctx, settings.n_batch, settings.n_ubatch, settings.n_seq_max = 1024, 512, piece, 8
    settings.kv_unified, settings.flash_attn_type, settings.n_threads_batch = True, 1, 1
    context = llama_cpp.llama_init_from_model(model, settings)
    rows = [(token, at, which) for which, text in enumerate(texts) for at, token in enumerate(text)]
    wanted = [which == len(texts) - 1 for _, _, which in rows]
    if fill:
        more = -len(rows) % TILE
        rows, wanted = rows + [(0, at, len(texts)) for at in range(more)], wanted + [True] * more
    found = []
    for start in range(0, len(rows), piece):
        part, asked = rows[start : start + piece], wanted[start : start + piece]
        own = list(asked)
        if fill and any(asked):
            asked = [True] * len(asked)
        batch = llama_cpp.llama_batch_init(len(part), 0, 1)
        batch.n_tokens = len(part)
        for i, (token, at, which) in enumerate(part):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, at, 1, asked[i]
            batch.seq_id[i][0] = which
        assert llama_cpp.llama_decode(context, batch) == 0
        found += [np.array(llama_cpp.llama_get_logits_ith(context, i)[:WORDS]) for i, one in enumerate(own) if one]
        llama_cpp.llama_batch_free(batch)
    llama_cpp.llama_free(context)
    logits = np.array(found)[: len(texts[-1])]
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


first, second = (draw.integers(0, WORDS, size).tolist() for size in (37, 101))
seen = {}
for piece, fill in ((512, False), (48, False), (48, True)):
    seen[piece, fill] = float(abs(read([second], piece, fill) - read([first, second], piece, fill)).max())
    print(f"n_ubatch={piece}, {'filled up' if fill else 'as they are'}: alone and behind another text differ by {seen[piece, fill]:.2g}")
assert seen[512, False] > 1e-3 and seen[48, False] > 0 and seen[48, True] == 0
PYTHON
