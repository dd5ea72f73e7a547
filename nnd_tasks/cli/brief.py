"""What ``--brief`` prints: the numbers that decide, one row for each decision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nnd_tasks.analysis.marks import is_few
from nnd_tasks.baselines import ALL
from nnd_tasks.cli.console import table
from nnd_tasks.formats import number
from nnd_tasks.markdown import unlinked

if TYPE_CHECKING:
    from nnd_tasks.analysis.curves.charts import Chart, Point
    from nnd_tasks.analysis.familiarity.familiarity import Familiarity
    from nnd_tasks.analysis.signal.signals import SetSignals
    from nnd_tasks.analysis.verify.verify_sets import SetReport


def brief_chart(chart: Chart) -> str:
    """Return a row per model, or step, of its pass rates on all tests."""
    points = [point for point in chart.points if point.category == ALL] or chart.points
    rows = [
        [p.task, p.model, f"{p.x:,g}", number(p.rate), f"{number(p.low)} to {number(p.high)}{_few(p)}"] for p in points
    ]
    return table(["task", "model", chart.x, "pass rate", "95% interval"], rows, [chart.x, "pass rate", "95% interval"])


def _few(point: Point) -> str:
    return "" if point.clusters is None else "†" if is_few(point.clusters) else ""


def brief_signals(found: Sequence[SetSignals]) -> str:
    """Return a row per category: is it worth running, by which measure, and on how many prompts?"""
    rows = []
    for one in found:
        worth = one.worth_running()
        for category in dict.fromkeys(signal.category for signal in one.signals if signal.category != ALL):
            shown = worth.get(category, ())
            least = min((signal.sample for signal in shown if signal.sample), default=None)
            cells = ["worth running", " and ".join(signal.measure for signal in shown)] if shown else ["not shown", ""]
            rows.append([one.paired.title, one.family.name, category, *cells, "" if least is None else f"{least:,}"])
    return table(["task", "family", "category", "verdict", "by", "--sample"], rows, ["--sample"])


def brief_verification(reports: Sequence[SetReport]) -> str:
    """Return a row per set and score: how well it ranks models as people do, averaged over categories."""
    rows = [
        [report.name, one.scorer, number(one.average.tau.value, 2), number(one.average.r.value, 2)]
        for report in reports
        for one in report.verifications
    ]
    return table(["set", "score", "tau", "r"], rows, ["tau", "r"])


def brief_familiarity(found: Sequence[Familiarity]) -> str:
    """Return a row per model and system that it is shown to like more or less, and one per model with texts of its own."""
    from nnd_tasks.analysis.familiarity.familiarity_report import effects_table, findings, own_table

    tables = []
    for one in found:
        rows = effects_table(findings(one)).markdown() if findings(one) else ["No familiarity is shown."]
        tables += [f"# {unlinked(one.paired.title)}", "", *rows, *(own_table(one.own).markdown() if one.own else [])]
    return "\n".join(tables)
