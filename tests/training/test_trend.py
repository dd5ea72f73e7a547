"""Trends: rates against sizes and steps, their figures, and wrong input."""

import json
import math
import re

import numpy as np
import pytest
from scipy import stats

from nnd_tasks.errors import NNDError
from nnd_tasks.show.forms import to_markdown
from nnd_tasks.training.model_tags import read_tags
from nnd_tasks.training.trend import find_trend, read_logs, read_trend, report_trend
from tests.results.runs import make_run

CLUSTERS = ("a", "a", "a", "b", "b", "c", "d", "d")
KINDS = ("x", "x", "y", "x", "y", "y", "x", "y")
OUTCOMES = (True, False, True, True, True, False, False, True)
OTHER = {"task": "nnd_other", "protocol": {"set": "nnd/other", "config": "default"}}


def run_of(name, passed=OUTCOMES, **changes):
    return make_run(name, passed, CLUSTERS, KINDS, model_info={"name": name, "window": 64}, **changes)


def whole(trend, *columns):
    """Return some columns of the points on all tests, one after the other."""
    points = trend.points[trend.points["category"] == "all"]
    return [*points[[*columns]].itertuples(index=False, name=None)]


# ---------------------------------------------------------------- runs


def test_tags_name_families_and_numbers(tmp_path):
    path = tmp_path / "tags.csv"
    path.write_text("model,family,tokens,parameters,step\nm1,F,30,,\nm2,F,10,7,\nfinal,r,,,900\n")
    tags, runs = read_tags(path), [run_of("m1", parameters=5), run_of("m2", parameters=6)]
    assert whole(find_trend(runs, "tokens", tags), "family", "model", "x") == [("F", "m2", 10), ("F", "m1", 30)]
    assert whole(find_trend(runs, tags=tags), "model", "x") == [("m1", 5), ("m2", 7)], (
        "a tag wins over what lm-eval counted"
    )
    trend = find_trend([run_of("r/step-1"), run_of("r/final")], "step", tags)
    assert whole(trend, "family", "model", "x") == [("r", "r/step-1", 1), ("r", "r/final", 900)]


def test_runs_that_were_asked_otherwise_are_refused_unless_allowed():
    runs = [run_of(f"m-{i}b", parameters=i, protocol={"set": "s", "config": "c", "prompt": i}) for i in (1, 2)]
    with pytest.raises(NNDError, match="cannot be compared: prompt 1 and 2"):
        find_trend(runs)
    assert len(find_trend(runs, allow=["prompt"]).points) == 6


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["r/step-1", "r/final"], "step of r/final is not known; give it with --tags FILE"),
        (["r/step-1", "r/checkpoint-1"], "r/step-1 and r/checkpoint-1 both have step 1; leave one out"),
    ],
)
def test_what_is_missing_is_named(names, message):
    with pytest.raises(NNDError, match=re.escape(message)):
        find_trend([run_of(name) for name in names], "step")


@pytest.mark.parametrize(
    ("names", "x", "lines"),
    [
        (["a-1b", "a-2b"], "parameters", [("a", 1), ("a", 2)]),
        (["r/step-1", "r/step-2"], "step", [("r", 1), ("r", 2)]),
        (["s/lm/step-1", "m/lm/step-1", "m/lm/step-2"], "step", [("m/lm", 1), ("m/lm", 2), ("s/lm", 1)]),
        (["a-1b/step-9", "a-2b/step-9"], "parameters", [("a", 1), ("a", 2)]),
        (["b-1b/step-9", "b-2b", "a-2b"], "parameters", [("a", 3), ("b", 1), ("b", 2)]),
    ],
)
def test_checkpoints_of_one_training_go_by_step_and_models_of_a_family_by_size(names, x, lines):
    trend = find_trend([run_of(name, parameters=i) for i, name in enumerate(names, start=1)])
    assert trend.x == x
    assert whole(trend, "family", "x") == lines


# ---------------------------------------------------------------- what the callback writes


def entry(step, task="nnd_demo", **changes):
    rates = {
        "all": {"rate": 0.6, "stderr": 0.02, "tests": 100, "clusters": 12},
        "x": {"rate": 0.99, "stderr": 0.03, "tests": 50, "clusters": 4},
        "y": {"rate": 0.5, "stderr": None, "tests": 50, "clusters": 1},
        "z": {"rate": 0.4, "stderr": 0.1, "tests": 5, "clusters": None},
    }
    signature = f"set:s|prompt:p || name:{step} || torch:2"
    return {"step": step, "epoch": 0.5, "task": task, "rates": rates, "signature": signature, **changes}


def log_of(path, *entries):
    path.write_text("".join(json.dumps(item) + "\n" for item in entries))
    return path


def test_a_log_becomes_points_with_the_intervals_of_equal_prompts(tmp_path):
    sample = "set:s|selection:4 of 9 (ab) || name:m"
    parts = [log_of(tmp_path / f"{i}.jsonl", entry(i), entry(i, "nnd_b", signature=sample)) for i in (500, 0)]
    points = read_trend(parts).points
    assert set(points["task"]) == {"nnd_demo", "nnd_b (4 of 9 prompts)"}
    first = points[(points["x"] == 0) & (points["task"] == "nnd_demo")].set_index("category")
    # The ends are where (p - q)^2 = t^2 q (1 - q) / n. 4 prompts of 12.5 tests; half a test failed, so half a prompt at most.
    size = 50 * 1 / (0.5 * 0.03**2 * 50 / (0.99 * 0.01) + 0.5 * 12.5)
    for end in first.loc["x", ["low", "high"]]:
        assert (0.99 - end) ** 2 == pytest.approx(stats.t.ppf(0.975, 3) ** 2 * end * (1 - end) / size)
    assert first.at["x", "low"] < 0.99 < first.at["x", "high"] < 1
    assert math.isnan(first.at["y", "low"])
    assert math.isnan(first.at["z", "low"]), "without clusters there are no degrees of freedom"


def test_a_log_may_have_measures(tmp_path):
    measures = {"all": {"margin": {"mean": 0.2, "stderr": 0.05}, "bits_high": {"mean": 1.5, "stderr": None}}}
    trend = read_trend([log_of(tmp_path / "nnd.jsonl", entry(1), entry(2, measures=measures))])
    points = trend.points[trend.points["category"] == "all"].set_index("x")
    half = stats.t.ppf(0.975, 11) * 0.05
    numbers = points.loc[2, ["margin", "margin_low", "margin_high"]].tolist()
    assert numbers == pytest.approx([0.2, 0.2 - half, 0.2 + half])
    assert points.loc[1, ["margin", "bits_high"]].isna().all()
    assert math.isnan(points.loc[2, "bits_high_low"])


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([entry(0)], "nnd.jsonl: no such file, or fewer than two evaluations"),
        (
            [entry(0), entry(1, signature="set:s|prompt:q || n")],
            "the protocol of nnd_demo is not the same in all lines",
        ),
    ],
)
def test_a_wrong_line_is_named(lines, message, tmp_path):
    path = log_of(tmp_path / "nnd.jsonl", *lines)
    with pytest.raises(NNDError, match=re.escape(message)):
        read_trend([path])


def test_logs_with_a_common_step_are_of_several_trainings(tmp_path):
    logs = [log_of(tmp_path / f"{name}.jsonl", entry(0), entry(5)) for name in "ab"]
    assert {*read_trend(logs).points["family"]} == {"a", "b"}


def test_logs_and_runs_do_not_mix(tmp_path):
    path = log_of(tmp_path / "nnd.jsonl", entry(0), entry(1))
    for places, options in (
        ([path, tmp_path], {}),
        ([tmp_path], {}),
        ([path], {"allow": ["prompt"]}),
        ([path], {"x": "tokens"}),
    ):
        with pytest.raises(NNDError, match="is a log of NNDCallback"):
            read_trend(places, **options)


# ---------------------------------------------------------------- table and figures


def test_every_number_is_shown(tmp_path):
    trend = read_logs([log_of(tmp_path / "nnd.jsonl", entry(0), entry(10_000))])
    report = report_trend(trend)
    assert [table.name for table in report.tables] == ["rates"]
    text = to_markdown(report)
    assert "| task | category | model | step | pass rate | 95% interval | tests | prompts |" in text
    assert "| nnd_demo | x | step 10000 | 10,000 | 0.990 | " in text
    assert "| nnd_demo | y | step 0 | 0 | 0.500 | - | 50 | 1† |" in text


def lines_of(axes):
    """Return label -> x, y and the ends of the error bars, as drawn."""
    found = {}
    for container in axes.containers:
        data, _, [bars] = container.lines
        ends = [sorted(segment[:, 1]) for segment in bars.get_segments()]
        found[container.get_label()] = (list(data.get_xdata()), list(data.get_ydata()), ends)
    return found


def test_a_figure_of_sizes_has_a_panel_per_category_and_a_line_per_family():
    sizes = {"a-1b": 1, "a-3b": 3, "b-1b": 1}
    runs = [
        run_of(name, OUTCOMES[i:] + OUTCOMES[:i], parameters=n * 10**9, **more)
        for i, (name, n) in enumerate(sizes.items())
        for more in ({}, OTHER)
    ]
    trend = find_trend(runs)
    figures = report_trend(trend).figures
    assert set(figures) == {"nnd_demo", "nnd_other"}
    panels = {axes.get_title(): axes for axes in figures["nnd_demo"]().axes}
    assert list(panels) == ["all, 4 prompts", "x, 3 prompts", "y, 4 prompts"]
    of_task = trend.points[trend.points["task"] == "nnd_demo"]
    for title, axes in panels.items():
        category = title.partition(",")[0]
        drawn = lines_of(axes)
        assert set(drawn) == {"a", "b"}
        for family, (x, y, ends) in drawn.items():
            points = of_task[(of_task["category"] == category) & (of_task["family"] == family)]
            assert (x, y) == (points["x"].tolist(), points["rate"].tolist())
            assert np.allclose(ends, points[["low", "high"]])
        assert "chance (0.5)" in {line.get_label() for line in axes.get_lines()}
        assert (axes.get_xscale(), axes.get_xlabel()) == ("symlog", "parameters, log scale")


def test_a_figure_of_a_training_has_a_panel_per_task_and_a_line_per_category():
    runs = [run_of(f"r/step-{step}", **more) for more in ({}, OTHER) for step in (0, 24, 74, 223, 620, 1244)]
    assert "nnd_demo" in report_trend(find_trend(runs[:6])).figures
    axes, other = report_trend(find_trend(runs)).figures["tasks"]().axes
    assert axes.get_title() == "nnd_demo, 3 to 4 prompts"
    assert other.get_title() == "nnd_other, 3 to 4 prompts"
    assert set(lines_of(axes)) == {"all", "x", "y"}
    assert axes.get_xscale() == "symlog", "early steps crowd"
