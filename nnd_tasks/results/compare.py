"""Compare models on the same tests: paired by test, clustered by prompt."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from nnd_tasks.baselines import ALL
from nnd_tasks.errors import NNDError
from nnd_tasks.redact import without_secrets
from nnd_tasks.results.diagnostics import baselines_of, baselines_table, diagnostics_of, diagnostics_table
from nnd_tasks.results.margins import margin_parts, margins_table
from nnd_tasks.results.paired import Paired, pair, pair_several
from nnd_tasks.results.readers import pair_readers, reader_of, reader_tables
from nnd_tasks.results.runs import Run
from nnd_tasks.results.verdicts import give_verdicts
from nnd_tasks.show.report import MISSING, Cell, Report, Table, write_cell
from nnd_tasks.significance import (
    FEW_PROMPTS,
    LARGEST_MDE,
    LEVEL,
    POWER,
    RESAMPLES,
    detectable,
    holm,
    is_few,
    is_underpowered,
    permutation_p,
)
from nnd_tasks.statistics import FEW, paired_difference, summarize_rate


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
            pairs and categories; ``significant``: ``p_holm`` is below 0.05, the one rule for ranks and verdicts; ``disagrees``:
            the interval, which is of this pair alone, says otherwise; ``mde`` (`nnd_tasks.significance.detectable`) from the
            paired variance; ``underpowered``: not significant, and too few prompts to find realistic differences. Empty for one
            model.
        ranks: a row per model, the best first; see `rank`. Empty for fewer than three models.
        not_compared: a line for each run that no other could be compared with.
    """

    paired: Paired
    rates: pd.DataFrame
    differences: pd.DataFrame
    ranks: pd.DataFrame
    not_compared: Sequence[str]


def category_rates(paired: Paired) -> pd.DataFrame:
    """Return `Comparison.rates`: the rates of each model on all tests, then on each category."""
    rows = []
    for category in paired.categories:
        counts, tests = paired.by_prompt(paired.passed, category)
        about = {"category": category, "tests": int(tests.sum()), "prompts": len(tests), "few": is_few(len(tests))}
        for model, passed in zip(paired.models, counts.T, strict=True):
            rows.append(about | {"model": model} | summarize_rate(passed, tests)._asdict())
    return pd.DataFrame(rows).rename(columns={"mean": "rate"})


def compare_runs(runs: Sequence[Run], allow: Sequence[str] = (), *, alone: bool = False) -> list[Comparison]:
    """Compare the models on every set that at least two of them ran on.

    Args:
        runs: as `nnd_tasks.results.runs.read_results` returns them.
        allow: parts of the protocol that may differ.
        alone: if all runs are of one model, return its rates on each set.

    Raises:
        NNDError: no set has two models, or runs cannot be compared.
    """
    if alone and len({run.model for run in runs}) == 1:
        return [compare(paired) for paired in pair(runs, allow)]
    groups, lone = pair_several(runs, allow, "a comparison", "; nnd report shows one model")
    return [compare(paired, lone) for paired in groups]


def compare_readers(runs: Sequence[Run], allow: Sequence[str] = ()) -> list[Comparison]:
    """Compare the readers of each model on each set.

    Args:
        runs: as for `compare_runs`.
        allow: further parts of the protocol that may differ.

    Raises:
        NNDError: no model has several readers on one set, or runs cannot be compared.
    """
    groups = pair_readers(runs, allow)
    if not groups:
        raise NNDError(
            "--readers: no model has two readers on one set with the same chat template and shots; run nnd_SET, "
            "nnd_SET_validator and nnd_SET_choice alike"
        )
    return [compare(paired) for paired in groups]


def compare(paired: Paired, not_compared: Sequence[str] = ()) -> Comparison:
    """Compare every pair of models on all tests and on each category; of one model alone there are no differences."""
    rates = category_rates(paired)
    differences = pd.DataFrame(row for category in paired.categories for row in _compare_pairs(category, paired))
    if differences.empty:
        return Comparison(paired, rates, differences, differences, not_compared)
    # Two questions: which models differ, and on which categories. The answers to each have one chance of a false alarm.
    differences = differences.rename(columns={"mean": "difference"})
    differences["p_holm"] = differences.groupby(differences["category"] == ALL)["p"].transform(holm)
    differences["significant"] = differences["p_holm"] < LEVEL
    excludes_zero = (differences["low"] > 0) | (differences["high"] < 0)
    differences["disagrees"] = differences["low"].notna() & (excludes_zero != differences["significant"])
    too_few = [is_underpowered(row.mde, row.prompts) for row in differences.itertuples()]
    differences["underpowered"] = ~differences["significant"] & np.array(too_few)
    whole = (table[table["category"] == ALL] for table in (rates, differences))
    ranks = rank(*whole) if len(paired.runs) > 2 else pd.DataFrame()
    return Comparison(paired, rates, differences, ranks, not_compared)


def _compare_pairs(category: str, paired: Paired) -> Iterator[dict[str, Any]]:
    """Yield rows of `Comparison.differences` for all pairs of models on a category, without what Holm's correction decides."""
    counts, tests = paired.by_prompt(paired.passed, category)
    pairs = list(combinations(range(len(paired.models)), 2))
    firsts, seconds = np.array(pairs, dtype=int).reshape(-1, 2).T
    p_values = permutation_p(counts[:, seconds] - counts[:, firsts]).tolist()
    hypotheses = len(pairs) * (1 if category == ALL else paired.tests["category"].nunique())
    for (a, b), p in zip(pairs, p_values, strict=True):
        difference = paired_difference(counts[:, a], counts[:, b], tests)
        yield {
            "category": category,
            "prompts": len(tests),
            "first": paired.models[a],
            "second": paired.models[b],
            **difference._asdict(),
            "p": p,
            "mde": detectable(difference.standard_error, len(tests), hypotheses),
        }


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
    sure = differences[differences["significant"]]
    beats = {(b, a) if more > 0 else (a, b) for a, b, more in sure[["first", "second", "difference"]].to_numpy()}
    ranks = rates[["model", "rate"]].sort_values(["rate", "model"], ascending=[False, True], ignore_index=True)
    order = ranks["model"].tolist()
    apart = [all((upper, lower) in beats for upper in order[:i] for lower in order[i:]) for i in range(len(order))]
    return ranks.assign(
        best=[1 + sum(loser == model for _, loser in beats) for model in order],
        worst=[len(order) - sum(winner == model for winner, _ in beats) for model in order],
        group=np.cumsum(apart),
    )


# ---------------------------------------------------------------- the report

#: How a rate is written.
RATE = "{rate:.3f}{beaten:§} [{low:.3f}, {high:.3f}]"
LEGEND = {
    **FEW_PROMPTS,
    "§": 'a baseline, such as "the longer text wins", passes as many tests or more.',
    "‡": f"underpowered: too few prompts to find what models really differ by (fewer than {FEW}, or an MDE above "
    f"{100 * LARGEST_MDE:.0f} points).",
    "none": "no difference can be found: with so few prompts no p (Holm) is below 0.05.",
    "≠": "p (Holm) decides whether a difference is shown. The interval, which is of this pair alone, does not agree.",
}
_RATES = {
    "category": "{category}",
    "tests": "{tests:,}",
    "prompts": "{prompts:,}{few:†}",
    "{model}": RATE,
}
_RANKS = {
    "rank group": "{group}",
    "model": "{model}",
    "pass rate": "{rate:.3f}",
    "best rank": "{best}",
    "worst rank": "{worst}",
}
_RANKS_CAPTION = (
    "Ranks. Between rank groups every pair of models differs; within one, some may differ too, as the differences on all "
    "tests say (paired permutation, Holm over pairs, 0.05)."
)


def _write_mde(row: Mapping[str, Any]) -> str:
    """The MDE in points, of which there are 100. Missing where a difference is shown as others made Holm's correction milder."""
    if row["significant"] and math.isinf(row["mde"]):
        return MISSING
    text = ">100" if 1 < row["mde"] < math.inf else write_cell("{mde:points}", row)
    return f"{text}‡" if row["underpowered"] else text


_DIFFERENCES: Mapping[str, Cell] = {
    "category": "{category}",
    "second - first": "{second} - {first}",
    "difference (points)": "{difference:+points}",
    "95% interval": "{low:+points} to {high:+points}{disagrees: ≠}",
    "p": "{p:p}",
    "p (Holm)": "{p_holm:p}",
    "MDE (points)": _write_mde,
}
_DIFFERENCES_CAPTION = (
    "Differences in percentage points, paired by test and clustered by prompt: 95% t interval, p by permutation "
    f"({RESAMPLES:,} resamples), MDE: the smallest true difference that p (Holm) finds with probability {POWER}. A difference is "
    f"shown if p (Holm) is below {LEVEL}. p (Holm) answers two questions. On all tests: which models differ? Corrected over the "
    "pairs of models. On a category: which models differ on which categories? Corrected over pairs and categories together. "
    "With equal models, each question gives a false positive in at most 5% of tables."
)


def signatures_for_print(paired: Paired) -> str:
    """Return a line with the short signature of each model."""
    return f"Signatures for print: {'; '.join(f'{run.model}: {run.short_line}' for run in paired.runs)}."


def report_comparison(comparison: Comparison) -> Report:
    """Return everything that is known of the models on one set.

    Args:
        comparison: of these models.

    Raises:
        NNDError: a file of token scores is damaged or belongs to another run.
    """
    paired, differences = comparison.paired, comparison.differences
    baselines = baselines_of(paired)
    rates = comparison.rates.merge(baselines[["category", "best_baseline"]], how="left")
    rates["beaten"] = rates["best_baseline"] >= rates["rate"]
    caption = "Pass rates with 95% intervals (Wilson's), clustered by prompt."
    if paired.prompts_in_set is not None:
        caption += f" Of a sample: {len(paired.runs[0].documents):,} of the set's {paired.prompts_in_set:,} prompts."
    tables = [Table("rates", rates, _RATES, caption)]
    if len(comparison.ranks):
        tables.append(Table("ranks", comparison.ranks, _RANKS, _RANKS_CAPTION))
    brief: list[Table] = []
    if len(differences):
        tables.append(Table("differences", differences, _DIFFERENCES, _DIFFERENCES_CAPTION))
        whole = differences[differences["category"] == ALL].assign(task=paired.title)
        columns = {name: cell for name, cell in _DIFFERENCES.items() if name not in ("category", "p")}
        brief.append(Table("differences", whole, {"task": "{task}", **columns}))
    tables += [
        baselines_table(baselines),
        diagnostics_table(pd.concat(map(diagnostics_of, paired.runs), ignore_index=True)),
    ]
    if len({reader_of(run) for run in paired.runs}) > 1:
        tables += reader_tables(paired)
    if len(parts := margin_parts(paired)):
        tables.append(margins_table(parts))
    return Report(
        name=f"compare {paired.name}",
        title=f"{paired.title} on {paired.set}: {', '.join(paired.models)}",
        findings=[*paired.notes, *give_verdicts(comparison.rates, differences)],
        tables=tables,
        notes=[*comparison.not_compared, signatures_for_print(paired)],
        legend=LEGEND,
        brief=brief,
        facts={
            "set": paired.set,
            "task": paired.title,
            "signatures": {run.model: without_secrets(run.line) for run in paired.runs},
        },
    )
