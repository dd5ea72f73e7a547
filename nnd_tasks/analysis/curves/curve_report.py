"""Charts of `nnd_tasks.analysis.curves.charts` as tables and figures."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from nnd_tasks.analysis.compare.output import FEW_NOTE, few
from nnd_tasks.analysis.curves.charts import EPOCH, Chart, Point, short
from nnd_tasks.analysis.tags import PARAMETERS, STEP
from nnd_tasks.baselines import ALL
from nnd_tasks.errors import NNDError
from nnd_tasks.formats import TextTable, csv_text, json_text, number
from nnd_tasks.markdown import unlinked
from nnd_tasks.show.figures import Panel, Series, draw_panels, save_files

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: x -> label of the axis, with its unit; a column of the user's tags is its own label.
LABELS = {PARAMETERS: "model size (parameters)", STEP: "training step", EPOCH: "training (epochs)"}


def points_table(chart: Chart) -> TextTable:
    """Return a row per point; task and family have columns only where there are several tasks or any family."""
    tasks, families = len({p.task for p in chart.points}) > 1, any(p.family for p in chart.points)
    names = ["task"] * tasks + ["category"] + ["family"] * families + ["model"]
    rows = []
    for p in chart.points:
        row = [p.task] * tasks + [p.category] + [p.family] * families + [p.model, short(p.x), f"{p.tests:,}"]
        row.append("-" if p.clusters is None else f"{p.clusters:,}{few(p.clusters, p.standard_error)}")
        interval = "-" if math.isnan(p.low) else f"{number(p.low)} to {number(p.high)}"
        rows.append([*row, number(p.rate), number(p.standard_error, 4), interval])
    head = [*names, chart.x, "tests", "prompts", "pass rate", "std. error", "95% interval"]
    return TextTable(head, rows, names=len(names))


def markdown(chart: Chart) -> str:
    """Return the table of all numbers in the figure, with its notes."""
    lines = [f"# {unlinked(chart.title)}", "", *(f"{unlinked(note)}\n" for note in chart.notes)]
    lines += points_table(chart).markdown()
    lines.append("Intervals are Wilson's, clustered by prompt. Chance is 0.5, less half the share of ties.")
    if any(p.clusters is not None and few(p.clusters, p.standard_error) for p in chart.points):
        lines += ["", FEW_NOTE]
    return "\n".join(lines) + "\n"


def _rows(chart: Chart) -> list[dict[str, Any]]:
    """Return a mapping per point, for JSON and CSV; places on the x axis that are whole numbers are integers."""
    return [{**asdict(point), "x": int(point.x) if point.x == int(point.x) else point.x} for point in chart.points]


def to_csv(chart: Chart) -> str:
    """Return the points, one per line; the column ``x`` is named after what it shows."""
    return csv_text([{chart.x if key == "x" else key: value for key, value in row.items()} for row in _rows(chart)])


def to_json(chart: Chart) -> str:
    """Return the points, what the x axis shows, the notes and the signatures."""
    content = {"kind": chart.kind, "x": chart.x, "notes": chart.notes, "signatures": chart.signatures or {}}
    return json_text({**content, "points": _rows(chart)}) + "\n"


def draw(chart: Chart, log: bool | None = None) -> Figure:
    """Return the figure of a chart.

    Args:
        chart: what to draw.
        log: logarithmic x axis; None takes one for sizes, and where half of the values lie in the first fifth of the range.

    Raises:
        NNDError: matplotlib is not installed, or ``log`` is asked for and a value is below 0.
    """
    by_category = chart.panels == "category"
    lines: dict[str, dict[str, list[Point]]] = defaultdict(lambda: defaultdict(list))
    for p in chart.points:
        panel, line = (p.category, p.family or "pass rate") if by_category else (p.task, p.category)
        lines[panel][line].append(p)
    if log is None:
        log = chart.x == PARAMETERS or _crowded(sorted({p.x for p in chart.points}))
    if log and (min(p.x for p in chart.points) < 0 or max(p.x for p in chart.points) <= 0):
        raise NNDError(f"--log: {chart.x} has values below 0")
    panels = [
        Panel(panel, [_series(line, points, not by_category) for line, points in of_panel.items()])
        for panel, of_panel in lines.items()
    ]
    label = LABELS.get(chart.x, chart.x)
    return draw_panels(panels, chart.title, label, log=log, columns=2 if chart.kind == "curve" else 3)


def _crowded(values: Sequence[float]) -> bool:
    """Tell whether half of some ascending values lie in the first fifth of their range."""
    return values[0] >= 0 and median(values) - values[0] < (values[-1] - values[0]) / 5


def _series(line: str, points: Sequence[Point], categories: bool) -> Series:
    x, y = [p.x for p in points], [p.rate for p in points]
    return Series(line, x, y, [p.low for p in points], [p.high for p in points], main=categories and line == ALL)


def write(charts: Sequence[Chart], folder: Path, log: bool | None = None) -> list[Path]:
    """Write tables (Markdown, CSV, JSON) and figures (PNG, SVG) of charts, all files or none; return the files.

    Raises:
        NNDError: the folder cannot be written, or matplotlib is not installed.
    """
    files: dict[str, str | Figure] = {}
    for chart in charts:
        figure = draw(chart, log)
        files |= {f"{chart.stem}.md": markdown(chart), f"{chart.stem}.csv": to_csv(chart)}
        files |= {f"{chart.stem}.json": to_json(chart), f"{chart.stem}.png": figure, f"{chart.stem}.svg": figure}
    paths = {folder / name: content for name, content in files.items()}
    save_files(paths)
    return list(paths)
