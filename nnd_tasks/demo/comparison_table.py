"""The demo's table of its two models; the numbers are those of `nnd compare`."""

from __future__ import annotations

from nnd_tasks.analysis.compare import Comparison
from nnd_tasks.show.report import Cell, Table


def demo_table(comparison: Comparison) -> Table:
    """Return a row per category: the rates of two models and their difference."""
    differences = comparison.differences[["category", "difference", "low", "high"]]
    data = comparison.rates[["category", "tests", "model", "rate"]].merge(differences, on="category")
    columns: dict[str, Cell] = {
        "category": "{category}",
        "tests": "{tests:,}",
        "{model}": "{rate:.3f}",
        "difference": "{difference:+.3f}",
        "95% interval": "{low:+.3f} to {high:+.3f}",
    }
    return Table("demo", data, columns, "Share of tests passed")
