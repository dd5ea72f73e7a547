#!/usr/bin/env bash
# nervaluate 1.2.1: a predicted span that begins where the right one ends counts as overlapping with it. `Evaluator` takes "prodi.gy
# style lists of spans", whose `end` is the first character after the span, as in spaCy and in Python's slices. But
# `_calculate_overlap_percentage` in `strategies.py` holds that `end` is the last character of the span, as it is in the
# spans that nervaluate makes of BIO tags: touching spans have one character in common. Lengths are one too long, too.
# Seen: of "don't!" the right span is "don't" and the predicted one "!": F1 is 1.0 by type, 0.5 by partial matches, and the
# strict one has an incorrect span, not a missed and a spurious one. One character further on it is spurious everywhere.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet nervaluate==1.2.1
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
from nervaluate import Evaluator

text = "I don't! Or do I?"
right = {"label": "negation", "start": 2, "end": 7}
assert text[right["start"] : right["end"]] == "don't"


def compare(start, end):
    """Return F1 of a predicted span by type and by partial matches, and how the strict measure counts it."""
    predicted = {"label": "negation", "start": start, "end": end}
    found = Evaluator([[right]], [[predicted]], tags=["negation"], loader="dict").evaluate()["overall"]
    strict = {name: getattr(found["strict"], name) for name in ("incorrect", "missed", "spurious")}
    print(repr(text[start:end]), "by type", found["ent_type"].f1, "partial", found["partial"].f1, "strict", strict)
    return found["ent_type"].f1, found["partial"].f1, strict


assert compare(7, 8) == (1.0, 0.5, {"incorrect": 1, "missed": 0, "spurious": 0})
assert compare(0, 2) == (1.0, 0.5, {"incorrect": 1, "missed": 0, "spurious": 0})
assert compare(8, 9) == (0, 0, {"incorrect": 0, "missed": 1, "spurious": 1})
PYTHON
