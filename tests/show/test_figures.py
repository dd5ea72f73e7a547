"""What tells lines apart, and names and numbers on them."""

import pandas as pd
import pytest

from nnd_tasks.figures.lines import draw_lines
from nnd_tasks.show.forms import write_figure


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


def test_lines_at_one_x_stand_beside_each_other_and_a_file_is_always_the_same():
    figure, again = (draw_lines(points_of(["a", "b", "c"]), "t", "x", "y") for _ in range(2))
    assert write_figure(figure, "svg") == write_figure(again, "svg")
    [axes] = figure.axes
    assert axes.get_title() == ""
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    assert left < 1 < 2 < right < 3, "the limits are those of the points"
    assert 0 < low < 0.4 < 0.6 < high < 1
    drawn = [container.lines for container in axes.containers]
    places = [line.get_transform().transform((1, 0.5))[0] for line, _, _ in drawn]
    assert places == sorted(set(places))
    assert places == pytest.approx([bars.get_transform().transform((1, 0.5))[0] for _, _, [bars] in drawn])
