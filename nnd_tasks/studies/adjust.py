"""Pass rates of a run by token, by sum and by byte, and with length and word frequency taken out."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nnd_tasks.baselines import ALL
from nnd_tasks.errors import NNDError
from nnd_tasks.results.paired import Paired
from nnd_tasks.results.readers import check_writers
from nnd_tasks.results.runs import Run
from nnd_tasks.results.token_files import run_tokens
from nnd_tasks.show.report import Report, Table
from nnd_tasks.statistics import FEW, ClusteredMean, paired_difference, summarize_rate
from nnd_tasks.studies.length_link import Floats, Margins, curve, fit, influence, left_over, won
from nnd_tasks.task.metrics import passes
from nnd_tasks.task.span_metrics import unigram_surprise
from nnd_tasks.wording import counted

#: Rate -> column of the margins that it counts.
RAW = {"pass_rate": "margin", "pass_rate_sum": "margin_sum", "pass_rate_bytes": "margin_bytes"}
ADJUSTED = "pass_rate_adjusted"
#: Where the better text is the longer one, or the shorter one, in at least this share of a category's tests, a note says so.
ONE_SIDED = 0.9


def adjust(run: Run, tests: Collection[str] | None = None) -> tuple[pd.DataFrame, list[str]]:
    """Take length and word frequency out of the decisions of a run.

    Args:
        run: with ``tokens_TASK_DATE.parquet`` beside its samples where it kept tokens; without, only length is taken out.
        tests: ids of the tests to use; None takes all. A test that was not scored, or has an infinite margin, is not used.

    Returns:
        A row per category (``all`` first), with ``model``. For each rate of `RAW` and `ADJUSTED` its value under its name, and
        ``NAME_standard_error``, ``NAME_low``, ``NAME_high``; ``change`` likewise: adjusted rate less ``pass_rate``, paired by
        test. By sum and by byte a tie fails; in the adjusted rate it counts half. Then notes: what could not be taken out, and
        why; and where knowledge may have been taken out with it.

    Raises:
        NNDError: no test is left, or the file of tokens is damaged, lacks a candidate, or is not of this run.
    """
    check_writers([run], "--adjust")
    table = run.tests.dropna(subset="passed")
    if tests is not None:
        table = table[table["test_id"].isin(tests)]
    finite = table.dropna(subset="margin_sum")
    if finite.empty:
        raise NNDError(f"{run.path}: no test has finite log-probabilities; leave --adjust out")
    notes, surprise = [], _surprise(run)
    if len(finite) < len(table):
        notes.append(f"{counted(len(table) - len(finite), 'test')} with an infinite log-probability left out")
    if surprise is None:
        notes.append(
            "the run kept no tokens: only length is taken out, not word frequency; to keep them, run it with "
            """--metadata '{"tokens": true}'"""
        )
    margins = _margins(run, finite, surprise)
    longer = pd.Series(margins.columns[:, 0], finite["category"])
    outcomes: dict[str, Any] = {name: passes(finite[column]) for name, column in RAW.items()}
    size, link = margins.prompts.max() + 1, None
    if size < FEW:
        notes.append(f"fewer than {FEW} prompts: too few to learn from, so there is no adjusted rate")
    else:
        known = fit(margins).known
        notes += [
            f"{name}: in every category the better texts differ by equally much from the worse ones; nothing is taken out"
            for name, varies in zip(("length", "frequency"), known, strict=False)
            if not varies
        ]
        if known[0]:
            more = margins.columns[:, 0]
            of_length = curve((margins.sizes + more) / 2, (margins.sizes - more) / 2)
            margins = replace(margins, columns=np.column_stack([of_length, margins.columns[:, 1:]]))
        link = fit(margins)
        rest = left_over(margins, link)
        outcomes[ADJUSTED] = won(rest)
        notes += _one_sided(longer[longer != 0] > 0)
    rows = []
    for category in [ALL, *sorted(set(finite["category"]))]:
        chosen = (finite["category"].eq(category) | (category == ALL)).to_numpy(dtype=bool)
        prompts = margins.prompts[chosen]
        tests_of = np.bincount(prompts, minlength=size)
        counts = {name: np.bincount(prompts, outcome[chosen], size) for name, outcome in outcomes.items()}
        rates = {name: summarize_rate(counts[name], tests_of) for name in RAW}
        rates |= dict.fromkeys((ADJUSTED, "change"), ClusteredMean(math.nan))
        if link:
            moved = influence(margins, link, rest, chosen)
            rates[ADJUSTED] = summarize_rate(counts[ADJUSTED], tests_of, influence=moved)
            rates["change"] = paired_difference(counts["pass_rate"], counts[ADJUSTED], tests_of, moved)
        numbers = {key: value for name, rate in rates.items() for key, value in rate.columns(name).items()}
        rows.append({"category": category, "model": run.model, **numbers})
    return pd.DataFrame(rows), notes


def _one_sided(longer: pd.Series[bool]) -> list[str]:
    """Return a note on each category whose better texts are nearly all longer, or shorter; categories are the index."""
    notes = []
    for category, share, size in longer.groupby(level=0).agg(["mean", "size"]).itertuples():
        if size >= FEW and max(share, 1 - share) >= ONE_SIDED:
            notes.append(
                f"{category}: in {max(share, 1 - share):.0%} of the tests that differ in length the better text is the "
                f"{'longer' if share > 0.5 else 'shorter'} one, as with words left out or added; what the model notices of each "
                "such word goes with length, so the adjusted rate may be too low: read the raw ones"
            )
    return notes


def add_adjusted_rates(report: Report, paired: Paired) -> Report:
    """Add to a comparison the table of rates with length and word frequency taken out, after the diagnostics.

    Args:
        report: of `report_comparison`.
        paired: the runs that it compares.

    Raises:
        NNDError: a file of token scores is damaged or belongs to another run.
    """
    table, notes = adjust_all(paired)
    after = [table.name for table in report.tables].index("diagnostics") + 1
    overall = table.data[table.data["category"] == ALL].assign(task=paired.title)
    return replace(
        report,
        tables=[*report.tables[:after], table, *report.tables[after:]],
        notes=[*notes, *report.notes],
        brief=[*report.brief, Table("adjusted", overall, {"task": "{task}", **table.columns})],
    )


def adjust_all(paired: Paired) -> tuple[Table, list[str]]:
    """Return the table of all models by `adjust`, on the tests that all have scored, and notes."""
    found = [(run.model, *adjust(run, paired.tests["test_id"])) for run in paired.runs]
    rates = pd.concat([rates for _, rates, _ in found]).sort_index(kind="stable")
    columns = {
        "category": "{category}",
        "model": "{model}",
        "by token": "{pass_rate:.3f} [{pass_rate_low:.3f}, {pass_rate_high:.3f}]",
        "by sum": "{pass_rate_sum:.3f} [{pass_rate_sum_low:.3f}, {pass_rate_sum_high:.3f}]",
        "by byte": "{pass_rate_bytes:.3f} [{pass_rate_bytes_low:.3f}, {pass_rate_bytes_high:.3f}]",
        "adjusted": "{pass_rate_adjusted:.3f} [{pass_rate_adjusted_low:.3f}, {pass_rate_adjusted_high:.3f}]",
        "adjusted - by token": "{change:+.3f} [{change_low:+.3f}, {change_high:+.3f}]",
    }
    caption = (
        "Length and word frequency taken out. By token, by sum, by byte: the likelihoods that are compared. Adjusted: by sum, "
        "less what so many tokens, and so rare ones, cost this model in the other prompts; a tie counts half. 95% intervals, "
        "clustered by prompt, with the noise of what was learned. What a model knows is taken out too as far as it grows with "
        "the difference in length, as where it notices each word that was left out."
    )
    return Table("adjusted", rates, columns, caption), [f"{model}: {note}" for model, _, own in found for note in own]


# ---------------------------------------------------------------- from a run


def _margins(run: Run, tests: pd.DataFrame, surprise: Mapping[tuple[str, int], float] | None) -> Margins:
    """Return the margins of tests: columns are the difference of the numbers of tokens and, where it is known, of surprise."""

    def amounts(side: str) -> Floats:
        """Return tokens, unigram surprise, and the size of the sum of log-probabilities, shape (tests, 3)."""
        rows = []
        for document, candidate in zip(tests["document"], tests[side], strict=True):
            scores, name = run.documents[document]["scores"][candidate], run.documents[document]["cluster_id"]
            rows.append((scores["tokens"], surprise[name, candidate] if surprise else 0.0, abs(scores["sum"])))
        return np.array(rows, dtype=float)

    high, low = amounts("high"), amounts("low")
    return Margins(
        summed=tests["margin_sum"].to_numpy(dtype=float),
        columns=(high - low)[:, : 2 if surprise else 1],
        sizes=high[:, 0] + low[:, 0],
        totals=high[:, 2] + low[:, 2],
        prompts=pd.factorize(tests["cluster_id"])[0],
        categories=pd.factorize(tests["category"])[0],
    )


def _surprise(run: Run) -> dict[tuple[str, int], float] | None:
    """Return (cluster_id, candidate) -> its unigram surprise in nats, added up over tokens; None without kept tokens.

    Tokens are counted in all candidates of the run but those of the same prompt. Words of the prompt's own topic would
    otherwise look frequent, and the other candidates' words would tell of the one at hand.

    Raises:
        NNDError: the file of tokens is damaged, lacks a candidate, or is not of this run.
    """
    found = run_tokens(run)
    if found is None:
        return None
    ids = {(name, i): tokens.ids for (name, i, with_context), tokens in found.items() if with_context}
    of_prompt: dict[str, list[NDArray[np.int32]]] = defaultdict(list)
    for (name, _), one in ids.items():
        of_prompt[name].append(one)
    unigram = unigram_surprise(ids.values())
    own = {name: np.concatenate(several) for name, several in of_prompt.items()}
    return {key: float(unigram(one, own[key[0]]).sum()) for key, one in ids.items()}
