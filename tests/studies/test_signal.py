"""`report_signals`, `compare_pairs`, `step_variance`, `find_families`: planted signal and noise, numbers by their definitions.

Also covers Tags.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import stdtr

from nnd_tasks.errors import NNDError
from nnd_tasks.results.model_names import Tags, read_tags
from nnd_tasks.results.paired import pair
from nnd_tasks.results.runs import Run
from nnd_tasks.show.report import Report
from nnd_tasks.significance import step_variance
from nnd_tasks.statistics import paired_difference
from nnd_tasks.studies.signal import (
    BITS,
    CONTRASTS,
    MARGIN,
    MEASURES,
    PASS_RATE,
    compare_pairs,
    find_families,
    first_half,
    report_signals,
)
from nnd_tasks.task.selection import sample_order
from tests.commands import refused
from tests.results.fake_runs import write_run
from tests.results.runs import PROTOCOL, make_run

STEPS = (0, 100, 200, 400, 800, 1600)
#: Category -> what a later checkpoint adds to its margins, in standard deviations of a test.
PLANTED = {"rises": 0.25, "falls": -0.25, "noise_a": 0.0, "noise_b": 0.0, "noise_c": 0.0}
#: Runs on some prompts have no smallest sample, which takes long to find.
PART = {**PROTOCOL, "selection": "120 of 400 (abc)"}


def planted(
    seed: int,
    effects: Mapping[str, Any] = PLANTED,
    prompts: int = 120,
    protocol: Mapping[str, Any] = PART,
) -> list[Run]:
    """Return six checkpoints; margins have noise of the test, of the prompt, and of the model on the prompt.

    Bits per byte fall with training in every category, and are lower by a constant in each prompt.
    """
    rng = np.random.default_rng(seed)
    cells = [(prompt, name) for prompt in range(prompts) for name in effects for _ in range(int(rng.integers(1, 4)))]
    place, categories = np.array([prompt for prompt, _ in cells]), [name for _, name in cells]
    clusters, shape = [f"s{seed}p{prompt}" for prompt in place], (len(cells), len(STEPS))
    shared = rng.normal(size=(len(cells), 1)) + rng.normal(size=prompts)[place][:, None] * 0.5
    own = rng.normal(size=(prompts, len(STEPS)))[place] * 0.4 + rng.standard_t(4, size=shape) * 0.5
    curves = np.array([np.multiply(effects[name], np.arange(len(STEPS))) for name in categories])
    margins = shared + own + curves
    bits = 8 - np.arange(len(STEPS)) + rng.normal(size=shape) * 0.3 + shared
    runs = []
    for step, margin, bit in zip(STEPS, margins.T, bits.T, strict=True):
        info = {"name": f"models/tiny/step-{step}", "window": 64}
        run = make_run(
            f"tiny/step-{step}", margin > 0, clusters, categories, margin, model_info=info, protocol=protocol
        )
        run.tests["high_sum"], run.tests["high_bytes"] = -bit * 10 * math.log(2), 10
        runs.append(run)
    return runs


def found_in(runs: list[Run]) -> Report:
    [found] = report_signals(runs, resamples=300)
    return found


def table_of(found: Report, name: str) -> pd.DataFrame:
    [data] = [table.data for table in found.tables if table.name == name]
    return data


def rows_of(found: Report) -> list[dict[str, Any]]:
    """Return all that is known of each category and measure."""
    return table_of(found, "signals").merge(table_of(found, "verdicts"), on=["category", "measure"]).to_dict("records")


def verdicts(found: Report, measure: str) -> dict[str, str]:
    return {row["category"]: row["verdict"] for row in rows_of(found) if row["measure"] == measure}


# ---------------------------------------------------------------- what is planted is found


def test_noise_is_flagged_and_signal_is_kept():
    said = []
    for seed in range(8):
        found = found_in(planted(seed, prompts=70))
        for measure in (PASS_RATE, MARGIN):
            shown = verdicts(found, measure)
            said += [shown[name] for name in ("noise_a", "noise_b", "noise_c")]
        assert (shown["rises"], shown["falls"]) == ("better", "worse"), seed
        assert found.facts["worth_running"] == ["rises"], "bits per byte alone make no category worth running"
        assert set(verdicts(found, BITS).values()) == {"better"}, "bits per byte are lower for every later checkpoint"
    assert set(said) <= {"noise", "not confirmed", "mixed"}
    assert said.count("noise") >= 0.7 * len(said), "four questions, each at level 0.05, show something by chance"
    assert said.count("mixed") <= 1, "and the other half confirms it in few sets"


def test_models_that_differ_in_no_order_are_mixed():
    found = found_in(planted(1, {"hump": (0.0, 0.8, 0.6, 0.4, 0.2, 0.0)}))  # up, then down again
    assert verdicts(found, MARGIN)["hump"] == "mixed"
    assert found.facts["worth_running"] == []


def test_the_halves_do_not_depend_on_the_order_of_prompts():
    names = [f"p{i}" for i in range(400)]
    assert 160 < first_half(names).sum() < 240
    assert (first_half(names[::-1])[::-1] == first_half(names)).all()


def test_too_few_prompts_are_said():
    found = found_in(planted(0, {"rises": 1.0}, prompts=12))
    assert set(verdicts(found, PASS_RATE).values()) == {"too few prompts"}
    assert found.facts["sample"] is None


# ---------------------------------------------------------------- numbers by their definitions

COUNTS = st.lists(
    st.integers(1, 6).flatmap(lambda n: st.tuples(st.just(n), *[st.integers(0, n)] * 3)), min_size=2, max_size=25
)


@settings(max_examples=60)
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


def training(steps: Sequence[float]) -> pd.DataFrame:
    return pd.DataFrame({"training": "t", "step": steps}, dtype=object).astype({"step": float})


def test_noise_of_steps_is_what_leaves_a_straight_line():
    even = training(np.expm1(range(5)))
    assert step_variance(np.array([3.0, 5, 7, 9, 11]), even) == pytest.approx(0, abs=1e-24)
    assert step_variance(np.array([0.0, 1, 0, 1, 0]), even) == pytest.approx(2 / 3)
    assert math.isnan(step_variance(np.zeros(3), training([1, 2, math.nan])))


def test_values_are_those_of_the_runs_and_noise_of_prompts_is_not_counted_twice():
    runs = planted(2, prompts=30)
    found = found_in(runs)
    values = table_of(found, "values").groupby(["category", "measure"], sort=False)["value"].agg(list)
    columns = {PASS_RATE: "passed", MARGIN: "margin", BITS: "bits"}
    for run in runs:
        run.tests["bits"] = -run.tests["high_sum"] / math.log(2) / run.tests["high_bytes"]
    for row in rows_of(found):
        measure = row["measure"]
        tables = [run.tests[run.tests["category"].eq(row["category"]) | (row["category"] == "all")] for run in runs]
        ends = [tests[columns[measure]].mean() for tests in tables]
        assert values[row["category"], measure] == pytest.approx(ends)
        assert (row["tests"], row["prompts"]) == (len(tables[0]), tables[0]["cluster_id"].nunique())
        assert row["signal"] == pytest.approx(max(ends) - min(ends))
        assert row["in_order"] == sum((b - a) * MEASURES[measure] > 0 for a, b in combinations(ends, 2))
        total = (row["signal"] / row["snr"]) ** 2
        assert total == pytest.approx(row["noise_prompts"] ** 2 + row["noise_steps"] ** 2)
        seen = step_variance(np.array(ends), training(STEPS))
        assert measure == BITS or total == pytest.approx(max(seen, row["noise_prompts"] ** 2))


def test_the_smallest_sample_keeps_nine_of_ten_pairs():
    runs = planted(5, {"rises": 0.2, "rare": 0.0}, prompts=150, protocol=PROTOCOL)
    found = found_in(runs)
    [one] = [row for row in rows_of(found) if (row["category"], row["measure"]) == ("rises", MARGIN)]
    assert 10 < one["sample"] < 150
    prompts = [document["cluster_id"] for document in runs[0].documents]
    order = [prompts[place] for place in sample_order(prompts, [{"rises", "rare"}] * len(prompts))]
    of_prompt = [run.tests[run.tests["category"] == "rises"].groupby("cluster_id")["margin"] for run in runs]
    sums, tests = np.array([one.sum()[order] for one in of_prompt]).T, of_prompt[0].size()[order].to_numpy()
    whole = compare_pairs(sums, tests)["apart"]
    assert np.count_nonzero(whole) == one["apart"]

    def kept(size):
        return float((compare_pairs(sums[:size], tests[:size])["apart"] == whole)[whole != 0].mean())

    assert kept(one["sample"]) >= 0.9
    smaller = sorted({int(size) for size in np.geomspace(10, 149, 60)} & set(range(one["sample"])))
    assert not smaller or kept(smaller[-1]) < 0.9
    best = min(row["sample"] for row in rows_of(found) if row["category"] == "rises" and row["measure"] in CONTRASTS)
    assert found.facts["sample"] == best
    assert f"--tasks nnd_demo --sample {best}" in found.findings[-1]


def test_runs_of_a_part_have_no_smallest_sample():
    found = found_in(planted(5, {"rises": 0.3}))
    assert found.facts["worth_running"] == ["rises"]
    assert table_of(found, "verdicts")["sample"].isna().all()


# ---------------------------------------------------------------- which model should be better


def model(name: str, parameters: int | None = 1) -> Run:
    clusters = ["a", "a", "b", "c"]
    info = {"name": f"models/{name}", "window": 64}
    return make_run(name, [True, False, True, True], clusters, model_info=info, parameters=parameters)


def ordered(runs: list[Run], tags: Tags | None = None) -> set[tuple[str, str]]:
    families, _ = find_families(pair(runs)[0], tags)
    names = [(family.models["model"].tolist(), np.argwhere(family.better)) for family in families]
    return {(models[a], models[b]) for models, better in names for a, b in better}


def test_later_checkpoints_and_larger_models_should_be_better():
    small = [model(f"tiny-s/step-{step}", 900) for step in (620, 74, 1244)]
    steps = {(f"tiny-s/step-{a}", f"tiny-s/step-{b}") for a, b in ((74, 620), (74, 1244), (620, 1244))}
    sizes = {("tiny-xs", "tiny-s/step-1244"), ("tiny-xs", "tiny-m"), ("tiny-s/step-1244", "tiny-m")}
    assert ordered([model("tiny-m", 4000), *small, model("tiny-xs", 300)]) == steps | sizes
    # A model beside its checkpoints is the end of their training.
    runs = [model("tiny-s", 900), model("tiny-s/checkpoint-10", 900), model("tiny-m", 4000)]
    assert ordered(runs) == {("tiny-s/checkpoint-10", "tiny-s"), ("tiny-s", "tiny-m")}


def test_tags_say_what_names_do_not(tmp_path):
    file = tmp_path / "tags.csv"
    file.write_text("model,family,training,step,parameters\nred,f,t,1,\nblue,f,t,2,\ngreen,f,u,,7\n")
    runs = [model("red", 5), model("blue", 5), model("green", None)]
    assert ordered(runs, read_tags(file)) == {("red", "blue"), ("blue", "green")}


def test_models_without_an_order_are_left_out_by_name():
    runs = [model("tiny-s", 5), model("tiny-m", 6), model("other-a", 5), model("big-x", None), model("big-y", None)]
    [paired] = pair(runs)
    families, notes = find_families(paired)
    assert [family.name for family in families] == ["tiny"]
    assert any("models of the family other-a in order" in note for note in notes)
    with pytest.raises(
        NNDError, match=r"neither steps nor sizes put models of the family tiny in order .tiny-s, tiny-m.*--tags"
    ):
        find_families(pair([model("tiny-s", None), model("tiny-m", None)])[0])


# ---------------------------------------------------------------- tables, files, the command line


def test_the_command_prints_and_writes(nnd, tmp_path):
    folder = tmp_path / "runs"
    for i, step in enumerate((10, 100, 1000)):
        write_run(folder, f"tiny-s/step-{step}", {"rises": 0.2 + 0.3 * i, "flat": 0.5}, contexts=60, seed=i)
    status, out, err = nnd("signal", folder, "--out", tmp_path / "out")
    assert status == 0, err
    assert "Worth running: rises (by pass rate and margin)." in out
    content = json.loads((tmp_path / "out" / "signal_nnd_made_up_tiny.json").read_text())
    assert content["worth_running"] == ["rises"]
    lengths = {"models": 3, "values": 27, "signals": 9, "verdicts": 9}
    assert {name: len(rows) for name, rows in content["tables"].items()} == lengths
    lines = [line for line in nnd("signal", folder, "--brief").out.splitlines() if line.startswith("| nnd_made_up")]
    assert ["| noise | noise |" in line for line in lines] == [True, False]


def test_what_cannot_be_said_is_said(nnd, tmp_path):
    one = write_run(tmp_path / "one", "tiny-s/step-10")
    alike = write_run(tmp_path / "alike", "big", parameters=5)
    assert "no models that should differ" in refused(nnd("signal", one, alike))
    status, out, _ = nnd("signal", write_run(tmp_path / "s", "tiny-s", parameters=5), one)
    assert status == 0
    assert "noise: steps" not in out
