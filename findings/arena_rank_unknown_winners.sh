#!/usr/bin/env bash
# arena-rank 0.1.1: a `winner` that is not model_a, model_b, tie or both_bad is a tie, without a word: `default_outcome_map` gives 0.5 for
# whatever it does not know. So a column with the names of the winners, with A and B, or with missing votes makes ties.
# Seen: x beats y 30 times of 40. As model_a and model_b: 1095 and 905. As x and y: 1000 and 1000, with intervals of width 0. With
# 20 missing votes (None) beside them: 1060 and 940.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet arena-rank==0.1.1
cd "$folder"
JAX_PLATFORMS=cpu "$folder/venv/bin/python" -W ignore - <<'PYTHON'
import pandas as pd
from arena_rank.models.bradley_terry import BradleyTerry
from arena_rank.utils.data_utils import PairDataset


def rate(winners):
    """Return the ratings of x and y, and the widths of their intervals."""
    votes = pd.DataFrame({"model_a": "x", "model_b": "y", "winner": winners})
    found = BradleyTerry(n_competitors=2).compute_ratings_and_cis(PairDataset.from_pandas(votes))
    widths = found["rating_upper"] - found["rating_lower"]
    return found["ratings"].round().tolist(), widths.round().tolist()


documented = ["model_a"] * 30 + ["model_b"] * 10
for winners, expected in (
    (documented, [1095, 905]),
    (["x"] * 30 + ["y"] * 10, [1000, 1000]),
    (["A"] * 30 + ["B"] * 10, [1000, 1000]),
    (documented + [None] * 20, [1060, 940]),
):
    ratings, widths = rate(winners)
    print(winners[0], winners[-1], ratings, "widths", widths)
    assert ratings == expected
assert rate(["x"] * 30 + ["y"] * 10)[1] == [0, 0]
PYTHON
