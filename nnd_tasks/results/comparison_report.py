"""The report of a comparison: what it says of each pair of models, its tables, and what to read beside them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from nnd_tasks.baselines import ALL, BASELINES, Writers, baseline_rates, writers_of
from nnd_tasks.results.compare import Comparison
from nnd_tasks.results.paired import Paired
from nnd_tasks.results.readers import reader_tables
from nnd_tasks.results.runs import Run
from nnd_tasks.results.samples import recount
from nnd_tasks.results.token_analyses import margins_table
from nnd_tasks.rule import Likelihood, Normalization, passes
from nnd_tasks.show.report import Report, Table, write_cell
from nnd_tasks.significance import LARGEST_MDE, LEVEL, POWER, RESAMPLES, needed
from nnd_tasks.statistics import FEW, FEW_PROMPTS
from nnd_tasks.store import find_table
from nnd_tasks.text import counted, some_of

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
_DIFFERENCES = {
    "category": "{category}",
    "second - first": "{second} - {first}",
    "difference (points)": "{difference:+points}",
    "95% interval": "{low:+points} to {high:+points}{disagrees: ≠}",
    "p": "{p:p}",
    "p (Holm)": "{p_holm:p}",
    "MDE (points)": "{mde:points}{underpowered:‡}",
}
_DIFFERENCES_CAPTION = (
    "Differences in percentage points, paired by test and clustered by prompt: 95% t interval, p by permutation "
    f"({RESAMPLES:,} resamples), MDE: the smallest true difference that p (Holm) finds with probability {POWER}. A difference is "
    f"shown if p (Holm) is below {LEVEL}. p (Holm) answers two questions. On all tests: which models differ? Corrected over the "
    "pairs of models. On a category: which models differ on which categories? Corrected over pairs and categories together. "
    "With equal models, each question gives a false positive in at most 5% of tables."
)


def report_comparison(comparison: Comparison) -> Report:
    """Report everything that is known of the models on one set.

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
    tables = [
        Table("rates", rates, _RATES, caption),
        Table("ranks", comparison.ranks, _RANKS, _RANKS_CAPTION),
        Table("differences", differences, _DIFFERENCES, _DIFFERENCES_CAPTION),
        baselines_table(baselines),
        diagnostics_table(pd.concat(map(diagnostics_of, paired.runs), ignore_index=True)),
        *reader_tables(paired),
        margins_table(paired),
    ]
    overall = differences[differences["category"] == ALL].assign(task=paired.title)
    columns = {name: cell for name, cell in _DIFFERENCES.items() if name not in ("category", "p")}
    brief = [Table("differences", overall, {"task": "{task}", **columns})]
    return Report(
        name=f"compare {paired.name}",
        title=f"{paired.title} on {paired.set}: {', '.join(paired.models)}",
        findings=[*paired.notes, *give_verdicts(comparison.rates, differences)],
        # Tables without rows are left out: differences of one model, ranks of two, cells of one reader, margin parts without
        # token scores.
        tables=[table for table in tables if len(table.data)],
        notes=[*comparison.not_compared, signatures_for_print(paired.runs)],
        legend=LEGEND,
        brief=[table for table in brief if len(table.data)],
        facts={
            "set": paired.set,
            "task": paired.title,
            "signatures": {run.model: run.line for run in paired.runs},
        },
    )


def signatures_for_print(runs: Sequence[Run]) -> str:
    """A line with the short signature of each model."""
    return f"Signatures for print: {'; '.join(f'{run.model}: {run.short_line}' for run in runs)}."


# ---------------------------------------------------------------- sentences

#: Differences of which one, the first below the MDE, is what a comparison that shows none could aim for.
_AIMS = (0.05, 0.02, 0.01)
#: Pairs of models above which those without a difference are counted, not listed: those of more than five models.
_LISTED = 10


def give_verdicts(rates: pd.DataFrame, differences: pd.DataFrame) -> list[str]:
    """A sentence or more for each pair of models: which passes more tests, or what it would take to tell.

    A difference is shown where it is ``significant``, as for the ranks. Signs are those of the table: the second model less the
    first. A pair without a difference gets the MDE (`nnd_tasks.significance.detectable`) and the number of prompts that a
    smaller difference needs; of many models such pairs are counted.

    Args:
        rates: those of `nnd_tasks.results.compare.Comparison`.
        differences: likewise; empty for one model.
    """
    sentences: list[str] = []
    if differences.empty:
        return sentences
    rate_of = rates[rates["category"] == ALL].set_index("model")["rate"]
    pairs = differences.groupby(["first", "second"], sort=False)
    not_listed = 0
    for _, of_pair in pairs:
        overall, *categories = of_pair.itertuples()
        by_category = _describe_categories(categories) if len(categories) > 1 else ""
        significant = any(row.significant for row in (overall, *categories))
        if not significant and len(pairs) > _LISTED:
            not_listed += 1
            continue
        both = ", ".join(f"{model} {100 * rate_of[model]:.1f}%" for model in (overall.first, overall.second))
        if overall.significant:
            better, worse = (
                (overall.second, overall.first) if overall.difference > 0 else (overall.first, overall.second)
            )
            sentence = f"{better} passes more tests than {worse}: {both} ({_describe_difference(overall)})."
        else:
            sentence = f"No difference shown: {both} ({_describe_interval(overall)})."
            sentence += _describe_power(overall, len(pairs))
        sentences.append(sentence + by_category)
    if not_listed:
        sentences.append(
            f"No difference shown: {not_listed} of {len(pairs)} pairs of models; the table of differences has each."
        )
    return sentences


def _describe_categories(categories: list[Any]) -> str:
    """On which categories which model passes more, and on which no difference is shown."""
    statements = []
    for second_is_better in (True, False):
        rows = [row for row in categories if row.significant and (row.difference > 0) == second_is_better]
        if rows:
            better = rows[0].second if second_is_better else rows[0].first
            names = (f"{row.category} ({_write_points(row.difference)} points, p {_write_p(row)})" for row in rows)
            statements.append(f"{better} passes more on {', '.join(names)}")
    undecided = [row.category for row in categories if not row.significant]
    if undecided:
        statements.append(f"no difference shown on {some_of(undecided, show=str)}")
    return f" By category: {'; '.join(statements)}."


def _describe_difference(row: Any) -> str:
    """How large a significant difference is, and how sure."""
    if math.isnan(row.low):
        return f"{_write_points(row.difference)} points on every prompt, p {_write_p(row)}"
    interval = f"{_write_points(row.low)} to {_write_points(row.high)}"
    return f"{_write_points(row.difference)} points, 95% interval {interval}, p {_write_p(row)}"


def _describe_interval(row: Any) -> str:
    """What differences the interval leaves possible; with p where that is why none is shown."""
    if math.isnan(row.low) and row.difference:
        return f"{_write_points(row.difference)} points on every prompt, p {_write_p(row)}"
    if math.isnan(row.low):
        return "the same on every prompt"
    interval = f"{_write_points(row.low)} to {_write_points(row.high)} points"
    return f"{interval}, but p {_write_p(row)}" if row.disagrees else interval


def _describe_power(row: Any, hypotheses: int) -> str:
    """What so many prompts can detect, and what a smaller difference needs."""
    if math.isnan(row.mde):
        return ""
    possible = row.mde <= 1
    sentence = f" {counted(row.prompts, 'prompt')} can detect "
    sentence += f"{write_cell('{mde:points}', {'mde': row.mde})} points" if possible else "no difference"
    if row.prompts >= FEW:  # the spread of fewer prompts is too unsure to plan from
        aim = next((aim for aim in _AIMS if aim < row.mde), None)
        prompts = math.inf if aim is None else needed(row.standard_error, row.prompts, aim, hypotheses)
        if aim is not None and math.isfinite(prompts):
            sentence += (
                f"; {counted(round(100 * aim), 'point')} {'needs' if aim == 0.01 else 'need'} about {prompts:,.0f}"
            )
    return f"{sentence}."


def _write_p(row: Any) -> str:
    return write_cell("{p:p}", {"p": row.p_holm})


def _write_points(share: float) -> str:
    """A difference in percentage points, with its sign."""
    return write_cell("{share:+points}", {"share": share}).replace("-", "\N{MINUS SIGN}")


# ---------------------------------------------------------------- what to read beside rates

#: Margins (nats per token) below which rounding may decide.
NEAR = 1e-6


def baselines_of(paired: Paired) -> pd.DataFrame:
    """The pass rates of baselines on the tests that all models have scored.

    Returns:
        A row per category (``all`` first): ``category``; a baseline's pass rate under its name, for those of
        `nnd_tasks.baselines.BASELINES` that decide some of the tests; ``best_baseline``: the highest rate of those that decide
        all.
    """
    run = paired.runs[0]
    tests = run.tests.assign(**run.texts).set_index("test_id").loc[paired.tests["test_id"]]
    contexts = [str(run.documents[document].get("context") or "") for document in tests["document"]]
    pairs = tuple(zip(contexts, tests["high"], tests["low"], strict=True))
    # Words are counted in the whole set.
    texts, writers_of_test = _set_facts(*(str(run.protocol.get(key, "")) for key in ("set", "config", "data")))
    writers = tuple(writers_of_test.get(test_id, ("", "")) for test_id in tests.index) if writers_of_test else ()
    rates = pd.DataFrame.from_dict(baseline_rates(pairs, tuple(tests["category"]), texts, writers), orient="index")
    rates = rates.reindex(columns=[name for name in BASELINES if name in rates])
    best = rates.drop(columns="system", errors="ignore").max(axis=1)
    return rates.assign(best_baseline=best).rename_axis("category").reset_index()


def baselines_table(baselines: pd.DataFrame) -> Table:
    """The table of `baselines_of`."""
    columns = {name: f"{{{name}:.3f}}" for name in BASELINES if name in baselines}
    caption = "Baselines: share of tests that rules without understanding pass (system: of the tests with a text of that system)."
    return Table("baselines", baselines, {"category": "{category}", **columns}, caption)


def diagnostics_of(run: Run) -> pd.DataFrame:
    """What puts the pass rates of a run into proportion, over the tests that it scored.

    Returns:
        A row per category (``all`` first): ``category``; ``model``; ``near``: share of tests decided by a margin smaller than
        `NEAR`; ``flips_bytes``, ``flips_sum``: share of tests whose outcome changes with the log-likelihood per byte, or the
        summed one, instead of the one per token; ``pmi``: pass rate by the mean log-likelihood with context less that without;
        ``survives``: share of the passes that also pass without context. The last two are nan where the run did not score the
        candidates without context.
    """
    tests = run.tests.dropna(subset="passed")
    passed, by_bytes, by_sums = (
        recount(tests, by) == 1 for by in (Normalization.TOKENS, Normalization.BYTES, Normalization.NONE)
    )
    high_gain, low_gain = (Likelihood(tests[f"{side}_mean"] - tests[f"{side}_no_context"]) for side in ("high", "low"))
    high_alone, low_alone = (Likelihood(tests[f"{side}_no_context"]) for side in ("high", "low"))
    outcomes = {
        "near": tests["margin"].abs() < NEAR,
        "flips_bytes": by_bytes != passed,
        "flips_sum": by_sums != passed,
        "pmi": passes(high_gain, low_gain),
        "survives": np.where(passed, passes(high_alone, low_alone), math.nan),
    }
    shares = pd.DataFrame(outcomes, dtype=float)
    rows = [
        {"category": name, "model": run.model, **shares[tests["category"].eq(name) | (name == ALL)].mean()}
        for name in [ALL, *sorted(tests["category"].unique())]
    ]
    return pd.DataFrame(rows)


def diagnostics_table(diagnostics: pd.DataFrame) -> Table:
    """The table of `diagnostics_of` several runs."""
    columns = {
        "category": "{category}",
        "model": "{model}",
        "near ties": "{near:.3f}",
        "flips, bytes": "{flips_bytes:.3f}",
        "flips, sum": "{flips_sum:.3f}",
        "PMI": "{pmi:.3f}",
        "survives": "{survives:.3f}",
    }
    caption = (
        "Diagnostics: share of tests decided by less than 1e-6, and flips (share of outcomes that differ from per-token scoring "
        "with the likelihood per byte, or the summed one)."
    )
    return Table("diagnostics", diagnostics, columns, caption)


@lru_cache(maxsize=4)
def _set_facts(name: str, config: str, data: str) -> tuple[tuple[str, ...] | None, dict[str, Writers]]:
    """The distinct candidates of a whole set, and who wrote those of each test; None and nothing where it is not built.

    Args:
        name: of the set.
        config: of the set.
        data: fingerprint of the config.
    """
    table = find_table(name, config, data)
    if table is None:
        return None, {}
    writers = dict(zip(table.column("test_id").to_pylist(), writers_of(table), strict=False))
    return tuple({*table.column("high").to_pylist(), *table.column("low").to_pylist()}), writers
