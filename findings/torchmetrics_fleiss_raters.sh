#!/usr/bin/env bash
# torchmetrics 1.9.0: `fleiss_kappa` is wrong, without a warning, where items have different numbers of raters. It takes the
# largest number for all (`num_raters = counts.sum(1).max()` in `functional/nominal/fleiss_kappa.py`): in items with fewer
# raters the missing ones count as disagreements, and the chance agreement is of shares that do not sum to 1. statsmodels
# refuses such counts; irrCAC 0.4.4, and Fleiss' formula with each item's own number, take them.
# Seen: items on which all raters agree, half of them rated by three and half by two, have 0.362 instead of 1; with some
# disagreement it is 0.104 for 0.443. With three raters for each item all three say 0.778.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet torch==2.13.0 torchmetrics==1.9.0 irrCAC==0.4.4
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
import pandas
import torch
from irrCAC.raw import CAC
from torchmetrics.functional.nominal import fleiss_kappa


def compare(name, items):
    """Return Fleiss' kappa of lists of labels, one list an item, by torchmetrics, irrCAC and by hand."""
    counts = np.array([[labels.count("yes"), labels.count("no")] for labels in items])
    raters = counts.sum(1, keepdims=True)
    agreed = (counts * (counts - 1) / (raters * (raters - 1))).sum(1).mean()
    by_chance = ((counts / raters).mean(0) ** 2).sum()
    columns = pandas.DataFrame([labels + [None] * (3 - len(labels)) for labels in items])
    other = CAC(columns).fleiss()["est"]["coefficient_value"]
    found = [float(fleiss_kappa(torch.tensor(counts))), other, (agreed - by_chance) / (1 - by_chance)]
    print(name, "torchmetrics {:.3f}, irrCAC {:.3f}, by hand {:.3f}".format(*found))
    return found


yes, no = ["yes"], ["no"]
for name, items, expected in (
    ("three raters each", [yes * 3, no * 3] * 5 + [yes * 2 + no, no * 2 + yes], (0.778, 0.778)),
    ("all agree", [yes * 3, no * 3, yes * 2, no * 2] * 3, (0.362, 1)),
    ("some disagree", [yes * 3, no * 3, yes * 2, no * 2, yes + no, no * 2 + yes] * 2, (0.104, 0.443)),
):
    assert np.allclose(compare(name, items), (*expected, expected[1]), atol=6e-4)
PYTHON
