"""Figures of rates with error bars, and writing them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnd_tasks.errors import NNDError
from nnd_tasks.files import writing_all
from nnd_tasks.wording import figure_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CHANCE = 0.5
#: Okabe and Ito's colours, which people with any colour vision tell apart, without yellow and black. Markers and dashes tell
#: lines apart in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = "osD^vP*X<>h"
DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
_SPREAD = 3.0  # points (1/72 inch) between lines that share their x


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a figure.

    Attributes:
        label: in the legend.
        x: places, ascending.
        y: rates.
        low: lower ends of the error bars; nan where there is no bar.
        high: upper ends of the error bars.
        main: draw the line black and bold.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    main: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes.

    Attributes:
        title: above it.
        series: its lines.
    """

    title: str
    series: Sequence[Series]


def draw_panels(
    panels: Sequence[Panel],
    title: str,
    x_label: str,
    *,
    log: bool = False,
    columns: int = 3,
    y_label: str = "pass rate (share of tests)",
    chance: float | None = CHANCE,
    ticks: Sequence[str] = (),
) -> Figure:
    """Draw panels of rates, or other means, with 95% intervals.

    Args:
        panels: at least one.
        title: above all panels.
        x_label: label of the x axis, with its unit.
        log: logarithmic x axis; where a value is 0 it is linear below the smallest positive value.
        columns: most panels beside each other.
        y_label: label of the y axis, with its unit.
        chance: where a dashed line is drawn; None draws none.
        ticks: names of x = 0, 1, …, where these are no numbers.

    Raises:
        NNDError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise NNDError("the figure needs matplotlib: in a clone of nnd-tasks, pip install '.[analysis]'") from error

    columns = 2 if len(panels) in (2, 4) else min(columns + (len(panels) > 9), len(panels))
    rows = math.ceil(len(panels) / columns)
    labels = list(dict.fromkeys(series.label for panel in panels for series in panel.series))
    shared = all(len(panel.series) < 2 or {s.label for s in panel.series} <= _labels(panels[0]) for panel in panels)
    width, height = (6.4, 4.8) if len(panels) == 1 else (4.3, 3.4)
    across = max(width * columns, 6.4)
    legend_rows = math.ceil((len(labels) + 1) / _columns(labels, across if shared else width))
    figure = Figure(
        figsize=(across, height * rows + 0.2 * legend_rows * (1 if shared else rows) + 0.3), layout="constrained"
    )
    grid = figure.subplots(rows, columns, sharey=True, squeeze=False)
    every = [x for panel in panels for series in panel.series for x in series.x]
    for i, axes in enumerate(grid.flat):
        if i >= len(panels):
            axes.set_axis_off()
            continue
        _draw_panel(axes, panels[i], labels, chance, titled=len(panels) > 1)
        _scale_x(axes, every, log)
        if ticks:
            axes.set_xticks(range(len(ticks)), ticks, fontsize="small", rotation=60)
        axes.set_xlabel(figure_text(f"{x_label}, log scale" if log else x_label))
        axes.tick_params(labelleft=True)
        if i % columns == 0:
            axes.set_ylabel(y_label)
        if not shared:
            axes.legend(
                fontsize="small",
                loc="upper center",
                bbox_to_anchor=(0.5, -0.2),
                ncols=_columns(labels, width),
                frameon=False,
            )
    if shared:
        handles = dict(zip(*reversed(grid.flat[0].get_legend_handles_labels()), strict=True))
        figure.legend(
            handles.values(), handles.keys(), loc="outside lower center", ncols=_columns(labels, across), frameon=False
        )
    _scale_y(grid.flat[0], panels, chance)
    figure.suptitle(figure_text(title))
    return figure


def _columns(labels: Sequence[str], width: float) -> int:
    """Return how many columns of a legend fit into a width in inches."""
    return max(1, min(6, int(width / (0.65 + 0.09 * max(len("chance (0.5)"), *map(len, labels))))))


def _labels(panel: Panel) -> set[str]:
    return {series.label for series in panel.series}


def _draw_panel(axes: Axes, panel: Panel, labels: Sequence[str], chance: float | None, titled: bool) -> None:
    from matplotlib.transforms import ScaledTranslation

    if chance is not None:
        label = f"chance ({chance})"
        axes.axhline(chance, color="#777777", linewidth=1, linestyle=(0, (2, 2)), label=label, zorder=1)
    main = [series.label for series in panel.series if series.main]
    names = [*main, *(label for label in labels if label not in main)]
    figure: Any = axes.figure
    n, steps = len(panel.series), max(len(series.x) for series in panel.series)
    spread = min(_SPREAD, 18 / n, 150 / (n * steps))  # beside each other, but never beyond the neighbour in x
    for place, series in enumerate(panel.series):
        i = names.index(series.label)
        marker, dash = MARKERS[i % len(MARKERS)], DASHES[i % len(DASHES)]
        colour = "black" if series.main else COLOURS[(i - len(main)) % len(COLOURS)]
        shift = (place - (n - 1) / 2) * spread
        axes.errorbar(
            series.x,
            series.y,
            yerr=[
                [y - low for y, low in zip(series.y, series.low, strict=True)],
                [high - y for y, high in zip(series.y, series.high, strict=True)],
            ],
            label=figure_text(series.label),
            color=colour,
            marker=marker,
            linestyle=dash,
            markersize=5,
            linewidth=2.4 if series.main else 1.4,
            elinewidth=0.9,
            capsize=2.5,
            zorder=3 if series.main else 2,
            transform=axes.transData + ScaledTranslation(shift / 72, 0, figure.dpi_scale_trans),
        )
    if titled:
        axes.set_title(figure_text(panel.title))
    axes.grid(visible=True, color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _scale_x(axes: Axes, values: Sequence[float], log: bool) -> None:
    """Set scale, limits and ticks; the limits by hand, as autoscale misplaces lines that are shifted."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    least, most = min(values), max(values)
    if not log:
        margin = 0.06 * (most - least) or 1.0
        axes.set_xlim(least - margin, most + margin)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 5, 10]))
    else:
        positive = min(x for x in values if x > 0)
        margin = 10 ** (0.08 * max(math.log10(most / positive), 0.3))
        if least > 0:
            axes.set_xscale("log")
            axes.set_xlim(least / margin, most * margin)
            axes.set_xticks(_log_ticks(least / margin, most * margin))
        else:
            axes.set_xscale("symlog", linthresh=positive, linscale=0.6)
            axes.set_xlim(-0.3 * positive, most * margin)
            axes.set_xticks([0.0, *_log_ticks(positive, most * margin)])
        axes.minorticks_off()
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: short_number(x)))


def _log_ticks(least: float, most: float) -> list[float]:
    """Return about three to six round numbers within a range."""
    decades = math.log10(most / least)
    steps = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0) if decades < 0.8 else (1.0, 2.0, 5.0) if decades < 2.5 else (1.0,)
    powers = range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1)
    every = 1 if decades < 8 else 2
    ticks = (step * 10.0**power for power in powers if power % every == 0 for step in steps)
    return [tick for tick in ticks if least <= tick <= most]


def _scale_y(axes: Axes, panels: Sequence[Panel], chance: float | None) -> None:
    """Set limits that show every error bar, and for rates chance, rounded to 0.05; the panels share them."""
    ends = [end for panel in panels for s in panel.series for end in (*s.y, *s.low, *s.high) if not math.isnan(end)]
    if chance is None:
        margin = 0.05 * (max(ends) - min(ends)) or 1.0
        axes.set_ylim(min(ends) - margin, max(ends) + margin)
        return
    least, most = min(chance, *ends), max(chance, *ends)
    axes.set_ylim(max(-0.02, math.floor(least * 20 - 0.2) / 20), min(1.02, math.ceil(most * 20 + 0.2) / 20))


def short_number(value: float) -> str:
    """Return a number as an axis shows it: 500, 70M, 1.3B."""
    for size, unit in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "K")):
        if abs(value) >= size * (10 if unit == "K" else 1):  # 2000 steps, 20K steps
            return f"{value / size:.4g}{unit}"
    return f"{value:.4g}"


def save_files(files: Mapping[Path, str | Figure]) -> None:
    """Write texts and figures, all files or none; the format of a figure (PNG, SVG) is the ending of its file's name.

    Raises:
        NNDError: a folder cannot be written.
    """
    with writing_all(files) as new:
        for path, (target, content) in zip(new, files.items(), strict=True):
            if isinstance(content, str):
                path.write_text(content, encoding="utf-8", newline="\n")
            else:
                _save_figure(content, path, target.suffix[1:])


def _save_figure(figure: Figure, path: Path, form: str) -> None:
    """Save a figure so that equal numbers give equal bytes: without a date, and with fixed ids in SVG."""
    import matplotlib as mpl

    with mpl.rc_context({"svg.hashsalt": "nnd"}):
        metadata: dict[str, Any] = {"Date": None} if form == "svg" else {}
        figure.savefig(path, format=form, dpi=200, metadata=metadata)
