"""How far the raters of a set agree: Krippendorff's alpha (2011), and the share of pairs of judgements that are the same.

Known limits: labels are names without an order, and scores lie on an interval scale. The bootstrap draws what was judged, each
with all its judgements, so its interval says nothing of other raters.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from nnd_tasks.tables.cells import Array

_DRAWS, _CHUNK, _SEED = 1000, 50, 1  # draws of the bootstrap, those that are in memory at once


def measure_agreement(judgements: pd.DataFrame) -> dict[str, float]:
    """Measure the agreement on what several raters judged; empty where none was judged by two.

    Args:
        judgements: of `nnd_tasks.ceiling.judgements.list_judgements`. Of several of a rater on a text or pair the mean score
            counts, or the most frequent label; of a pair, which text is better is its label, or that it is a tie.

    Returns:
        ``alpha``, 1.0 where all agree; ``low`` and ``high``, the bounds of its 95% interval, by a bootstrap of what was judged;
        ``same``, the share of pairs of judgements of one text that are equal; ``units``, the number of texts or pairs with two
        judgements or more; ``raters``, the number of raters.
    """
    judgements = judgements.assign(value=judgements["label" if "label" in judgements else "score"])
    if "rejected" in judgements:
        first = judgements["candidate"] < judgements["rejected"]  # in the alphabet
        judgements["value"] = np.where(judgements["score"] > 0, np.where(first, "first", "second"), "tie")
    judgements["unit"] = number_units(judgements)
    judgements["rater"] = judgements["rater"].where(judgements["rater"] != "", judgements["place"].map("#{}".format))
    numbers = pd.api.types.is_numeric_dtype(judgements["value"])
    by_rater = ["unit", "rater"]
    if numbers:
        values = judgements.groupby(by_rater, as_index=False)["value"].mean()
    else:  # of labels that are as frequent, the first in the alphabet
        counts = judgements.groupby([*by_rater, "value"], as_index=False).size()
        values = counts.sort_values("size", ascending=False, kind="stable").drop_duplicates(by_rater)
    values = values[values["unit"].duplicated(keep=False)]
    if not len(values):
        return {}
    table = values.groupby(["unit", "value"]).size().unstack(fill_value=0)
    counts = table.to_numpy(float)
    scale = table.columns.to_numpy(float) if numbers else np.arange(counts.shape[1])
    distance = (scale[:, None] - scale) ** 2 if numbers else (scale[:, None] != scale).astype(float)
    sizes = counts.sum(axis=1)
    units = len(counts)
    generator = np.random.default_rng(_SEED)
    draws = (generator.multinomial(units, np.full(units, 1 / units), _CHUNK) for _ in range(_DRAWS // _CHUNK))
    [alpha] = _compute_alpha(counts, distance, np.ones((1, units)))
    low, high = np.quantile([_compute_alpha(counts, distance, weights) for weights in draws], [0.025, 0.975])
    same = float((counts * (counts - 1)).sum() / (sizes * (sizes - 1)).sum())
    raters = values["rater"].nunique()
    return {
        "alpha": float(alpha),
        "low": float(low),
        "high": float(high),
        "same": same,
        "units": units,
        "raters": raters,
    }


def number_units(judgements: pd.DataFrame) -> pd.Series[int]:
    """Number what was judged: a text, or a pair in either order, by an attribute (of a pair its category) and a panel."""
    if "rejected" in judgements:
        pairs = np.sort(judgements[["candidate", "rejected"]].to_numpy(object), axis=1)
        judgements = judgements.assign(candidate=[*map(str, pairs.tolist())])
        judgements["attribute"] = judgements["category"]
    judged = [name for name in ("context_id", "candidate", "attribute", "panel") if name in judgements]
    return judgements.groupby(judged, dropna=False).ngroup()


def _compute_alpha(counts: Array, distance: Array, weights: Array) -> Any:
    """Compute alpha for each row of weights of the units; ``counts`` is (units, values), ``distance`` (values, values)."""
    observed = weights @ (((counts @ distance) * counts).sum(axis=1) / (counts.sum(axis=1) - 1))
    totals = weights @ counts
    expected = ((totals @ distance) * totals).sum(axis=1) / (totals.sum(axis=1) - 1)
    return 1 - np.divide(observed, expected, out=np.zeros_like(observed), where=expected > 0)
