#!/usr/bin/env bash
# inspect_ai 0.3.285: `match(numeric=True)` takes the last word that is a number. A number that a sign or a unit touches is none:
# "12%", "12km" and "x=12" are no answer, and the number before them is taken in their place. Signs of currency, commas and
# brackets are taken off, and so is a per cent sign of the target.
# Seen for target 12: "$12", "12 km", "(12)" right; "12%", "12km", "x=12" wrong; "not 12 but 50%" right; target "12%": "12" right.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet inspect-ai==0.3.285
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import asyncio

from inspect_ai.model import ModelName, ModelOutput
from inspect_ai.scorer import Target, match
from inspect_ai.solver import TaskState

expected = {"$12": "C", "12 km": "C", "(12)": "C", "12%": "I", "12km": "I", "x=12": "I", "not 12 but 50%": "C"}
for answer, value in expected.items():
    output = ModelOutput.from_content("mockllm/model", answer)
    state = TaskState(ModelName("mockllm/model"), 1, 1, "question", [], output=output)
    score = asyncio.run(match(numeric=True)(state, Target("12")))
    print(f"{answer!r}: {score.value}, read {score.answer!r}")
    assert score.value == value
PYTHON
