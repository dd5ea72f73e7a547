#!/usr/bin/env bash
# mlxtend 0.25.0 and statsmodels 0.15.0: McNemar's chi square of two models that are right and wrong on the same items is
# infinite, with p = 0. The continuity correction takes 1 off a difference of 0 and squares the -1: 1 / 0. It is the default
# of mlxtend's `mcnemar`, and what statsmodels computes with `exact=False`. Without the correction it is 0 / 0, and the exact
# test gives 1.
# Seen: mlxtend (inf, 0.0); statsmodels inf and 0.0, without correction nan; exact 1.0 and 1.0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet mlxtend==0.25.0 statsmodels==0.15.0 scipy==1.17.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import math

import numpy as np
from mlxtend.evaluate import mcnemar, mcnemar_table
from statsmodels.stats.contingency_tables import mcnemar as other

truth = np.array([1, 1, 1, 1, 1, 1, 1])
answers = np.array([1, 1, 1, 0, 0, 1, 0])
table = mcnemar_table(truth, answers, answers)
print(table.tolist(), "mlxtend:", mcnemar(table), "exact:", mcnemar(table, exact=True))
assert mcnemar(table) == (math.inf, 0.0) and mcnemar(table, exact=True)[1] == 1
chi = other(table, exact=False)
plain = other(table, exact=False, correction=False)
print("statsmodels:", chi.statistic, chi.pvalue, "without correction:", plain.pvalue, "exact:", other(table).pvalue)
assert chi.statistic == math.inf and chi.pvalue == 0 and math.isnan(plain.pvalue) and other(table).pvalue == 1
PYTHON
