"""Pass rates of a run by token, by sum and by byte, and with length and word frequency taken out.

What tokens, and rare tokens, cost a model is learned from all prompts but one, and taken off the margins of that one. The model
is, for a test of category c, with sums of log-probabilities S, numbers of tokens n, unigram surprise U and a natural cubic
spline f:

    S_better - S_worse = knowledge_c + f(n_better) - f(n_worse) + b (U_better - U_worse) + noise

What is left after f and b are taken off decides the adjusted test.

Known limits: knowledge that grows with the difference in length, as of words left out or added, is taken out with it. Word
frequency is that in the candidates of the run's other prompts, which is rough where these are few.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

from nnd_tasks.baselines import ALL, is_of_category
from nnd_tasks.errors import NNDError
from nnd_tasks.results.paired import Paired
from nnd_tasks.results.runs import Run, check_writers
from nnd_tasks.results.samples import read_tokens, recount
from nnd_tasks.show.report import Report, make_table
from nnd_tasks.statistics import FEW, ClusteredMean, paired_difference, summarize_rate
from nnd_tasks.task.metrics import NORMALIZATIONS
from nnd_tasks.task.scored_tokens import unigram_surprise
from nnd_tasks.text import counted

Floats = NDArray[np.float64]
Ints = NDArray[np.integer[Any]]
ADJUSTED = "pass_rate_adjusted"
#: Where the better text is the longer one, or the shorter one, in at least this share of a category's tests, a note says so.
ONE_SIDED = 0.9


def adjust(run: Run, tests: Collection[str] | None = None) -> tuple[pd.DataFrame, list[str]]:
    """Take length and word frequency out of the decisions of a run.

    Args:
        run: with ``tokens_TASK_DATE.parquet`` beside its samples where it kept tokens; without, only length is taken out.
        tests: ids of the tests to use; None takes all. A test that was not scored, or has an infinite margin, is not used.

    Returns:
        A row per category (``all`` first), with ``model``. For each of its rates its value under its name, and
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
    margins = _margins(finite, surprise)
    longer = pd.Series(margins.columns[:, 0], finite["category"])
    outcomes: dict[str, Any] = {name: recount(finite, by) for name, by in NORMALIZATIONS.items()}
    size, link = margins.prompts.max() + 1, None
    if size < FEW:
        notes.append(f"fewer than {FEW} prompts: too few to learn from, so there is no adjusted rate")
    else:
        learnable = fit(margins).learnable
        notes += [
            f"{name}: in every category the better texts differ by equally much from the worse ones; nothing is taken out"
            for name, varies in zip(("length", "frequency"), learnable, strict=False)
            if not varies
        ]
        if learnable[0]:
            of_length = curve(finite["high_tokens"].to_numpy(), finite["low_tokens"].to_numpy())
            margins = replace(margins, columns=np.column_stack([of_length, margins.columns[:, 1:]]))
        link = fit(margins)
        remainder = left_over(margins, link)
        outcomes[ADJUSTED] = won(remainder)
        notes += _one_sided(longer[longer != 0] > 0)
    rows = []
    for category in [ALL, *sorted(set(finite["category"]))]:
        chosen = is_of_category(finite, category)
        prompts = margins.prompts[chosen]
        tests_of = np.bincount(prompts, minlength=size)
        counts = {name: np.bincount(prompts, outcome[chosen], size) for name, outcome in outcomes.items()}
        rates = {name: summarize_rate(counts[name], tests_of) for name in NORMALIZATIONS}
        rates |= dict.fromkeys((ADJUSTED, "change"), ClusteredMean(math.nan))
        if link:
            moved = influence(margins, link, remainder, chosen)
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
    adjusted = [(run.model, *adjust(run, paired.tests["test_id"])) for run in paired.runs]
    rates = pd.concat([rates for _, rates, _ in adjusted]).sort_index(kind="stable")
    overall = rates[rates["category"] == ALL].assign(task=paired.title)
    after = [table.name for table in report.tables].index("diagnostics") + 1
    return replace(
        report,
        tables=[*report.tables[:after], make_table("adjusted", rates), *report.tables[after:]],
        notes=[*(f"{model}: {note}" for model, _, notes in adjusted for note in notes), *report.notes],
        brief=[*report.brief, make_table("adjusted_overall", overall)],
    )


# ---------------------------------------------------------------- from a run


def _margins(tests: pd.DataFrame, surprise: pd.Series[float] | None) -> Margins:
    """The margins of tests: columns are the difference of the numbers of tokens and, where it is known, of surprise."""
    columns = [tests["high_tokens"] - tests["low_tokens"]]
    if surprise is not None:
        high, low = (surprise[pd.MultiIndex.from_frame(tests[["cluster_id", side]])] for side in ("high", "low"))
        columns.append(high.to_numpy() - low.to_numpy())
    return Margins(
        summed=tests["margin_sum"].to_numpy(dtype=float),
        columns=np.column_stack(columns).astype(float),
        sizes=(tests["high_tokens"] + tests["low_tokens"]).to_numpy(dtype=float),
        totals=(tests["high_sum"].abs() + tests["low_sum"].abs()).to_numpy(dtype=float),
        prompts=pd.factorize(tests["cluster_id"])[0],
        categories=pd.factorize(tests["category"])[0],
    )


def _surprise(run: Run) -> pd.Series[float] | None:
    """Unigram surprise in nats, added up over the tokens of each prompt's candidates; None without kept tokens.

    Tokens are counted in all candidates of the run but those of the same prompt. Words of the prompt's own topic would
    otherwise look frequent, and the other candidates' words would tell of the one at hand.

    Returns:
        Named by cluster_id and candidate.

    Raises:
        NNDError: the file of tokens is damaged, lacks a candidate, or is not of this run.
    """
    if run.tokens is None:
        return None
    ids = {(name, i): tokens.ids for (name, i, with_context), tokens in read_tokens(run).items() if with_context}
    unigram = unigram_surprise(ids.values())
    surprise: dict[Any, float] = {}
    for _, texts in pd.Series(ids, dtype=object).groupby(level=0):
        of_prompt = np.concatenate([*texts])
        surprise |= {key: float(unigram(token_ids, of_prompt).sum()) for key, token_ids in texts.items()}
    return pd.Series(surprise)


# ---------------------------------------------------------------- what tokens cost a model

#: A coefficient is known if its column, or a sum of columns, varies within categories by more than this share of its size,
#: squared. Rounding gives about 1e-16.
_VARIES = 1e-10
#: Share of the two sums below which what is left of a margin is rounding: sums have the seven digits of a 32-bit float.
ROUNDING = 1e-6
#: Number of knots of f. With five, and with no noise at all, all curves that were tried (powers, logarithm, 1/n, exponential,
#: a bend) leave rates within 0.02 of 0.5; straight lines miss it by up to 0.09.
KNOTS = 5


def curve(high: Floats, low: Floats) -> Floats:
    """Return the columns of f: f(n_better) - f(n_worse) is a sum of them, for any natural cubic spline f.

    A straight line is one. The knots are quantiles of the lengths; they look neither at scores nor at judgements.

    Args:
        high: tokens of the better text of each test, shape (tests,).
        low: of the worse one; not all lengths may be equal.
    """
    knots = np.unique(np.quantile(np.concatenate([high, low]), np.linspace(0, 1, KNOTS)))
    spline = CubicSpline(knots, np.eye(len(knots)), bc_type="natural")
    return np.asarray(spline(high) - spline(low))


@dataclass(frozen=True, eq=False)
class Margins:
    """The tests that a link is learned from, and applied to.

    Attributes:
        summed: log-probability of the better text less that of the worse one, in nats, shape (tests,).
        columns: the same difference of what is to be taken out, such as numbers of tokens, shape (tests, columns).
        sizes: tokens of both texts, shape (tests,).
        totals: absolute log-probabilities of both texts added up, in nats, shape (tests,).
        prompts: which prompt each test belongs to, from 0, shape (tests,).
        categories: which category, from 0, shape (tests,).
    """

    summed: Floats
    columns: Floats
    sizes: Floats
    totals: Floats
    prompts: Ints
    categories: Ints


@dataclass(frozen=True, eq=False)
class Link:
    """Coefficients of the columns, in nats per unit.

    Attributes:
        coefficients: learned from all prompts, shape (columns,); 0 where nothing can be learned.
        without: learned from all prompts but one, shape (prompts, columns).
        learnable: whether a column varies, so that its coefficient can be learned, shape (columns,).
    """

    coefficients: Floats
    without: Floats
    learnable: NDArray[np.bool_]


def fit(margins: Margins) -> Link:
    """Fit the coefficients by weighted least squares, on all tests and without each prompt.

    A category has a constant of its own, so that what a model knows is not mistaken for a price of tokens where better texts
    are longer. A test weighs 1 / tokens of both texts, as each token adds noise to the sums.
    """
    number, columns = int(margins.prompts.max()) + 1, margins.columns.shape[1]
    weights = 1 / np.maximum(margins.sizes, 1)
    values = np.column_stack([margins.columns, margins.summed])
    size = np.sqrt(weights @ values**2)
    size[size == 0] = 1
    values = values / size
    values -= np.average(values, axis=0, weights=weights)  # the constants take it up; sums of squares stay exact
    squares = np.zeros((number, columns + 1, columns + 1))
    np.add.at(squares, margins.prompts, weights[:, None, None] * values[:, :, None] * values[:, None, :])
    cells = np.zeros((number, int(margins.categories.max()) + 1, columns + 2))
    ones = np.column_stack([np.ones(len(values)), values])
    np.add.at(cells, (margins.prompts, margins.categories), weights[:, None] * ones)
    # The first is of all tests, the others are without a prompt.
    squares, cells = (np.concatenate([[each.sum(axis=0)], each.sum(axis=0) - each]) for each in (squares, cells))
    weight, sums = cells[..., 0], cells[..., 1:]
    # With a prompt, a whole category may be gone.
    share = np.where(weight > 1e-9 * weight[0], 1 / np.maximum(weight, 1e-300), 0)
    centred = squares - np.einsum("pgi,pgj,pg->pij", sums, sums, share)
    eigenvalues, directions = np.linalg.eigh(centred[:, :columns, :columns])
    inverse = np.where(eigenvalues > _VARIES, 1 / np.maximum(eigenvalues, _VARIES), 0)
    solved = np.einsum("pij,pj,pkj,pk->pi", directions, inverse, directions, centred[:, :columns, columns])
    coefficients = solved * size[columns] / size[:columns]
    learnable = np.diagonal(centred[0])[:columns] > _VARIES
    return Link(coefficients[0], coefficients[1:], learnable)


def left_over(margins: Margins, link: Link) -> Floats:
    """The part of each margin that the coefficients of the other prompts do not explain, in nats, shape (tests,).

    What can only be rounding is 0.
    """
    remainder = margins.summed - (margins.columns * link.without[margins.prompts]).sum(axis=1)
    return _exact(remainder, margins.totals)


def _exact(values: Floats, totals: Floats) -> Floats:
    """Return nats, with 0 for those that rounding may have left of sums as large as ``totals``."""
    return np.where(np.abs(values) <= ROUNDING * totals, 0.0, values)


def won(margin: Floats) -> Floats:
    """Return 1 for each margin above 0 and a half for each that is 0: then a scorer that knows nothing has 0.5."""
    return np.heaviside(margin, 0.5)


def influence(margins: Margins, link: Link, remainder: Floats, chosen: NDArray[np.bool_]) -> Floats:
    """How many passed tests each prompt adds by its share in the fit, shape (prompts,).

    A rate is a count of signs, so its slope over the coefficients is measured over one standard error to both sides, along
    the main axes of their covariance, the jackknife over prompts.

    Args:
        margins: of the tests.
        link: fitted without each prompt.
        remainder: as `left_over` returns it.
        chosen: which tests the rate is over, shape (tests,).
    """
    moves, prompts = link.coefficients - link.without, len(link.without)
    covariance = (prompts - 1) / prompts * moves.T @ moves
    unit = np.sqrt(np.diagonal(covariance))
    unit = np.where(unit > 0, unit, 1)
    variances, axes = np.linalg.eigh(covariance / np.outer(unit, unit))
    added = np.zeros(prompts)
    for variance, axis in zip(variances, axes.T, strict=True):
        if variance < _VARIES:
            continue
        step = _exact(margins.columns[chosen] @ (np.sqrt(variance) * axis * unit), margins.totals[chosen])
        slope = (won(remainder[chosen] - step).sum() - won(remainder[chosen] + step).sum()) / 2
        added += slope * (moves / unit) @ axis / np.sqrt(variance)
    return added
