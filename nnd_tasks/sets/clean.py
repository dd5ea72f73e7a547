"""Which tests the clean configs leave out.

The full configs keep all tests that the publishers kept. Some say nothing about a model: the two texts are equal, the same test
occurs again, or people disagreed about a candidate.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from nnd_tasks.sets.rows import number_rows


def find_contradicted(candidates: pd.DataFrame, gap: float) -> Any:
    """Tell which candidates were judged both good and bad for one prompt and attribute; shape (candidates,)."""
    of_text = candidates.groupby(
        [candidates["prompt"], candidates["attribute_id"], candidates["candidate"].fillna("")]
    )["quality"]
    return (of_text.transform("max") - of_text.transform("min") >= gap).to_numpy(bool)


def clean_tests(tests: pd.DataFrame, contradictory: Any) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return the tests that no reason leaves out (of repeated ones the first stays), and the report on the others.

    Args:
        tests: in the order of the source.
        contradictory: whether a candidate of each test was judged both good and bad, shape (tests,).
    """
    high, low = tests["high"], tests["low"]
    number, _ = number_rows(*(tests[name] for name in ("cluster_id", "high", "low", "category")))
    holds = {
        "equal_texts": (high == low).to_numpy(bool),
        "repeated": pd.Series(number).duplicated().to_numpy(bool),
        "contradictory": contradictory,
        "empty": ((high.str.strip() == "") | (low.str.strip() == "")).to_numpy(bool),
    }
    kept = tests[~np.logical_or.reduce(list(holds.values()))].reset_index(drop=True)
    reasons = {reason: {"tests": int(wrong.sum())} for reason, wrong in holds.items()}
    return kept, {"kept": len(kept), "reasons": reasons}
