#!/usr/bin/env bash
# lm-eval 0.4.13: with `peft=`, `HFLM._create_model` resizes the embeddings to the length of the tokenizer before it loads the
# adapter. A model whose vocabulary is padded (16 rows for 8 tokens here) loses the other rows, and every softmax is over
# fewer tokens. An adapter that changes nothing (its B is zero) changes every log-likelihood.
# Seen: rows 16 without and 8 with the adapter; log-likelihood -7.8305 without and -6.2454 with it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet torch==2.13.0 transformers==5.23.0 peft==0.21.2 'lm-eval[hf]==0.4.13'
cd "$folder"
HF_HUB_OFFLINE=1 "$folder/venv/bin/python" - <<'PYTHON'
import peft
import torch
import transformers
from lm_eval.models.huggingface import HFLM
from tokenizers import Tokenizer, models, pre_tokenizers

words = Tokenizer(models.WordLevel({w: i for i, w in enumerate("<eos> the cat dog sat ran home red".split())}, "<eos>"))
words.pre_tokenizer = pre_tokenizers.Whitespace()
transformers.PreTrainedTokenizerFast(tokenizer_object=words, eos_token="<eos>").save_pretrained("base")
torch.manual_seed(0)
config = transformers.LlamaConfig(
    vocab_size=16,
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=2,
    num_attention_heads=2,
    initializer_range=0.3,
    eos_token_id=0,
)
transformers.LlamaForCausalLM(config).save_pretrained("base")
model = transformers.AutoModelForCausalLM.from_pretrained("base")
peft.get_peft_model(model, peft.LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM")).save_pretrained("adapter")
seen = {}
for adapter in (None, "adapter"):
    harness = HFLM(pretrained="base", peft=adapter, device="cpu", dtype="float32", batch_size=1)
    [(total, _)] = harness._loglikelihood_tokens([(("", ""), [1, 2], [4, 6])], disable_tqdm=True)
    seen[adapter] = (harness.model.get_output_embeddings().weight.shape[0], round(total, 4))
    print(f"peft={adapter}: {seen[adapter][0]} rows, log-likelihood {seen[adapter][1]}")
assert seen[None][0] == 16 and seen["adapter"][0] == 8
assert seen["adapter"][1] > seen[None][1] + 1
PYTHON
