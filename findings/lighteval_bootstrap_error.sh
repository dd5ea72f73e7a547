#!/usr/bin/env bash
# lighteval 0.13.0: the standard error of metrics of a whole corpus, such as bleu, ter or perplexity, is about 32 times too small. It
# is found by bootstrap, and the error is then the standard deviation of the resampled scores. `bootstrap_stderr` in
# `metrics/utils/stderr.py` divides that by the square root of the number of resamples (`mean_stderr`), 1,000 in a run:
# more resamples, smaller error. Metrics that are a mean over samples are right.
# Seen: 400 answers of 0 and 1, half of each: 0.025 as a mean, 0.00079 if the same mean has another name; 0.00156 with 250
# resamples.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet lighteval==0.13.0 torch==2.13.0
cd "$folder"
cat > errors.py <<'PYTHON'
import math

import numpy as np
from lighteval.metrics.metrics_corpus import CorpusLevelPerplexityMetric
from lighteval.metrics.sample_preparator import PerplexityCorpusMetricInput
from lighteval.metrics.utils.stderr import get_stderr_function


def accuracy(answers):
    return np.average(answers)


if __name__ == "__main__":
    answers = [0, 1] * 200
    right = get_stderr_function(np.mean)(answers)
    print("mean:", right)
    assert abs(right - 0.025) < 1e-4
    for resamples in (1000, 250):
        error = get_stderr_function(accuracy, resamples)(answers)
        print(resamples, "resamples:", error, "times the root of their number:", error * math.sqrt(resamples))
        assert abs(error * math.sqrt(resamples) / right - 1) < 0.15
    random = np.random.default_rng(0)
    texts = [PerplexityCorpusMetricInput(logprobs=sum_, weights=20) for sum_ in random.normal(-60, 20, 400)]
    bits = CorpusLevelPerplexityMetric("bits_per_byte").compute_corpus
    error = get_stderr_function(bits)(texts)
    by_hand = np.std([text.logprobs for text in texts], ddof=1) / math.sqrt(400) / 20 / math.log(2)
    print("bits per byte:", bits(texts), "error", error, "by hand", by_hand)
    assert abs(error * math.sqrt(1000) / by_hand - 1) < 0.15
PYTHON
HF_HUB_OFFLINE=1 LIGHTEVAL_DISABLE_TQDM=1 "$folder/venv/bin/python" -W ignore errors.py
