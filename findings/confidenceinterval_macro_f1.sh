#!/usr/bin/env bash
# confidenceinterval 1.0.5: the analytic interval of `f1_score(average="macro")` is not that of Takahashi et al. (2022), whom the package
# cites. Their variance has products, `f1i * a / b**2 * (f1i / 2 + a / b)` and one over `b[i] * b[j]`, of shares;
# `macro_f1_score_takahashi` has sums in both places, of counts. So answers without a mistake get a wide interval, and others one
# half as wide again. And `classification_report_with_ci(confidence_level=...)` hands the level on to F1 of the single
# classes only: precision, recall and the micro and macro rows stay at 95 %.
# Seen: 100 right answers in two classes have 0.861 to 1.139. For 1,000 answers in three classes half the interval is 0.0411; the
# paper's formula gives 0.0268, the package's bootstrap 0.0246.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet confidenceinterval==1.0.5 scipy==1.17.1
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from confidenceinterval import classification_report_with_ci, f1_score

perfect = [0, 1] * 50
_, (lower, upper) = f1_score(perfect, perfect, average="macro")
print(f"no mistake: {lower:.3f} to {upper:.3f}")
assert np.allclose([lower, upper], [0.8614, 1.1386], atol=1e-4)

shares = np.array([[0.30, 0.02, 0.02], [0.05, 0.25, 0.05], [0.02, 0.09, 0.20]])
right, given = (np.repeat(places.ravel(), (shares * 1000).astype(int).ravel()).tolist() for places in np.indices((3, 3)))


def half_width(**settings):
    _, (lower, upper) = f1_score(right, given, average="macro", **settings)
    return (upper - lower) / 2


total = shares.sum(0) + shares.sum(1)
f1, wrong = 2 * np.diag(shares) / total, total - 2 * np.diag(shares)
between = shares * np.outer(f1 / total, f1 / total)
variance = 2 / 9 * ((f1 * wrong / total**2 * (f1 / 2 + wrong / total)).sum() + between.sum() - np.trace(between))
by_formula = 1.96 * np.sqrt(variance / 1000)
by_bootstrap = half_width(method="bootstrap_percentile", n_resamples=500, random_state=np.random.default_rng(0))
print(f"half widths: {half_width():.4f}, by the formula {by_formula:.4f}, by bootstrap {by_bootstrap:.4f}")
assert np.allclose([half_width(), by_formula], [0.0411, 0.0268], atol=1e-4) and by_bootstrap < 0.03

low, high = (classification_report_with_ci(right, given, confidence_level=level) for level in (0.5, 0.99))
changed = [(low["Class"][row], low.columns[column]) for row, column in np.argwhere((low != high).to_numpy())]
print("differ between 50 % and 99 %:", changed)
assert changed == [(f"Class {number}", "F1-Score CI") for number in range(3)]
PYTHON
