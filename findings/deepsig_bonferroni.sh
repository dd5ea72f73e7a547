#!/usr/bin/env bash
# deepsig 1.2.8: `bonferroni_correction` does not multiply by the number of p values. The u-th smallest of N is multiplied by
# N - u + 1, as Holm does, but without Holm's running maximum, so the largest is not corrected at all. And values that do
# not come in rising order get another one's result: the corrected values are taken at the places to which they should be put.
# Seen: 0.02, 0.5, 0.9 become 0.06, 1.0, 0.9; and 0.045, 0.03, 0.04 become 0.08, 0.045, 0.09 (Bonferroni: 0.135, 0.09,
# 0.12; Holm: 0.09, 0.09, 0.09).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet deepsig==1.2.8
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
from deepsig import bonferroni_correction

for values, expected in (([0.02, 0.5, 0.9], [0.06, 1, 0.9]), ([0.045, 0.03, 0.04], [0.08, 0.045, 0.09])):
    corrected = bonferroni_correction(np.array(values))
    print(values, "->", corrected.round(4).tolist())
    assert np.allclose(corrected, expected)
PYTHON
