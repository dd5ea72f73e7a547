#!/usr/bin/env bash
# distilabel 1.5.3: `FormatTextGenerationDPO` makes a preference pair of a text with itself where all ratings are equal. Chosen is
# the first of the highest ratings, rejected the first of the lowest; nothing looks whether they are one text. The row is
# kept, with equal ratings in it. Of ratings 4, 4, 2 the second text is left out.
# Seen: ratings 3, 3, 3 give chosen "one" and rejected "one"; 4, 4, 2 give "one" and "three".
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet distilabel==1.5.3 requests==2.34.2
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
from distilabel.steps import FormatTextGenerationDPO

step = FormatTextGenerationDPO()
step.load()
for ratings, expected in (([3, 3, 3], ("one", "one")), ([4, 4, 2], ("one", "three")), ([2, 2], ("one", "one"))):
    texts = ["one", "two", "three"][: len(ratings)]
    [row] = next(step.process([{"instruction": "Count.", "generations": texts, "ratings": ratings}]))
    pair = (row["chosen"][-1]["content"], row["rejected"][-1]["content"])
    print(ratings, "->", pair, row["chosen_rating"], row["rejected_rating"])
    assert pair == expected
PYTHON
