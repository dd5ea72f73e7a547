#!/usr/bin/env bash
# lm-eval 0.4.13 with peft 0.21.2 and transformers 5.23.0: `peft=` of an adapter that saves tied input embeddings
# (modules_to_save) scores another model than PEFT loads. `HFLM.__init__` calls `tie_weights()` once more after it has loaded
# the adapter, and the output layer is tied to the saved embeddings, which in the adapter's training it was not. An adapter
# on the tied output layer itself raises KeyError there.
# Seen: PEFT -4.1127, and after another tie_weights() -81.6706; lm-eval -81.6706; KeyError "attribute 'weight' already exists".
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
    vocab_size=8, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2, tie_word_embeddings=True
)
transformers.LlamaForCausalLM(config).save_pretrained("base")


def adapt(name, **settings):
    model = transformers.AutoModelForCausalLM.from_pretrained("base")
    model = peft.get_peft_model(model, peft.LoraConfig(r=2, task_type="CAUSAL_LM", **settings))
    with torch.no_grad():
        for key, weights in model.named_parameters():
            if "modules_to_save" in key:
                weights.add_(torch.randn_like(weights))
    model.save_pretrained(name)


def total(model):
    with torch.no_grad():
        scores = model.eval()(torch.tensor([[1, 2, 4, 6]])).logits[0].log_softmax(-1)
    return round(float(scores[1, 4] + scores[2, 6]), 4)


adapt("saved", target_modules=["q_proj"], modules_to_save=["embed_tokens"])
adapt("output", target_modules=["lm_head"])
loaded = peft.PeftModel.from_pretrained(transformers.AutoModelForCausalLM.from_pretrained("base"), "saved")
alone = total(loaded)
loaded.tie_weights()
tied = total(loaded)
harness = HFLM(pretrained="base", peft="saved", device="cpu", dtype="float32", batch_size=1)
[(harnessed, _)] = harness._loglikelihood_tokens([(("", ""), [1, 2], [4, 6])], disable_tqdm=True)
print("PEFT:", alone, " after tie_weights():", tied, " lm-eval:", round(harnessed, 4))
assert abs(alone - tied) > 0.05 and abs(harnessed - tied) < 1e-3
try:
    HFLM(pretrained="base", peft="output", device="cpu", dtype="float32", batch_size=1)
except KeyError as error:
    print("KeyError:", error)
    assert "attribute 'weight' already exists" in str(error)
else:
    raise SystemExit("an adapter on a tied output layer is loaded now")
PYTHON
