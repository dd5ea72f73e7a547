"""The share of prompts whose tests all pass is the accuracy of lm-eval's own task on the same documents."""

import json
import random

from tests.random_models import evaluate
from tests.task.tasks import small_set

WORDS = ["the", "boat", "river", "house", "in", "went", "made"]


def test_rates_of_prompts_are_lm_evals_accuracies(gpt2, tmp_path):
    rng = random.Random(0)

    def say():
        return " ".join(rng.sample(WORDS, rng.randrange(1, 7)))

    documents = [{"q": f"{i} {say()}", "c": [say() for _ in range(3)], "gold": i % 3} for i in range(24)]
    (tmp_path / "documents.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in documents))
    stock = {
        "task": "stock",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(tmp_path / "documents.jsonl")}},
        "test_split": "test",
        "output_type": "multiple_choice",
        "doc_to_text": "{{q}}\nAnswer:",
        "doc_to_choice": "c",
        "doc_to_target": "gold",
        "metric_list": [{"metric": name, "aggregation": "mean"} for name in ("acc", "acc_norm", "acc_bytes")],
    }
    rows = [
        (document["q"], choice, "ok" if i == document["gold"] else "wrong")
        for document in documents
        for i, choice in enumerate(document["c"])
    ]
    folder = small_set(tmp_path, rows, doc_to_text="{{context}}\nAnswer:")
    (folder / "stock.yaml").write_text(json.dumps(stock))
    results = evaluate(gpt2, ["small", "stock"], include_path=[folder])["results"]
    ours, theirs = results["small"], results["stock"]
    assert ours["pass_rate_prompts_sum,none"] == theirs["acc,none"] != theirs["acc_bytes,none"]
    assert ours["pass_rate_prompts_bytes,none"] == theirs["acc_bytes,none"] == theirs["acc_norm,none"], "ASCII"
