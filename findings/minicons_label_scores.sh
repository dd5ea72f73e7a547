#!/usr/bin/env bash
# minicons 0.3.39: `fixed_label_score` of a label with several tokens is not its log-probability. It lets the model generate, and takes
# the probability of the label's second token behind the token that was generated (the greedy one), not behind the label's
# first token (`scorer.py`). `conditional_score` reads the label itself. Labels of one token are right.
# Seen with a tiny model: "not good" has -6.69 for -5.88, "not at all" -7.70 for -8.06.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet minicons==0.3.39 torch==2.13.0 transformers==5.23.0
cd "$folder"
HF_HUB_OFFLINE=1 "$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch
import transformers
from minicons.scorer import IncrementalLMScorer
from tokenizers import Tokenizer, models, pre_tokenizers

words = "<eos> the cat sat is not good at all bad".split()
tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, "<eos>"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
names = dict.fromkeys(("eos_token", "pad_token", "bos_token", "unk_token"), "<eos>")
transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained("model")
torch.manual_seed(3)
config = transformers.GPT2Config(
    vocab_size=10, n_embd=16, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0, pad_token_id=0, initializer_range=0.6
)
model = transformers.GPT2LMHeadModel(config).eval()
model.save_pretrained("model")


def following(text):
    """Return the log-probability of each word behind a text."""
    with torch.no_grad():
        scores = model(torch.tensor([[words.index(word) for word in text.split()]])).logits[0, -1].log_softmax(-1)
    return dict(zip(words, scores.tolist()))


scorer, prompt, labels = IncrementalLMScorer("model", "cpu"), "the cat is", ["good", "not good", "not at all"]
found = scorer.fixed_label_score([prompt], labels)[0].tolist()
right = scorer.conditional_score([prompt] * 3, labels, reduction=lambda scores: scores.sum().item())
print("labels:", dict(zip(labels, found)), "right:", dict(zip(labels, right)))
greedy = max(words, key=following(prompt).get)
assert greedy != "not" and abs(found[0] - right[0]) < 1e-3
assert abs(right[1] - following(prompt)["not"] - following(f"{prompt} not")["good"]) < 1e-3
assert abs(found[1] - following(prompt)["not"] - following(f"{prompt} {greedy}")["good"]) < 1e-3
assert abs(found[1] - right[1]) > 0.1 and abs(found[2] - right[2]) > 0.1
PYTHON
