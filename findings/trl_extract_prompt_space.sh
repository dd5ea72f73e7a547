#!/usr/bin/env bash
# trl 1.16.0: of preference pairs without a prompt, `extract_prompt` takes what both texts begin with. If nothing is in common
# and the chosen text ends in a space, the prompt is all of the chosen text but that space, and both texts become what is left:
# the place where they differ is 0, the character before it is looked up at -1, which is the last one, and as it is a space,
# the place moves to -1.
# Seen: "yes " and "no " become prompt "yes" with " " and " "; "yes" and "no" stay as they are, with an empty prompt.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet torch==2.13.0 transformers==5.23.0 trl==1.16.0
cd "$folder"
HF_HUB_OFFLINE=1 "$folder/venv/bin/python" - <<'PYTHON'
from trl.data_utils import extract_prompt

for chosen, rejected, expected in (
    ("yes", "no", ("", "yes", "no")),
    ("yes ", "no ", ("yes", " ", " ")),
    ("It rained all day. ", "Sunny skies.", ("It rained all day.", " ", ".")),
):
    got = extract_prompt({"chosen": chosen, "rejected": rejected})
    print(repr(chosen), repr(rejected), "->", got)
    assert (got["prompt"], got["chosen"], got["rejected"]) == expected
PYTHON
