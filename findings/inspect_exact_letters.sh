#!/usr/bin/env bash
# inspect_ai 0.3.285: the scorers `exact` and `f1` call the answer "A" wrong where the target is "A". Both texts are normalized as
# answers to reading questions are: articles go, in either case, and a target of which nothing is left matches nothing. So of
# four lettered choices one can never be right. Words are also split at hyphens, so that a minus sign is lost: -5 is right for
# 5; and punctuation goes, so that C++ is right for C.
# Seen: "A" for "A" I and 0.0; "B" for "B" C and 1.0; "-5" for "5" C; "C++" for "C" C.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet inspect-ai==0.3.285
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import asyncio

from inspect_ai.model import ModelName, ModelOutput
from inspect_ai.scorer import Target, exact, f1
from inspect_ai.solver import TaskState


def score(scorer, answer, target):
    output = ModelOutput.from_content("mockllm/model", answer)
    state = TaskState(ModelName("mockllm/model"), 1, 1, "question", [], output=output)
    return asyncio.run(scorer(state, Target(target))).value


seen = {}
for pair in (("A", "A"), ("B", "B"), ("C", "C"), ("D", "D"), ("-5", "5"), ("C++", "C"), ("6", "5")):
    seen[pair] = (score(exact(), *pair), score(f1(), *pair))
    print(f"answer {pair[0]}, target {pair[1]}: exact {seen[pair][0]}, f1 {seen[pair][1]}")
assert seen["A", "A"] == ("I", 0.0)
assert all(seen[letter, letter] == ("C", 1.0) for letter in "BCD")
assert seen["-5", "5"][0] == seen["C++", "C"][0] == "C" and seen["6", "5"][0] == "I"
PYTHON
