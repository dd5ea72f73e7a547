"""``nnd trend --decide``: decision accuracies of made-up trainings, against pairs compared one by one."""

import json
import math
import random
from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest

from nnd_tasks.errors import NNDError
from nnd_tasks.results.paired import pair
from nnd_tasks.results.read_runs import read_results
from nnd_tasks.training.trend import arrange_checkpoints, report_decisions, step_variance
from tests.commands import refused
from tests.results import fake_runs

STEPS = (100, 200, 400)
PROMPTS = 12


def write_training(folder, name, levels, stats=False):
    """Write checkpoints: at each step the means of better and of worse texts, with noise of the prompts."""
    for step, (high, low) in levels.items():
        draw, samples = random.Random(step), []
        for i in range(PROMPTS):
            shift = draw.gauss(0, 0.3)
            means = [high + shift, low + draw.gauss(0, 0.5), low + shift]
            scores = [fake_runs.score(mean, 10 + j, 40 + i) for j, mean in enumerate(means)]
            if stats:
                scores = [{**score, "top1": j, "rank": 20.0 - high, "entropy": 9.0} for j, score in enumerate(scores)]
            document = fake_runs.make_document(f"p{i}", ["good", "bad", "worse"], ("a", "b"))
            samples.append(fake_runs.make_sample(document, scores))
        fake_runs.write_run(folder, f"/runs/{name}/step-{step}", samples=samples)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Four trainings: the margin orders them from step 200 on as in the end, but for a pair of which it changes."""
    folder = tmp_path_factory.mktemp("runs")
    for i, name in enumerate("wxyz"):
        rises = {100: (-4.0 - 0.1 * i, -4.0), 200: (-3.5 + 0.2 * i, -3.6), 400: (-3.0 + 0.3 * i, -3.4)}
        write_training(folder, name, rises, stats=True)
    return folder


@pytest.fixture(scope="module")
def runs(folder):
    return read_results(folder)


def decisions_of(runs):
    [report] = report_decisions(runs)
    assert not any("left out" in note for note in report.notes)
    return report.tables[0].data


@pytest.fixture(scope="module")
def decisions(runs):
    return decisions_of(runs)


def slow_value(runs, training, step, measure, category):
    [run] = [run for run in runs if run.model_info["name"] == f"/runs/{training}/step-{step}"]
    tests = run.tests[(run.tests["category"] == category) | (category == "all")]
    if measure == "pass_rate":
        return float(tests["passed"].mean())
    if measure == "margin":
        return float((tests["high_mean"] - tests["low_mean"]).mean())
    if measure == "bits_low":
        return float(tests["low_sum"].sum() / math.log(2) / tests["low_bytes"].sum())
    return float(-tests["high_rank"].sum() / tests["high_tokens"].sum())


@pytest.mark.parametrize("category", ["all", "b"])
@pytest.mark.parametrize("measure", ["pass_rate", "margin", "bits_low", "rank_high"])
def test_pairs_are_ordered_as_at_the_end(runs, decisions, measure, category):
    rows = decisions[(decisions["category"] == category) & (decisions["measure"] == measure)]
    assert rows["step"].tolist() == [*STEPS]
    models = pd.DataFrame(product("wxyz", STEPS), columns=["training", "step"])
    values = [slow_value(runs, *model, measure, category) for model in models.itertuples(index=False)]
    value = pd.Series(values, pd.MultiIndex.from_frame(models))
    for row in rows.to_dict("records"):
        ordered = pairs = 0
        for first, second in combinations("wxyz", 2):
            end = value[first, 400] - value[second, 400]
            pairs += end != 0
            ordered += (value[first, row["step"]] - value[second, row["step"]]) * end > 0
        assert (row["ordered"], row["pairs"]) == (ordered, pairs)
        assert row["accuracy"] == pytest.approx(ordered / pairs if pairs else 0.5)
        assert 0 <= row["low"] <= row["accuracy"] <= row["high"] <= 1
    assert row["spread"] == pytest.approx(np.ptp(value[:, 400]))
    assert row["noise"] == pytest.approx(math.sqrt(step_variance(np.array(values), models)))


def test_noise_of_steps_is_what_leaves_a_straight_line():
    def training(steps):
        return pd.DataFrame({"training": "t", "step": np.array(steps, dtype=float)})

    even = training(np.expm1(range(5)))
    assert step_variance(np.array([3.0, 5, 7, 9, 11]), even) == pytest.approx(0, abs=1e-24)
    assert step_variance(np.array([0.0, 1, 0, 1, 0]), even) == pytest.approx(2 / 3)
    assert math.isnan(step_variance(np.zeros(3), training([1, 2, math.nan])))


def test_the_command_says_when_enough_pairs_are_ordered(decisions, folder, nnd, tmp_path):
    out = tmp_path / "out"
    outcome = nnd("trend", folder, "--decide", "--series", r"/runs/(\w)/", "--out", out)
    assert outcome.status == 0, outcome.err
    overall = decisions[decisions["category"] == "all"]
    at = overall[(overall["accuracy"] >= 0.9) & (overall["step"] < 400)]["step"].min()
    best = overall[(overall["step"] == at) & (overall["measure"] != "pass_rate")]
    best = best.sort_values("accuracy", ascending=False, kind="stable").iloc[0]
    of_pairs = f"{best['ordered']:.0f} of {best['pairs']} pairs of trainings"
    assert f"By step {at:.0f} {best['measure']} orders {of_pairs} as at the end [" in outcome.out
    assert json.loads((out / "decide_nnd_made_up.json").read_text())["trainings"] == [*"wxyz"]
    assert [*out.glob("*.png"), *out.glob("*.svg")]
    assert "leave --x out" in refused(nnd("trend", folder, "--decide", "--x", "step"))
    assert "with --decide; add it" in refused(nnd("trend", folder, "--series", "x"))


def test_intervals_come_from_prompts(tmp_path):
    """With equal prompts there is nothing to draw."""
    for name, shift in (("p", 0.0), ("q", 0.2)):
        write_training(tmp_path, name, {1: (-3 + shift, -4.0), 2: (-2 + shift, -4.0)})
    runs = read_results(tmp_path)
    decisions = decisions_of(runs)
    row = decisions.set_index(["category", "measure", "step"]).loc["all", "bits_high", 1]
    assert (row["accuracy"], row["low"], row["high"]) == (1.0, 1.0, 1.0)
    assert decisions.equals(decisions_of(runs)), "the draws are the same every time"


def test_what_some_checkpoints_lack_is_left_out(tmp_path):
    write_training(tmp_path, "p", {1: (-3.0, -4.0), 2: (-2.0, -4.5), 3: (-2.0, -4.6)})
    with pytest.raises(NNDError, match="two trainings with two steps in common"):
        report_decisions(read_results(tmp_path))
    write_training(tmp_path, "q", {1: (-3.5, -4.0), 2: (-2.5, -4.5)})
    [report] = report_decisions(read_results(tmp_path))
    decisions = report.tables[0].data
    assert {*decisions["step"]} == {1, 2}
    assert {*decisions["measure"]} == {"pass_rate", "bits_high", "bits_low", "margin"}, "without token_stats"
    assert "Checkpoints left out, of steps that not all trainings have: 1." in report.notes


def test_a_series_names_trainings(runs):
    [paired] = pair(runs)
    assert [*arrange_checkpoints(paired, r"runs/\w", None).index] == [f"runs/{name}" for name in "wxyz"]
    for series, message in {
        "(": r"--series \(: is no regular expression",
        "nothing": "--series nothing: does not match /runs/",
        "/runs/": "/runs/ has step 100.0 twice",
    }.items():
        with pytest.raises(NNDError, match=message):
            report_decisions(runs, series)
