"""What tells lines apart, and names and numbers on them."""

from itertools import pairwise

import pandas as pd
import pytest

from nnd_tasks.show.forms import draw_lines, write_figure


def points_of(lines, panel="p"):
    rows = [{"panel": panel, "line": line, "x": x, "y": 0.5, "low": 0.4, "high": 0.6} for line in lines for x in (1, 2)]
    return pd.DataFrame(rows)


@pytest.mark.parametrize("name", ["$^{$", "a$b", "a$b$c", r"\$^{$"])
def test_names_are_no_formulas(name):
    figure = draw_lines(pd.concat([points_of([name], name), points_of([name], "q")]), name, name, "y")
    assert write_figure(figure, "png").startswith(b"\x89PNG")
    labels = [*(axes.xaxis.label for axes in figure.axes), figure.axes[0].title]
    texts = [figure.texts[0], *labels, *figure.legends[0].get_texts()]
    assert {text._preprocess_math(text.get_text()) for text in texts} == {(name, False)}


def test_lines_differ_in_colour_and_marker_or_dashes():
    [axes] = draw_lines(points_of([f"c{i}" for i in range(20)]), "t", "x", "y", main="c7").axes
    lines = {container.get_label(): container.lines[0] for container in axes.containers}
    assert lines.pop("c7").get_color() == "black"
    in_grey = {(line.get_marker(), str(line._unscaled_dash_pattern)) for line in lines.values()}
    assert len(in_grey) == 19, "told apart without colour"
    colours = [line.get_color() for line in lines.values()]
    assert all(one != other for one, other in pairwise(colours))


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ((0.2, 0.3), {"0.2", "0.3"}),
        ((0, 20_000), {"0", "20K"}),
        ((1_000_000, 3_500_000), {"1M", "2M"}),
        ((7e7, 2e12), {"100M", "1B", "1T"}),
    ],
)
def test_numbers_on_axes_are_short(values, shown):
    points = points_of(["a"]).assign(x=values)
    [axes] = draw_lines(points, "t", "x", "y", log=values[0] > 1).axes
    assert shown <= {tick.get_text().replace("\N{MINUS SIGN}", "-") for tick in axes.get_xticklabels()}


def test_equal_numbers_give_equal_files():
    first, second = (write_figure(draw_lines(points_of(["a"]), "t", "x", "y"), "svg") for _ in range(2))
    assert first == second
