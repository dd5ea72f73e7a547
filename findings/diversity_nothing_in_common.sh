#!/usr/bin/env bash
# diversity 0.3.1: `homogenization_score` of texts that have no word in common is 1, as that of copies of one text. It is the mean
# of ROUGE-L of all pairs, "higher = more homogeneous". A sum of 0 is taken for the case "where all strings are the exact
# same", and replaced by the number of texts (`homogenization.py`); but that sum is 0 only where no pair has anything in
# common, and copies have the full sum anyway. (The package imports spacy and openai, and does not ask for them.)
# Seen: 1.0 for four texts without a common word, 1.0 for four copies, 0.056 if two of the four have one word in common.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet diversity==0.3.1 torch==2.13.0 spacy==3.8.18 openai==3.57.0
cd "$folder"
HF_HUB_OFFLINE=1 "$folder/venv/bin/python" -W ignore - <<'PYTHON'
from diversity import homogenization_score

different = ["red birds fly", "we like books", "rain fell today", "dogs can swim"]
shared = [*different[:3], "dogs like swimming"]
for texts, expected in ((different, 1.0), (different[:1] * 4, 1.0), (shared, 0.056)):
    found = homogenization_score(texts, "rougel", verbose=False)
    print(found, texts)
    assert found == expected
PYTHON
