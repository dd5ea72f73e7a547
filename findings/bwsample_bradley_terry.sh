#!/usr/bin/env bash
# bwsample 0.7.0: `rank(method="btl")` is no maximum likelihood of Bradley and Terry with three items or more. Hunter's step divides an
# item's wins by the sum of n_ij / (w_i + w_j); `mle_btl_sparse` multiplies the wins by the sum of (w_i + w_j) / n_ij, which is the
# same only where an item has one opponent. Items that were compared often come first, also those that lose half the time.
# Seen: A beats B 3 times of 4, B and C each win 20 of 40. A is ranked last with 0.09, C has 0.57, B 0.34; the likelihood is largest at
# 0.6, 0.2, 0.2. With A and B alone 0.75 and 0.25.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet bwsample==0.7.0
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import bwsample
import numpy as np


def strengths(wins, **settings):
    """Return the strength of each item by Bradley and Terry."""
    items, found = bwsample.rank(wins, method="btl", **settings)[1:3]
    return {str(item): round(float(value), 3) for item, value in zip(items, found)}


def log_likelihood(wins, strength):
    return sum(n * np.log(strength[i] / (strength[i] + strength[j])) for (i, j), n in wins.items())


alone = {("A", "B"): 3, ("B", "A"): 1}
wins = {**alone, ("B", "C"): 20, ("C", "B"): 20}
found = strengths(wins, max_iter=10_000, tol=1e-12)
print("A and B:", strengths(alone), "A, B and C:", found, "default settings:", strengths(wins))
assert strengths(alone) == {"A": 0.75, "B": 0.25}
assert found == {"C": 0.574, "B": 0.336, "A": 0.09} and list(strengths(wins)) == ["C", "B", "A"]
best = {"A": 0.6, "B": 0.2, "C": 0.2}
print("log-likelihood:", log_likelihood(wins, found), "of 0.6, 0.2, 0.2:", log_likelihood(wins, best))
assert log_likelihood(wins, best) - log_likelihood(wins, found) > 3
PYTHON
