#!/usr/bin/env bash
# pyirr 0.84.1.2: `kripp_alpha` of two raters is Krippendorff's alpha where the ratings have four values, as in its example. It sums
# over the pairs of values that `np.triu_indices_from(cm, k=len(cm) // 2 - 1)` takes from the table of coincidences
# (`kripp_alpha.py`): k is 1 for four values, which leaves out the diagonal, but 0 for two and three, so that agreements
# count as disagreements, and 2 for six, which ends in an IndexError.
# Seen: two raters who always agree on yes and no have -0.938, and with one more disagreement -0.695; krippendorff 0.9.0 says 1
# and 0.758. Three values: -0.686 for 0.880. Four values: 0.893 both.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet pyirr==0.84.1.2 krippendorff==0.9.0 numpy==1.26.4
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import krippendorff
import numpy as np
from pyirr import kripp_alpha


def both(first, second, level):
    """Return alpha of two raters by pyirr and by krippendorff."""
    ratings = np.array([first, second], dtype=float)
    return kripp_alpha(ratings.T, level).value, krippendorff.alpha(ratings, level_of_measurement=level)


for name, first, second, expected in (
    ("two values, equal", [0, 1] * 8, [0, 1] * 8, (-0.938, 1)),
    ("two values", [0, 1] * 8, [0, 1] * 7 + [1, 0], (-0.695, 0.758)),
    ("three values", [1, 2, 3] * 4, [1, 2, 3] * 3 + [1, 3, 3], (-0.686, 0.880)),
    ("four values", [1, 2, 3, 4] * 3, [1, 2, 3, 4] * 2 + [1, 3, 3, 4], (0.893, 0.893)),
):
    found = both(first, second, "nominal")
    print(f"{name}: pyirr {found[0]:.3f}, krippendorff {found[1]:.3f}")
    assert np.allclose(found, expected, atol=6e-4)
try:
    both([1, 2, 3, 4, 5, 6] * 2, [1, 2, 3, 4, 5, 6] * 2, "nominal")
except IndexError as error:
    print("six values: IndexError", error)
else:
    raise SystemExit("six values are taken now")
PYTHON
