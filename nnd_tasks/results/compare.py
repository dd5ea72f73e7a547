"""Compare models on the same tests: paired by test, clustered by prompt."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd

from nnd_tasks.categories import ALL
from nnd_tasks.measures import MEASURES, weigh_measures
from nnd_tasks.results.paired import Paired, pair_several
from nnd_tasks.results.runs import WRITER, Run
from nnd_tasks.significance import judge_differences, paired_difference, permutation_p
from nnd_tasks.statistics import FEW, clustered_mean, summarize_rate

#: Pairs of models, and models, that are computed at once, to bound memory.
_PAIRS, _MODELS = 1000, 20


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
            significant, and too few prompts to find realistic differences; ``hypotheses``: how many p values are corrected
            together. Empty for one model.
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
    summarize = clustered_mean if paired.numbers else summarize_rate
    for category, (counts, tests) in paired.passed_by_prompt.items():
        scored = int(paired.of_category(category).sum())
        size = {"category": category, "tests": scored, "prompts": len(tests), "few": len(tests) < FEW}
        for model, passed in zip(paired.models, counts.T, strict=True):
            rows.append({**size, "model": model, **summarize(passed, tests)._asdict()})
    return pd.DataFrame(rows).rename(columns={"mean": "rate"})


def category_measures(paired: Paired) -> pd.DataFrame:
    """Compute the measures of `nnd_tasks.measures` of each model on all tests, then on each category.

    Returns:
        A row per category and model: ``category``, ``model``, ``prompts``, ``few``, and of each measure what
        `nnd_tasks.statistics.ClusteredMean.columns` gives. Empty without a model that writes.
    """
    models = [run.model for run in paired.runs if run.reader == WRITER]
    sums_of: dict[str, list[np.ndarray]] = {category: [] for category in paired.categories}
    for start in range(0, len(models), _MODELS):
        some = models[start : start + _MODELS]
        weighed = np.hstack([weigh_measures(paired.tests_of[model]) for model in some])
        for category, of_models in sums_of.items():
            of_models += np.split(paired.sum_by_prompt(weighed, category).totals, len(some), axis=1)
    rows = []
    for category, of_models in sums_of.items():
        for model, sums in zip(models, of_models, strict=True):
            row = {"category": category, "model": model, "prompts": len(sums), "few": len(sums) < FEW}
            for measure, total, weight in zip(MEASURES, *np.split(sums.T, 2), strict=True):
                row |= clustered_mean(total, weight).columns(measure)
            rows.append(row)
    return pd.DataFrame(rows)


def compare_runs(runs: Sequence[Run], allow: str | Sequence[str] = ()) -> list[Comparison]:
    """Compare the models on every set that at least two of them ran on.

    Example:
        ``compare_runs(read_results("results"))[0].differences`` is a data frame, a row per category and pair of models.

    Args:
        runs: as `nnd_tasks.results.read_runs.read_results` returns them.
        allow: part of the protocol that may differ, or several.

    Returns:
        A comparison for each set and protocol that two models share, in the order of the runs.

    Raises:
        NNDError: no set has two models, or runs cannot be compared.
    """
    allow = [allow] if isinstance(allow, str) else allow
    groups, single = pair_several(runs, allow, "a comparison", "; nnd report shows one model")
    return compare_all(groups, single)


def compare(paired: Paired, not_compared: Sequence[str] = ()) -> Comparison:
    """Compare every pair of models on all tests and on each category; of one model alone there are no differences."""
    return compare_all([paired], not_compared)[0]


def compare_all(groups: Sequence[Paired], not_compared: Sequence[str] = ()) -> list[Comparison]:
    """Compare the models of each group; the p values of all tasks that are not NND's are corrected together."""
    rates, measures = [*map(category_rates, groups)], [*map(category_measures, groups)]
    rows = {i: _pair_models(paired) for i, paired in enumerate(groups) if len(paired.runs) > 1}
    families: dict[int, dict[int, pd.DataFrame]] = defaultdict(dict)
    for i, of_group in rows.items():
        families[-1 if groups[i].of_documents else i][i] = of_group
    tables: dict[int, pd.DataFrame] = {}
    for family in families.values():
        judged = judge_differences(pd.concat(family))
        tables |= {i: judged.loc[i] for i in family}
    comparisons = []
    for i, paired in enumerate(groups):
        differences = tables.get(i, pd.DataFrame(columns=["category"]))
        overall = (table[table["category"] == ALL] for table in (rates[i], differences))
        ranks = rank(*overall, lower=paired.words.lower) if len(paired.runs) > 2 else pd.DataFrame()
        comparisons.append(Comparison(paired, rates[i], measures[i], differences, ranks, not_compared))
    return comparisons


def _pair_models(paired: Paired) -> pd.DataFrame:
    """The differences of each pair of models, up to ``p``; see `Comparison.differences`."""
    pairs = list(combinations(range(len(paired.models)), 2))
    parts = []
    for category, (counts, tests) in paired.passed_by_prompt.items():
        p = permutation_p(counts, np.array(pairs).T)
        for start in range(0, len(pairs), _PAIRS):
            firsts, seconds = np.array(pairs[start : start + _PAIRS]).T
            columns = {
                "category": category,
                "prompts": len(tests),
                "first": [paired.models[i] for i in firsts],
                "second": [paired.models[i] for i in seconds],
                **paired_difference(counts.T[firsts], counts.T[seconds], tests, span=paired.span)._asdict(),
                "p": p[start : start + _PAIRS],
                "span": paired.span,
                "question": (category != ALL) | paired.is_part,
            }
            parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True).rename(columns={"mean": "difference"})


def rank(rates: pd.DataFrame, differences: pd.DataFrame, *, lower: bool = False) -> pd.DataFrame:
    """Put the models in order of their rates, with the ranks that the corrected p values leave them.

    Args:
        rates: of all tests, a row per model.
        differences: of all tests, a row per pair of models.
        lower: a lower rate is better.

    Returns:
        ``model``; ``rate``; ``best``: 1 + number of models that are significantly better (Holm over pairs); ``worst``: number
        of models less those that are significantly worse; ``group``: number of its rank group, from 1. Every model of a group is
        significantly better than every model of the groups below (as in the rankings of the WMT shared tasks). Within a group
        some pairs may differ, but it cannot be divided into two such groups.
    """
    significant = differences[differences["significant"]]
    of_pairs = zip(*(significant[name] for name in ("first", "second", "difference")), strict=True)
    beats = {(second, first) if (by > 0) != lower else (first, second) for first, second, by in of_pairs}
    wins, losses = Counter(winner for winner, _ in beats), Counter(loser for _, loser in beats)
    ranks = rates[["model", "rate"]].sort_values(["rate", "model"], ascending=[lower, True], ignore_index=True)
    order = ranks["model"].tolist()
    begins_group = [
        all((upper, lower) in beats for upper in order[:i] for lower in order[i:]) for i in range(len(order))
    ]
    return ranks.assign(
        best=[1 + losses[model] for model in order],
        worst=[len(order) - wins[model] for model in order],
        group=np.cumsum(begins_group),
    )
