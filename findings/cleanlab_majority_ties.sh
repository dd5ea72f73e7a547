#!/usr/bin/env bash
# cleanlab 2.9.0: `get_majority_vote_label` gives a tie to the class that is *rarer* among all judgements. Its docstring says
# the one with the highest frequency; a comment in the source says that the minority class is chosen, against imbalance.
# Seen: of 8 judgements 6 are 1 and 2 are 0, and both tied items get 0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet cleanlab==2.9.0
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
from cleanlab.multiannotator import get_majority_vote_label

votes = np.array([[0, 1], [1, 1], [1, 1], [1, 0]])
print("votes for 0 and 1:", (votes == 0).sum(), (votes == 1).sum(), "labels:", get_majority_vote_label(votes).tolist())
assert get_majority_vote_label(votes).tolist() == [0, 1, 1, 0]
assert get_majority_vote_label(1 - votes).tolist() == [1, 0, 0, 1]
PYTHON
