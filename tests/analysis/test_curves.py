"""Pass rates against sizes and steps: the numbers, the tables, the figures' data, and wrong input."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nnd_tasks.analysis.plots import Panel, Series, draw_panels, save, short_number
from scipy import stats

from nnd_tasks import cli
from nnd_tasks.analysis.compare.output import FEW_NOTE
from nnd_tasks.analysis.curves.charts import Chart, Point, scaling, training_curve
from nnd_tasks.analysis.curves.curve_log import logged_curve, read_curve
from nnd_tasks.analysis.curves.curve_report import draw, markdown, to_csv, to_json, write
from nnd_tasks.analysis.results import Run, read_results
from nnd_tasks.analysis.tags import read_tags
from nnd_tasks.errors import NNDError
from nnd_tasks.runner.run import run_lm_eval
from nnd_tasks.sets.build import build_set
from tests.analysis.fake_runs import write_run
from tests.analysis.runs import make_run
from tests.conftest import MODELS
from tests.test_statistics import slow_interval

CLUSTERS = ("a", "a", "a", "b", "b", "c", "d", "d")
KINDS = ("x", "x", "y", "x", "y", "y", "x", "y")
OUTCOMES = (True, False, True, True, True, False, False, True)


def run_of(name: str, passed: Sequence[bool | None] = OUTCOMES, revision: str | None = None, **changes: Any) -> Run:
    info = {"name": name, "window": 64, "arguments": {"revision": revision} if revision else {}}
    return make_run(changes.pop("short", name), passed, CLUSTERS, KINDS, model_info=info, **changes)


def by_definition(passed: Sequence[bool], clusters: Sequence[str]) -> tuple[float, float, float]:
    """Return rate and 95% interval by their definition."""
    rate = sum(passed) / len(passed)
    names = set(clusters)
    if len(names) < 2:
        return rate, math.nan, math.nan
    counts = [[outcome for outcome, cluster in zip(passed, clusters, strict=True) if cluster == name] for name in names]
    return rate, *slow_interval([(sum(inside), len(inside)) for inside in counts], 0.95)


# ---------------------------------------------------------------- scaling


outcomes = st.lists(
    st.tuples(st.sampled_from("abcde"), st.sampled_from("xy"), st.booleans(), st.booleans()), min_size=1, max_size=30
)


@settings(deadline=None)
@given(outcomes)
def test_rates_and_intervals_follow_the_definition(rows: list[tuple[str, str, bool, bool]]) -> None:
    clusters, kinds = [row[0] for row in rows], [row[1] for row in rows]
    runs = [
        make_run(f"lm-{j}b", [row[2 + j] for row in rows], clusters, kinds, parameters=10 ** (9 + j)) for j in (0, 1)
    ]
    [chart] = scaling(runs)
    assert {point.category for point in chart.points} == {"all", *kinds}
    for point in chart.points:
        kept = [row for row in rows if point.category in ("all", row[1])]
        j = ["lm-0b", "lm-1b"].index(point.model)
        expected = by_definition([row[2 + j] for row in kept], [row[0] for row in kept])
        assert (point.rate, point.low, point.high) == pytest.approx(expected, abs=1e-6, nan_ok=True)
        assert (point.tests, point.clusters) == (len(kept), len({row[0] for row in kept}))
        assert point.x == 10 ** (9 + j)


def test_families_are_lines_and_are_told() -> None:
    sizes = {"org/a-1b": 1, "org/a-3b": 3, "org/b-1b": 1}
    [chart] = scaling([run_of(name, parameters=size * 10**9) for name, size in sizes.items()])
    assert {(p.family, p.model) for p in chart.points} == {("a", "org/a-1b"), ("a", "org/a-3b"), ("b", "org/b-1b")}
    assert "guessed from names" in chart.notes[0]
    assert "a: org/a-1b, org/a-3b; b: org/b-1b" in chart.notes[0]
    assert [p.x for p in chart.points if p.category == "all"] == [1e9, 3e9, 1e9], "in the order of families, then sizes"


def test_tags_name_families_and_numbers(tmp_path: Path) -> None:
    path = tmp_path / "tags.csv"
    path.write_text("model,family,tokens,parameters\nm1,F,30,\nm2,F,10,7\n")
    runs = [run_of("m1", parameters=5), run_of("m2", parameters=6)]
    [chart] = scaling(runs, "tokens", read_tags(path))
    assert [(p.model, p.x) for p in chart.points if p.category == "all"] == [("m2", 10), ("m1", 30)]
    assert chart.notes[0].startswith("Families: F: m1, m2")
    [chart] = scaling(runs, tags=read_tags(path))
    assert {(p.model, p.x) for p in chart.points} == {("m1", 5), ("m2", 7)}, "a tag wins over what lm-eval counted"


def test_tests_that_one_model_could_not_score_count_for_none() -> None:
    missing = (None, *OUTCOMES[1:])
    [chart] = scaling([run_of("m-1b", missing, parameters=1), run_of("m-2b", parameters=2)])
    assert {p.tests for p in chart.points if p.category == "all"} == {len(OUTCOMES) - 1}
    assert any("Left out: 1 test that" in note for note in chart.notes)


def test_a_task_that_one_model_ran_is_left_out_with_a_note() -> None:
    other = {"task": "nnd_other", "protocol": {"set": "nnd/other", "config": "default"}}
    runs = [run_of("m-1b", parameters=1), run_of("m-2b", parameters=2), run_of("m-1b", parameters=1, **other)]
    [chart] = scaling(runs)
    assert chart.task == "nnd_demo"
    assert any("m-1b on nnd_other" in note for note in chart.notes)


def prompts(*texts: str) -> list[Run]:
    return [
        run_of(f"m-{i}b", parameters=i, protocol={"set": "s", "config": "c", "prompt": text})
        for i, text in enumerate(texts, start=1)
    ]


def test_runs_that_were_asked_otherwise_are_refused_unless_allowed() -> None:
    with pytest.raises(NNDError, match=r"m-1b .* and m-2b .* cannot be compared: prompt 'p' and 'q'"):
        scaling(prompts("p", "q"))
    [chart] = scaling(prompts("p", "q"), allow=["prompt"])
    assert len(chart.points) == 6


def test_windows_are_compared_between_any_two() -> None:
    """The first shortens nothing and has the window of the second: only the second and the third differ."""
    windows = (64, 64, 128)
    runs = [
        make_run(f"m-{i}b", OUTCOMES, CLUSTERS, model_info={"window": window}, parameters=i + 1, truncated=int(i == 1))
        for i, window in enumerate(windows)
    ]
    with pytest.raises(NNDError, match=r"m-1b .* and m-2b .*window of 64 and 128"):
        scaling(runs)
    assert scaling(runs, allow=["window"])


@pytest.mark.parametrize(
    ("runs", "x", "message"),
    [
        ([("m-1b", 1)], "parameters", "one run only (m-1b on nnd_demo)"),
        (
            [("m-1b", 1), ("m-x", None)],
            "parameters",
            "parameters of m-x is not known; give it with --tags",
        ),
        ([("m-1b", 1), ("m-2b", 1)], "parameters", "m-1b and m-2b: both have parameters 1 in the family m"),
        ([("m-1b", 1), ("m-2b", 2)], "tokens", "tokens of m-1b is not known; give it with --tags FILE"),
        ([("m-1b", 1), ("m-2b", 2)], "step", "step of m-1b is not known"),
    ],
)
def test_what_is_missing_for_scaling_is_named(runs: list[tuple[str, int | None]], x: str, message: str) -> None:
    with pytest.raises(NNDError, match=re.escape(message)):
        scaling([run_of(name, parameters=size) for name, size in runs], x)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ("tokens", "tags.csv: tokens of m1 is not known"),
        ("flops", "tags.csv: flops of m2 is not known"),
        ("family", "family of m1 is 'F', which is not a number"),
        ("parameters", "m1: -3 parameters; a size is above 0"),
    ],
)
def test_a_number_that_the_tags_lack_is_named(x: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "tags.csv"
    path.write_text("model,family,flops,parameters\nm1,F,5,-3\nm3,F,5,1\n")
    with pytest.raises(NNDError, match=re.escape(message)):
        scaling([run_of("m1", parameters=5), run_of("m2", parameters=6)], x, read_tags(path))


# ---------------------------------------------------------------- curves of runs


def test_a_curve_goes_by_step_with_a_panel_per_task() -> None:
    other = {"task": "nnd_other", "protocol": {"set": "nnd/other", "config": "default"}}
    names = [f"out/run/step-{step:05}" for step in (1000, 0, 300)]
    [chart] = training_curve([run_of(name, **more) for more in ({}, other) for name in names])
    assert chart.panels == "task"
    for task in ("nnd_demo", "nnd_other"):
        assert [p.x for p in chart.points if p.task == task and p.category == "all"] == [0, 300, 1000]
    assert chart.stem == "curve"
    charts = training_curve([run_of(name, **more) for more in ({}, other) for name in names], panels="category")
    assert [chart.stem for chart in charts] == ["curve_nnd_demo", "curve_nnd_other"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["r/step-1"], "one run only (r/step-1 on nnd_demo): a curve needs two"),
        (["r/step-1", "r/checkpoint-1"], "r/step-1 and r/checkpoint-1: both have step 1; name the folders of the runs"),
        (
            ["r/step-1", "r/final"],
            "r/final: neither its name nor its revision says a step; give the number with --tags",
        ),
        (["r/step-1", "q/step-2"], "checkpoints of 2 trainings, r and q"),
    ],
)
def test_wrong_checkpoints_are_named(names: list[str], message: str) -> None:
    with pytest.raises(NNDError, match=re.escape(message)):
        training_curve([run_of(name) for name in names])


def test_two_trainings_go_side_by_side_as_scaling_by_step() -> None:
    runs = [run_of(f"{training}/step-{step}") for training in ("lm-s", "lm-m") for step in (1, 2)]
    [chart] = scaling(runs, "step")
    assert {(p.family, p.x) for p in chart.points} == {(name, x) for name in ("lm-s", "lm-m") for x in (1, 2)}


def test_tags_give_the_step_of_what_has_none_in_its_name(tmp_path: Path) -> None:
    path = tmp_path / "tags.yaml"
    path.write_text("final: {step: 900}\n")
    [chart] = training_curve([run_of("r/step-1"), run_of("r/final")], tags=read_tags(path))
    assert [(p.model, p.x) for p in chart.points if p.category == "all"] == [("r/step-1", 1), ("r/final", 900)]


# ---------------------------------------------------------------- what the callback writes


def entry(step: Any, task: str = "nnd_demo", **changes: Any) -> dict[str, Any]:
    rates = {
        "all": {"rate": 0.6, "stderr": 0.02, "tests": 100, "clusters": 12},
        "x": {"rate": 0.99, "stderr": 0.03, "tests": 50, "clusters": 4},
        "y": {"rate": 0.5, "stderr": None, "tests": 50, "clusters": 1},
        "z": {"rate": 0.4, "stderr": 0.1, "tests": 5, "clusters": None},
    }
    signature = f"set:s|prompt:p || name:{step} || torch:2"
    return {"step": step, "epoch": 0.5, "task": task, "rates": rates, "signature": signature, **changes}


def log_of(path: Path, *entries: Any) -> Path:
    path.write_text("".join((item if isinstance(item, str) else json.dumps(item)) + "\n" for item in entries))
    return path


def test_a_log_becomes_points_with_the_intervals_of_equal_prompts(tmp_path: Path) -> None:
    path = log_of(tmp_path / "nnd.jsonl", entry(0), entry(500), entry(0, "nnd_b"), entry(500, "nnd_b"))
    [chart] = logged_curve([path])
    assert {p.task for p in chart.points} == {"nnd_demo", "nnd_b"}
    first = {p.category: p for p in chart.points if p.x == 0 and p.task == "nnd_demo"}
    # The ends are where (p - q)^2 = t^2 q (1 - q) / n. 12 prompts of 100 / 12 tests, an error too small for any design effect:
    size = 100 * 12.5 / (12 * 1 + 0.5 * 100 / 12)
    for end in (first["all"].low, first["all"].high):
        assert (0.6 - end) ** 2 == pytest.approx(stats.t.ppf(0.975, 11) ** 2 * end * (1 - end) / size)
    # 4 prompts of 12.5 tests; half a test of 50 failed, so half a prompt at most.
    size = 50 * 1 / (0.5 * 0.03**2 * 50 / (0.99 * 0.01) + 0.5 * 12.5)
    for end in (first["x"].low, first["x"].high):
        assert (0.99 - end) ** 2 == pytest.approx(stats.t.ppf(0.975, 3) ** 2 * end * (1 - end) / size)
    assert first["all"].low < 0.6 < first["all"].high
    assert 0 < first["x"].low < 0.99 < first["x"].high < 1
    assert math.isnan(first["y"].low)
    assert math.isnan(first["z"].low), "without clusters there are no degrees of freedom"
    assert first["z"].standard_error == 0.1
    assert "4†" in markdown(chart)
    assert "fewer than 10 prompts" in markdown(chart)


def test_a_log_in_parts_goes_by_epoch_too(tmp_path: Path) -> None:
    first = log_of(tmp_path / "1.jsonl", entry(0, epoch=0))
    second = log_of(tmp_path / "2.jsonl", entry(500, epoch=1.5))
    [chart] = read_curve([second, first], "epoch")
    assert [p.x for p in chart.points if p.category == "all"] == [0, 1.5]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([entry(0), '{"step": 5, "ta'], "nnd.jsonl, line 2: is not valid JSON"),
        ([entry(0), "[]"], "nnd.jsonl, line 2: is not a JSON object"),
        ([entry(0), entry(0)], "nnd.jsonl, line 2: nnd_demo at step 0 is there twice, first in"),
        ([entry(0)], "one evaluation only of nnd_demo"),
        ([], "holds no evaluation"),
        ([entry(1.5)], "line 1: step is 1.5"),
        ([entry(True)], "line 1: step is True"),
        ([entry(-1)], "line 1: step is -1"),
        ([entry(1, task=None)], "line 1: names no task"),
        ([entry(1, task="x" * 300)], "line 1: names no task"),
        ([entry(1, task="\ud800")], "one evaluation only of ?"),
        ([entry(10**400)], "line 1: step is 1000"),
        ([entry(0), '{"step": ' + "[" * 100_000], "nnd.jsonl"),
        ([entry(1, rates=[])], "line 1: has no rates"),
        ([entry(1, rates={"all": 0.5})], "line 1: has no rates"),
        (
            [entry(1, rates={"all": {"rate": 50, "stderr": 0, "tests": 1, "clusters": 1}})],
            "line 1: 'all' has no rate between",
        ),
        (
            [entry(1, rates={"all": {"rate": 0.5, "stderr": -1, "tests": 1, "clusters": 1}})],
            "line 1: 'all' has no rate",
        ),
        ([entry(1, rates={"all": {"rate": 0.5}})], "line 1: 'all' has no rate between 0 and 1 with stderr, tests"),
        (
            [entry(0), entry(1, signature="set:s|prompt:q || n")],
            "line 2: nnd_demo: its protocol changed during this log: prompt 'p' and 'q'",
        ),
    ],
)
def test_a_wrong_line_is_named(lines: list[Any], message: str, tmp_path: Path) -> None:
    path = log_of(tmp_path / "nnd.jsonl", *lines)
    with pytest.raises(NNDError, match=re.escape(message)):
        read_curve([path])


def test_what_was_asked_may_change_where_allowed(tmp_path: Path) -> None:
    path = log_of(tmp_path / "nnd.jsonl", entry(0), entry(1, signature="set:s|prompt:q || n"), entry(2, signature=None))
    assert len(logged_curve([path], allow=["prompt"])[0].points) == 12


def test_logs_and_runs_do_not_mix(tmp_path: Path) -> None:
    path = log_of(tmp_path / "nnd.jsonl", entry(0), entry(1))
    with pytest.raises(NNDError, match="is a log of NNDCallback, the rest are runs"):
        read_curve([path, tmp_path])
    with pytest.raises(NNDError, match="steps of their own"):
        read_curve([path], tags=tmp_path / "tags.csv")
    with pytest.raises(NNDError, match="--x tokens: a training's log has step and epoch"):
        read_curve([path], "tokens")
    with pytest.raises(NNDError, match="--panels lines: task or category"):
        read_curve([path], panels="lines")
    log_of(path, entry(0, epoch=None), entry(1))
    with pytest.raises(NNDError, match=r"line 1: epoch is None, which is not a number"):
        read_curve([path], "epoch")


# ---------------------------------------------------------------- tables and figures


def chart_of(*places: float, kind: Any = "scaling", x: str = "parameters", **changes: Any) -> Chart:
    points = [
        Point("nnd_demo", category, "fam|ily", f"m{i}", place, 1234, k, rate, 0.05, rate - 0.1, rate + 0.1)
        for category, rate, k in (("all", 0.6, 40), ("x", 0.7, 9))
        for i, place in enumerate(places)
    ]
    settings: dict[str, Any] = {"task": "nnd_demo", "panels": "category", "notes": ("A note.",), **changes}
    return Chart(kind=kind, x=x, points=tuple(points), **settings)


def test_the_table_as_a_whole() -> None:
    assert markdown(chart_of(1e6, 3.5e6)) == (
        "# Pass rate against parameters: nnd_demo\n\n"
        "A note.\n\n"
        "| category | family | model | parameters | tests | prompts | pass rate | std. error | 95% interval |\n"
        "|---|---|---|---:|---:|---:|---:|---:|---:|\n"
        "| all | fam&#124;ily | m0 | 1,000,000 | 1,234 | 40 | 0.600 | 0.0500 | 0.500 to 0.700 |\n"
        "| all | fam&#124;ily | m1 | 3,500,000 | 1,234 | 40 | 0.600 | 0.0500 | 0.500 to 0.700 |\n"
        "| x | fam&#124;ily | m0 | 1,000,000 | 1,234 | 9† | 0.700 | 0.0500 | 0.600 to 0.800 |\n"
        "| x | fam&#124;ily | m1 | 3,500,000 | 1,234 | 9† | 0.700 | 0.0500 | 0.600 to 0.800 |\n\n"
        "Intervals are Wilson's, clustered by prompt. Chance is 0.5, less half the share of ties.\n\n"
        f"{FEW_NOTE}\n"
    )


def test_csv_and_json_hold_every_number_of_the_figure(tmp_path: Path) -> None:
    [chart] = scaling([run_of("m-1b", parameters=10**9), run_of("m-3b", parameters=3 * 10**9)])
    (tmp_path / "t.csv").write_text(to_csv(chart))
    table = pd.read_csv(tmp_path / "t.csv")
    found = json.loads(to_json(chart))
    assert list(table["parameters"]) == [point["x"] for point in found["points"]] == [p.x for p in chart.points]
    for column in ("rate", "standard_error", "low", "high", "tests", "clusters", "category", "family", "model"):
        assert list(table[column]) == [getattr(p, column) for p in chart.points]
        assert [point[column] for point in found["points"]] == [getattr(p, column) for p in chart.points]
    assert set(found["signatures"]) == {"nnd_demo: m-1b", "nnd_demo: m-3b"}


def test_what_is_not_known_is_empty(tmp_path: Path) -> None:
    [chart] = logged_curve([log_of(tmp_path / "nnd.jsonl", entry(0), entry(1))])
    [point] = [p for p in json.loads(to_json(chart))["points"] if p["category"] == "y" and p["x"] == 0]
    assert (point["low"], point["standard_error"]) == (None, None)
    assert "nan" not in to_csv(chart)
    assert "| y | step 0 | 0 | 50 | 1† | 0.500 | - | - |" in markdown(chart)


def lines_of(axes: Any) -> dict[str, tuple[list[float], list[float], list[list[float]]]]:
    """Return label -> x, y and the ends of the error bars, as drawn."""
    found = {}
    for container in axes.containers:
        data, _, [bars] = container.lines
        ends = [sorted(segment[:, 1]) for segment in bars.get_segments()]
        found[container.get_label()] = (list(data.get_xdata()), list(data.get_ydata()), ends)
    return found


def test_the_figure_of_scaling_shows_the_points() -> None:
    sizes = {"a-1b": 1, "a-3b": 3, "b-1b": 1}
    runs = [
        run_of(name, OUTCOMES[i:] + OUTCOMES[:i], parameters=n * 10**9) for i, (name, n) in enumerate(sizes.items())
    ]
    [chart] = scaling(runs)
    figure = draw(chart)
    panels = {axes.get_title(): axes for axes in figure.axes if axes.get_title()}
    assert list(panels) == ["all", "x", "y"]
    for category, axes in panels.items():
        drawn = lines_of(axes)
        assert set(drawn) == {"a", "b"}
        for family, (x, y, ends) in drawn.items():
            points = [p for p in chart.points if (p.category, p.family) == (category, family)]
            assert (x, y) == ([p.x for p in points], [p.rate for p in points])
            assert np.allclose(ends, [[p.low, p.high] for p in points])
        [chance] = [line for line in axes.get_lines() if line.get_label() == "chance (0.5)"]
        assert list(chance.get_ydata()) == [0.5, 0.5]
        assert axes.get_xscale() == "log"
        assert axes.get_xlabel() == "model size (parameters), log scale"
        low, high = axes.get_xlim()
        assert low < 1e9 < 3e9 < high
    assert panels["all"].get_ylabel() == "pass rate (share of tests)"


def test_the_figure_of_a_curve_has_a_line_per_category() -> None:
    [chart] = training_curve([run_of(f"r/step-{step}") for step in (0, 500, 1000)])
    [axes] = draw(chart).axes
    drawn = lines_of(axes)
    assert set(drawn) == {"all", "x", "y"}
    assert drawn["all"][0] == [0, 500, 1000]
    assert axes.get_xscale() == "linear"
    widths = {c.get_label(): c.lines[0].get_linewidth() for c in axes.containers}
    assert widths["all"] > widths["x"]


def test_early_steps_that_crowd_get_a_log_axis_that_knows_zero() -> None:
    [chart] = training_curve([run_of(f"r/step-{step}") for step in (0, 24, 74, 223, 620, 1244)])
    [axes] = draw(chart).axes
    assert axes.get_xscale() == "symlog"
    assert axes.get_xlim()[0] < 0
    assert 0 in axes.get_xticks()
    assert draw(chart, log=False).axes[0].get_xscale() == "linear"


def test_log_of_what_has_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tags.json"
    path.write_text('{"m1": {"change": -1}, "m2": {"change": 2}}')
    [chart] = scaling([run_of("m1"), run_of("m2")], "change", read_tags(path))
    with pytest.raises(NNDError, match="--log: change has values below 0"):
        draw(chart, log=True)
    assert draw(chart).axes[0].get_xscale() == "linear"


@pytest.mark.parametrize("name", ["$^{$", "a$b", "a$b$c", r"\$^{$"])
def test_names_are_no_formulas(name: str, tmp_path: Path) -> None:
    series = Series(name, [1, 2], [0.5, 0.6], [0.4, 0.5], [0.6, 0.7])
    for panels in ([Panel(name, [series])], [Panel(name, [series]), Panel("q", [series])]):
        figure = draw_panels(panels, name, name)
        [png] = save(tmp_path, {"x.png": figure})
        assert png.read_bytes().startswith(b"\x89PNG")
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


def test_files_come_whole_and_the_same_every_time(tmp_path: Path) -> None:
    chart = chart_of(1e6, 3e6)
    written = write([chart], tmp_path / "a" / "b")
    assert [path.name for path in written] == [f"scaling_nnd_demo.{end}" for end in ("md", "csv", "json", "png", "svg")]
    assert {path.name for path in (tmp_path / "a" / "b").iterdir()} == {path.name for path in written}
    assert written[0].read_text() == markdown(chart)
    assert written[3].read_bytes().startswith(b"\x89PNG")
    before = [path.read_bytes() for path in written]
    assert [path.read_bytes() for path in write([chart], tmp_path / "a" / "b")] == before


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    class Broken:
        def savefig(self, *args: Any, **kwargs: Any) -> None:
            raise OSError(28, "No space left on device")

    (tmp_path / "stem.md").write_text("old")
    figure: Any = Broken()
    with pytest.raises(NNDError, match=r"cannot be written .No space left on device.$"):
        save(tmp_path, {"stem.md": "new", "stem.png": figure})
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("stem.md", "old")]
    with pytest.raises(NNDError, match="cannot be written"):
        save(tmp_path / "stem.md", {"stem.md": "new"})


def test_files_of_several_charts_are_written_all_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    charts = [chart_of(1e6, 3e6), chart_of(1e6, 3e6, task="nnd_other")]
    monkeypatch.setattr(
        "nnd_tasks.analysis.curves.curve_report.draw", lambda chart, log: "" if chart is charts[0] else 1 / 0
    )
    with pytest.raises(ZeroDivisionError):
        write(charts, tmp_path)
    monkeypatch.undo()
    (tmp_path / "scaling_nnd_other.svg").mkdir()
    with pytest.raises(NNDError, match="cannot be written"):
        write(charts, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["scaling_nnd_other.svg"]


def test_names_of_tasks_are_safe_in_files() -> None:
    assert chart_of(1, 2, task="nnd_a / nnd_b").stem == "scaling_nnd_a_nnd_b"


# ---------------------------------------------------------------- the commands


@pytest.fixture
def nnd(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Return what runs the command in this process."""
    monkeypatch.delenv("NND_DEBUG", raising=False)

    def call(*arguments: str | Path) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["nnd", *map(str, arguments)])
        status = 0
        try:
            cli.main()
        except SystemExit as done:
            status = int(done.code or 0)
        return status, *capsys.readouterr()

    return call


def test_scaling_reads_results_of_lm_eval(nnd: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    runs = [
        write_run(
            tmp_path, f"models/lm-{size}m", parameters=size * 10**6, seed=size, chances={"x": 0.3, "y": size / 40}
        )
        for size in (10, 20, 40)
    ]
    status, out, err = nnd("scaling", *runs, "--out", tmp_path / "out")
    assert (status, err) == (0, "")
    assert "lm: lm-10m, lm-20m, lm-40m" in out
    table = pd.read_csv(tmp_path / "out" / "scaling_nnd_made_up.csv")
    for run in read_results(runs):
        for category in ("x", "y"):
            passed = run.tests.loc[run.tests["category"] == category, "passed"]
            [rate] = table.loc[(table["model"] == run.model) & (table["category"] == category), "rate"]
            assert rate == pytest.approx(passed.mean())
            mark = "†" if rate in (0, 1) else ""
            assert f"| {category} | lm | {run.model} | {run.parameters:,} | 30 | 30{mark} | {rate:.3f} |" in out


def test_curve_reads_checkpoints_and_logs(nnd: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    runs = [write_run(tmp_path, f"out/run/checkpoint-{step}", seed=step) for step in (100, 200)]
    status, out, err = nnd("curve", *runs, "--panels", "category", "--out", tmp_path / "out")
    assert (status, err) == (0, "")
    assert "checkpoint-100 | 100 |" in out
    assert (tmp_path / "out" / "curve_nnd_made_up.svg").is_file()
    path = log_of(tmp_path / "nnd.jsonl", entry(0), entry(50))
    status, out, err = nnd("curve", path)
    assert (status, err) == (0, "")
    assert "| all | step 50 | 50 | 100 | 12 | 0.600 | 0.0200 | 0.475 to 0.713 |" in out


def test_a_mistake_is_one_line(nnd: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    runs = [write_run(tmp_path, f"api/model-{name}", parameters=None) for name in "ab"]
    for arguments, message in (
        (("scaling", *runs), "model-a: lm-eval did not count its parameters"),
        (("curve", *runs), "model-a: neither its name nor its revision says a step"),
        (("scaling", tmp_path / "nowhere"), "there is no such file or folder"),
        (("curve", log_of(tmp_path / "n.jsonl", entry(0), "{")), "n.jsonl, line 2: is not valid JSON"),
    ):
        status, out, err = nnd(*arguments, "--out", tmp_path / "out")
        assert (status, out) == (1, "")
        assert err.count("\n") == 1
        assert err.startswith("nnd: error: ")
        assert message in err
    assert not (tmp_path / "out").exists()


REAL = ("tiny-lm-xs", "tiny-lm-s/step-00000", "tiny-lm-s/step-01244", "tiny-lm-m")


@pytest.fixture(scope="module")
def real_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a run of each of `REAL`; made before any test captures what lm-eval logs to."""
    if not MODELS.is_dir():
        pytest.skip(f"no trained models at {MODELS}; set NND_TEST_MODELS")
    folder = tmp_path_factory.mktemp("real_runs")
    build_set("demo", out=folder / "home" / "nnd" / "demo")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NND_HOME", str(folder / "home"))
        for name in REAL:
            given = ("--model_args", f"pretrained={MODELS / name},dtype=float32", "--output_path", str(folder / name))
            run_lm_eval(
                ["--model", "hf", "--tasks", "nnd_demo", "--device", "cpu", *given, "--limit", "10", "--log_samples"]
            )
    return folder


@pytest.mark.slow
def test_real_models_from_run_to_figure(
    nnd: Callable[..., tuple[int, str, str]], real_runs: Path, tmp_path: Path
) -> None:
    names = REAL
    out = tmp_path / "figures"
    status, text, err = nnd("scaling", *(real_runs / names[i] for i in (3, 0, 2)), "--out", out)
    assert (status, err) == (0, "")
    assert "tiny-lm: tiny-lm-m, tiny-lm-xs, tiny-lm-s/step-01244" in text
    table = pd.read_csv(out / "scaling_nnd_demo.csv")
    assert list(table["parameters"][:3]) == [356_672, 868_992, 3_901_696]
    status, text, err = nnd("curve", real_runs / "tiny-lm-s", "--out", out)
    assert (status, err) == (0, "")
    table = pd.read_csv(out / "curve_nnd_demo.csv")
    assert list(table["step"]) == [0, 1244] * 4
    for i, name in enumerate(names[1:3]):  # lm-eval's own figures
        [path] = (real_runs / name).rglob("results_*.json")
        found = json.loads(path.read_text())["results"]["nnd_demo"]
        for category, metric in (("all", "pass_rate"), ("disfluent", "pass_rate_disfluent")):
            row = table[(table["category"] == category) & (table["step"] == (0, 1244)[i])].iloc[0]
            assert row["rate"] == pytest.approx(found[f"{metric},none"])
            assert row["standard_error"] == pytest.approx(found[f"{metric}_stderr,none"])
