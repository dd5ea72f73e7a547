"""The share of the human ceiling that models reach, on the same leave-one-out tests.

A pair of texts that is no published test needs no new request: each text was scored, so its outcome is a comparison of two
numbers.

Known limits: of a clean config or a sample, only tests between texts that it holds can be asked. Simulated coverage of the 95%
intervals (``benchmarks/ceiling_coverage.py``): by prompt .94 to .96, over persons .94 to .97.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pandas as pd

from nnd_tasks.categories import is_of_category
from nnd_tasks.ceiling.ceiling import rate_tests, ratio_interval, read_tests
from nnd_tasks.results.paired import Paired
from nnd_tasks.results.runs import SIDES, Run
from nnd_tasks.rule import Likelihood, passes
from nnd_tasks.show.report import Report, make_table
from nnd_tasks.store import find_dataset, find_table

SHARE = ("share", "share_low", "share_high", "wide_low", "wide_high")


def find_shares(paired: Paired) -> pd.DataFrame:
    """Compute the share of the ceiling of each model.

    Args:
        paired: models on one set.

    Returns:
        A row per category (``all`` first) and model: ``category``, ``model``, ``tests`` (times raters), ``left_out``,
        ``prompts``, ``few``, ``ceiling`` on these tests with ``ceiling_low`` and ``ceiling_high``, ``another`` (what other
        panels pass of the tests of this one), ``same_rate``, ``share`` with ``share_low`` and ``share_high``, and
        ``wide_low`` and ``wide_high`` over persons too (`ratio_interval`). Empty for a set without single judgements, one that
        is not built here from the same data, and readers that choose between two texts.
    """
    protocol = paired.runs[0].protocol
    name, config, data = (str(protocol.get(key, "")) for key in ("set", "config", "data"))
    folder = None if find_table(name, config, data) is None else find_dataset(name)
    found = None if folder is None else read_tests(folder, config, data)
    if found is None or any(run.reader == "choice" for run in paired.runs):
        return pd.DataFrame()
    (tests, *without), others = found
    means = pd.DataFrame({number: _read_means(run) for number, run in enumerate(paired.runs)}, dtype=float)
    asked, *rest = (_add_outcomes(part, means) for part in (tests, *without))
    if asked.empty:
        return asked
    known = rate_tests(asked)[["category", "tests", "prompts", "few", "ceiling", "low", "high"]]
    known = known.rename(columns={"low": "ceiling_low", "high": "ceiling_high"})
    rows = []
    for row in known.to_dict("records"):
        every, *parts = (part[is_of_category(part, row["category"])] for part in (tests, asked, *rest))
        row |= {"left_out": len(every) - row["tests"], "another": others.get(row["category"])}
        for number, model in enumerate(paired.models):
            first, *without = (part.assign(value=part[number] - 0.5, weight=part["passed"] - 0.5) for part in parts)
            share = ratio_interval(first, without) if row["ceiling_low"] > 0.5 else [math.nan] * len(SHARE)
            of_model = dict(zip(SHARE, share, strict=True))
            rows.append({**row, "model": model, "same_rate": first[number].mean(), **of_model})
    return pd.DataFrame(rows)


def _read_means(run: Run) -> dict[tuple[str, str], float | None]:
    """Map (cluster_id, text) to its log-likelihood per token, for all texts that the model has read."""
    return {
        (document["cluster_id"], text): score["mean"]
        for document in run.documents
        for text, score in zip(document["candidates"], document["scores"], strict=True)
        if score is not None
    }


def _add_outcomes(tests: pd.DataFrame, means: pd.DataFrame) -> pd.DataFrame:
    """Take the tests whose texts all models have read, with a column of what each passes: 1 or 0.

    Args:
        tests: with ``cluster_id``, and ``high`` and ``low`` as texts.
        means: of `_read_means`; a column for each model, named by its number.
    """
    high, low = (means.reindex(pd.MultiIndex.from_frame(tests[["cluster_id", side]])).to_numpy() for side in SIDES)
    outcomes = pd.DataFrame(passes(Likelihood(high), Likelihood(low)), tests.index)
    return tests.join(outcomes.dropna(), how="inner")


def add_shares(report: Report, paired: Paired) -> Report:
    """Add the shares of the ceiling to the report of a comparison, and the ceiling to its rates, for the chart."""
    shares = find_shares(paired)
    if shares.empty:
        return report
    rates, *others = report.tables
    rates = replace(rates, data=rates.data.merge(shares[["category", "model", "ceiling"]], how="left"))
    return replace(report, tables=[rates, make_table("ceiling_shares", shares), *others])
