#!/usr/bin/env bash
# statsmodels 0.15.0: with one NaN among the p values, `multipletests` by Benjamini and Hochberg corrects all of them to NaN,
# and rejects two hypotheses in the same answer. The running minimum begins at the largest p value, which NaN is sorted as;
# the decisions are made before. Holm's running maximum begins at the other end: there only NaN stays NaN, but it counts as a
# hypothesis (0.02 * 3 = 0.06). pingouin 0.7.0 leaves NaN out (0.02 * 2 = 0.04).
# Seen: fdr_bh [nan nan nan nan] with [True False True False]; holm [0.04 nan 0.06 0.08]; pingouin's holm [0.03 nan 0.04 0.04].
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet statsmodels==0.15.0 pingouin==0.7.0 scipy==1.17.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
import pingouin
from statsmodels.stats.multitest import multipletests

values = [0.01, np.nan, 0.02, 0.04]
rejected, corrected, *_ = multipletests(values, method="fdr_bh")
print("statsmodels fdr_bh:", corrected, rejected)
assert np.isnan(corrected).all() and rejected.tolist() == [True, False, True, False]
holm = multipletests(values, method="holm")[1]
print("statsmodels holm:", holm)
assert np.allclose(holm, [0.04, np.nan, 0.06, 0.08], equal_nan=True)
others = pingouin.multicomp(values, method="holm")[1]
print("pingouin holm:", others)
assert np.allclose(others, [0.03, np.nan, 0.04, 0.04], equal_nan=True)
PYTHON
