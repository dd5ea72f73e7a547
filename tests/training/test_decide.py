"""Covers full_name, report_decisions.

``nnd trend --decide``: decision accuracies of made-up trainings, against pairs compared one by one.
"""

from __future__ import annotations

import json
import math
import random
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from nnd_tasks.errors import NNDError
from nnd_tasks.results.paired import pair
from nnd_tasks.results.read_runs import read_results
from nnd_tasks.results.runs import Runs
from nnd_tasks.show.report import Report
from nnd_tasks.significance import step_variance
from nnd_tasks.training.decide import arrange_checkpoints, report_decisions
from tests.results import fake_runs

STEPS = (100, 200, 400)
PROMPTS = 12


def write_training(folder: Path, name: str, levels: dict[int, tuple[float, float]], stats: bool = False) -> None:
    """Write checkpoints: at each step the means of better and of worse texts, with noise of the prompts."""
    for step, (high, low) in levels.items():
        draw, samples = random.Random(step), []
        for i in range(PROMPTS):
            shift = draw.gauss(0, 0.3)
            tests = [
                {"test_id": f"{i}-{j}", "category": kind, "subcategory": "", "severity": "", "high": 0, "low": j}
                for j, kind in enumerate(("a", "b"), start=1)
            ]
            means = [high + shift, low + draw.gauss(0, 0.5), low + shift]
            scores = [fake_runs.score(mean, 10 + j, 40 + i) for j, mean in enumerate(means)]
            if stats:
                scores = [{**score, "top1": j, "rank": 20.0 - high, "entropy": 9.0} for j, score in enumerate(scores)]
            doc = {"cluster_id": f"p{i}", "context": "c", "candidates": ["good", "bad", "worse"], "tests": tests}
            samples.append(fake_runs.make_sample(doc, scores))
        fake_runs.write_run(folder, f"/runs/{name}/step-{step}", samples=samples)


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Runs:
    """Four trainings: the margin orders them from step 200 on as in the end, but for a pair of which it changes."""
    folder = tmp_path_factory.mktemp("runs")
    for i, name in enumerate(("w", "x", "y", "z")):
        rises = {100: (-4.0 - 0.1 * i, -4.0), 200: (-3.5 + 0.2 * i, -3.6), 400: (-3.0 + 0.3 * i, -3.4)}
        write_training(folder, name, rises, stats=True)
    return read_results(folder)


@pytest.fixture(scope="module")
def report(runs) -> Report:
    [report] = report_decisions(runs)
    return report


def slow_value(runs: Runs, training: str, step: int, measure: str, category: str) -> float:
    [run] = [run for run in runs if run.model_info["name"] == f"/runs/{training}/step-{step}"]
    tests = run.tests[(run.tests["category"] == category) | (category == "all")]
    total = weight = 0.0
    for row in tests.to_dict("records"):
        if measure == "pass_rate":
            total, weight = total + bool(row["passed"]), weight + 1
        elif measure == "margin":
            total, weight = total + row["high_mean"] - row["low_mean"], weight + 1
        elif measure == "bits_low":
            total, weight = total + row["low_sum"] / math.log(2), weight + row["low_bytes"]
        else:
            total, weight = total - row["high_rank"], weight + row["high_tokens"]
    return total / weight


@pytest.mark.parametrize("category", ["all", "b"])
@pytest.mark.parametrize("measure", ["pass_rate", "margin", "bits_low", "rank_high"])
def test_pairs_are_ordered_as_at_the_end(runs, report, measure, category):
    decisions = report.tables[0].data
    rows = decisions[(decisions["category"] == category) & (decisions["measure"] == measure)]
    assert rows["step"].tolist() == [*STEPS]
    value = {
        (training, step): slow_value(runs, training, step, measure, category) for training in "wxyz" for step in STEPS
    }
    for row in rows.to_dict("records"):
        at, ordered, pairs = row["step"], 0, 0
        for first, second in combinations("wxyz", 2):
            end = value[first, 400] - value[second, 400]
            early = value[first, at] - value[second, at]
            pairs += end != 0
            ordered += early * end > 0
        assert (row["ordered"], row["pairs"]) == (ordered, pairs)
        if pairs:
            assert row["accuracy"] == pytest.approx(ordered / pairs)
            assert 0 <= row["low"] <= row["accuracy"] <= row["high"] <= 1
    spread, noise = rows.iloc[0][["spread", "noise"]]
    assert spread == pytest.approx(max(value[t, 400] for t in "wxyz") - min(value[t, 400] for t in "wxyz"))
    models = [{"training": t, "step": s} for t in "wxyz" for s in STEPS]
    table = pd.DataFrame(models)
    values = np.array([value[t, s] for t in "wxyz" for s in STEPS])
    assert noise == pytest.approx(math.sqrt(step_variance(values, table)))


def test_the_sentence_says_when_enough_pairs_are_ordered(report):
    own = report.tables[0].data
    overall = own[own["category"] == "all"]
    at = overall[(overall["accuracy"] >= 0.9) & (overall["step"] < 400)]["step"].min()
    best = (
        overall[(overall["step"] == at) & (overall["measure"] != "pass_rate")]
        .sort_values("accuracy", ascending=False, kind="stable")
        .iloc[0]
    )
    assert report.findings[0].startswith(
        f"By step {at:.0f} {best['measure']} orders {best['ordered']:.0f} of {best['pairs']} pairs of trainings as at the end ["
    )


def test_intervals_come_from_prompts(tmp_path):
    """With equal prompts there is nothing to draw; with prompts that disagree the interval is wide."""
    for name, shift in (("p", 0.0), ("q", 0.2)):
        write_training(tmp_path / "equal", name, {1: (-3 + shift, -4.0), 2: (-2 + shift, -4.0)})
    [report] = report_decisions(read_results(tmp_path / "equal"))
    own = report.tables[0].data
    row = own[(own["category"] == "all") & (own["measure"] == "bits_high") & (own["step"] == 1)].iloc[0]
    assert (row["accuracy"], row["low"], row["high"]) == (1.0, 1.0, 1.0)
    again = report_decisions(read_results(tmp_path / "equal"))[0].tables[0].data
    assert own.equals(again), "the draws are the same every time"


def test_runs_without_token_stats_have_three_measures(tmp_path):
    for name in ("p", "q"):
        write_training(tmp_path, name, {1: (-3.0, -4.0), 2: (-2.0, -4.5)})
    [report] = report_decisions(read_results(tmp_path))
    assert set(report.tables[0].data["measure"]) == {"pass_rate", "bits_high", "bits_low", "margin"}


def test_series_name_trainings(runs):
    [paired] = pair(runs)
    assert [*arrange_checkpoints(paired, r"/runs/(\w)/", None).index] == ["w", "x", "y", "z"]
    assert [*arrange_checkpoints(paired, r"runs/\w", None).index] == [f"runs/{name}" for name in "wxyz"]


@pytest.mark.parametrize(
    ("series", "message"),
    [
        ("(", r"--series \(: is no regular expression"),
        ("nothing", "--series nothing: does not match /runs/"),
        ("/runs/", "/runs/ has step 100.0 twice"),
    ],
)
def test_what_is_wrong_with_a_series_is_said(runs, series, message):
    with pytest.raises(NNDError, match=message):
        report_decisions(runs, series)


def test_one_training_decides_nothing(tmp_path):
    write_training(tmp_path, "p", {1: (-3.0, -4.0), 2: (-2.0, -4.5)})
    with pytest.raises(NNDError, match="two trainings with two steps in common"):
        report_decisions(read_results(tmp_path))


def test_steps_that_not_all_have_are_left_out(tmp_path):
    write_training(tmp_path, "p", {1: (-3.0, -4.0), 2: (-2.0, -4.5), 3: (-2.0, -4.6)})
    write_training(tmp_path, "q", {1: (-3.5, -4.0), 2: (-2.5, -4.5)})
    [report] = report_decisions(read_results(tmp_path))
    assert report.tables[0].data["step"].unique().tolist() == [1, 2]
    assert "Checkpoints left out, of steps that not all trainings have: 1." in report.notes


def test_the_command_writes_tables_and_a_figure(tmp_path, nnd):
    for name, shift in (("p", 0.0), ("q", 0.2)):
        write_training(tmp_path / "runs", name, {1: (-3 + shift, -4.0), 2: (-2 + shift, -4.0)})
    outcome = nnd("trend", tmp_path / "runs", "--decide", "--series", r"runs/(\w)", "--out", tmp_path / "out")
    assert outcome.status == 0
    assert "pairs of trainings as at the end" in outcome.out
    written = json.loads((tmp_path / "out" / "decide_nnd_made_up.json").read_text())
    assert written["trainings"] == ["p", "q"]
    assert [*(tmp_path / "out").glob("*.png"), *(tmp_path / "out").glob("*.svg")]
