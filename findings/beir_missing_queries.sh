#!/usr/bin/env bash
# beir 2.2.0: a query for which nothing was retrieved is left out of nDCG, MAP, recall and precision, and counts as 0 in MRR, capped recall
# and top-k accuracy. `EvaluateRetrieval.evaluate` divides by the queries that pytrec_eval scores, those in the results;
# `evaluate_custom` by the queries in the judgements. An engine that finds nothing for hard queries has the better nDCG.
# Seen: of two queries one is answered rightly and one not at all: nDCG@1, MAP@1, Recall@1 and P@1 are 1, MRR@1 0.5.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet torch==2.13.0 beir==2.2.0
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
from beir.retrieval.evaluation import EvaluateRetrieval

judgements = {"easy": {"a": 1}, "hard": {"b": 1}}


def evaluate(results):
    """Return all measures at 1."""
    found = {}
    for measures in EvaluateRetrieval.evaluate(judgements, results, [1]):
        found |= measures
    for name in ("mrr", "recall_cap", "top_k_accuracy"):
        found |= EvaluateRetrieval.evaluate_custom(judgements, results, [1], name)
    return found


absent, wrong = evaluate({"easy": {"a": 1.0}}), evaluate({"easy": {"a": 1.0}, "hard": {"c": 1.0}})
print("nothing found:", absent, "a wrong document found:", wrong)
assert set(wrong.values()) == {0.5}
assert absent == {"NDCG@1": 1, "MAP@1": 1, "Recall@1": 1, "P@1": 1, "MRR@1": 0.5, "R_cap@1": 0.5, "Accuracy@1": 0.5}
PYTHON
