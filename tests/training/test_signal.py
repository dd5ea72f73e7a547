"""`nnd signal`: planted signal and noise, numbers by their definitions."""

import math
from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import stdtr

from nnd_tasks.errors import NNDError
from nnd_tasks.results.paired import pair
from nnd_tasks.statistics import paired_difference
from nnd_tasks.task.settings import sample_order
from nnd_tasks.training.model_tags import read_tags
from nnd_tasks.training.signal import (
    BITS,
    CONTRASTS,
    MARGIN,
    MEASURES,
    PASS_RATE,
    compare_pairs,
    find_families,
    first_half,
    report_signals,
    step_variance,
)
from tests.results.fake_runs import write_run
from tests.results.runs import PROTOCOL, make_run

STEPS = (0, 100, 200, 400, 800, 1600)
#: Category -> what a later checkpoint adds to its margins, in standard deviations of a test.
PLANTED = {"rises": 0.25, "falls": -0.25, "noise_a": 0.0, "noise_b": 0.0, "noise_c": 0.0}
#: Runs on some prompts have no smallest sample, which takes long to find.
PART = {**PROTOCOL, "selection": "120 of 400 (abc)"}


def planted(seed, effects=PLANTED, prompts=120, protocol=PART):
    """Return six checkpoints; margins have noise of the test, and of the model on the prompt and on the test.

    Bits per byte fall with training in every category.
    """
    rng, checkpoints = np.random.default_rng(seed), np.arange(len(STEPS))
    cells = pd.DataFrame(product(range(prompts), effects), columns=["prompt", "category"])
    cells = cells.loc[cells.index.repeat(rng.integers(1, 4, len(cells)))]
    shape = len(cells), len(STEPS)
    shared = rng.normal(size=(len(cells), 1))
    of_prompt = rng.normal(size=(prompts, len(STEPS)))[cells["prompt"]]
    categories = cells["category"].tolist()
    curves = np.stack([np.multiply(effects[name], checkpoints) for name in categories])
    margins = shared + 0.5 * of_prompt + 0.5 * rng.normal(size=shape) + curves
    bits = 8 - checkpoints + shared + 0.3 * rng.normal(size=shape)
    lengths = rng.integers(5, 20, len(cells))
    runs = []
    for checkpoint, step in enumerate(STEPS):
        name, margin = f"tiny/step-{step}", margins[:, checkpoint]
        info = {"name": f"models/{name}", "window": 64}
        prompt_names = [f"s{seed}p{prompt}" for prompt in cells["prompt"]]
        run = make_run(name, margin > 0, prompt_names, categories, margin, model_info=info, protocol=protocol)
        run.tests["high_sum"], run.tests["high_bytes"] = -bits[:, checkpoint] * lengths * math.log(2), lengths
        runs.append(run)
    return runs


def report_of(runs):
    """Return the report, and all that it says of each category and measure."""
    [report] = report_signals(runs, resamples=200)
    signals, verdicts = (table.data.set_index(["category", "measure"]) for table in report.tables[2:])
    return report, signals.join(verdicts)


# ---------------------------------------------------------------- what is planted is found


def test_noise_is_flagged_and_signal_is_kept():
    of_noise = []
    for seed in range(5):
        report, rows = report_of(planted(seed, prompts=70))
        verdicts = rows["verdict"].unstack()
        of_noise += [verdicts.loc[f"noise_{name}", measure] for name in "abc" for measure in CONTRASTS]
        assert verdicts[MARGIN][["rises", "falls"]].tolist() == ["better", "worse"], seed
        assert report.facts["worth_running"] == ["rises"], "bits per byte alone make no category worth running"
        assert set(verdicts[BITS]) == {"better"}, "bits per byte are lower for every later checkpoint"
        assert report.facts["sample"] is None, "runs on a part of the prompts have no smallest sample"
    assert set(of_noise) <= {"noise", "not confirmed", "mixed"}
    assert of_noise.count("noise") >= 0.7 * len(of_noise), "four questions at level 0.05 show something by chance"
    assert of_noise.count("mixed") <= 1, "and the other half confirms it in few sets"


def test_models_that_differ_in_no_order_are_mixed():
    report, rows = report_of(planted(1, {"hump": (0.0, 0.8, 0.6, 0.4, 0.2, 0.0)}))  # up, then down again
    assert rows["verdict"]["hump", MARGIN] == "mixed"
    assert report.facts["worth_running"] == []


def test_the_halves_do_not_depend_on_the_order_of_prompts():
    names = [f"p{i}" for i in range(400)]
    assert 160 < first_half(names).sum() < 240
    assert (first_half(names[::-1])[::-1] == first_half(names)).all()


def test_too_few_prompts_are_said():
    report, rows = report_of(planted(0, {"rises": 1.0}, prompts=12))
    assert set(rows["verdict"]) == {"too few prompts"}
    assert report.facts["sample"] is None


# ---------------------------------------------------------------- numbers by their definitions

COUNTS = st.lists(
    st.integers(1, 6).flatmap(lambda n: st.tuples(st.just(n), *[st.integers(0, n)] * 3)), min_size=2, max_size=25
)


@settings(max_examples=40)
@given(COUNTS)
def test_differences_of_pairs_are_those_of_nnd_compare(rows):
    tests, *passed = np.array(rows, dtype=float).T
    pairs = compare_pairs(np.stack(passed, axis=1), tests)
    for (first, second), compared in pairs.iterrows():
        expected = paired_difference(passed[first], passed[second], tests)
        assert compared["difference"] == pytest.approx(expected.mean)
        assert compared["variance"] == pytest.approx(expected.standard_error**2, abs=1e-12)
        if expected.standard_error > 1e-6:
            p = 2 * stdtr(len(tests) - 1, -abs(expected.mean / expected.standard_error))
            assert compared["p"] == pytest.approx(p, rel=1e-6, abs=1e-6)
            assert compared["apart"] == (p < 0.05) * np.sign(expected.mean)


def training(steps):
    return pd.DataFrame({"training": "t", "step": steps}, dtype=object).astype({"step": float})


def test_noise_of_steps_is_what_leaves_a_straight_line():
    even = training(np.expm1(range(5)))
    assert step_variance(np.array([3.0, 5, 7, 9, 11]), even) == pytest.approx(0, abs=1e-24)
    assert step_variance(np.array([0.0, 1, 0, 1, 0]), even) == pytest.approx(2 / 3)
    assert math.isnan(step_variance(np.zeros(3), training([1, 2, math.nan])))


def test_values_are_those_of_the_runs_and_noise_of_prompts_is_not_counted_twice():
    runs = planted(2, prompts=30)
    report, rows = report_of(runs)
    values = report.tables[1].data.groupby(["category", "measure"])["value"].agg(list)
    columns = {PASS_RATE: "passed", MARGIN: "margin"}
    for (category, measure), row in rows.iterrows():
        tables = [run.tests[run.tests["category"].eq(category) | (category == "all")] for run in runs]
        if measure == BITS:  # as `bits_high` of a run
            means = [-tests["high_sum"].sum() / math.log(2) / tests["high_bytes"].sum() for tests in tables]
        else:
            means = [tests[columns[measure]].mean() for tests in tables]
        assert values[category, measure] == pytest.approx(means)
        assert (row["tests"], row["prompts"]) == (len(tables[0]), tables[0]["cluster_id"].nunique())
        assert row["signal"] == pytest.approx(np.ptp(means))
        assert row["in_order"] == sum((b - a) * MEASURES[measure] > 0 for a, b in combinations(means, 2))
        noise = (row["signal"] / row["snr"]) ** 2
        assert noise == pytest.approx(row["noise_prompts"] ** 2 + row["noise_steps"] ** 2)
        if measure != BITS:
            seen = step_variance(np.array(means), training(STEPS))
            assert noise == pytest.approx(max(seen, row["noise_prompts"] ** 2))


def test_the_smallest_sample_keeps_nine_of_ten_pairs():
    runs = planted(5, {"rises": 0.2, "rare": 0.0}, prompts=150, protocol=PROTOCOL)
    report, rows = report_of(runs)
    least, apart = rows.loc[("rises", MARGIN), ["sample", "apart"]]
    assert 10 < least < 150
    prompts = [document["cluster_id"] for document in runs[0].documents]
    order = [prompts[place] for place in sample_order(prompts, [{"rises", "rare"}] * len(prompts))]
    margins = [run.tests[run.tests["category"] == "rises"].groupby("cluster_id")["margin"] for run in runs]
    sums, tests = np.array([of_run.sum()[order] for of_run in margins]).T, margins[0].size()[order].to_numpy()
    whole = compare_pairs(sums, tests)["apart"]
    assert np.count_nonzero(whole) == apart

    def kept(size):
        return float((compare_pairs(sums[:size], tests[:size])["apart"] == whole)[whole != 0].mean())

    assert kept(least) >= 0.9
    smaller = [int(size) for size in np.geomspace(10, 149, 60) if int(size) < least]
    assert not smaller or kept(smaller[-1]) < 0.9
    best = min(rows["sample"]["rises", measure] for measure in CONTRASTS)
    assert report.facts["sample"] == best
    assert f"--tasks nnd_demo --sample {best}" in report.findings[-1]


# ---------------------------------------------------------------- which model should be better


def model(name, parameters=1):
    info = {"name": f"models/{name}", "window": 64}
    return make_run(name, [True, False, True, True], ["a", "a", "b", "c"], model_info=info, parameters=parameters)


def ordered(runs, tags=None):
    families, _ = find_families(pair(runs)[0], tags)
    names = [(family.models["model"].tolist(), np.argwhere(family.better)) for family in families]
    return {(models[a], models[b]) for models, better in names for a, b in better}


def test_later_checkpoints_and_larger_models_should_be_better():
    small = [model(f"tiny-s/step-{step}", 900) for step in (620, 74, 1244)]
    steps = {(f"tiny-s/step-{a}", f"tiny-s/step-{b}") for a, b in ((74, 620), (74, 1244), (620, 1244))}
    sizes = {("tiny-xs", "tiny-s/step-1244"), ("tiny-xs", "tiny-m"), ("tiny-s/step-1244", "tiny-m")}
    assert ordered([model("tiny-m", 4000), *small, model("tiny-xs", 300)]) == steps | sizes
    runs = [model("tiny-s"), model("tiny-s/checkpoint-10")]
    assert ordered(runs) == {("tiny-s/checkpoint-10", "tiny-s")}, "a model beside its checkpoints is their end"


def test_tags_say_what_names_do_not(tmp_path):
    file = tmp_path / "tags.csv"
    file.write_text("model,family,training,step,parameters\nred,f,t,1,\nblue,f,t,2,\ngreen,f,u,,7\n")
    runs = [model("red", 5), model("blue", 5), model("green", None)]
    assert ordered(runs, read_tags(file)) == {("red", "blue"), ("blue", "green")}


def test_models_without_an_order_are_left_out_by_name():
    runs = [model("tiny-s", 5), model("tiny-m", 6), model("other-a", 5)]
    families, notes = find_families(pair(runs)[0])
    assert [family.name for family in families] == ["tiny"]
    assert "models of the family other-a in order" in notes[0]
    with pytest.raises(NNDError, match=r"models of the family tiny in order .tiny-s, tiny-m.*--tags"):
        find_families(pair([model("tiny-s", None), model("tiny-m", None)])[0])


# ---------------------------------------------------------------- the command line


def test_the_command_prints_and_writes(nnd, tmp_path):
    folder = tmp_path / "runs"
    for i, step in enumerate((10, 100, 1000)):
        write_run(folder, f"tiny-s/step-{step}", {"rises": 0.2 + 0.3 * i, "flat": 0.5}, contexts=60, seed=i)
    status, out, err = nnd("signal", folder, "--out", tmp_path / "out")
    assert status == 0, err
    assert "Worth running: rises (by pass rate and margin)." in out
    names = {path.name for path in (tmp_path / "out").glob("*.csv")}
    assert names == {f"signal_nnd_made_up_tiny_{table}.csv" for table in ("models", "values", "signals", "verdicts")}
    lines = [line for line in nnd("signal", folder, "--brief").out.splitlines() if line.startswith("| nnd_made_up")]
    assert ["| noise | noise |" in line for line in lines] == [True, False]
