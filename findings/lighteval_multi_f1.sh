#!/usr/bin/env bash
# lighteval 0.13.0: the metric `multi_f1_numeric` ("mf1", of CommitmentBank) is a third even where all answers are wrong, and in
# general (1 + 2 * accuracy) / 3. `CorpusLevelF1Score(average="micro", num_classes=3)` takes each class against the others, and the
# micro-averaged F1 of those: that is the share of answers that are right about this one class, where an item of another
# class counts also if it got the wrong one of the others. F1 of three classes, macro-averaged, is 0 for wrong answers.
# Seen: all wrong 0.333, one label for all 0.556, right 1.0; scikit-learn's macro-averaged F1 is 0, 0.167 and 1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet lighteval==0.13.0 torch==2.13.0
cd "$folder"
HF_HUB_OFFLINE=1 "$folder/venv/bin/python" -W ignore - <<'PYTHON'
from lighteval.metrics.metrics import Metrics
from lighteval.metrics.sample_preparator import LogprobCorpusMetricInput
from sklearn.metrics import accuracy_score, f1_score

right = [0, 1, 2] * 20
metric = Metrics.multi_f1_numeric.value.corpus_level_fn
for name, given, macro in (("all wrong", [1, 2, 0] * 20, 0), ("one label", [0] * 60, 1 / 6), ("right", right, 1)):
    items = [LogprobCorpusMetricInput(golds=gold, preds=label) for gold, label in zip(right, given)]
    found = metric.compute_corpus(items)
    print(f"{name}: mf1 {found:.3f}, macro-averaged F1 {f1_score(right, given, average='macro'):.3f}")
    assert abs(found - (1 + 2 * accuracy_score(right, given)) / 3) < 1e-9
    assert abs(f1_score(right, given, average="macro") - macro) < 1e-9
PYTHON
