"""The report of a comparison: what it says of each pair of models, its tables, and what to read beside them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd
import pyarrow as pa

from nnd_tasks.baselines import BASELINES, WRITERS, baseline_rates
from nnd_tasks.categories import ALL
from nnd_tasks.results.compare import Comparison, rank
from nnd_tasks.results.paired import Paired, test_texts
from nnd_tasks.results.runs import OF_TESTS, Run, Words
from nnd_tasks.results.samples import outcomes_of
from nnd_tasks.show.report import Report, make_table
from nnd_tasks.show.values import write_cell
from nnd_tasks.significance import LARGEST_MDE, LEVEL, POWER, RESAMPLES, needed
from nnd_tasks.statistics import FEW, FEW_PROMPTS
from nnd_tasks.store import find_table
from nnd_tasks.text import counted, some_of

LEGEND = {
    **FEW_PROMPTS,
    "§": 'a baseline, such as "the longer text wins", passes as many tests or more.',
    "‡": f"underpowered: no difference is shown, and too few prompts to find what models really differ by: fewer than {FEW}, "
    f"or an MDE above {LARGEST_MDE:.0%} of the largest possible difference.",
    "none": "the MDE is above the largest possible difference.",
    "≠": "p (Holm) decides whether a difference is shown. The interval, which is of this pair alone, does not agree.",
}


def report_comparison(comparison: Comparison) -> Report:
    """Report what is known of the models on one set.

    `nnd_tasks.prompted` adds what is known of readers, `nnd_tasks.likelihood` what token scores say.
    """
    paired, differences = comparison.paired, comparison.differences
    baselines = baselines_of(paired)
    rates = comparison.rates.merge(baselines[["category", "best_baseline"]], how="left")
    rates["beaten"] = rates["best_baseline"] >= rates["rate"]
    of_sample = ""
    if paired.prompts_in_set is not None:
        of_sample = f" Of a sample: {len(paired.runs[0].documents):,} of the set's {paired.prompts_in_set:,} prompts."
    diagnostics = pd.concat(map(diagnostics_of, paired.runs), ignore_index=True)
    of_baselines = {name: f"{{{name}:.3f}}" for name in BASELINES if name in baselines}
    tables = [
        make_table("rates", rates, of_sample=of_sample),
        make_table("ranks", comparison.ranks),
        make_table("differences", differences, resamples=RESAMPLES, power=POWER, level=LEVEL),
        make_table("baselines", baselines, {"category": "{category}", **of_baselines}),
        make_table("diagnostics", diagnostics),
        make_table("measures", comparison.measures),
    ]
    overall = differences[differences["category"] == ALL].assign(task=paired.title)
    near = are_neighbours(comparison.rates, overall, paired.words)
    brief = [] if near.all() else [make_table("ranks", comparison.ranks)]
    brief.append(make_table("overall_differences", overall[near]))
    for_print = "; ".join(f"{run.model}: {run.short_line}" for run in paired.runs)
    return Report(
        name=f"compare {paired.name}",
        title=f"{paired.title} on {paired.set}: {', '.join(paired.models)}",
        findings=[*paired.notes, *give_verdicts(comparison.rates, differences)],
        # Tables without rows are left out: differences of one model, ranks of two, measures of readers that do not write.
        tables=[table for table in tables if len(table.data)],
        notes=[*comparison.not_compared, f"Signatures for print: {for_print}."],
        legend=LEGEND,
        brief=brief if len(overall) else [],
        facts={
            "set": paired.set,
            "task": paired.title,
            "signatures": {run.model: run.line for run in paired.runs},
        },
    )


# ---------------------------------------------------------------- sentences

#: Models above which only neighbours in rank are described, and shown with --brief.
_MANY = 20
#: Pairs of models above which those without a difference are counted, not listed: those of more than five models.
_LISTED = 10


def give_verdicts(rates: pd.DataFrame, differences: pd.DataFrame, words: Words = OF_TESTS) -> list[str]:
    """A sentence or more for each pair of models: which passes more tests, or what it would take to tell.

    A difference is shown where it is ``significant``, as for the ranks. Differences, and intervals, are those of the model with
    the higher rate less the other. A pair without one that is shown gets the MDE (`nnd_tasks.significance.detectable`), and how
    many prompts a smaller difference needs; of many models such pairs are counted.

    Args:
        rates: those of `nnd_tasks.results.compare.Comparison`.
        differences: likewise; empty for one model.
        words: how to speak of them.
    """
    sentences: list[str] = []
    if differences.empty:
        return sentences
    rate_of = rates[rates["category"] == ALL].set_index("model")["rate"]
    by_pair, near = differences.groupby(["first", "second"], sort=False), are_neighbours(rates, differences, words)
    pairs, shown = by_pair.ngroups, by_pair["significant"].transform("any")
    for _, of_pair in differences[near & (shown | (pairs <= _LISTED))].groupby(["first", "second"], sort=False):
        overall, *categories = of_pair.itertuples()
        by_category = _describe_categories(categories, words) if len(categories) > 1 else ""
        models = overall.first, overall.second
        both = ", ".join(f"{model} {write_cell(words.rate, {'value': rate_of[model]})}" for model in models)
        if overall.significant:
            worse, better = models if (overall.difference > 0) != words.lower else reversed(models)
            sentence = f"{better} {words.wins} {worse}: {both} ({_describe_difference(overall, words)})."
        else:
            sentence = f"No difference shown: {both} ({_describe_difference(overall, words)}).{_describe_power(overall, words)}"
        sentences.append(sentence + by_category)
    not_shown = int((~by_pair["significant"].any()).sum())
    if not near.all():
        sentences.append(
            f"A difference is shown for {pairs - not_shown} of {pairs} pairs of models. Of so many models only neighbours in "
            "rank are described; --out FOLDER writes the table of all differences."
        )
    elif not_shown and pairs > _LISTED:
        sentences.append(
            f"No difference shown: {not_shown} of {pairs} pairs of models; the table of differences has each."
        )
    return sentences


def are_neighbours(rates: pd.DataFrame, differences: pd.DataFrame, words: Words = OF_TESTS) -> pd.Series:
    """Tell which differences are of neighbours in rank, shape (differences,); all count as such where models are few."""
    overall = rates[rates["category"] == ALL]
    if len(overall) <= _MANY:
        return pd.Series(True, index=differences.index)
    order = rank(overall, differences[differences["category"] == ALL], lower=words.lower)["model"]
    places = dict(zip(order, order.index, strict=True))
    return (differences["first"].map(places) - differences["second"].map(places)).abs() == 1


def _describe_categories(categories: list[Any], words: Words) -> str:
    """On which categories which model passes more, and on which no difference is shown."""
    statements = []
    for second_is_better in (True, False):
        rows = [
            row for row in categories if row.significant and ((row.difference > 0) != words.lower) == second_is_better
        ]
        if rows:
            better = rows[0].second if second_is_better else rows[0].first
            names = (
                f"{row.category} ({_write(abs(row.difference), words)}{words.unit}, p {_write_p(row)})" for row in rows
            )
            statements.append(f"{better} {words.on} {', '.join(names)}")
    undecided = [row.category for row in categories if not row.significant]
    if undecided:
        statements.append(f"no difference shown on {some_of(undecided, show=str)}")
    return f" By category: {'; '.join(statements)}."


def _describe_difference(row: Any, words: Words) -> str:
    """How large a significant difference is, and how sure; else what differences the interval leaves possible."""
    points, p = _write(abs(row.difference), words) + words.unit, _write_p(row)
    if math.isnan(row.low):
        return f"{points} on every {words.prompt}, p {p}" if row.difference else f"the same on every {words.prompt}"
    low, high = row.low, row.high
    if row.difference < 0:
        low, high = -high, -low
    interval = f"{_write(low, words)} to {_write(high, words)}"
    if row.significant:
        return f"{points}, 95% interval {interval}, p {p}"
    return f"{interval}{words.unit}, but p {p}" if row.disagrees else f"{interval}{words.unit}"


def _describe_power(row: Any, words: Words) -> str:
    """What so many prompts can detect, and what a smaller difference needs."""
    if math.isnan(row.mde):
        return ""
    found = f"can detect {_write(row.mde, words)}{words.unit}"
    if math.isinf(row.mde):
        found = "have an MDE above the largest possible difference"
    if 2 / 2**row.prompts >= LEVEL:  # the smallest p that flips can have
        found = "cannot show any difference"
    sentence = f" {counted(row.prompts, words.prompt)} {found}"
    aims = [aim for aim in words.aims if aim < row.mde]
    if aims and row.prompts >= FEW:  # the spread of fewer prompts is too unsure to plan from
        prompts = needed(row.standard_error, row.prompts, aims[0], row.hypotheses)
        if math.isfinite(prompts):
            sentence += f"; {_write(aims[0], words)}{words.unit} would take about {prompts:,.0f}"
    return f"{sentence}."


def _write_p(row: Any) -> str:
    return write_cell("{p:p}", {"p": row.p_holm})


def _write(difference: float, words: Words) -> str:
    """A difference, without its unit."""
    return write_cell(words.difference, {"value": difference}).replace("-", "\N{MINUS SIGN}")


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
    tests = test_texts(run).loc[paired.tests["test_id"]]
    contexts = [str(run.documents[document].get("context") or "") for document in paired.tests["document"]]
    table = find_table(*(str(run.protocol.get(key, "")) for key in ("set", "config", "data")))
    columns: dict[str, Any] = {"context": contexts, **tests[["high", "low", "category"]]}
    texts: Sequence[pa.ChunkedArray] = ()
    if table is not None:
        texts = table["high"], table["low"]  # words are counted in the whole set
        whole = table.select([name for name in table.column_names if name in {"test_id", *WRITERS}]).to_pandas()
        columns |= {**whole.set_index("test_id").reindex(tests.index)}
    rates = pd.DataFrame.from_dict(baseline_rates(pa.table(columns), texts), orient="index")
    rates = rates.reindex(columns=[name for name in BASELINES if name in rates])
    best = rates.drop(columns="system", errors="ignore").max(axis=1)
    return rates.assign(best_baseline=best).rename_axis("category").reset_index()


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
    outcomes = outcomes_of(tests)
    passed = outcomes["pass_rate"] == 1
    shares = {
        "near": tests["margin"].abs() < NEAR,
        "flips_bytes": (outcomes["pass_rate_bytes"] == 1) != passed,
        "flips_sum": (outcomes["pass_rate_sum"] == 1) != passed,
        "pmi": outcomes["pass_rate_pmi"],
        "survives": outcomes["survival"],
    }
    shares = pd.DataFrame(shares, dtype=float)
    groups = [(ALL, shares), *shares.groupby(tests["category"])]
    return pd.DataFrame({"category": name, "model": run.model, **group.mean()} for name, group in groups)
