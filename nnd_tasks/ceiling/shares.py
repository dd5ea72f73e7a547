"""The share of the human ceiling that models reach, on the same leave-one-out tests.

A pair of texts that is no published test needs no new request: each text was scored, so its outcome is a comparison of two
numbers.

Known limits: of a clean config or a sample, only tests between texts that it holds can be asked.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nnd_tasks.baselines import ALL, is_of_category
from nnd_tasks.ceiling.ceiling import rate_tests, read_panels
from nnd_tasks.errors import NNDError
from nnd_tasks.results.paired import Paired
from nnd_tasks.results.runs import SIDES, Run
from nnd_tasks.rule import Likelihood, passes
from nnd_tasks.show.report import Report, make_table
from nnd_tasks.statistics import FEW, summarize_rate
from nnd_tasks.store import find_dataset, find_table

RESAMPLES = 1000


@lru_cache(maxsize=20)
def _read_tests(folder: Path, config: str, data: str) -> tuple[pd.DataFrame, dict[str, str]] | None:
    """Read the leave-one-out tests of a set, and category -> what other panels pass of its tests; None where it has none."""
    try:
        panels = read_panels(folder, config)
    except NNDError:
        return None
    others: dict[str, list[str]] = defaultdict(list)
    for other in panels[1:]:
        for row in rate_tests(panels[0].judge(other), panels[0], other.name).itertuples():
            others[row.category].append(f"{other.name} {row.ceiling:.3f}")
    return panels[0].leave_one_out()[0], {category: ", ".join(rates) for category, rates in others.items()}


def outcomes_of(run: Run, tests: pd.DataFrame) -> NDArray[np.float64]:
    """Tell which tests a model passes: 1, 0, or nan where it has not read a text; shape (tests,).

    Args:
        run: of the model.
        tests: with ``cluster_id``, and ``high`` and ``low`` as texts.
    """
    means = {
        (document["cluster_id"], text): score["mean"]
        for document in run.documents
        for text, score in zip(document["candidates"], document["scores"], strict=True)
        if score is not None
    }
    high, low = (
        np.array([means.get(key) for key in zip(tests["cluster_id"], tests[side], strict=True)], dtype=float)
        for side in SIDES
    )
    return np.asarray(passes(Likelihood(high), Likelihood(low)), dtype=float)


def find_shares(paired: Paired) -> pd.DataFrame:
    """Compute the share of the ceiling of each model.

    Args:
        paired: models on one set.

    Returns:
        A row per category (``all`` first) and model: ``category``, ``model``, ``tests`` (times raters), ``left_out``,
        ``prompts``, ``few``, ``ceiling`` on these tests with ``ceiling_low`` and ``ceiling_high``, ``another`` (what other
        panels pass of the tests of this one), ``same_rate``, and ``share`` with ``share_low`` and ``share_high``. Empty for a set
        without single judgements, one that is not built here from the same data, and readers that choose between two texts.
    """
    protocol = paired.runs[0].protocol
    name, config, data = (str(protocol.get(key, "")) for key in ("set", "config", "data"))
    folder = None if find_table(name, config, data) is None else find_dataset(name)
    found = None if folder is None else _read_tests(folder, config, data)
    if found is None or any(run.reader == "choice" for run in paired.runs):
        return pd.DataFrame()
    tests, others = found
    outcomes = np.stack([outcomes_of(run, tests) for run in paired.runs], axis=1)
    scored = ~np.isnan(outcomes).any(axis=1)
    rows = []
    for category in (ALL, *sorted(tests["category"].unique())):
        chosen = is_of_category(tests, category)
        asked = tests[chosen & scored]
        numbers = np.column_stack([np.ones(len(asked)), asked["passed"], outcomes[chosen & scored]])
        sums = pd.DataFrame(numbers).groupby(asked["cluster_id"].to_numpy()).sum().to_numpy()
        if not len(sums):
            continue
        ceiling = summarize_rate(sums[:, 1], sums[:, 0])
        of_category = {
            "category": category, "tests": len(asked), "left_out": int(chosen.sum()) - len(asked), "prompts": len(sums),
            "few": len(sums) < FEW, "ceiling": ceiling.mean, "ceiling_low": ceiling.low, "ceiling_high": ceiling.high,
            "another": others.get(category),
        }  # fmt: skip
        above = sums[:, 1:] - sums[:, :1] / 2  # what passes beyond one half: of people, then of each model
        for number, model in enumerate(paired.models, start=1):
            share = share_of(above[:, number], above[:, 0]) if ceiling.low > 0.5 else [math.nan] * 3
            named = dict(zip(("share", "share_low", "share_high"), share, strict=True))
            rows.append({**of_category, "model": model, "same_rate": sums[:, 1 + number].sum() / len(asked), **named})
    return pd.DataFrame(rows)


def share_of(model: NDArray[np.float64], people: NDArray[np.float64]) -> list[float]:
    """Divide what a model passes beyond one half by what people do, with the 95% interval of a bootstrap over prompts (BCa).

    Args:
        model: tests passed of each prompt, less half of its tests, shape (prompts,).
        people: the same of raters who were left out.
    """
    from scipy.stats import bootstrap  # slow to import

    def divide(model: Any, people: Any, axis: int) -> Any:
        return model.sum(axis=axis) / people.sum(axis=axis)

    if len(model) < 2:
        return [model.sum() / people.sum(), math.nan, math.nan]
    with np.errstate(divide="ignore", invalid="ignore"):  # a resample in which people pass one half
        drawn = bootstrap((model, people), divide, paired=True, n_resamples=RESAMPLES, batch=100, random_state=0)
    return [model.sum() / people.sum(), *drawn.confidence_interval]


def add_shares(report: Report, paired: Paired) -> Report:
    """Add the shares of the ceiling to the report of a comparison, and the ceiling to its rates, for the chart."""
    shares = find_shares(paired)
    if shares.empty:
        return report
    rates, *others = report.tables
    rates = replace(rates, data=rates.data.merge(shares[["category", "model", "ceiling"]], how="left"))
    return replace(report, tables=[rates, make_table("ceiling_shares", shares, resamples=RESAMPLES), *others])
