#!/usr/bin/env bash
# lexicalrichness 0.5.1: `msttr` leaves out the last segment of a text also where it is full. With `discard=True`, the default, "the
# remaining segment" is left out, the five words that are left of 105 in segments of 100. But the last segment is deleted
# whatever its length (`del scores[-1]`): where the number of words is a multiple of the segment, that is a full one.
# Seen: of 20 words, the last 10 of them one word, the mean type-token ratio of segments of 10 is 1.0 and not 0.55; of 21
# words it is 0.55.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet lexicalrichness==0.5.1 setuptools==80.9.0
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
from lexicalrichness import LexicalRichness

first, second = "one two three four five six seven eight nine ten".split(), ["very"] * 10
for words, expected in ((first + second, 1.0), (first + second + ["good"], 0.55), (second + first, 0.1)):
    text = LexicalRichness(words, preprocessor=None, tokenizer=None)
    print(len(words), "words:", text.msttr(segment_window=10), "and with discard=False", text.msttr(10, discard=False))
    assert abs(text.msttr(segment_window=10) - expected) < 1e-9
PYTHON
