"""Figures of rates: what tells lines apart, names on them, and files that come whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nnd_tasks.errors import NNDError
from nnd_tasks.show.figures import Panel, Series, draw_panels, save_files, short_number


@pytest.mark.parametrize("name", ["$^{$", "a$b", "a$b$c", r"\$^{$"])
def test_names_are_no_formulas(name: str, tmp_path: Path) -> None:
    series = Series(name, [1, 2], [0.5, 0.6], [0.4, 0.5], [0.6, 0.7])
    for panels in ([Panel(name, [series])], [Panel(name, [series]), Panel("q", [series])]):
        figure = draw_panels(panels, name, name)
        save_files({tmp_path / "x.png": figure})
        assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
        texts = [figure.texts[0], *(axes.xaxis.label for axes in figure.axes)]
        texts += (figure.legends[0] if figure.legends else figure.axes[0].get_legend()).get_texts()[-1:]
        assert {text._preprocess_math(text.get_text()) for text in texts} == {(name, False)}


def test_lines_differ_in_colour_and_marker_or_dashes() -> None:
    series = [Series(f"c{i}", [1, 2], [0.5, 0.6], [0.4, 0.5], [0.6, 0.7], main=i == 0) for i in range(20)]
    [axes] = draw_panels([Panel("p", series)], "t", "x").axes
    lines = [container.lines[0] for container in axes.containers]
    assert lines[0].get_color() == "black"
    in_grey = {(line.get_marker(), str(line._unscaled_dash_pattern)) for line in lines}
    assert len(in_grey) == 20, "told apart without colour"
    assert all(lines[i].get_color() != lines[i + 1].get_color() for i in range(19))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (500, "500"),
        (2000, "2000"),
        (20_000, "20K"),
        (7e7, "70M"),
        (1.3e9, "1.3B"),
        (2e12, "2T"),
        (0.25, "0.25"),
    ],
)
def test_numbers_on_axes_are_short(value: float, shown: str) -> None:
    assert short_number(value) == shown


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    class Broken:
        def savefig(self, *args: Any, **kwargs: Any) -> None:
            raise OSError(28, "No space left on device")

    (tmp_path / "stem.md").write_text("old")
    figure: Any = Broken()
    with pytest.raises(NNDError, match=r"cannot be written .No space left on device.$"):
        save_files({tmp_path / "stem.md": "new", tmp_path / "stem.png": figure})
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("stem.md", "old")]
    with pytest.raises(NNDError, match="cannot be written"):
        save_files({tmp_path / "stem.md" / "stem.md": "new"})
