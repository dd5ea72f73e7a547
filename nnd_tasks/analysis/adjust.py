"""Pass rates of a run by token, by sum and by byte, and with length and word frequency taken out."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import stdtrit

from nnd_tasks.analysis.length_link import Link, Margins, curve, fit, influence, left_over, won
from nnd_tasks.analysis.results import Run
from nnd_tasks.analysis.token_files import run_tokens
from nnd_tasks.baselines import ALL
from nnd_tasks.harness.metrics import passes
from nnd_tasks.harness.span_metrics import unigram_surprise
from nnd_tasks.show.report import Table
from nnd_tasks.statistics import FEW, ClusteredMean, paired_difference, summarize_rate

#: Rate -> column of the margins that it counts.
RAW = {"pass_rate": "margin", "pass_rate_sum": "margin_sum", "pass_rate_bytes": "margin_bytes"}
ADJUSTED = "pass_rate_adjusted"
#: What is taken out, in the order of the columns of `Margins`. Units: tokens; nats of unigram surprise.
TAKEN_OUT = ("length", "frequency")
#: Where the better text is the longer one, or the shorter one, in at least this share of a category's tests, a note says so.
ONE_SIDED = 0.9


@dataclass(frozen=True)
class Adjusted:
    """What length and word frequency do to the rates of one run.

    Attributes:
        rates: a row per category (``all`` first). For each rate of `RAW` and `ADJUSTED` its value under its name, and
            ``NAME_standard_error``, ``NAME_low``, ``NAME_high``; ``change`` likewise: adjusted rate less ``pass_rate``, paired
            by test. By sum and by byte a tie fails; in the adjusted rate it counts half.
        link: what one unit of ``length`` (token) or ``frequency`` (nat of unigram surprise) adds to a sum of
            log-probabilities, in nats, with its 95% interval by the jackknife over prompts (``NAME_low``, ``NAME_high``); nan
            where it cannot be learned. It is of the best straight line; what is taken out for length is a curve.
        notes: what could not be taken out, and why; and where knowledge may have been taken out with it.
    """

    rates: pd.DataFrame
    link: dict[str, float]
    notes: list[str]


def adjust(run: Run, tests: Collection[str] | None = None) -> Adjusted:
    """Take length and word frequency out of the decisions of a run.

    Args:
        run: with ``tokens_TASK_DATE.parquet`` beside its samples where it kept tokens; without, only length is taken out.
        tests: ids of the tests to use; None takes all. A test that was not scored is never used.

    Raises:
        NNDError: the file of tokens is damaged, lacks a candidate, or is not of this run.
    """
    table = run.tests[run.tests["passed"].notna()]
    if tests is not None:
        table = table[table["test_id"].isin(tests)]
    surprise = _surprise(run)
    margins, finite = _margins(run, table, surprise)
    names, longer = TAKEN_OUT[: margins.columns.shape[1]], margins.columns[:, 0]
    decided = table["passed"].to_numpy(dtype=bool)
    # Infinite sums stay infinite whatever is taken off them, so these tests end as they were decided.
    outcomes = {name: np.where(finite, passes(table[column]), decided) for name, column in RAW.items()}
    outcomes["pass_rate"] = decided
    line = link = None
    if np.unique(margins.prompts[finite]).size >= FEW:
        line = fit(margins)
        margins = _bend(margins, finite) if line.known[0] else margins
        link = fit(margins)
        rest = left_over(margins, link)
        outcomes[ADJUSTED] = np.where(finite, won(rest), decided)
    size = margins.prompts.max() + 1
    rows = []
    for category in [ALL, *sorted(set(table["category"]))]:
        chosen = (table["category"].eq(category) | (category == ALL)).to_numpy(dtype=bool)
        prompts = margins.prompts[chosen]
        tests_of = np.bincount(prompts, minlength=size)
        counts = {name: np.bincount(prompts, outcome[chosen], size) for name, outcome in outcomes.items()}
        rates = {name: summarize_rate(counts[name], tests_of) for name in RAW}
        rates |= dict.fromkeys((ADJUSTED, "change"), ClusteredMean(math.nan))
        if link:
            moved = influence(margins, link, rest, chosen & finite)
            rates[ADJUSTED] = summarize_rate(counts[ADJUSTED], tests_of, influence=moved)
            rates["change"] = paired_difference(counts["pass_rate"], counts[ADJUSTED], tests_of, moved)
        numbers = {key: value for name, rate in rates.items() for key, value in rate.columns(name).items()}
        rows.append({"category": category, **numbers})
    notes = _notes(names, line, surprise is None)
    if link:
        differ = finite & (longer != 0)
        notes += _one_sided(table["category"].to_numpy()[differ], longer[differ] > 0)
    return Adjusted(pd.DataFrame(rows), _coefficients(names, line), notes)


def _one_sided(categories: NDArray[np.object_], longer: NDArray[np.bool_]) -> list[str]:
    """Return a note on each category, shape (tests,), whose better texts are nearly all longer, or shorter."""
    notes = []
    for category in sorted(set(categories)):
        of_category = longer[categories == category]
        share = max(of_category.mean(), 1 - of_category.mean())
        if of_category.size >= FEW and share >= ONE_SIDED:
            which = "longer" if of_category.mean() > 0.5 else "shorter"
            notes.append(
                f"{category}: in {share:.0%} of the tests that differ in length the better text is the {which} one, as "
                "with words left out or added; what the model notices of each such word goes with length, so the adjusted "
                "rate may be too low: read the raw ones"
            )
    return notes


def _coefficients(names: tuple[str, ...], link: Link | None) -> dict[str, float]:
    """Return each coefficient with Student's interval."""
    ends = ("", "_low", "_high")
    found = {f"{name}{end}": math.nan for name in TAKEN_OUT for end in ends}
    if link:
        half = stdtrit(len(link.without) - 1, 0.975) * np.sqrt(np.diagonal(link.covariance))
        values = np.where(link.known, link.coefficients, math.nan)
        numbers = np.stack([values, values - half, values + half], axis=1).ravel().tolist()
        found.update(zip((f"{name}{end}" for name in names for end in ends), numbers, strict=True))
    return found


def _notes(names: tuple[str, ...], link: Link | None, no_tokens: bool) -> list[str]:
    """Return what could not be taken out, and why."""
    notes = []
    if no_tokens:
        notes.append(
            "the run kept no tokens: only length is taken out, not word frequency; to keep them, run it with "
            """--metadata '{"tokens": true}'"""
        )
    if link is None:
        notes.append(f"fewer than {FEW} prompts: too few to learn from, so there is no adjusted rate")
        return notes
    unknown = (name for name, known in zip(names, link.known, strict=True) if not known)
    return notes + [
        f"{name}: in every category the better texts differ by equally much from the worse ones; nothing is taken out"
        for name in unknown
    ]


#: Rate -> heading of its column.
_HEADS = {"pass_rate": "by token", "pass_rate_sum": "by sum", "pass_rate_bytes": "by byte", ADJUSTED: "adjusted"}


def adjusted_tables(adjusted: Mapping[str, Adjusted]) -> list[Table]:
    """Return a table of rates and one of what was learned.

    Args:
        adjusted: model -> what length and frequency do to its rates.
    """
    rates = pd.concat([one.rates.assign(model=model) for model, one in adjusted.items()], ignore_index=True)
    rates = pd.concat([part for _, part in rates.groupby("category", sort=False)])
    links = pd.DataFrame([{"model": model, **one.link} for model, one in adjusted.items()])
    both = {"category": "{category}", "model": "{model}"}
    rate = {head: f"{{{name}:.3f}} [{{{name}_low:.3f}}, {{{name}_high:.3f}}]" for name, head in _HEADS.items()}
    change = {"adjusted - by token": "{change:+.3f} [{change_low:+.3f}, {change_high:+.3f}]"}
    units = {"nats per token": "length", "per nat of unigram surprise": "frequency"}
    learned = {head: f"{{{name}:+.3f}} [{{{name}_low:+.3f}}, {{{name}_high:+.3f}}]" for head, name in units.items()}
    about_rates = (
        "Length and word frequency taken out. By token, by sum, by byte: the likelihoods that are compared. Adjusted: by sum, "
        "less what so many tokens, and so rare ones, cost this model in the other prompts; a tie counts half. 95% intervals, "
        "clustered by prompt, with the noise of what was learned. What a model knows is taken out too as far as it grows with "
        "the difference in length, as where it notices each word that was left out."
    )
    return [
        Table("adjusted", rates, {**both, **rate, **change}, about_rates),
        Table("learned", links, {"model": "{model}", **learned}, "What was learned (95% intervals)."),
    ]


# ---------------------------------------------------------------- from a run


def _margins(
    run: Run, table: pd.DataFrame, surprise: Mapping[tuple[str, int], float] | None
) -> tuple[Margins, NDArray[np.bool_]]:
    """Return the margins of the tests in ``table`` and which of them are finite; the others weigh nothing in a fit.

    The columns are the difference of the numbers of tokens and, where it is known, that of ``surprise``.
    """

    def amounts(document: int, candidate: int) -> tuple[float, float, float]:
        """Return tokens, unigram surprise, and the size of the sum of log-probabilities."""
        scores, name = run.documents[document]["scores"][candidate], run.documents[document]["cluster_id"]
        if scores is None or scores["sum"] is None:
            return math.nan, 0.0, 0.0
        return scores["tokens"], surprise[name, candidate] if surprise else 0.0, abs(scores["sum"])

    high, low = (
        np.array([amounts(*one) for one in zip(table["document"], table[side], strict=True)], dtype=float)
        for side in ("high", "low")
    )
    sizes = high[:, 0] + low[:, 0]
    finite = np.isfinite(sizes)
    margins = Margins(
        summed=np.where(finite, table["margin_sum"].to_numpy(dtype=float), 0.0),
        columns=np.where(finite[:, None], high - low, 0.0)[:, : 2 if surprise else 1],
        sizes=np.where(finite, sizes, math.inf),
        totals=high[:, 2] + low[:, 2],
        prompts=pd.factorize(table["cluster_id"])[0],
        categories=pd.factorize(table["category"])[0],
    )
    return margins, finite


def _bend(margins: Margins, finite: NDArray[np.bool_]) -> Margins:
    """Return margins with the columns of `curve` in the place of the difference of the numbers of tokens."""
    more, both = margins.columns[finite, 0], margins.sizes[finite]
    of_length = curve((both + more) / 2, (both - more) / 2)
    columns = np.zeros((len(finite), of_length.shape[1]))
    columns[finite] = of_length
    return replace(margins, columns=np.column_stack([columns, margins.columns[:, 1:]]))


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
