"""Results on all tests, and on each category of tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

#: What results on all tests are called, beside those on each category.
ALL = "all"


def is_of_category(tests: pd.DataFrame, category: str) -> NDArray[np.bool_]:
    """Tell which tests are of a category, by their column ``category``; of `ALL` every test is. Shape (tests,)."""
    return np.asarray(tests["category"].eq(category) | (category == ALL), dtype=bool)
