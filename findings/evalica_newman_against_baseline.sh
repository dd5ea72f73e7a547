#!/usr/bin/env bash
# evalica 0.4.2: `newman` ranks a baseline above systems that beat it, or below systems that it beats, if all comparisons are
# with the baseline and none is a draw. Without draws the model is that of `bradley_terry`, which is right here. `bradley_terry`
# in `_pairwise.py` changes one score after the other; `newman` there, and in the default solver in Rust, computes all scores
# from those of the step before. With a baseline alone these steps jump to and fro between two results for ever, and the one at
# the limit of steps (100) is returned, without a warning. A single draw, or comparisons of all systems, end it.
# Seen: systems that win 6, 7, 8 and 9 of 10 against the baseline have .5, .78, 1.33 and 3 times its score after 100 steps, and
# 4.5, 7, 12 and 27 times after 101; `bradley_terry`, and the odds, say 1.5, 2.33, 4 and 9. Systems that win 1 to 4 of 10: all
# are below the baseline, and two of them are ranked above it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet evalica==0.4.2
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
from evalica import Winner, bradley_terry, newman


def strengths(rank, wins, **settings):
    """Return each system's score divided by the baseline's, and the steps taken."""
    left, right, winners = [], [], []
    for won in wins:
        left += ["baseline"] * 10
        right += [f"wins {won}"] * 10
        winners += [Winner.Y] * won + [Winner.X] * (10 - won)
    result = rank(left, right, winners, **settings)
    return [round(float(result.scores[f"wins {won}"] / result.scores["baseline"]), 2) for won in wins], result.iterations


for solver in ("pyo3", "naive"):
    for wins, limit, expected in (
        ((6, 7, 8, 9), 100, [0.5, 0.78, 1.33, 3.0]),
        ((6, 7, 8, 9), 101, [4.5, 7.0, 12.0, 27.0]),
        ((6, 7, 8, 9), 100_000, [0.5, 0.78, 1.33, 3.0]),
        ((1, 2, 3, 4), 100, [0.33, 0.75, 1.29, 2.0]),
    ):
        found, steps = strengths(newman, wins, solver=solver, limit=limit)
        print(solver, wins, "newman", found, steps, "steps; bradley_terry", strengths(bradley_terry, wins, solver=solver))
        assert found == expected and steps == limit
        assert strengths(bradley_terry, wins, solver=solver)[0] == [round(won / (10 - won), 2) for won in wins]
assert strengths(newman, (6, 7, 8, 9))[0] == [0.5, 0.78, 1.33, 3.0]
PYTHON
