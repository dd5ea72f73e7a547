"""What a comparison says, in a sentence for each pair of models: which passes more tests, on which categories, and how sure."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from nnd_tasks.baselines import ALL
from nnd_tasks.show.report import write_cell
from nnd_tasks.significance import needed
from nnd_tasks.statistics import FEW
from nnd_tasks.text import counted, some_of

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
