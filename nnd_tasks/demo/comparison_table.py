"""The demo's table of its two models; the numbers are those of `nnd compare`."""

from __future__ import annotations

from rich.table import Table

from nnd_tasks.analysis.compare.output import between
from nnd_tasks.analysis.compare.paired import Comparison


def comparison_table(comparison: Comparison) -> Table:
    """Return a table of two models with a row per category and, set off at the end, one for all tests."""
    first, second = comparison.paired.models
    table = Table(title="Share of tests passed", title_justify="left")
    table.add_column("category")
    for name in ("tests", first, second, "difference", "95% interval"):
        table.add_column(name, justify="right")
    everything, *categories = comparison.categories
    for result in (*categories, everything):
        if result is everything:
            table.add_section()
        [difference] = result.differences
        rates = (f"{result.rates[model].rate:.3f}" for model in (first, second))
        interval = between(difference.low, difference.high)
        table.add_row(result.category, str(result.tests), *rates, f"{difference.difference:+.3f}", interval)
    return table
