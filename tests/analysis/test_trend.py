"""Pass rates against sizes and steps: the numbers, the table, the figures' data, and wrong input."""

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
from scipy import stats

from nnd_tasks.analysis.results import Run, read_results
from nnd_tasks.analysis.tags import read_tags
from nnd_tasks.analysis.trend import Trend, find_trend, read_logs, read_trend, report_trend
from nnd_tasks.errors import NNDError
from nnd_tasks.runner.run import run_lm_eval
from nnd_tasks.sets.build import build_set
from nnd_tasks.show.forms import to_json, to_markdown
from tests.analysis.fake_runs import write_run
from tests.analysis.runs import make_run
from tests.commands import Outcome, refused
from tests.conftest import MODELS
from tests.test_statistics import slow_interval

CLUSTERS = ("a", "a", "a", "b", "b", "c", "d", "d")
KINDS = ("x", "x", "y", "x", "y", "y", "x", "y")
OUTCOMES = (True, False, True, True, True, False, False, True)
OTHER: dict[str, Any] = {"task": "nnd_other", "protocol": {"set": "nnd/other", "config": "default"}}


def run_of(name: str, passed: Sequence[bool | None] = OUTCOMES, **changes: Any) -> Run:
    return make_run(name, passed, CLUSTERS, KINDS, model_info={"name": name, "window": 64}, **changes)


def by_definition(passed: Sequence[bool], clusters: Sequence[str]) -> tuple[float, float, float]:
    """Return rate and 95% interval by their definition."""
    rate = sum(passed) / len(passed)
    names = set(clusters)
    if len(names) < 2:
        return rate, math.nan, math.nan
    counts = [[outcome for outcome, cluster in zip(passed, clusters, strict=True) if cluster == name] for name in names]
    return rate, *slow_interval([(sum(inside), len(inside)) for inside in counts], 0.95)


def whole(trend: Trend, *columns: str) -> list[Any]:
    """Return some columns of the points on all tests, one after the other."""
    points = trend.points[trend.points["category"] == "all"]
    rows = points[list(columns)].to_numpy().tolist()
    return [row[0] for row in rows] if len(columns) == 1 else [tuple(row) for row in rows]


# ---------------------------------------------------------------- runs


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
    points = find_trend(runs).points
    assert set(points["category"]) == {"all", *kinds}
    for point in points.itertuples():
        kept = [row for row in rows if point.category in ("all", row[1])]
        j = ["lm-0b", "lm-1b"].index(point.model)
        expected = by_definition([row[2 + j] for row in kept], [row[0] for row in kept])
        assert (point.rate, point.low, point.high) == pytest.approx(expected, abs=1e-6, nan_ok=True)
        assert (point.tests, point.clusters) == (len(kept), len({row[0] for row in kept}))
        assert point.x == 10 ** (9 + j)


def test_families_are_lines_in_the_order_of_families_then_sizes() -> None:
    sizes = {"org/b-1b": 1, "org/a-3b": 3, "org/a-1b": 1}
    trend = find_trend([run_of(name, parameters=size * 10**9) for name, size in sizes.items()])
    assert trend.x == "parameters"
    expected = [("a", "org/a-1b", 1e9), ("a", "org/a-3b", 3e9), ("b", "org/b-1b", 1e9)]
    assert whole(trend, "family", "model", "x") == expected


def test_tags_name_families_and_numbers(tmp_path: Path) -> None:
    path = tmp_path / "tags.csv"
    path.write_text("model,family,tokens,parameters\nm1,F,30,\nm2,F,10,7\n")
    runs = [run_of("m1", parameters=5), run_of("m2", parameters=6)]
    trend = find_trend(runs, "tokens", read_tags(path))
    assert whole(trend, "family", "model", "x") == [("F", "m2", 10), ("F", "m1", 30)]
    assert not any("guessed" in note for note in trend.notes)
    trend = find_trend(runs, tags=read_tags(path))
    assert whole(trend, "model", "x") == [("m1", 5), ("m2", 7)], "a tag wins over what lm-eval counted"


def test_what_only_some_models_have_is_left_out_with_a_note() -> None:
    missing = (None, *OUTCOMES[1:])
    runs = [run_of("m-1b", missing, parameters=1), run_of("m-2b", parameters=2), run_of("m-1b", parameters=1, **OTHER)]
    trend = find_trend(runs)
    assert set(whole(trend, "task", "tests")) == {("nnd_demo", len(OUTCOMES) - 1)}
    assert any("nnd_demo: Left out: 1 test that" in note for note in trend.notes)
    assert any("m-1b on nnd_other" in note for note in trend.notes)


def test_runs_that_were_asked_otherwise_are_refused_unless_allowed() -> None:
    protocols = [{"set": "s", "config": "c", "prompt": text} for text in "pq"]
    runs = [run_of(f"m-{i}b", parameters=i, protocol=protocol) for i, protocol in enumerate(protocols, start=1)]
    with pytest.raises(NNDError, match=r"m-1b .* and m-2b .* cannot be compared: prompt 'p' and 'q'"):
        find_trend(runs)
    assert len(find_trend(runs, allow=["prompt"]).points) == 6


def test_windows_are_compared_between_any_two() -> None:
    """The first shortens nothing and has the window of the second: only the second and the third differ."""
    windows = (64, 64, 128)
    runs = [
        make_run(f"m-{i}b", OUTCOMES, CLUSTERS, model_info={"window": window}, parameters=i + 1, truncated=int(i == 1))
        for i, window in enumerate(windows)
    ]
    with pytest.raises(NNDError, match=r"m-1b .* and m-2b .*window 64 and 128"):
        find_trend(runs)
    assert len(find_trend(runs, allow=["window"]).points) == 6


@pytest.mark.parametrize(
    ("runs", "x", "message"),
    [
        ([("m-1b", 1)], None, "the run of m-1b on nnd_demo is in no comparison: no other model ran"),
        ([("m-1b", 1), ("m-x", None)], None, "parameters of m-x is not known; give it with --tags FILE"),
        ([("m-1b", 1), ("m-2b", 1)], None, "m-1b and m-2b both have parameters 1; leave one out"),
        ([("m-1b", 1), ("m-2b", 2)], "tokens", "tokens of m-1b is not known; give it with --tags FILE"),
        ([("m-1b", 1), ("m-2b", 2)], "step", "step of m-1b is not known; give it with --tags FILE"),
        ([("r/step-1", 1), ("r/checkpoint-1", 1)], None, "both have step 1; leave one out"),
        ([("r/step-1", 1), ("r/final", 1)], "step", "step of r/final is not known; give it with --tags FILE"),
    ],
)
def test_what_is_missing_is_named(runs: list[tuple[str, int | None]], x: str | None, message: str) -> None:
    with pytest.raises(NNDError, match=re.escape(message)):
        find_trend([run_of(name, parameters=size) for name, size in runs], x)


@pytest.mark.parametrize(
    ("names", "x"),
    [
        (["a-1b", "a-2b"], "parameters"),
        (["r/step-1", "r/step-2"], "step"),
        (["r/step-1", "r/step-2", "q/step-2"], "step"),
        (["a-1b/step-9", "a-2b/step-9"], "parameters"),
        (["a-1b/step-9", "a-2b"], "parameters"),
    ],
)
def test_checkpoints_of_one_training_go_by_step_and_models_by_size(names: list[str], x: str) -> None:
    runs = [run_of(name, parameters=i) for i, name in enumerate(names, start=1)]
    assert find_trend(runs).x == x


def test_trainings_of_one_name_are_lines_of_their_own() -> None:
    runs = [run_of(f"{training}/step-{step}") for training in ("s/lm", "m/lm", "q") for step in (1, 2)]
    expected = [(name, x) for name in ("m/lm", "q", "s/lm") for x in (1, 2)]
    assert whole(find_trend(runs), "family", "x") == expected


def test_tags_give_the_step_of_what_has_none_in_its_name(tmp_path: Path) -> None:
    path = tmp_path / "tags.csv"
    path.write_text("model,step,family\nfinal,900,r\n")
    trend = find_trend([run_of("r/step-1"), run_of("r/final")], "step", read_tags(path))
    assert whole(trend, "family", "model", "x") == [("r", "r/step-1", 1), ("r", "r/final", 900)]


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
    points = read_logs([path]).points
    assert set(points["task"]) == {"nnd_demo", "nnd_b"}
    first = points[(points["x"] == 0) & (points["task"] == "nnd_demo")].set_index("category")
    # The ends are where (p - q)^2 = t^2 q (1 - q) / n. 12 prompts of 100 / 12 tests, an error too small for any design effect:
    size = 100 * 12.5 / (12 * 1 + 0.5 * 100 / 12)
    for end in first.loc["all", ["low", "high"]]:
        assert (0.6 - end) ** 2 == pytest.approx(stats.t.ppf(0.975, 11) ** 2 * end * (1 - end) / size)
    # 4 prompts of 12.5 tests; half a test of 50 failed, so half a prompt at most.
    size = 50 * 1 / (0.5 * 0.03**2 * 50 / (0.99 * 0.01) + 0.5 * 12.5)
    for end in first.loc["x", ["low", "high"]]:
        assert (0.99 - end) ** 2 == pytest.approx(stats.t.ppf(0.975, 3) ** 2 * end * (1 - end) / size)
    assert first.at["all", "low"] < 0.6 < first.at["all", "high"]
    assert 0 < first.at["x", "low"] < 0.99 < first.at["x", "high"] < 1
    assert math.isnan(first.at["y", "low"])
    assert math.isnan(first.at["z", "low"]), "without clusters there are no degrees of freedom"
    assert first.at["z", "standard_error"] == 0.1


def test_a_log_may_be_in_parts(tmp_path: Path) -> None:
    first, second = (log_of(tmp_path / f"{step}.jsonl", entry(step)) for step in (0, 500))
    assert whole(read_trend([second, first]), "x") == [0, 500]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([entry(0), '{"step": 5, "ta'], "nnd.jsonl, line 2: not written by NNDCallback"),
        ([entry(0), "[]"], "nnd.jsonl, line 2: not written by NNDCallback"),
        ([entry(0), entry("many")], "nnd.jsonl, line 2: not written by NNDCallback"),
        ([entry(0), entry(0), entry(5)], "nnd_demo: step 0 and step 0 both have step 0"),
        ([entry(0)], "nnd.jsonl: no such file, or fewer than two evaluations"),
        ([], "nnd.jsonl: no such file, or fewer than two evaluations"),
        (
            [entry(0), entry(1, signature="set:s|prompt:q || n")],
            "the protocol of nnd_demo changed during this log",
        ),
    ],
)
def test_a_wrong_line_is_named(lines: list[Any], message: str, tmp_path: Path) -> None:
    path = log_of(tmp_path / "nnd.jsonl", *lines)
    with pytest.raises(NNDError, match=re.escape(message)):
        read_trend([path])


def test_logs_and_runs_do_not_mix(tmp_path: Path) -> None:
    path = log_of(tmp_path / "nnd.jsonl", entry(0), entry(1))
    more: dict[str, Any]
    for places, more in (
        ([path, tmp_path], {}),
        ([path], {"tags": tmp_path}),
        ([path], {"allow": ["prompt"]}),
        ([path], {"select": ["shots=0"]}),
        ([path], {"x": "tokens"}),
    ):
        with pytest.raises(NNDError, match="is a log of NNDCallback"):
            read_trend(places, **more)


# ---------------------------------------------------------------- table and figures


def made_trend(x: str = "parameters", places: Sequence[float] = (1_000_000, 3_500_000)) -> Trend:
    about = {"task": "nnd_demo", "family": "fam|ily", "tests": 1234, "standard_error": 0.05}
    rows = [
        {**about, "category": category, "model": f"m{i}", "x": place, "clusters": k, "rate": rate}
        for category, rate, k in (("all", 0.6, 40), ("x", 0.7, 9))
        for i, place in enumerate(places)
    ]
    points = pd.DataFrame(rows)
    return Trend(x, points.assign(low=points["rate"] - 0.1, high=points["rate"] + 0.1), ["A note."])


def test_the_table_as_a_whole() -> None:
    lines = to_markdown(report_trend(made_trend())).splitlines()
    assert lines[2:8] == [
        "| task | category | family | model | parameters | tests | prompts | pass rate | 95% interval |",
        "|---|---|---|---|---:|---:|---:|---:|---:|",
        "| nnd_demo | all | fam\\|ily | m0 | 1,000,000 | 1,234 | 40 | 0.600 | 0.500 to 0.700 |",
        "| nnd_demo | all | fam\\|ily | m1 | 3,500,000 | 1,234 | 40 | 0.600 | 0.500 to 0.700 |",
        "| nnd_demo | x | fam\\|ily | m0 | 1,000,000 | 1,234 | 9† | 0.700 | 0.600 to 0.800 |",
        "| nnd_demo | x | fam\\|ily | m1 | 3,500,000 | 1,234 | 9† | 0.700 | 0.600 to 0.800 |",
    ]
    assert "- A note." in lines
    assert any(line.startswith("- † fewer than 10 prompts") for line in lines)


def test_brief_has_a_row_per_model_of_all_tests() -> None:
    report = report_trend(made_trend())
    assert report.brief is not None
    assert report.brief.cells().iloc[1].tolist() == report.tables[0].cells().iloc[1].tolist()
    assert len(report.brief.data) == 2


def test_json_holds_every_number_and_what_is_not_known_is_null(tmp_path: Path) -> None:
    trend = read_logs([log_of(tmp_path / "nnd.jsonl", entry(0), entry(1))])
    report = report_trend(trend)
    found = json.loads(to_json(report))
    assert found["x"] == "step"
    rows = found["tables"]["rates"]
    for column in ("x", "rate", "tests", "category", "model", "signature"):
        assert [row[column] for row in rows] == trend.points[column].tolist()
    unknown = next(row for row in rows if row["category"] == "z")
    assert (unknown["low"], unknown["clusters"]) == (None, None)
    assert "| nnd_demo | y | step 0 | 0 | 50 | 1† | 0.500 | - |" in to_markdown(report)


def lines_of(axes: Any) -> dict[str, tuple[list[float], list[float], list[list[float]]]]:
    """Return label -> x, y and the ends of the error bars, as drawn."""
    found = {}
    for container in axes.containers:
        data, _, [bars] = container.lines
        ends = [sorted(segment[:, 1]) for segment in bars.get_segments()]
        found[container.get_label()] = (list(data.get_xdata()), list(data.get_ydata()), ends)
    return found


def test_a_figure_of_sizes_has_a_panel_per_category_and_a_line_per_family() -> None:
    sizes = {"a-1b": 1, "a-3b": 3, "b-1b": 1}
    runs = [
        run_of(name, OUTCOMES[i:] + OUTCOMES[:i], parameters=n * 10**9, **more)
        for i, (name, n) in enumerate(sizes.items())
        for more in ({}, OTHER)
    ]
    trend = find_trend(runs)
    figures = report_trend(trend).figures
    assert set(figures) == {"nnd_demo", "nnd_other"}
    panels = {axes.get_title(): axes for axes in figures["nnd_demo"]().axes if axes.get_title()}
    assert list(panels) == ["all", "x", "y"]
    of_task = trend.points[trend.points["task"] == "nnd_demo"]
    for category, axes in panels.items():
        drawn = lines_of(axes)
        assert set(drawn) == {"a", "b"}
        for family, (x, y, ends) in drawn.items():
            points = of_task[(of_task["category"] == category) & (of_task["family"] == family)]
            assert (x, y) == (points["x"].tolist(), points["rate"].tolist())
            assert np.allclose(ends, points[["low", "high"]])
        [chance] = [line for line in axes.get_lines() if line.get_label() == "chance (0.5)"]
        assert list(chance.get_ydata()) == [0.5, 0.5]
        assert axes.get_xscale() == "symlog"
        assert axes.get_xlabel() == "parameters, log scale"
        low, high = axes.get_xlim()
        assert low < 1e9 < 3e9 < high
    assert panels["all"].get_ylabel() == "pass rate (share of tests)"


def test_a_figure_of_a_training_has_a_panel_per_task_and_a_line_per_category() -> None:
    runs = [run_of(f"r/step-{step}", **more) for more in ({}, OTHER) for step in (0, 500, 1000)]
    report = report_trend(find_trend(runs))
    [draw] = report.figures.values()
    panels = {axes.get_title(): axes for axes in draw().axes}
    assert set(panels) == {"nnd_demo", "nnd_other"}
    drawn = lines_of(panels["nnd_demo"])
    assert set(drawn) == {"all", "x", "y"}
    assert drawn["all"][0] == [0, 500, 1000]
    assert panels["nnd_demo"].get_xscale() == "linear"
    widths = {c.get_label(): c.lines[0].get_linewidth() for c in panels["nnd_demo"].containers}
    assert widths["all"] > widths["x"]


def test_early_steps_that_crowd_get_a_log_axis_that_knows_zero() -> None:
    trend = find_trend([run_of(f"r/step-{step}") for step in (0, 24, 74, 223, 620, 1244)])
    [draw] = report_trend(trend).figures.values()
    [axes] = draw().axes
    assert axes.get_xscale() == "symlog"
    assert axes.get_xlim()[0] < 0
    assert 0 in axes.get_xticks()


def test_values_below_zero_have_a_linear_axis() -> None:
    [draw] = report_trend(made_trend("parameters", (-1, 2))).figures.values()
    assert draw().axes[0].get_xscale() == "linear"


# ---------------------------------------------------------------- the command


def test_the_command_writes_table_and_figure_of_what_lm_eval_wrote(nnd: Callable[..., Outcome], tmp_path: Path) -> None:
    runs = [
        write_run(
            tmp_path, f"models/lm-{size}m", parameters=size * 10**6, seed=size, chances={"x": 0.3, "y": size / 40}
        )
        for size in (10, 20, 40)
    ]
    done = nnd("trend", *runs, "--out", tmp_path / "out")
    assert (done.status, done.err) == (0, "")
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"trend_rates.csv", "trend_nnd_made_up.png", "trend_nnd_made_up.svg", "trend.json"} <= names
    table = pd.read_csv(tmp_path / "out" / "trend_rates.csv")
    for run in read_results(runs):
        for category in ("x", "y"):
            passed = run.tests.loc[run.tests["category"] == category, "passed"]
            [rate] = table.loc[(table["model"] == run.model) & (table["category"] == category), "rate"]
            assert rate == pytest.approx(passed.mean())
            mark = "†" if rate in (0, 1) else ""
            assert f"| {category} | lm | {run.model} | {run.parameters:,} | 30 | 30{mark} | {rate:.3f} |" in done.out


def test_a_mistake_is_one_line(nnd: Callable[..., Outcome], tmp_path: Path) -> None:
    runs = [write_run(tmp_path, f"api/model-{name}", parameters=None) for name in "ab"]
    for arguments, message in (
        (("trend", *runs), "parameters of model-a is not known"),
        (("trend", tmp_path / "nowhere"), "there is no such file or folder"),
        (("trend", log_of(tmp_path / "n.jsonl", entry(0), "{")), "n.jsonl, line 2: not written by NNDCallback"),
        (("scaling", *runs), "nnd trend"),
        (("curve", *runs), "nnd trend"),
        (("surprise", *runs), "nnd report"),
    ):
        assert message in refused(nnd(*arguments, "--out", tmp_path / "out"))
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_real_models_from_run_to_table(nnd: Callable[..., Outcome], tmp_path: Path) -> None:
    if not MODELS.is_dir():
        pytest.skip(f"no trained models at {MODELS}; set NND_TEST_MODELS")
    build_set("demo")
    names = ("tiny-lm-xs", "tiny-lm-s/step-00000", "tiny-lm-s/step-01244", "tiny-lm-m")
    for name in names:
        given = ("--model_args", f"pretrained={MODELS / name},dtype=float32", "--output_path", str(tmp_path / name))
        run_lm_eval(
            ["--model", "hf", "--tasks", "nnd_demo", "--device", "cpu", *given, "--limit", "10", "--log_samples"]
        )
    done = nnd("trend", *(tmp_path / names[i] for i in (3, 0, 2)), "--format", "json")
    assert done.status == 0, done.err
    rows = json.loads(done.out)["tables"]["rates"]
    assert [row["x"] for row in rows[:3]] == [356_672, 868_992, 3_901_696]
    trend = read_trend([tmp_path / "tiny-lm-s"])
    assert trend.x == "step"
    for step, name in zip((0, 1244), names[1:3], strict=True):  # lm-eval's own figures
        [path] = (tmp_path / name).rglob("results_*.json")
        found = json.loads(path.read_text())["results"]["nnd_demo"]
        for category, metric in (("all", "pass_rate"), ("disfluent", "pass_rate_disfluent")):
            chosen = (trend.points["category"] == category) & (trend.points["x"] == step)
            [row] = trend.points[chosen].to_dict("records")
            assert row["rate"] == pytest.approx(found[f"{metric},none"])
            assert row["standard_error"] == pytest.approx(found[f"{metric}_stderr,none"])
