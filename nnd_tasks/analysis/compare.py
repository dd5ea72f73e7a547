"""Compare models on the same tests: paired by test, clustered by prompt."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from nnd_tasks.analysis.diagnostics import diagnostics_of, diagnostics_table
from nnd_tasks.analysis.margins import margin_parts, margins_table
from nnd_tasks.analysis.marks import FEW_PROMPTS, is_few
from nnd_tasks.analysis.power import EXACT, LARGEST_MDE, LEVEL, RESAMPLES, detectable, is_underpowered
from nnd_tasks.analysis.results import Run
from nnd_tasks.analysis.side_by_side import Paired, not_compared, pair
from nnd_tasks.analysis.verdicts import give_verdicts
from nnd_tasks.baselines import ALL
from nnd_tasks.errors import NNDError
from nnd_tasks.secrets import without_secrets
from nnd_tasks.show.report import Cell, Report, Table, interval
from nnd_tasks.statistics import FEW, paired_difference, summarize_rate

_CHUNK = 1 << 22  # entries of a block of resamples
#: Columns of `Comparison.differences`.
_DIFFERENCE = (
    *("category", "prompts", "first", "second", "difference", "standard_error", "low", "high", "disagrees"),
    *("p", "p_holm", "mcnemar", "mde", "underpowered"),
)


@dataclass(frozen=True)
class Comparison:
    """Models on one set.

    Attributes:
        paired: what was compared.
        rates: a row per category (``all`` first) and model: ``category``, ``tests``, ``prompts``, ``few``, ``model``, and what
            `nnd_tasks.statistics.summarize_rate` gives.
        differences: a row per category and pair of models. ``difference``: rate of the ``second`` less rate of the ``first``,
            with ``standard_error`` and the 95% interval ``low`` to ``high`` (nan where there is none); ``p``: two-sided, by
            paired permutation over prompts; ``p_holm``: corrected, on all tests over the pairs of models, on a category over
            pairs and categories; ``mcnemar``: p of McNemar's exact test, which takes tests for independent; ``mde``
            (`nnd_tasks.analysis.power.detectable`) from the paired variance; ``underpowered``; ``disagrees``: interval and p
            disagree on whether the true difference can be 0.
        ranks: a row per model, the best first; see `rank`. Empty for fewer than three models.
        resamples: of the permutation test.
        seed: of its sign flips.
        not_compared: a line for each run that no other could be compared with.
    """

    paired: Paired
    rates: pd.DataFrame
    differences: pd.DataFrame
    ranks: pd.DataFrame
    resamples: int
    seed: int
    not_compared: list[str] = field(default_factory=list)


def cluster_counts(passed: NDArray[np.bool_], clusters: Sequence[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sum outcomes by prompt.

    Args:
        passed: shape (tests, models).
        clusters: the prompt (``cluster_id``) of each test.

    Returns:
        Tests passed, shape (prompts, models), and tests, shape (prompts,); prompts in order of appearance.
    """
    place = {name: i for i, name in enumerate(dict.fromkeys(clusters))}
    rows = np.fromiter((place[name] for name in clusters), dtype=np.int64, count=len(clusters))
    counts = np.zeros((len(place), passed.shape[1]), dtype=np.int64)
    np.add.at(counts, rows, passed.astype(np.int64))
    return counts, np.bincount(rows, minlength=len(place))


def _outcomes(paired: Paired, category: str) -> tuple[NDArray[np.bool_], NDArray[np.int64], NDArray[np.int64]]:
    """Return the outcomes of a category's tests, shape (tests, models), and what `cluster_counts` makes of them."""
    chosen = paired.tests["category"].eq(category).to_numpy(dtype=bool) | (category == ALL)
    passed = paired.passed[chosen]
    return passed, *cluster_counts(passed, paired.tests.loc[chosen, "cluster_id"].tolist())


def category_rates(paired: Paired) -> pd.DataFrame:
    """Return `Comparison.rates`: the rates of each model on all tests, then on each category."""
    rows = []
    for category in [ALL, *sorted(set(paired.tests["category"]))]:
        _, counts, tests = _outcomes(paired, category)
        about = {"category": category, "tests": int(tests.sum()), "prompts": len(tests), "few": is_few(len(tests))}
        for model, passed in zip(paired.models, counts.T, strict=True):
            rows.append({**about, "model": model, **summarize_rate(passed, tests)})
    return pd.DataFrame(rows)


def permutation_p(differences: ArrayLike, resamples: int = RESAMPLES, seed: int = 0) -> NDArray[np.float64]:
    """Return two-sided p values of the paired permutation test: the two models trade places in random prompts.

    All pairs of models share the same flips. With up to `EXACT` prompts that differ for a pair, all flips are counted; with
    more the p value is (1 + flips as extreme) / (1 + resamples), which is never 0 (Phipson and Smyth, 2010).

    Args:
        differences: tests passed by the second model less those by the first, shape (prompts, pairs); or any other numbers
            whose signs the trade changes.
        resamples: number of flips that are drawn.
        seed: of the flips.

    Returns:
        Shape (pairs,).
    """
    values = np.asarray(differences, dtype=np.float64)
    # Rounding must not decide whether two sums are equal; whole numbers stay exact.
    observed = np.abs(values.sum(axis=0)) - 1e-9 * np.abs(values).sum(axis=0)
    p = np.empty(values.shape[1])
    many = np.count_nonzero(values, axis=0) > EXACT
    for j in np.flatnonzero(~many):
        p[j] = _exact_p(values[values[:, j] != 0, j], float(observed[j]))
    if many.any():
        extreme = np.zeros(int(many.sum()), dtype=np.int64)
        rng = np.random.default_rng(seed)
        k = values.shape[0]
        drawn = values[:, many]
        step = max(4, _CHUNK // max(k, 1) // 4 * 4)  # numpy draws four signs at a time: blocks must not change them
        for start in range(0, resamples, step):
            size = min(step, resamples - start)
            signs = rng.integers(0, 2, size=(size, k), dtype=np.int8).astype(np.float64) * 2 - 1
            extreme += (np.abs(signs @ drawn) >= observed[many]).sum(axis=0)
        p[many] = (1 + extreme) / (1 + resamples)
    return p


def _exact_p(values: NDArray[np.float64], observed: float) -> float:
    """Return the share of all sign flips of a few numbers whose sum is at least as far from 0 as ``observed``."""
    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate([sums + value, sums - value])
    return float(np.mean(np.abs(sums) >= observed))


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Return p values after Holm's step-down correction (Holm, 1979), in the same order; nan, which counts for none, stays."""
    p = np.asarray(p_values, dtype=np.float64)
    order = p.argsort()
    hypotheses = np.count_nonzero(~np.isnan(p)) - np.arange(len(p))
    corrected = np.empty_like(p)
    corrected[order] = np.maximum.accumulate(np.minimum(1, hypotheses * p[order]))
    return corrected


def mcnemar(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> float:
    """Return the exact two-sided p value of McNemar's test on paired outcomes, shape (tests,); 1 where all are equal."""
    only_second, only_first = int((second & ~first).sum()), int((first & ~second).sum())
    from scipy.stats import binomtest  # this import takes most of a second

    discordant = only_first + only_second
    return float(binomtest(only_second, discordant).pvalue) if discordant else 1.0


def compare_runs(
    runs: Sequence[Run], allow: Sequence[str] = (), resamples: int = RESAMPLES, seed: int = 0
) -> list[Comparison]:
    """Compare the models on every set that at least two of them ran on.

    Args:
        runs: as `nnd_tasks.analysis.results.read_results` returns them.
        allow: parts of the protocol that may differ.
        resamples: of the permutation test.
        seed: of its sign flips.

    Raises:
        NNDError: no set has two models, or runs cannot be compared.
    """
    groups = pair(runs, allow)
    several = [paired for paired in groups if len(paired.runs) > 1]
    if not several:
        if any(one.set == other.set and one.model != other.model for one, other in combinations(runs, 2)):
            raise NNDError(not_compared(runs, groups)[0])  # on one set, but not asked the same
        raise NNDError(
            f"no set has two models: {', '.join(f'{run.model} on {run.set}' for run in runs)}; name runs of two models or more"
        )
    for paired in several:
        if paired.tests.empty:
            raise NNDError(f"{paired.set}: no test was scored by all of {', '.join(paired.models)}")
    notes = not_compared(runs, groups)
    return [replace(compare(paired, resamples, seed), not_compared=notes) for paired in several]


def compare(paired: Paired, resamples: int = RESAMPLES, seed: int = 0) -> Comparison:
    """Compare every pair of models on all tests and on each category.

    Args:
        paired: models on the same tests; of one alone there are no differences.
        resamples: of the permutation test.
        seed: of its sign flips.
    """
    rates = category_rates(paired)
    categories = list(dict.fromkeys(rates["category"]))
    families = []
    # Two questions: which models differ, and on which categories. The answers to each have one chance of a false alarm.
    for family in (categories[:1], categories[1:]):
        hypotheses = math.comb(len(paired.runs), 2) * len(family)
        rows = [row for category in family for row in _differences(category, paired, resamples, seed, hypotheses)]
        table = pd.DataFrame(rows, columns=list(_DIFFERENCE))
        families.append(table.assign(p_holm=holm([row["p"] for row in rows])))
    differences = pd.concat(families, ignore_index=True)
    ranks = rank(rates[rates["category"] == ALL], families[0]) if len(paired.runs) > 2 else pd.DataFrame()
    return Comparison(paired, rates, differences, ranks, resamples, seed)


def _differences(category: str, paired: Paired, resamples: int, seed: int, hypotheses: int) -> list[dict[str, Any]]:
    """Return rows of `Comparison.differences` for all pairs of models on a category, without ``p_holm``."""
    if len(paired.models) < 2:
        return []
    passed, counts, tests = _outcomes(paired, category)
    pairs = list(combinations(range(len(paired.models)), 2))
    p_values = permutation_p(np.stack([counts[:, b] - counts[:, a] for a, b in pairs], axis=1), resamples, seed)
    rows = []
    for (a, b), p in zip(pairs, p_values, strict=True):
        found = paired_difference(counts[:, a], counts[:, b], tests)
        mde = detectable(found.standard_error, found.clusters, hypotheses, resamples)
        rows.append(
            {
                "category": category,
                "prompts": len(tests),
                "first": paired.models[a],
                "second": paired.models[b],
                "difference": found.difference,
                "standard_error": found.standard_error,
                "low": found.low,
                "high": found.high,
                "disagrees": not math.isnan(found.low) and (found.low > 0 or found.high < 0) != (p < LEVEL),
                "p": float(p),
                "p_holm": math.nan,
                "mcnemar": mcnemar(passed[:, a], passed[:, b]),
                "mde": mde,
                "underpowered": is_underpowered(mde, len(tests)),
            }
        )
    return rows


def rank(rates: pd.DataFrame, differences: pd.DataFrame) -> pd.DataFrame:
    """Return the models in order of their rates, with the places that the corrected p values leave them.

    Args:
        rates: of all tests, a row per model.
        differences: of all tests, a row per pair of models.

    Returns:
        ``model``; ``rate``; ``best``: 1 + number of models that are significantly better (Holm over pairs); ``worst``: number
        of models less those that are significantly worse; ``group``: number of its rank group, from 1. Every model of a group is
        significantly better than every model of the groups below (as in the rankings of the WMT shared tasks). Within a group
        some pairs may differ, but it cannot be divided into two such groups.
    """
    rate_of = dict(zip(rates["model"], rates["rate"], strict=True))
    # Model -> the models that are significantly better than it.
    better: dict[str, set[str]] = {model: set() for model in rate_of}
    for one in differences.itertuples():
        if one.p_holm < LEVEL and one.difference:
            winner, loser = (one.second, one.first) if one.difference > 0 else (one.first, one.second)
            better[loser].add(winner)
    order = sorted(rate_of, key=lambda model: (-rate_of[model], model))
    group, rows = 1, []
    for i, model in enumerate(order):
        group += i > 0 and all(set(order[:i]) <= better[lower] for lower in order[i:])
        worst = len(order) - sum(model in winners for winners in better.values())
        rows.append(
            {"group": group, "best": 1 + len(better[model]), "worst": worst, "model": model, "rate": rate_of[model]}
        )
    return pd.DataFrame(rows)


# ---------------------------------------------------------------- the report

#: How a rate is written.
RATE = "{rate:.3f}{beaten:§} [{low:.3f}, {high:.3f}]"
LEGEND: Mapping[str, str] = {
    **FEW_PROMPTS,
    "§": 'a baseline, such as "the longer text wins", passes as many tests or more.',
    "‡": f"underpowered: too few prompts to detect what models really differ by (fewer than {FEW}, or an MDE above "
    f"{LARGEST_MDE}). none: no difference can be found, as no p can be small enough with so few prompts.",
    "≠": "interval and p (before Holm) do not agree on whether 0 is possible. They are two methods, and this is a close call or "
    "one of few prompts: take the difference as not shown.",
}


def rates_table(rates: pd.DataFrame) -> Table:
    """Return the table of `Comparison.rates`."""
    columns = {"category": "{category}", "tests": "{tests:,}", "prompts": "{prompts:,}{few:†}", "{model}": RATE}
    return Table("rates", rates, columns, "Pass rates with 95% intervals (Wilson's), clustered by prompt.")


def differences_table(comparison: Comparison) -> Table:
    """Return the table of `Comparison.differences`."""
    columns: dict[str, Cell] = {
        "category": "{category}",
        "second - first": "{second} - {first}",
        "difference": "{difference:+.3f}",
        "95% interval": lambda row: interval(row["low"], row["high"]) + (" ≠" if row["disagrees"] else ""),
        "p": "{p:p}",
        "p (Holm)": "{p_holm:p}",
        "McNemar": "{mcnemar:p}",
        "MDE": "{mde:.3f}{underpowered:‡}",
    }
    caption = (
        f"Differences, paired by test and clustered by prompt: 95% t interval, p by permutation ({comparison.resamples:,} "
        "resamples), McNemar's exact test for reference (it takes tests for independent). MDE: the smallest true difference "
        "that p (Holm) finds with probability 0.8. p (Holm) answers two questions. On all tests: which models differ? Corrected "
        "over the pairs of models. On a category: which models differ on which errors? Corrected over pairs and categories "
        "together. With equal models, each question gives a false positive (any p (Holm) below 0.05) in at most 5% of tables."
    )
    return Table("differences", comparison.differences, columns, caption)


def ranks_table(ranks: pd.DataFrame) -> Table:
    """Return the table of `rank`."""
    columns: dict[str, Cell] = {
        "rank group": "{group}",
        "rank": lambda row: str(row["best"]) if row["best"] == row["worst"] else f"{row['best']}-{row['worst']}",
        "model": "{model}",
        "pass rate": "{rate:.3f}",
    }
    caption = (
        "Ranks. Between rank groups every pair of models differs; within one, some may differ too, as the differences on all "
        "tests say (paired permutation, Holm over pairs, 0.05)."
    )
    return Table("ranks", ranks, columns, caption)


def report_comparison(comparison: Comparison, *, adjusted: bool = False, brief: bool = False) -> Report:
    """Return everything that is known of the models on one set.

    Args:
        comparison: of these models.
        adjusted: with length and word frequency taken out.
        brief: only what ``--brief`` prints.

    Raises:
        NNDError: a file of token scores is damaged or belongs to another run.
    """
    paired = comparison.paired
    differences = differences_table(comparison)
    whole = comparison.differences[comparison.differences["category"] == ALL].assign(task=paired.title)
    names = ("second - first", "difference", "95% interval", "p (Holm)", "MDE")
    summary = {"task": "{task}", **{name: differences.columns[name] for name in names}}
    diagnostics = pd.concat([diagnostics_of(run) for run in paired.runs], ignore_index=True)
    rates = comparison.rates.merge(diagnostics[["category", "model", "best_baseline"]], how="left")
    tables = [rates_table(rates.assign(beaten=rates["best_baseline"] >= rates["rate"]))]
    if not brief:
        tables += [ranks_table(comparison.ranks)] if len(comparison.ranks) else []
        tables += [differences] if len(whole) else []
        tables.append(diagnostics_table(diagnostics))
    notes = []
    if adjusted:
        from nnd_tasks.analysis.adjust import adjust, adjusted_tables  # the import of splines takes long

        tests = set(paired.tests["test_id"])
        by_model = {run.model: adjust(run, tests) for run in paired.runs}
        tables += adjusted_tables(by_model)
        notes += [f"{model}: {note}" for model, one in by_model.items() for note in one.notes]
    if not brief and len(parts := margin_parts(paired)):
        tables.append(margins_table(parts))
    signatures = {run.model: without_secrets(run.line) for run in paired.runs}
    lines = pd.DataFrame(signatures.items(), columns=["model", "signature"])
    tables.append(Table("signatures", lines, {"model": "{model}", "signature": "{signature}"}, only_files=True))
    return Report(
        name=f"compare {paired.title}",
        title=f"{paired.title} on {paired.set}: {', '.join(paired.models)}",
        findings=[*paired.notes, *give_verdicts(comparison)],
        tables=tables,
        notes=[*notes, *(f"Not in this table: {line}" for line in comparison.not_compared)],
        legend=LEGEND,
        brief=Table("differences", whole, summary) if len(whole) else None,
        facts={
            "set": paired.set,
            "task": paired.title,
            "models": paired.models,
            "left_out": paired.left_out,
            "beyond": paired.beyond,
            "resamples": comparison.resamples,
            "seed": comparison.seed,
        },
    )
