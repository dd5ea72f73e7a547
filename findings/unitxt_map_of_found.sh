#!/usr/bin/env bash
# unitxt 1.26.10: `MAP` does not count relevant documents that were not found. Average precision, as the docstring's link has it, is
# divided by the number of relevant documents; `MAP` divides by the number of those among the retrieved ones (`total` in its
# `_compute`, `metrics.py`). So a retriever does best by stopping after the first document that it is sure of. `RetrievalAtK`
# takes precision at 10 of a shorter list at the list's end.
# Seen: of four relevant documents one is retrieved, and nothing else: MAP 1.0 and not 0.25, precision at 10 1.0, recall at 10 0.25.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet unitxt==1.26.10
cd "$folder"
HF_HUB_OFFLINE=1 "$folder/venv/bin/python" -W ignore - <<'PYTHON'
from unitxt.metrics import MAP, RetrievalAtK

relevant = ["a", "b", "c", "d"]
for retrieved, expected, right in (
    (["a"], 1, 1 / 4),
    (["a", "x", "b"], (1 + 2 / 3) / 2, (1 + 2 / 3) / 4),
    (["a", "b", "c", "d"], 1, 1),
):
    found = MAP().compute(references=[relevant], prediction=retrieved, task_data={})["map"]
    print(retrieved, "MAP:", round(found, 3), "divided by all relevant documents:", round(right, 3))
    assert abs(found - expected) < 1e-9
at_10 = RetrievalAtK(k_list=[10]).compute(references=[relevant], prediction=["a"], task_data={})
print(at_10)
assert (at_10["precision_at_10"], at_10["recall_at_10"]) == (1, 0.25)
PYTHON
