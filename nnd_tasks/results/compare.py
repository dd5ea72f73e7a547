"""Compare models on the same tests: paired by test, clustered by prompt."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd

from nnd_tasks.baselines import ALL
from nnd_tasks.measures import MEASURES, weigh_measures
from nnd_tasks.results.paired import Paired, pair, pair_several
from nnd_tasks.results.runs import WRITER, Run
from nnd_tasks.significance import LEVEL, detectable, holm, is_underpowered, permutation_p
from nnd_tasks.statistics import FEW, clustered_mean, paired_difference, summarize_rate


@dataclass(frozen=True)
class Comparison:
    """Models on one set.

    Attributes:
        paired: what was compared.
        rates: a row per category (``all`` first) and model: ``category``, ``tests``, ``prompts``, ``few``, ``model``, and what
            `nnd_tasks.statistics.summarize_rate` gives.
        measures: the measures of `nnd_tasks.measures`, see `category_measures`.
        differences: a row per category and pair of models. ``difference``: rate of the ``second`` less rate of the ``first``,
            with ``standard_error`` and the 95% interval ``low`` to ``high`` (nan where there is none); ``p``: two-sided, by
            paired permutation over prompts; ``p_holm``: corrected, on all tests over the pairs of models, on a category over
            pairs and categories; ``significant``: ``p_holm`` is below 0.05, the one rule for ranks and verdicts; ``disagrees``:
            the interval, which is of this pair alone, says otherwise; ``mde`` (`nnd_tasks.significance.detectable`) from the
            paired variance; nan where the difference is shown although the hardest case has none; ``underpowered``: not
            significant, and too few prompts to find realistic differences. Empty for one model.
        ranks: a row per model, the best first; see `rank`. Empty for fewer than three models.
        not_compared: a line for each run that no other could be compared with.
    """

    paired: Paired
    rates: pd.DataFrame
    measures: pd.DataFrame
    differences: pd.DataFrame
    ranks: pd.DataFrame
    not_compared: Sequence[str]


def category_rates(paired: Paired) -> pd.DataFrame:
    """`Comparison.rates`: the rates of each model on all tests, then on each category."""
    rows = []
    for category, (counts, tests) in paired.passed_by_prompt.items():
        size = {"category": category, "tests": int(tests.sum()), "prompts": len(tests), "few": len(tests) < FEW}
        for model, passed in zip(paired.models, counts.T, strict=True):
            rows.append({**size, "model": model, **summarize_rate(passed, tests)._asdict()})
    return pd.DataFrame(rows).rename(columns={"mean": "rate"})


def category_measures(paired: Paired) -> pd.DataFrame:
    """Compute the measures of `nnd_tasks.measures` of each model on all tests, then on each category.

    Returns:
        A row per category and model: ``category``, ``model``, ``prompts``, ``few``, and of each measure what
        `nnd_tasks.statistics.ClusteredMean.columns` gives. Empty without a model that writes.
    """
    weighed = {run.model: weigh_measures(paired.tests_of[run.model]) for run in paired.runs if run.reader == WRITER}
    rows = []
    for category in paired.categories:
        for model, of_tests in weighed.items():
            sums, _ = paired.sum_by_prompt(of_tests, category)
            row = {"category": category, "model": model, "prompts": len(sums), "few": len(sums) < FEW}
            for measure, total, weight in zip(MEASURES, *np.split(sums.T, 2), strict=True):
                row |= clustered_mean(total, weight).columns(measure)
            rows.append(row)
    return pd.DataFrame(rows)


def compare_runs(runs: Sequence[Run], allow: Sequence[str] = (), *, alone: bool = False) -> list[Comparison]:
    """Compare the models on every set that at least two of them ran on.

    Example:
        ``compare_runs(read_results("results"))[0].differences`` is a data frame, a row per category and pair of models.

    Args:
        runs: as `nnd_tasks.results.read_runs.read_results` returns them.
        allow: parts of the protocol that may differ.
        alone: if all runs are of one model, return its rates on each set.

    Raises:
        NNDError: no set has two models, or runs cannot be compared.
    """
    if alone and len({run.model for run in runs}) == 1:
        return [compare(paired) for paired in pair(runs, allow)]
    groups, single = pair_several(runs, allow, "a comparison", "; nnd report shows one model")
    return [compare(paired, single) for paired in groups]


def compare(paired: Paired, not_compared: Sequence[str] = ()) -> Comparison:
    """Compare every pair of models on all tests and on each category; of one model alone there are no differences."""
    rates, measures = category_rates(paired), category_measures(paired)
    if len(paired.runs) == 1:
        return Comparison(paired, rates, measures, pd.DataFrame(columns=["category"]), pd.DataFrame(), not_compared)
    rows = []
    pairs = list(combinations(range(len(paired.models)), 2))
    firsts, seconds = np.array(pairs).T
    for category, (counts, tests) in paired.passed_by_prompt.items():
        hypotheses = len(pairs) * (1 if category == ALL else len(paired.categories) - 1)
        differences_of_pairs = [paired_difference(counts[:, a], counts[:, b], tests) for a, b in pairs]
        p_values = permutation_p(counts[:, seconds] - counts[:, firsts]).tolist()
        for (a, b), difference, p in zip(pairs, differences_of_pairs, p_values, strict=True):
            rows.append(
                {
                    "category": category,
                    "prompts": len(tests),
                    "first": paired.models[a],
                    "second": paired.models[b],
                    **difference._asdict(),
                    "p": p,
                    "mde": detectable(difference.standard_error, len(tests), hypotheses),
                }
            )
    # Two questions: which models differ, and on which categories. The answers to each have one chance of a false alarm.
    differences = pd.DataFrame(rows).rename(columns={"mean": "difference"})
    differences["p_holm"] = differences.groupby(differences["category"] == ALL)["p"].transform(holm)
    differences["significant"] = differences["p_holm"] < LEVEL
    excludes_zero = (differences["low"] > 0) | (differences["high"] < 0)
    differences["disagrees"] = differences["low"].notna() & (excludes_zero != differences["significant"])
    too_few = [is_underpowered(row.mde, row.prompts) for row in differences.itertuples()]
    differences["underpowered"] = ~differences["significant"] & np.array(too_few)
    # Where a difference is shown, as others made Holm's correction milder, the hardest case says nothing.
    differences.loc[differences["significant"] & np.isinf(differences["mde"]), "mde"] = math.nan
    overall = (table[table["category"] == ALL] for table in (rates, differences))
    ranks = rank(*overall) if len(paired.runs) > 2 else pd.DataFrame()
    return Comparison(paired, rates, measures, differences, ranks, not_compared)


def rank(rates: pd.DataFrame, differences: pd.DataFrame) -> pd.DataFrame:
    """Put the models in order of their rates, with the ranks that the corrected p values leave them.

    Args:
        rates: of all tests, a row per model.
        differences: of all tests, a row per pair of models.

    Returns:
        ``model``; ``rate``; ``best``: 1 + number of models that are significantly better (Holm over pairs); ``worst``: number
        of models less those that are significantly worse; ``group``: number of its rank group, from 1. Every model of a group is
        significantly better than every model of the groups below (as in the rankings of the WMT shared tasks). Within a group
        some pairs may differ, but it cannot be divided into two such groups.
    """
    significant = differences[differences["significant"]]
    beats = {
        (row.second, row.first) if row.difference > 0 else (row.first, row.second) for row in significant.itertuples()
    }
    ranks = rates[["model", "rate"]].sort_values(["rate", "model"], ascending=[False, True], ignore_index=True)
    order = ranks["model"].tolist()
    begins_group = [
        all((upper, lower) in beats for upper in order[:i] for lower in order[i:]) for i in range(len(order))
    ]
    return ranks.assign(
        best=[1 + sum(loser == model for _, loser in beats) for model in order],
        worst=[len(order) - sum(winner == model for winner, _ in beats) for model in order],
        group=np.cumsum(begins_group),
    )
