"""The report of a human ceiling: what people pass, each of them, and who cannot be asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from nnd_tasks.categories import ALL
from nnd_tasks.ceiling.ceiling import LEFT_OUT, Ceiling, Panel
from nnd_tasks.show.report import Report, make_table
from nnd_tasks.statistics import FEW_PROMPTS
from nnd_tasks.text import counted


def report_ceiling(ceiling: Ceiling) -> Report:
    """Report what people pass of the tests of a set."""
    rates = ceiling.rates
    raters = pd.concat(map(rate_raters, ceiling.panels), ignore_index=True)
    overall = rates[rates["category"] == ALL]
    return Report(
        name=f"ceiling {ceiling.set}",
        title=f"What a person passes of {ceiling.set}",
        findings=[_describe_rate(row) for row in overall.itertuples()],
        tables=[make_table("human_ceiling", rates), make_table("ceiling_raters", raters)],
        notes=[note for panel in ceiling.panels for note in _describe_panel(panel)],
        legend=FEW_PROMPTS,
        brief=[make_table("human_ceiling", overall)],
        facts={"set": ceiling.set, "counts": {panel.name: panel.counts for panel in ceiling.panels}},
    )


def rate_raters(panel: Panel) -> pd.DataFrame:
    """Summarize each rater, also who cannot be asked: ``panel``, ``rater``, ``tests``, ``strict``, ``ties``, ``ceiling``."""
    passed = panel.tests.groupby("rater")["passed"]
    rates = passed.agg(tests="size", strict=lambda x: (x == 1).mean(), ties=lambda x: (x == 0.5).mean(), ceiling="mean")
    rates = rates.reindex(sorted(panel.own.index.unique("rater"))).rename_axis("rater").reset_index()
    return rates.assign(panel=panel.name, tests=rates["tests"].fillna(0).astype(int))


def _describe_rate(row: Any) -> str:
    rate = f"{row.ceiling:.3f} [{row.low:.3f}, {row.high:.3f}]"
    if row.tests == 0:
        return f"{row.panel}: no rater can be left out and asked."
    who = "one rater" if row.judged_by == LEFT_OUT else f"the panel {row.judged_by}"
    if row.few:
        return (
            f"{row.panel}: {who} can be asked about {counted(row.prompts, 'prompt')}, too few to say what people pass."
        )
    if row.judged_by == LEFT_OUT:
        return f"{row.panel}: {who} passes {rate} of the tests that the others make, with a tie as half a pass."
    return f"{row.panel}: {who} passes {rate} of their tests. Agreement within a panel is not validity."


def _describe_panel(panel: Panel) -> Iterator[str]:
    counts = panel.counts
    used = counts["judgements"] - counts["alone"] - counts["tied"] - counts["no_test"]
    reasons = {
        "alone": "of a text that nobody else judged",
        "tied": "on which the others tie, or their own votes do",
        "no_test": "without another text that the rater judged and the others find better or worse",
    }
    left_out = "".join(f"; not {counts[key]:,} {why}" for key, why in reasons.items() if counts[key])
    yield f"{panel.name}: {used:,} of {counted(counts['judgements'], 'judgement')} are in a test{left_out}."
    if not panel.persons:
        yield (
            f"{panel.name}: raters are places in a list, not persons: a place may be another person in each row, so there is "
            "no interval over persons."
        )
