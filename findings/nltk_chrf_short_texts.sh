#!/usr/bin/env bash
# nltk 3.10.4: chrF of a text with itself is below 1 if the text has fewer than six characters. The mean is over n-grams of one
# to six characters, and an order of which neither text has one counts as 0. sacrebleu 2.6.0 leaves such orders out.
# Seen: "yes" with itself 0.5 (sacrebleu 100), "no" 0.333, "A" 0.167, "answer" 1.0; so a right "no" scores less than "answers" for
# "answer" (0.961).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet nltk==3.10.4 sacrebleu==2.6.0
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import sacrebleu
from nltk.translate.chrf_score import sentence_chrf

for text in ("A", "no", "yes", "four", "seven", "answer", "a long answer"):
    found, other = sentence_chrf(text, text), sacrebleu.sentence_chrf(text, [text]).score
    print(f"{text!r} with itself: nltk {found:.3f}, sacrebleu {other:.0f}")
    assert abs(found - min(len(text), 6) / 6) < 1e-9 and other == 100
wrong = sentence_chrf("answer", "answers")
print(f"'answers' for 'answer': nltk {wrong:.3f}")
assert wrong > sentence_chrf("no", "no")
PYTHON
