"""Lines with error bars, in panels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nnd_tasks.errors import NNDError, visible
from nnd_tasks.show.forms import NO_MATPLOTLIB

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

#: Okabe and Ito's colours, which people with any colour vision tell apart, without yellow and black. Markers and dashes tell
#: lines apart in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = "osD^vP*X<>h"
DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))


def draw_lines(
    points: pd.DataFrame,
    title: str,
    x_label: str,
    y_label: str,
    *,
    main: str = "",
    log: bool = False,
    chance: float | None = None,
    levels: Mapping[str, float] | None = None,
) -> Figure:
    """Draw lines with error bars, in panels that share their axes.

    Args:
        points: at least one row, with the columns ``panel`` and ``line`` (their names), ``x``, ``y``, and ``low`` and ``high``,
            the ends of the error bar; nan where there is none.
        title: above all panels; empty where their names say all. One panel alone has this title in the place of its name.
        x_label: label of the x axis, with its unit.
        y_label: label of the y axis, with its unit.
        main: the line that is black and bold.
        log: logarithmic x axis; where a value is 0 it is linear below the smallest positive value.
        chance: where a dashed line is drawn.
        levels: panel -> where a line for the human ceiling is drawn.

    Raises:
        NNDError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
        from matplotlib.ticker import EngFormatter, SymmetricalLogLocator
        from matplotlib.transforms import ScaledTranslation
    except ImportError as error:
        raise NNDError(NO_MATPLOTLIB) from error

    panels = dict(list(points.groupby("panel", sort=False)))
    rows = math.ceil(len(panels) / 3)
    columns = math.ceil(len(panels) / rows)
    names = sorted(points["line"].unique(), key=lambda name: bool(name != main))
    size = max(6.4, 4.3 * columns), 3.6 * rows + 0.1 * len(names)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    drawn: dict[str, Any] = {}
    for axes in grid.flat[len(panels) :]:
        axes.set_axis_off()
    for axes, (panel, points_of_panel) in zip(grid.flat, panels.items(), strict=False):
        in_panel = points_of_panel["line"].unique().tolist()
        if chance is not None:
            label = f"chance ({chance})"
            drawn[label] = axes.axhline(chance, color="#777777", linewidth=1, linestyle=(0, (2, 2)), label=label)
        if levels and panel in levels:
            label = "human ceiling (on other tests)"
            drawn[label] = axes.axhline(levels[panel], color="#777777", linewidth=2.5, label=label)
        for name, line in points_of_panel.groupby("line", sort=False):
            i = names.index(name)
            # To the side by some points of the paper, so that error bars at one x do not lie on each other.
            aside = (in_panel.index(name) - (len(in_panel) - 1) / 2) * min(5, 20 / len(in_panel)) / 72
            drawn[name] = axes.errorbar(
                line["x"],
                line["y"],
                yerr=None if line["low"].isna().all() else [line["y"] - line["low"], line["high"] - line["y"]],
                label=_label(name),
                color="black" if name == main else COLOURS[i % len(COLOURS)],
                marker=MARKERS[i % len(MARKERS)],
                linestyle=DASHES[i % len(DASHES)],
                linewidth=2.4 if name == main else 1.4,
                markersize=5,
                elinewidth=0.9,
                capsize=2.5,
            )
            for artist in drawn[name].get_children():
                artist.set_transform(axes.transData + ScaledTranslation(aside, 0, figure.dpi_scale_trans))
        axes.set(
            title="" if len(panels) == 1 else _label(panel),
            xlabel=_label(f"{x_label}, log scale" if log else x_label),
        )
        axes.grid(color="#dddddd", linewidth=0.6)
        axes.tick_params(labelbottom=True, labelleft=True)
    first = grid.flat[0]
    if log:
        positive = points.loc[points["x"] > 0, "x"].min()
        first.set_xscale("symlog", linthresh=positive)
        first.xaxis.set_major_locator(SymmetricalLogLocator(base=10, linthresh=positive, subs=(1, 2, 5)))
        first.minorticks_off()
    numbers = EngFormatter(sep="")
    numbers.ENG_PREFIXES = {0: "", 3: "K", 6: "M", 9: "B", 12: "T"}
    first.xaxis.set_major_formatter(numbers)
    for axes in grid[:, 0]:
        axes.set_ylabel(y_label)
    figure.legend(handles=list(drawn.values()), loc="outside lower center", ncols=2, frameon=False)
    if title:
        figure.suptitle(_label(title))
    return figure


def _label(value: str) -> str:
    """Escape the dollar signs of a label for matplotlib: text between two of them would be a formula."""
    return visible(value).replace("$", r"\$")
