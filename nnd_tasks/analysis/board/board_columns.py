"""Columns of the tables of a board. A new number of a run, or of a category, is one more entry here."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from nnd_tasks.analysis.board.standings import Standing
from nnd_tasks.analysis.compare.adjusted import ADJUSTED
from nnd_tasks.analysis.compare.adjusted_output import rate_cell
from nnd_tasks.analysis.compare.output import few, underpowered
from nnd_tasks.analysis.compare.paired import CategoryResult
from nnd_tasks.analysis.results import Run
from nnd_tasks.analysis.signal import PASS_RATE
from nnd_tasks.baselines import ALL, strongest
from nnd_tasks.formats import number, p_value

#: A value for sorting and for programs, None where there is none; and its text for people.
Cell = tuple[float | str | None, str]
_NONE: Cell = (None, "-")


@dataclass(frozen=True)
class Column:
    """A column of numbers beside the rates.

    Attributes:
        key: in ``board.json``.
        title: its heading.
        about: what it is, for the legend.
        cell: (group, run) -> cell, for a table of models; or (group, result on a category) -> cell, for one of categories.
    """

    key: str
    title: str
    about: str
    cell: Callable[[Standing, Any], Cell]


def _number(value: float, mark: str = "") -> Cell:
    """Return a cell of a number; one that is not finite is text only."""
    return value if math.isfinite(value) else None, number(value) + mark


def size_text(parameters: float) -> str:
    """Return a number of parameters as people write it: ``356K``, ``70M``, ``1.3B``."""
    for unit, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "K")):
        if parameters >= unit:
            return f"{parameters / unit:.3g}{letter}"
    return f"{parameters:.0f}"


def _parameters(standing: Standing, run: Run) -> Cell:
    return (float(run.parameters), size_text(run.parameters)) if run.parameters and run.parameters > 0 else _NONE


def _rank_group(standing: Standing, run: Run) -> Cell:
    return (standing.ranks[run.model].group, str(standing.ranks[run.model].group)) if standing.ranks else _NONE


def _behind(standing: Standing, run: Run) -> Cell:
    one = standing.behind(run)
    return _NONE if one is None else _number(abs(one.difference))


def _p(standing: Standing, run: Run) -> Cell:
    one = standing.behind(run)
    return _NONE if one is None else (one.p_holm, p_value(one.p_holm))


def _mde(standing: Standing, run: Run) -> Cell:
    one = standing.behind(run)
    if one is None:
        return _NONE
    return _number(one.detectable, underpowered(one, standing.categories[0].clusters))


def _near(standing: Standing, run: Run) -> Cell:
    return _number(standing.diagnostics(run)[ALL].near)


def _adjusted(standing: Standing, run: Run) -> Cell:
    if run.model not in standing.adjusted:
        return _NONE
    rate = standing.adjusted[run.model].rates[ALL][ADJUSTED]
    return _number(rate.rate)[0], rate_cell(rate)


def _signal(standing: Standing, result: CategoryResult) -> Cell:
    found = []
    for report in standing.signals:
        signals, verdicts = (table.data for table in report.tables if table.name in ("signals", "verdicts"))
        mine = signals["category"].eq(result.category) & signals["measure"].eq(PASS_RATE) & signals["snr"].notna()
        numbers = zip(signals.loc[mine, "snr"], verdicts.loc[mine, "verdict"], strict=True)
        found += [(snr, f"{number(snr, 1)} {verdict} ({report.facts['family']})") for snr, verdict in numbers]
    return (max(found)[0], "; ".join(text for _, text in found)) if found else _NONE


def _baseline(standing: Standing, result: CategoryResult) -> Cell:
    best = strongest(standing.diagnostics(standing.runs[0])[result.category].baselines)
    return _NONE if best is None else (best[1], f"{number(best[1])} {best[0]}")


def beaten(standing: Standing, run: Run, category: str = ALL) -> bool:
    """Tell whether a baseline passes as many tests of a category as a run does, or more."""
    result = next(result for result in standing.categories if result.category == category)
    best, _ = _baseline(standing, result)
    return isinstance(best, float) and best >= result.rates[run.model].rate


#: Of each model, in a table of models.
OF_MODELS: Sequence[Column] = (
    Column("parameters", "Size", "number of parameters, as lm-eval counted them", _parameters),
    Column(
        "rank_group",
        "Rank group",
        "between rank groups every pair of models differs; within one, some may (Holm over pairs of models)",
        _rank_group,
    ),
    Column("behind_best", "Behind best", "how much lower the pass rate is than the best one, paired by test", _behind),
    Column(
        "p_holm",
        "p (Holm)",
        "of that difference: paired permutation over prompts, corrected over the pairs of models",
        _p,
    ),
    Column(
        "mde",
        "MDE",
        "the smallest true difference from the best model that would be found with probability 0.8; ‡ underpowered",
        _mde,
    ),
    Column(
        "pass_rate_adjusted",
        "Adjusted",
        "pass rate with length and word frequency taken out (nnd compare --adjust), with its 95% interval",
        _adjusted,
    ),
    Column("near_ties", "Near ties", "share of tests decided by a margin so small that rounding may decide", _near),
)
#: Of each category, in a table of categories.
OF_CATEGORIES: Sequence[Column] = (
    Column("tests", "Tests", "number of tests", lambda _, result: (result.tests, f"{result.tests:,}")),
    Column(
        "prompts",
        "Prompts",
        "number of prompts; † fewer than ten: intervals are unreliable",
        lambda _, result: (result.clusters, f"{result.clusters:,}{few(result.clusters)}"),
    ),
    Column("baseline", "Best baseline", "the rule without understanding that passes the most tests", _baseline),
    Column(
        "signal",
        "Signal",
        "of each family of models: signal over noise of the pass rate, and what is shown (nnd signal)",
        _signal,
    ),
)
