#!/usr/bin/env bash
# ragas 0.4.3: `BleuScore` reads a response up to its first full stop and space, and nothing after it. Response and reference
# are split at ". ", and each sentence of the reference is given to sacrebleu as a list of its own (`ascore` in
# `metrics/collections/_bleu_score.py`, and the older class in `metrics/_bleu_score.py`). For sacrebleu these are alternative
# references of the first sentence, and it scores no sentence that has none. There is no warning.
# Seen: 1.0 for a response whose second sentence is wrong, missing, or whose sentences are turned around, and 0 for the whole
# reference behind "It rained. "; sacrebleu of the whole texts gives 43, 33, 91 and 84.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet ragas==0.4.3 langchain-community==0.3.31 sacrebleu==2.6.0
cd "$folder"
RAGAS_DO_NOT_TRACK=true "$folder/venv/bin/python" -W ignore - <<'PYTHON'
import asyncio

import ragas
import sacrebleu
from ragas.metrics import BleuScore as OldBleuScore
from ragas.metrics.collections import BleuScore

reference = "The cat sat on the mat today. The dog ran to the park with us."
for response, expected in (
    (reference, 1),
    ("The cat sat on the mat today. Nothing else was ever said here again.", 1),
    ("The cat sat on the mat today. ", 1),
    ("The dog ran to the park with us. The cat sat on the mat today.", 1),
    ("It rained. " + reference, 0),
):
    found = asyncio.run(BleuScore().ascore(reference=reference, response=response)).value
    old = asyncio.run(OldBleuScore().single_turn_ascore(ragas.SingleTurnSample(response=response, reference=reference)))
    whole = sacrebleu.corpus_bleu([response], [[reference]]).score
    print(f"{found:.3f} {old:.3f}, of the whole text {whole:.1f}: {response}")
    assert abs(found - expected) < 1e-9 and abs(old - expected) < 1e-9
    assert response == reference or 30 < whole < 95
PYTHON
