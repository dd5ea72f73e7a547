"""The share of prompts whose tests all pass is the accuracy of lm-eval's own task on the same documents."""

import json
import random

from tests.random_models import evaluate
from tests.task.tasks import small_set


def test_rates_of_prompts_are_lm_evals_accuracies(gpt2, tmp_path):
    rng = random.Random(0)

    def say():
        return " ".join(rng.sample("abcdefgh", rng.randrange(1, 8)))

    documents = [{"q": f"{i} {say()}", "c": [say() for _ in range(3)], "gold": 1} for i in range(24)]
    data = tmp_path / "documents.jsonl"
    data.write_text("".join(f"{json.dumps(row)}\n" for row in documents))
    stock = {
        "task": "stock",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(data)}},
        "test_split": "test",
        "output_type": "multiple_choice",
        "doc_to_text": "{{q}}\nAnswer:",
        "doc_to_choice": "c",
        "doc_to_target": "gold",
        "metric_list": [{"metric": name} for name in ("acc", "acc_norm", "acc_bytes")],
    }
    rows = [
        (row["q"], text, "ok" if text == row["c"][row["gold"]] else "wrong") for row in documents for text in row["c"]
    ]
    folder = small_set(tmp_path, rows, doc_to_text="{{context}}\nAnswer:")
    (folder / "stock.yaml").write_text(json.dumps(stock))
    results = evaluate(gpt2, ["small", "stock"], include_path=[folder])["results"]
    ours, theirs = results["small"], results["stock"]
    assert ours["pass_rate_prompts_sum,none"] == theirs["acc,none"] != theirs["acc_bytes,none"]
    assert ours["pass_rate_prompts_bytes,none"] == theirs["acc_bytes,none"] == theirs["acc_norm,none"]  # in ASCII
