#!/usr/bin/env bash
# lm-eval 0.4.13: a choice that continues the last word of its context is scored as another text. The context is encoded alone,
# the whole text again, and of the whole's tokens those after the context's number are taken. Where context and choice meet
# within a token, that number counts the joined token as one of the context's, but the model reads the context as it was
# encoded alone. So choices get one and the same sum, whatever the rest of the word is. There is no warning.
# Seen: after "it was un", "likely ." and "happy ." have the sum of "." after "un", to the last digit.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet torch==2.13.0 transformers==5.23.0 'lm-eval[hf]==0.4.13'
cd "$folder"
HF_HUB_OFFLINE=1 "$folder/venv/bin/python" - <<'PYTHON'
import torch
import transformers
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM
from tokenizers import Tokenizer, models, pre_tokenizers

words = Tokenizer(models.WordLevel({w: i for i, w in enumerate("<eos> it was un unlikely unhappy .".split())}, "<eos>"))
words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, eos_token="<eos>")
torch.manual_seed(0)
config = transformers.LlamaConfig(
    vocab_size=7, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, initializer_range=1.0
)
model = transformers.LlamaForCausalLM(config).eval()
harness = HFLM(pretrained=model, tokenizer=tokenizer, batch_size=1)
pairs = [("it was un", "likely ."), ("it was un", "happy ."), ("it was un", " .")]
sums = [total for total, _ in harness.loglikelihood([Instance("loglikelihood", {}, pair, 0) for pair in pairs], disable_tqdm=True)]


def after(text):
    """Return the log-probability of the full stop after a text."""
    with torch.no_grad():
        return float(model(tokenizer(text, return_tensors="pt").input_ids).logits[0, -1].log_softmax(-1)[6])


print("likely:", sums[0], " happy:", sums[1], " nothing:", sums[2])
print("after unlikely:", after("it was unlikely"), " after unhappy:", after("it was unhappy"), " after un:", after("it was un"))
assert sums[0] == sums[1] == sums[2] and abs(sums[0] - after("it was un")) < 1e-5
assert abs(after("it was unlikely") - after("it was un")) > 0.01 and abs(after("it was unhappy") - after("it was un")) > 0.01
PYTHON
