#!/usr/bin/env bash
# uncertainty-calibration 0.1.4: `get_calibration_error_uncertainties(probs, labels, alpha=0.1)` returns "1-alpha confidence
# intervals", and they are of 99.9 %, not of 90 %. `bootstrap_uncertainty` takes alpha in per cent: it hands `alpha / 2` to
# `np.percentile`, and its own default is 10.0. So with 0.1, the default, it takes the 0.05th and the 99.95th percentile: with
# its 100 resamples almost the smallest and the largest. alpha=10 gives the 90 %.
# Seen for 400 made-up answers: from -0.027 to 0.066 with alpha=0.1, from -0.003 to 0.052 with alpha=10, which is the 90 % interval of
# the same resamples.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet uncertainty-calibration==0.1.4
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import calibration
import numpy as np

random = np.random.default_rng(0)
probabilities = random.choice([0.1, 0.3, 0.5, 0.7, 0.9], 400)
labels = (random.random(400) < probabilities).astype(int)


def estimate(rows):
    """Return the plain calibration error of these answers."""
    return calibration.get_calibration_error(probabilities[rows], labels[rows], debias=False)


np.random.seed(0)
resamples = [estimate(np.random.choice(400, 400)) for _ in range(100)]
for settings, percentiles in (({}, (99.95, 0.05)), ({"alpha": 0.1}, (99.95, 0.05)), ({"alpha": 10}, (95, 5))):
    np.random.seed(0)
    lower, _, upper = calibration.get_calibration_error_uncertainties(probabilities, labels, **settings)
    print(settings, round(lower, 4), round(upper, 4), "of the resamples: percentiles", percentiles)
    # The interval is turned around the estimate: twice the estimate minus a percentile of the resamples.
    assert np.allclose([lower, upper], 2 * estimate(np.arange(400)) - np.percentile(resamples, percentiles))
PYTHON
