"""``nnd signal``: planted signal and noise, numbers by their definitions, the order of models, the files, and wrong input."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import stdtr, stdtrit

from nnd_tasks.analysis.results import Run
from nnd_tasks.analysis.side_by_side import pair
from nnd_tasks.analysis.signal import (
    BITS,
    CONTRASTS,
    MARGIN,
    MEASURES,
    PASS_RATE,
    Spread,
    find_families,
    first_half,
    report_signals,
    step_variance,
)
from nnd_tasks.analysis.tags import Tags, read_tags
from nnd_tasks.errors import NNDError
from nnd_tasks.harness.sample_order import sample_order
from nnd_tasks.show.report import Report
from nnd_tasks.statistics import paired_difference
from tests.analysis.fake_runs import write_run
from tests.analysis.runs import PROTOCOL, make_run
from tests.commands import Outcome, refused

STEPS = (0, 100, 200, 400, 800, 1600)
#: Category -> what a later checkpoint adds to its margins, in standard deviations of a test.
PLANTED = {"rises": 0.25, "falls": -0.25, "noise_a": 0.0, "noise_b": 0.0, "noise_c": 0.0}


def planted(
    seed: int,
    effects: Mapping[str, float] = PLANTED,
    prompts: int = 120,
    shapes: Mapping[str, tuple[float, ...]] | None = None,
    **changes: Any,
) -> list[Run]:
    """Return six checkpoints; margins have noise of the test, of the prompt, and of the model on the prompt.

    Bits per byte fall with training in every category, and are lower by a constant in each prompt.
    """
    rng = np.random.default_rng(seed)
    clusters, categories = [], []
    for prompt in range(prompts):
        for category in effects:
            count = int(rng.integers(1, 4))
            clusters += [f"s{seed}p{prompt}"] * count
            categories += [category] * count
    place = np.array([int(name.partition("p")[2]) for name in clusters])
    shared = rng.normal(size=(len(clusters), 1)) + rng.normal(size=prompts)[place][:, None] * 0.5
    own = (
        rng.normal(size=(prompts, len(STEPS)))[place] * 0.4 + rng.standard_t(4, size=(len(clusters), len(STEPS))) * 0.5
    )
    curves = np.array(
        [(shapes or {}).get(name, tuple(effects[name] * i for i in range(len(STEPS)))) for name in categories]
    )
    margins = shared + own + curves
    bits = 8 - np.arange(len(STEPS)) + rng.normal(size=(len(clusters), len(STEPS))) * 0.3 + shared
    runs = []
    for j, step in enumerate(STEPS):
        info = {"name": f"models/tiny/step-{step}", "window": 64}
        passed, margin = (margins[:, j] > 0).tolist(), margins[:, j].tolist()
        run = make_run(f"tiny/step-{step}", passed, clusters, categories, margin, model_info=info, **changes)
        run.tests[["high_sum", "high_bytes"]] = np.stack(
            [-bits[:, j] * 10 * math.log(2), np.full(len(bits), 10)], axis=1
        )
        runs.append(run)
    return runs


def found_in(runs: list[Run], **options: Any) -> Report:
    [found] = report_signals(runs, **{"resamples": 300, **options})
    return found


def table_of(found: Report, name: str) -> pd.DataFrame:
    [data] = [table.data for table in found.tables if table.name == name]
    return data


def rows_of(found: Report) -> list[dict[str, Any]]:
    """Return all that is known of each category and measure."""
    keys = ["category", "measure"]
    return table_of(found, "signals").merge(table_of(found, "verdicts"), on=keys).to_dict("records")


def verdicts(found: Report, measure: str) -> dict[str, str]:
    return {row["category"]: row["verdict"] for row in rows_of(found) if row["measure"] == measure}


# ---------------------------------------------------------------- what is planted is found


def test_noise_is_flagged_and_signal_is_kept() -> None:
    chosen = mixed = 0
    for seed in range(20):
        found = found_in(planted(seed, prompts=70))
        for measure in (PASS_RATE, MARGIN):
            shown = verdicts(found, measure)
            flagged = [shown[name] for name in ("noise_a", "noise_b", "noise_c")]
            assert set(flagged) <= {"noise", "not confirmed", "mixed"}, (seed, shown)
            chosen += 3 - flagged.count("noise")
            mixed += flagged.count("mixed")
        assert verdicts(found, MARGIN) | {"rises": "better", "falls": "worse"} == verdicts(found, MARGIN), seed
        assert found.facts["worth_running"] == ["rises"], "bits per byte alone make no category worth running"
        assert set(verdicts(found, BITS).values()) == {"better"}, "bits per byte are lower for every later checkpoint"
    assert chosen <= 26, (
        "of 120; half of the prompts or all show something by chance: four questions, each at level 0.05"
    )
    assert mixed <= 0.05 * 20, "and the other half confirms it in few sets"


@pytest.mark.complete
def test_false_alarms_are_rare() -> None:
    runs = 300
    noise = {f"noise_{i}": 0.0 for i in range(5)}
    alarms = {"better": 0, "mixed": 0}
    for seed in range(runs):
        rows = rows_of(found_in(planted(seed, noise, prompts=60)))
        shown = {row["verdict"] for row in rows if row["measure"] in CONTRASTS and row["category"] != "all"}
        for verdict in alarms:
            alarms[verdict] += verdict in shown
    print(alarms)
    assert max(alarms.values()) / runs <= 0.05


def test_models_that_differ_in_no_order_are_mixed() -> None:
    hump = (0.0, 0.8, 1.2, 1.2, 0.8, 0.0)
    found = found_in(planted(1, {"hump": 0.0}, shapes={"hump": hump}))
    assert verdicts(found, MARGIN)["hump"] == "mixed"
    assert found.facts["worth_running"] == []


def test_the_halves_and_the_verdicts_do_not_depend_on_the_order_of_prompts() -> None:
    names = [f"p{i}" for i in range(400)]
    first = first_half(names)
    assert 160 < first.sum() < 240
    assert (first_half(names[::-1])[::-1] == first).all()


def test_too_few_prompts_are_said() -> None:
    found = found_in(planted(0, {"rises": 1.0}, prompts=12))
    assert set(verdicts(found, PASS_RATE).values()) == {"too few prompts"}
    assert found.facts["sample"] is None


# ---------------------------------------------------------------- numbers by their definitions

COUNTS = st.lists(
    st.integers(1, 6).flatmap(lambda n: st.tuples(st.just(n), *[st.integers(0, n)] * 3)), min_size=2, max_size=25
)


@settings(max_examples=60)
@given(COUNTS)
def test_differences_and_noise_are_those_of_pairs(rows: list[tuple[int, ...]]) -> None:
    tests, *passed = np.array(rows, dtype=float).T
    spread = Spread(np.stack(passed, axis=1), tests)
    assert spread.signal == pytest.approx(np.ptp([one.sum() / tests.sum() for one in passed]))
    pairs = {(a, b): paired_difference(passed[a], passed[b], tests) for a in range(3) for b in range(3)}
    variances = [pairs[pair_].standard_error ** 2 for pair_ in ((0, 1), (0, 2), (1, 2))]
    assert spread.noise**2 == pytest.approx(np.mean(variances) / 2, abs=1e-12)
    for (a, b), one in pairs.items():
        if one.standard_error > 1e-6:
            p = 2 * stdtr(len(tests) - 1, -abs(one.mean / one.standard_error))
            assert spread.p[a, b] == pytest.approx(p, rel=1e-6, abs=1e-6)
            assert spread.apart[a, b] == (p < 0.05) * np.sign(one.mean)


def test_signal_and_noise_have_a_closed_form() -> None:
    # Differences 1, 3, 1, 3: their mean is 2, its standard error sqrt(4/3 * 4) / 4, and the noise that over sqrt(2).
    sums = np.array([[0.0, 1.0], [5.0, 8.0], [-1.0, 0.0], [2.0, 5.0]])
    spread = Spread(sums, np.ones(4))
    assert (spread.signal, spread.noise) == (pytest.approx(2), pytest.approx(math.sqrt(16 / 3) / 4 / math.sqrt(2)))


def test_equal_models_have_neither_signal_nor_noise() -> None:
    sums = np.repeat([[1.0], [2.0], [0.5]], 3, axis=1)
    spread = Spread(sums, np.ones(3))
    assert (spread.signal, spread.noise, np.abs(spread.apart).sum()) == (0, 0, 0)


def training(steps: Sequence[float]) -> pd.DataFrame:
    return pd.DataFrame({"training": "t", "step": steps}, dtype=object).astype({"step": float})


def test_noise_of_steps_is_what_leaves_a_straight_line() -> None:
    even = training([math.expm1(i) for i in range(5)])
    assert step_variance(np.array([3.0, 5, 7, 9, 11]), even) == pytest.approx(0, abs=1e-24)
    assert step_variance(np.array([0.0, 1, 0, 1, 0]), even) == pytest.approx(2 / 3)
    assert math.isnan(step_variance(np.zeros(3), training([1, 2, math.nan])))
    rng = np.random.default_rng(0)
    odd = training(STEPS)
    assert np.mean([step_variance(rng.normal(size=6), odd) for _ in range(500)]) == pytest.approx(1, abs=0.1)


def test_noise_of_prompts_is_not_counted_twice() -> None:
    found = found_in(planted(3, {"flat": 0.0}, prompts=200))
    values = table_of(found, "values").groupby(["category", "measure"], sort=False)["value"].agg(list)
    for row in rows_of(found):
        total = row["signal"] / row["snr"]
        assert total**2 == pytest.approx(row["noise_prompts"] ** 2 + row["noise_steps"] ** 2)
        seen = step_variance(np.array(values[row["category"], row["measure"]]), training(STEPS))
        assert row["measure"] == BITS or total**2 == pytest.approx(max(seen, row["noise_prompts"] ** 2))


def test_values_are_those_of_the_runs() -> None:
    runs = planted(2, prompts=30)
    found = found_in(runs)
    values = table_of(found, "values").set_index(["category", "measure", "model"])["value"]
    for row in rows_of(found):
        category, measure = row["category"], row["measure"]
        ends = []
        for run in runs:
            tests = run.tests if category == "all" else run.tests[run.tests["category"] == category]
            expected = {
                PASS_RATE: tests["passed"].mean(),
                MARGIN: tests["margin"].mean(),
                BITS: -(tests["high_sum"] / math.log(2) / tests["high_bytes"]).mean(),
            }
            ends.append(expected[measure])
            assert values[category, measure, run.model] == pytest.approx(ends[-1])
        assert (row["tests"], row["prompts"]) == (len(tests), tests["cluster_id"].nunique())
        assert row["signal"] == pytest.approx(max(ends) - min(ends))
        in_order = sum((b - a) * MEASURES[measure] > 0 for a, b in combinations(ends, 2))
        assert (row["in_order"], row["ordered"]) == (in_order, 15)


def told_apart(runs: list[Run], category: str, prompts: set[str]) -> dict[tuple[int, int], float]:
    """Return the pairs of models that some prompts tell apart by margin, with the sign, by the definition."""
    tables = [run.tests[(run.tests["category"] == category) & run.tests["cluster_id"].isin(prompts)] for run in runs]
    sums = np.array([table.groupby("cluster_id")["margin"].sum() for table in tables])
    tests = tables[0].groupby("cluster_id")["margin"].size().to_numpy()
    found, k = {}, len(tests)
    for a, b in combinations(range(len(runs)), 2):
        difference = sums[b] - sums[a]
        mean = difference.sum() / tests.sum()
        error = math.sqrt(k / (k - 1) * ((difference - mean * tests) ** 2).sum()) / tests.sum()
        if abs(mean / error) > stdtrit(k - 1, 0.975):
            found[a, b] = math.copysign(1, mean)
    return found


def test_the_smallest_sample_keeps_nine_of_ten_pairs() -> None:
    runs = planted(5, {"rises": 0.2, "rare": 0.0}, prompts=150)
    found = found_in(runs)
    [one] = [row for row in rows_of(found) if (row["category"], row["measure"]) == ("rises", MARGIN)]
    assert 10 < one["sample"] < 150
    prompts = [document["cluster_id"] for document in runs[0].documents]
    order = [prompts[place] for place in sample_order(prompts, [{"rises", "rare"}] * len(prompts))]
    whole = told_apart(runs, "rises", set(order))
    assert len(whole) == one["apart"]

    def kept(size: int) -> float:
        return len(set(whole.items()) & set(told_apart(runs, "rises", set(order[:size])).items())) / len(whole)

    assert kept(one["sample"]) >= 0.9
    smaller = sorted({int(size) for size in np.geomspace(10, 149, 60)} & set(range(one["sample"])))
    assert not smaller or kept(smaller[-1]) < 0.9
    best = min(row["sample"] for row in rows_of(found) if row["category"] == "rises" and row["measure"] in CONTRASTS)
    assert found.facts["sample"] == best
    assert f"--tasks nnd_demo --sample {best}" in found.findings[-1]


def test_runs_of_a_part_have_no_smallest_sample() -> None:
    found = found_in(planted(5, {"rises": 0.3}, protocol={**PROTOCOL, "selection": "120 of 400 (abc)"}))
    assert found.facts["worth_running"] == ["rises"]
    assert found.facts["sample"] is None
    assert table_of(found, "verdicts")["sample"].isna().all()


# ---------------------------------------------------------------- which model should be better


def model(name: str, parameters: int | None = 1) -> Run:
    clusters = ["a", "a", "b", "c"]
    info = {"name": f"models/{name}", "window": 64}
    return make_run(name, [True, False, True, True], clusters, model_info=info, parameters=parameters)


def ordered(runs: list[Run], tags: Tags | None = None) -> set[tuple[str, str]]:
    [paired] = pair(runs)
    families, _ = find_families(paired, tags)
    return {
        (family.models["model"].iloc[a], family.models["model"].iloc[b])
        for family in families
        for a, b in zip(*np.nonzero(family.better), strict=True)
    }


def test_later_checkpoints_and_larger_models_should_be_better() -> None:
    small = [model(f"tiny-s/step-{step}", 900) for step in (620, 74, 1244)]
    runs = [model("tiny-m", 4000), *small, model("tiny-xs", 300)]
    steps = {("tiny-s/step-74", "tiny-s/step-620"), ("tiny-s/step-74", "tiny-s/step-1244")}
    steps.add(("tiny-s/step-620", "tiny-s/step-1244"))
    sizes = {("tiny-xs", "tiny-s/step-1244"), ("tiny-xs", "tiny-m"), ("tiny-s/step-1244", "tiny-m")}
    assert ordered(runs) == steps | sizes


def test_a_model_beside_its_checkpoints_is_the_end_of_their_training() -> None:
    runs = [model("tiny-s", 900), model("tiny-s/checkpoint-10", 900), model("tiny-m", 4000)]
    assert ordered(runs) == {("tiny-s/checkpoint-10", "tiny-s"), ("tiny-s", "tiny-m")}


def test_tags_say_what_names_do_not(tmp_path: Path) -> None:
    file = tmp_path / "tags.csv"
    file.write_text("model,family,training,step,parameters\nred,f,t,1,\nblue,f,t,2,\ngreen,f,u,,7\n")
    runs = [model("red", 5), model("blue", 5), model("green", None)]
    assert ordered(runs, read_tags(file)) == {("red", "blue"), ("blue", "green")}


def test_models_without_an_order_are_left_out_by_name() -> None:
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


Command = Callable[..., Outcome]


def write_checkpoints(folder: Path, contexts: int = 60) -> Path:
    for i, step in enumerate((10, 100, 1000)):
        write_run(folder, f"tiny-s/step-{step}", {"rises": 0.2 + 0.3 * i, "flat": 0.5}, contexts=contexts, seed=i)
    return folder


def test_the_command_prints_and_writes(nnd: Command, tmp_path: Path) -> None:
    folder = write_checkpoints(tmp_path / "runs")
    status, out, err = nnd("signal", folder, "--out", tmp_path / "out")
    assert status == 0, err
    assert "Worth running: rises (by pass rate and margin)." in out
    files = {path.name.removeprefix("signal_nnd_made_up_tiny") for path in (tmp_path / "out").iterdir()}
    tables = {f"_{name}.csv" for name in ("models", "values", "signals", "verdicts")}
    assert files == {".md", ".json", ".tex", ".html", *tables}
    status, out, _ = nnd("signal", folder, "--format", "json")
    content = json.loads(out)
    assert content["worth_running"] == ["rises"]
    assert {name: len(rows) for name, rows in content["tables"].items()} == {
        "models": 3, "values": 27, "signals": 9, "verdicts": 9,
    }  # fmt: skip
    status, out, _ = nnd("signal", folder, "--brief")
    lines = [line for line in out.splitlines() if line.startswith("| nnd_made_up")]
    assert ["| noise | noise |" in line for line in lines] == [True, False]
    assert "| rises | better | better |" in lines[1]


def test_what_cannot_be_said_is_said(nnd: Command, tmp_path: Path) -> None:
    one = write_run(tmp_path / "one", "tiny-s/step-10")
    assert "the run of tiny-s/step-10 on nnd_made_up is in no comparison" in refused(nnd("signal", one))
    other = write_run(tmp_path / "other", "tiny-s/step-20", protocol={"shots": 2})
    assert "shots 0 and 2" in refused(nnd("signal", one, other))
    alike = write_run(tmp_path / "alike", "big", parameters=5)
    assert "no models that should differ" in refused(nnd("signal", one, alike))
    status, out, _ = nnd("signal", write_run(tmp_path / "s", "tiny-s", parameters=5), one)
    assert status == 0
    assert "noise: steps" not in out
