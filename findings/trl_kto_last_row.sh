#!/usr/bin/env bash
# trl 1.16.0: `KTOTrainer` estimates the KL divergence on texts that do not belong to their prompts: within a batch, each prompt
# gets another row's. If the number of rows leaves a last batch of one, that row gets its own text.
# Seen for three rows in batches of two: the first two exchange their texts, the third has its own.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet torch==2.13.0 transformers==5.23.0 trl==1.16.0
cd "$folder"
HF_HUB_OFFLINE=1 "$folder/venv/bin/python" -W ignore - <<'PYTHON'
import datasets
import transformers
import trl
from tokenizers import Tokenizer, models, pre_tokenizers

words = Tokenizer(models.WordLevel({w: i for i, w in enumerate("<eos> the cat dog sat ran home red".split())}, "<eos>"))
words.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, eos_token="<eos>", pad_token="<eos>")
tokenizer.save_pretrained("model")
config = transformers.LlamaConfig(
    vocab_size=8, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, pad_token_id=0
)
transformers.LlamaForCausalLM(config).save_pretrained("model")
rows = [
    {"prompt": "the cat", "completion": " sat", "label": True},
    {"prompt": "the dog", "completion": " ran", "label": False},
    {"prompt": "red", "completion": " home", "label": True},
]
settings = trl.KTOConfig(
    output_dir="out", per_device_train_batch_size=2, use_cpu=True, bf16=False, report_to=[], disable_tqdm=True
)
model = transformers.AutoModelForCausalLM.from_pretrained("model")
data = datasets.Dataset.from_list(rows)
trainer = trl.KTOTrainer(model, args=settings, train_dataset=data, processing_class=tokenizer)
seen = [(tokenizer.decode(r["completion_ids"]), tokenizer.decode(r["KL_completion_ids"])) for r in trainer.train_dataset]
print("own text, text for the divergence:", seen)
assert [own == other for own, other in seen] == [False, False, True]
PYTHON
