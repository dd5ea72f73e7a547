#!/usr/bin/env bash
# torchmetrics 1.9.0: average precision and reciprocal rank of a perfect ranking by log-probabilities are 0. Before they sort,
# `retrieval_average_precision`, `retrieval_reciprocal_rank`, precision and recall put the label of each document whose score is
# not above 0 to irrelevant (`torch.where(preds > 0, ...)` in `functional/retrieval/`). Their docstrings speak of estimated
# probabilities and name no threshold; scores of another scale are taken without a warning. nDCG, hit rate, R-precision and
# AUROC only sort, and `RetrievalMAP` and `RetrievalMRR` do as the functions do.
# Seen: scores -1, -2, -3, of which the first is relevant: 0 by the first four, 1 by the others; with 10 added to each score 1 by all
# (precision 0.333).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet torch==2.13.0 torchmetrics==1.9.0
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch
from torchmetrics.functional import retrieval
from torchmetrics.retrieval import RetrievalMAP, RetrievalMRR

relevant = torch.tensor([True, False, False])
above_zero_only = "average_precision reciprocal_rank precision recall".split()
sorting_only = "normalized_dcg hit_rate r_precision auroc".split()
for numbers, expected in (([-1.0, -2.0, -3.0], [0, 0, 0, 0]), ([9.0, 8.0, 7.0], [1, 1, 1 / 3, 1])):
    scores = torch.tensor(numbers)
    found = [float(getattr(retrieval, f"retrieval_{name}")(scores, relevant)) for name in above_zero_only + sorting_only]
    classes = [float(kind()(scores, relevant, indexes=torch.tensor([0, 0, 0]))) for kind in (RetrievalMAP, RetrievalMRR)]
    print(numbers, dict(zip(above_zero_only + sorting_only, found)), "RetrievalMAP, RetrievalMRR:", classes)
    assert torch.allclose(torch.tensor(found), torch.tensor([*expected, 1, 1, 1, 1], dtype=torch.float32))
    assert classes == expected[:2]
PYTHON
