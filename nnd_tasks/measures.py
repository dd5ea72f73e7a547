"""What likelihoods say of a model while it trains, besides which text is likelier.

Rates of passed tests move late in a training, likelihoods early. A measure is a mean over tests, of which the better and the
worse texts are followed separately: a model that learns a language makes both likelier, and one that tells them apart only the
better ones. A text counts as often as it occurs in tests.

| measure | what it is |
|---|---|
| ``bits_high``, ``bits_low`` | bits per UTF-8 byte of the better and of the worse texts |
| ``margin`` | log-likelihood per token of the better text less that of the worse one, in nats |
| ``top1_high``, ``top1_low`` | share of tokens that the model finds likeliest |
| ``rank_high``, ``rank_low`` | mean binary logarithm of the rank of a token in the vocabulary; 0 is the likeliest |
| ``entropy`` | mean entropy of what the model expects in the place of a token, in nats, over both texts |

All but the first three need a run with ``token_stats=True``.

Known limits: all but the bits are means per token, which cannot be compared between vocabularies.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

MARGIN = "margin"
#: Measure -> columns of the tests whose sum weighs a test; none where each test counts once. Those of ``token_stats`` come last.
MEASURES: dict[str, tuple[str, ...]] = {
    "bits_high": ("high_bytes",),
    "bits_low": ("low_bytes",),
    MARGIN: (),
    "top1_high": ("high_tokens",),
    "top1_low": ("low_tokens",),
    "rank_high": ("high_tokens",),
    "rank_low": ("low_tokens",),
    "entropy": ("high_tokens", "low_tokens"),
}
#: What a run with ``token_stats=True`` records of a text: tokens that are the likeliest, sum of the binary logarithms of
#: ranks, sum of entropies in nats.
TOKEN_STATS = ("top1", "rank", "entropy")


def measure_tests(tests: Mapping[str, Any]) -> dict[str, Any]:
    """Compute the measures of each test; nan where a text has no finite likelihood or no statistics of its tokens.

    Args:
        tests: the columns ``sum``, ``mean``, ``tokens``, ``bytes`` and those of `TOKEN_STATS`, each of both sides, such as
            ``high_sum``; all of shape (tests,).
    """
    measures = {MARGIN: tests["high_mean"] - tests["low_mean"]}
    for side in ("high", "low"):
        measures[f"bits_{side}"] = -tests[f"{side}_sum"] / (math.log(2) * tests[f"{side}_bytes"])
        for name in ("top1", "rank"):
            measures[f"{name}_{side}"] = tests[f"{side}_{name}"] / tests[f"{side}_tokens"]
    both = {name: tests[f"high_{name}"] + tests[f"low_{name}"] for name in ("entropy", "tokens")}
    return {**measures, "entropy": both["entropy"] / both["tokens"]}


def weigh_tests(tests: Mapping[str, Any], measure: str) -> Any:
    """Compute the weight of each test in a measure, shape (tests,); 0 where it has none, or a text no finite likelihood."""
    columns = [tests[column] for column in MEASURES.get(measure, ())]
    missing = np.isnan(tests[MARGIN]) | np.isnan(tests[measure])
    return np.where(missing, 0.0, sum(columns) if columns else 1.0)


def weigh_measures(tests: pd.DataFrame, names: Sequence[str] = tuple(MEASURES)) -> NDArray[np.float64]:
    """Multiply the measures of each test by their weights: added up over tests, the quotient of both is the measure.

    Args:
        tests: of a run, with its measures.
        names: of `MEASURES`, or any other columns, of which each test counts once.

    Returns:
        Each measure times its weight, then the weights, shape (tests, 2 * measures).
    """
    columns = {*names, MARGIN, *(column for name in names for column in MEASURES.get(name, ()))}
    values = {name: tests[name].astype(float).to_numpy() for name in columns}
    weights = np.column_stack([weigh_tests(values, name) for name in names])
    numbers = np.column_stack([values[name] for name in names])
    return np.hstack([np.where(np.isnan(numbers), 0.0, numbers) * weights, weights])


# ---------------------------------------------------------------- in a task


def list_measures(breakdown: Mapping[str, tuple[str, str]], *, token_stats: bool) -> dict[str, tuple[str, str | None]]:
    """List the measures of a task: name -> one of `MEASURES`, and the category of its tests, None for all.

    Args:
        breakdown: pass rate -> (column, value) of the tests that it is over, for those of parts of a set.
        token_stats: whether there are those that need `TOKEN_STATS`.
    """
    kinds = list(MEASURES) if token_stats else list(MEASURES)[:3]
    names: dict[str, tuple[str, str | None]] = {kind: (kind, None) for kind in kinds}
    for rate, (column, value) in breakdown.items():
        if column == "category":
            names |= {f"{kind}{rate.removeprefix('pass_rate')}": (kind, value) for kind in kinds}
    return names


def measure_document(
    tests: Sequence[Mapping[str, Any]],
    records: Sequence[Mapping[str, Any] | None],
    measures: Mapping[str, tuple[str, str | None]],
) -> dict[str, tuple[float, float]]:
    """Add the measures of the tests of one document up.

    Args:
        tests: of the document.
        records: of its candidates, as the samples have them.
        measures: see `list_measures`.

    Returns:
        Name -> sum of the weighted values, and of the weights; under ``<name>_stderr`` too, as the task has it of rates.
    """
    quantities = ("sum", "mean", "tokens", "bytes", *TOKEN_STATS)
    of_texts = np.array([[(record or {}).get(name) for name in quantities] for record in records], dtype=float)
    sides = {side: of_texts[[test[side] for test in tests]].T for side in ("high", "low")}
    columns = {
        f"{side}_{name}": row for side, rows in sides.items() for name, row in zip(quantities, rows, strict=True)
    }
    columns |= measure_tests(columns)
    kinds = {
        kind: (np.nan_to_num(columns[kind]), weigh_tests(columns, kind))
        for kind in {kind for kind, _ in measures.values()}
    }
    categories = np.array([test["category"] for test in tests], dtype=object)
    chosen = {
        category: category is None or categories == category for category in {one for _, one in measures.values()}
    }
    sums = {}
    for name, (kind, category) in measures.items():
        values, weights = kinds[kind][0], kinds[kind][1] * chosen[category]
        sums[name] = sums[f"{name}_stderr"] = (float(values @ weights), float(weights.sum()))
    return sums
