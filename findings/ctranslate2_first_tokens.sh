#!/usr/bin/env bash
# ctranslate2 4.8.5: `Generator.score_batch` scores the first 1,024 tokens of a text (`max_input_length=1024`) and says nothing of the
# rest, also if the model's window is longer: the sum of a long text is too large, that of a short one is not. 0 scores all.
# Seen: 1,500 tokens of a tiny model with a window of 2,048: 1,023 log-probabilities with a sum of -4246.3; with
# `max_input_length=0` 1,499 and -6221.7, as transformers gives. A continuation of token 1,025 and later changes nothing.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet ctranslate2==4.8.5 torch==2.13.0 transformers==5.23.0
cd "$folder"
HF_HUB_OFFLINE=1 "$folder/venv/bin/python" -W ignore - <<'PYTHON'
import ctranslate2
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers

words = [*(f"w{number}" for number in range(60)), "<unk>", "<eos>", "<bos>"]
tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, "<unk>"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
names = {"unk_token": "<unk>", "eos_token": "<eos>", "bos_token": "<bos>"}
transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained("model")
torch.manual_seed(0)
config = transformers.GPT2Config(
    vocab_size=len(words), n_embd=32, n_layer=2, n_head=2, n_positions=2048, bos_token_id=62, eos_token_id=61
)
model = transformers.GPT2LMHeadModel(config).eval()
model.save_pretrained("model")
ctranslate2.converters.TransformersConverter("model").convert("converted")
generator = ctranslate2.Generator("converted", device="cpu")
numbers = torch.randint(0, 60, (1500,))
text = [f"w{number}" for number in numbers.tolist()]


def score(tokens, **settings):
    """Return how many tokens are scored, and their sum."""
    found = generator.score_batch([tokens], **settings)[0].log_probs
    return len(found), sum(found)


with torch.no_grad():
    scores = model(numbers[None]).logits[0, :-1].log_softmax(-1)
expected = scores.gather(1, numbers[1:, None]).sum().item()
cut, whole = score(text), score(text, max_input_length=0)
print("default:", cut, "max_input_length=0:", whole, "transformers:", expected)
assert cut[0] == 1023 and whole[0] == 1499
assert abs(whole[1] - expected) < 0.05 and cut[1] > expected + 1000
assert score(text[:1024] + ["w1"] * 400)[1] == cut[1]
PYTHON
