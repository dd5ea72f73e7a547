"""Charts of `curves` as tables and figures."""

from __future__ import annotations

import csv
import io
import json
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from nnd_tasks.analysis.compare.output import few, number
from nnd_tasks.analysis.compare.power import FEW
from nnd_tasks.analysis.curves.charts import EPOCH, Chart, Point, short
from nnd_tasks.analysis.plots import Panel, Series, draw_panels, save
from nnd_tasks.analysis.tags import PARAMETERS, STEP
from nnd_tasks.baselines import ALL
from nnd_tasks.errors import NNDError
from nnd_tasks.markdown import table_row, unlinked
from nnd_tasks.wording import csv_cell

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: x -> label of the axis, with its unit; a tag of the user's is its own label.
LABELS = {PARAMETERS: "model size (parameters)", STEP: "training step", EPOCH: "training (epochs)"}


def markdown(chart: Chart) -> str:
    """Return the table of all numbers in the figure, with its notes."""
    tasks, families = len({p.task for p in chart.points}) > 1, any(p.family for p in chart.points)
    names = ["task"] * tasks + ["category"] + ["family"] * families + ["model"]
    head = [*names, chart.x, "tests", "clusters", "pass rate", "std. error", "95% interval"]
    lines = [f"# {unlinked(chart.title)}", "", *(f"{unlinked(note)}\n" for note in chart.notes), table_row(head)]
    lines.append("|" + "---|" * len(names) + "---:|" * (len(head) - len(names)))
    for p in chart.points:
        cells = [p.task] * tasks + [p.category] + [p.family] * families + [p.model, short(p.x), f"{p.tests:,}"]
        cells.append("-" if p.clusters is None else f"{p.clusters:,}{few(p.clusters)}")
        interval = "-" if math.isnan(p.low) else f"{number(p.low)} to {number(p.high)}"
        lines.append(table_row([*cells, number(p.rate), number(p.standard_error, 4), interval]))
    lines += ["", "Intervals are Wilson's, clustered by prompt. Chance is 0.5, less half the share of ties."]
    if any(p.clusters is not None and p.clusters < FEW for p in chart.points):
        lines += ["", f"† fewer than {FEW} prompts: the error bars are not to be relied on."]
    return "\n".join(lines) + "\n"


def _json_number(value: Any) -> Any:
    """Return None for nan, and whole numbers above 1 without a fraction."""
    if isinstance(value, float):
        return None if math.isnan(value) else int(value) if value == int(value) and abs(value) > 1 else value
    return value


def _rows(chart: Chart) -> list[dict[str, Any]]:
    """Return a mapping per point; a number that is not known is None."""
    return [{key: _json_number(value) for key, value in asdict(point).items()} for point in chart.points]


def to_csv(chart: Chart) -> str:
    """Return the points, one per line; the column ``x`` is named after what it shows."""
    text = io.StringIO()
    rows = [{chart.x if key == "x" else key: value for key, value in row.items()} for row in _rows(chart)]
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: csv_cell(value) for key, value in cells.items()} for cells in rows)
    return text.getvalue()


def to_json(chart: Chart) -> str:
    """Return the points, what the x axis shows, the notes and the signatures."""
    about = {"kind": chart.kind, "x": chart.x, "notes": chart.notes, "signatures": chart.signatures or {}}
    return json.dumps({**about, "points": _rows(chart)}, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def draw(chart: Chart, log: bool | None = None) -> Figure:
    """Return the figure of a chart.

    Args:
        chart: what to draw.
        log: logarithmic x axis; None takes it for sizes, and where half of the values lie in the first fifth of the range.

    Raises:
        NNDError: matplotlib is not installed, or a logarithm of a negative number was asked for.
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
        Panel(panel, [_series(line, points, not by_category) for line, points in found.items()])
        for panel, found in lines.items()
    ]
    label = LABELS.get(chart.x, chart.x)
    return draw_panels(panels, chart.title, label, log=log, columns=2 if chart.kind == "curve" else 3)


def _crowded(values: Sequence[float]) -> bool:
    return values[0] >= 0 and median(values) - values[0] < (values[-1] - values[0]) / 5


def _series(line: str, points: Sequence[Point], categories: bool) -> Series:
    x, y = [p.x for p in points], [p.rate for p in points]
    return Series(line, x, y, [p.low for p in points], [p.high for p in points], main=categories and line == ALL)


def write(charts: Sequence[Chart], folder: Path, log: bool | None = None) -> list[Path]:
    """Write tables (Markdown, CSV, JSON) and figures (PNG, SVG) of charts; return the files.

    Raises:
        NNDError: the folder cannot be written, or matplotlib is not installed.
    """
    figures = [draw(chart, log) for chart in charts]  # before anything is written
    written: list[Path] = []
    for chart, figure in zip(charts, figures, strict=True):
        texts = {".md": markdown(chart), ".csv": to_csv(chart), ".json": to_json(chart)}
        written += save(folder, chart.stem, texts, figure)
    return written
