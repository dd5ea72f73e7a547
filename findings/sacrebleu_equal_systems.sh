#!/usr/bin/env bash
# sacrebleu 2.6.0: a system whose translations are those of the baseline has the smallest p value that there is, in both
# paired tests. The p value counts resamples whose difference is *greater* than the observed one, plus one. With equal
# systems all differences are 0, none is greater than 0, and p is 1 / (n + 1), which tables mark as significant.
# Seen: scores 51.89 and 51.89, p = 0.0010 by bootstrap and 0.0010 by approximate randomization, with 1,000 resamples.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet sacrebleu==2.6.0
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest

references = [
    "the cat sat on the mat today",
    "a dog ran home to eat dinner",
    "red birds fly south in winter",
    "we like to read long books",
]
outputs = ["the cat sat on a mat today", "a dog ran home for dinner", "red birds fly south", "we like to read books"]
for test in ("bs", "ar"):
    systems = [("baseline", outputs), ("copy", list(outputs))]
    _, scores = PairedTest(systems, {"BLEU": BLEU(references=[references])}, None, test_type=test, n_samples=1000)()
    first, second = scores["BLEU"]
    print(f"{test}: {first.score:.2f} and {second.score:.2f}, p = {second.p_value:.4f}")
    assert first.score == second.score
    assert abs(second.p_value - 1 / 1001) < 1e-12
PYTHON
