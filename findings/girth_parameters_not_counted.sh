#!/usr/bin/env bash
# girth 0.8.0: AIC and BIC count no parameter of an item. `compute_metrics` in `latent_ability_distribution.py` gets
# `latent_pdf.n_points - 3`, which is the number of parameters of the distribution of abilities, 0 unless that is estimated. So AIC and
# BIC both are -2 times the log-likelihood, and more factors win. The docstrings say "AIC" and "BIC" of the model.
# Seen: 300 people, 6 items with three categories, made with one factor: 3 factors have an AIC of 3631.0 and a BIC of 3631.0, 2 factors
# 3635.9 and 3635.9. With loadings (free of rotation) and thresholds counted, 2 factors are better by both.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet girth==0.8.0 numpy==1.26.4 scipy==1.13.1
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import girth
import numpy as np
from girth.multidimensional import multidimensional_grm_mml
from girth.synthetic import create_synthetic_irt_polytomous

people, items = 300, 6
abilities = np.random.default_rng(0).normal(size=people)
answers = create_synthetic_irt_polytomous(
    np.tile([-0.5, 0.5], (items, 1)), np.full(items, 1.2), abilities, model="grm", seed=1
)
one = girth.grm_mml(answers)
print("one factor: AIC", one["AIC"], "BIC", one["BIC"])
assert one["AIC"] == one["BIC"]
right = {}
for factors in (2, 3):
    found = multidimensional_grm_mml(answers, factors, {"quadrature_n": 9, "max_iteration": 15})
    deviance = -2 * found["LL"]
    free = found["Discrimination"].size - factors * (factors - 1) // 2 + found["Difficulty"].size
    right[factors] = deviance + 2 * free, deviance + np.log(people) * free
    print(factors, "factors: AIC", found["AIC"], "BIC", found["BIC"], "with", free, "parameters", right[factors])
    assert np.allclose([found["AIC"], found["BIC"]], deviance)
    assert abs(deviance - {2: 3635.9, 3: 3631.0}[factors]) < 0.1
assert right[2][0] < right[3][0] and right[2][1] < right[3][1]
PYTHON
