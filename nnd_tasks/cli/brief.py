"""What ``--brief`` prints: the numbers that decide, one row for each decision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nnd_tasks.analysis.compare.model_verdicts import verdicts
from nnd_tasks.analysis.compare.output import between, few, odd
from nnd_tasks.baselines import ALL
from nnd_tasks.cli.console import table
from nnd_tasks.formats import number, p_value
from nnd_tasks.markdown import unlinked

if TYPE_CHECKING:
    from nnd_tasks.analysis.compare.paired import Comparison
    from nnd_tasks.analysis.curves.charts import Chart, Point
    from nnd_tasks.analysis.verify.verify_sets import SetReport


def brief_comparisons(comparisons: Sequence[Comparison]) -> str:
    """Return what each comparison says in a sentence per pair of models, then a row per pair: difference, interval and p."""
    said, rows = [], []
    for comparison in comparisons:
        title = comparison.paired.title
        said += [f"- {unlinked(f'{title}: {line}')}" for line in [*comparison.paired.notes, *verdicts(comparison)]]
        whole = comparison.categories[0]
        for difference in whole.differences:
            pair = f"{difference.second} - {difference.first}"
            interval = between(difference.low, difference.high) + few(whole.clusters) + odd(difference)
            shown = [number(difference.difference, signed=True), interval, p_value(difference.p_holm)]
            rows.append([title, pair, *shown, number(difference.detectable)])
    numbers = ["difference", "95% interval", "p (Holm)", "MDE"]
    return "\n".join([*said, "", table(["task", "pair", *numbers], rows, numbers)])


def brief_chart(chart: Chart) -> str:
    """Return a row per model, or step, of its pass rates on all tests."""
    points = [point for point in chart.points if point.category == ALL] or chart.points
    rows = [
        [p.task, p.model, f"{p.x:,g}", number(p.rate), f"{number(p.low)} to {number(p.high)}{_few(p)}"] for p in points
    ]
    return table(["task", "model", chart.x, "pass rate", "95% interval"], rows, [chart.x, "pass rate", "95% interval"])


def _few(point: Point) -> str:
    return "" if point.clusters is None else few(point.clusters)


def brief_verification(reports: Sequence[SetReport]) -> str:
    """Return a row per set and score: how well it ranks models as people do, averaged over categories."""
    rows = [
        [report.name, one.scorer, number(one.average.tau.value, 2), number(one.average.r.value, 2)]
        for report in reports
        for one in report.verifications
    ]
    return table(["set", "score", "tau", "r"], rows, ["tau", "r"])
