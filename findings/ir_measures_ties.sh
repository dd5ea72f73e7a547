#!/usr/bin/env bash
# ir-measures 0.4.3: where two documents have the same score, `RR` and `RR@10` of one run of two documents disagree. Measures are
# computed by several packages: `RR` by pytrec_eval, which puts the later document id first, `RR@10` by the code for MS MARCO,
# which puts the earlier one first. The order in the run does not matter.
# Seen: relevant document "a" of "a" and "b" with equal scores: RR 0.5 and RR@10 1.0; "b": RR 1.0 and RR@10 0.5.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet ir-measures==0.4.3
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
from ir_measures import RR, calc_aggregate

for run in ({"a": 0.5, "b": 0.5}, {"b": 0.5, "a": 0.5}):
    for relevant, expected in (("a", (0.5, 1.0)), ("b", (1.0, 0.5))):
        found = calc_aggregate([RR, RR @ 10], {"question": {relevant: 1}}, {"question": run})
        print(run, "relevant:", relevant, "RR", found[RR], "RR@10", found[RR @ 10])
        assert (found[RR], found[RR @ 10]) == expected
PYTHON
