#!/usr/bin/env bash
# trl 1.16.0: what `RewardTrainer.evaluate` calls accuracy and margin is the mean over batches of each batch's mean, whatever the
# batches' sizes; the loss beside them is the mean over pairs. A last batch of one pair weighs as much as a full one.
# Seen for 3 pairs in batches of 2 and 1, one of them right: loss the mean over pairs, accuracy 0.5 and not 0.333.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet torch==2.13.0 transformers==5.23.0 trl==1.16.0
cd "$folder"
HF_HUB_OFFLINE=1 "$folder/venv/bin/python" -W ignore - <<'PYTHON'
import datasets
import torch
import transformers
import trl
from tokenizers import Tokenizer, models, pre_tokenizers

words = Tokenizer(models.WordLevel({w: i for i, w in enumerate("<eos> the cat dog sat ran home red".split())}, "<eos>"))
words.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, eos_token="<eos>", pad_token="<eos>")
torch.manual_seed(0)
config = transformers.LlamaConfig(
    vocab_size=8,
    hidden_size=16,
    intermediate_size=32,
    num_hidden_layers=1,
    num_attention_heads=2,
    initializer_range=0.5,
    pad_token_id=0,
    eos_token_id=0,
    num_labels=1,
)
model = transformers.LlamaForSequenceClassification(config)
settings = trl.RewardConfig(
    output_dir="out", per_device_eval_batch_size=2, use_cpu=True, bf16=False, report_to=[], disable_tqdm=True
)


def evaluate(pairs):
    data = datasets.Dataset.from_list(pairs)
    trainer = trl.RewardTrainer(model, args=settings, train_dataset=data, eval_dataset=data, processing_class=tokenizer)
    return trainer.evaluate()


def turned(first, second, right):
    """Return the pair in the order in which the model is right or wrong about it, with its own results."""
    for chosen, rejected in ((first, second), (second, first)):
        pair = {"chosen": chosen, "rejected": rejected}
        results = evaluate([pair])
        if results["eval_accuracy"] == right:
            return pair, results
    raise SystemExit("equal rewards")


three = [turned("the cat sat", "the cat", 0), turned("the dog ran home", "the dog sat", 0), turned("red cat", "red home", 1)]
together = evaluate([pair for pair, _ in three])
for name in ("loss", "accuracy", "margin"):
    first, second, third = (results[f"eval_{name}"] for _, results in three)
    of_pairs, of_batches = (first + second + third) / 3, ((first + second) / 2 + third) / 2
    print(f"{name}: {together[f'eval_{name}']:.4f}; mean of pairs {of_pairs:.4f}, of batches {of_batches:.4f}")
    assert abs(together[f"eval_{name}"] - (of_pairs if name == "loss" else of_batches)) < 1e-4
assert together["eval_accuracy"] == 0.5
PYTHON
