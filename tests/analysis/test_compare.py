"""Comparisons against slow definitions, scipy and simulations."""

from __future__ import annotations

import itertools
import json
import math
import random
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from nnd_tasks.analysis import compare as module
from nnd_tasks.analysis.compare import (
    EXACT,
    compare,
    compare_runs,
    count_passed,
    holm,
    permutation_p,
    rank,
    report_comparison,
)
from nnd_tasks.analysis.diagnostics import diagnostics_of
from nnd_tasks.analysis.power import (
    DISAGREEMENT,
    LEVEL,
    POWER,
    detectable,
    least_p,
    marked_points,
    needed,
    planned,
    planned_by_category,
)
from nnd_tasks.analysis.verdicts import give_verdicts
from nnd_tasks.errors import NNDError
from nnd_tasks.show.forms import to_csv, to_json, to_latex, to_markdown
from nnd_tasks.statistics import WITHIN
from tests.analysis.runs import PROTOCOL, make_paired, make_run


def markdown(comparison: Any) -> str:
    return to_markdown(report_comparison(comparison))


def whole_of(comparison: Any) -> list[Any]:
    """Return the differences on all tests."""
    found = comparison.differences
    return list(found[found["category"] == "all"].itertuples())


outcomes = st.lists(
    st.tuples(st.sampled_from("abcdefgh"), st.sampled_from("xy"), st.booleans(), st.booleans(), st.booleans()),
    min_size=2,
    max_size=40,
)


@given(outcomes)
def test_counts_are_sums_over_the_tests_of_a_cluster(rows: list[Any]) -> None:
    passed = np.array([row[2:] for row in rows])
    clusters = [row[0] for row in rows]
    counts, tests = count_passed(make_paired(passed, clusters))
    for i, name in enumerate(dict.fromkeys(clusters)):
        chosen = [row for row in rows if row[0] == name]
        assert tests[i] == len(chosen)
        assert counts[i].tolist() == [sum(row[2 + j] for row in chosen) for j in range(3)]
    assert counts.sum() == passed.sum()


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=8))
def test_few_clusters_are_permuted_completely(values: list[int]) -> None:
    flips = itertools.product((1, -1), repeat=len(values))
    sums = [sum(sign * value for sign, value in zip(signs, values, strict=True)) for signs in flips]
    slow = sum(abs(total) >= abs(sum(values)) for total in sums) / len(sums)
    assert permutation_p(np.array(values)[:, None])[0] == pytest.approx(slow)


def test_many_clusters_agree_with_scipy_and_a_slow_loop() -> None:
    rng = np.random.default_rng(3)
    values = rng.integers(-3, 5, size=(60, 1))
    found = permutation_p(values, resamples=20_000, seed=1)[0]
    other = stats.permutation_test(
        (values[:, 0].astype(float),),
        lambda x, axis: x.sum(axis=axis),
        permutation_type="samples",
        n_resamples=20_000,
        rng=np.random.default_rng(5),
        vectorized=True,
    )
    assert found == pytest.approx(other.pvalue, abs=4 * math.sqrt(other.pvalue / 20_000) + 1e-3)
    draws = np.random.default_rng(1).integers(0, 2, size=(2000, 60), dtype=np.int8).astype(int) * 2 - 1
    slow = sum(
        abs(sum(int(s) * int(v) for s, v in zip(row, values[:, 0], strict=True))) >= abs(values.sum()) for row in draws
    )
    assert permutation_p(values, resamples=2000, seed=1)[0] == (1 + slow) / 2001


def test_one_mask_serves_all_pairs() -> None:
    rng = np.random.default_rng(0)
    values = rng.integers(-2, 3, size=(80, 5))
    together = permutation_p(values, resamples=500)
    alone = [permutation_p(values[:, [j]], resamples=500)[0] for j in range(5)]
    assert together.tolist() == alone
    assert permutation_p(np.hstack([values[:, :1], -values[:, :1]]), resamples=500)[0] == together[0]


@pytest.mark.parametrize("clusters", [EXACT - 1, 40])
def test_p_values_are_uniform_where_models_do_not_differ(clusters: int) -> None:
    rng = np.random.default_rng(7)
    p = np.concatenate([permutation_p(rng.integers(-3, 4, size=(clusters, 40)), 400, seed) for seed in range(10)])
    for level in (0.05, 0.2, 0.5):
        share = float((p <= level).mean())
        assert share <= level + 3 * math.sqrt(level * (1 - level) / p.size)
        assert share >= level / 3


def test_blocks_of_resamples_do_not_change_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    counts = rng.integers(0, 4, size=(30, 2))
    whole = permutation_p(counts[:, :1] - counts[:, 1:], 300)
    monkeypatch.setattr(module, "_BLOCK", 8)
    assert whole.tolist() == permutation_p(counts[:, :1] - counts[:, 1:], 300).tolist()


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_by_its_definition(p_values: list[float]) -> None:
    found = holm(p_values)
    m = len(p_values)
    for i, p in enumerate(p_values):
        # The smallest level at which step-down testing rejects hypothesis i.
        order = sorted(range(m), key=lambda j: p_values[j])
        place = order.index(i)
        slow = min(1.0, max((m - r) * p_values[order[r]] for r in range(place + 1)))
        assert found[i] == pytest.approx(slow)
        assert found[i] >= p


def test_what_is_detectable_is_detected_four_times_in_five() -> None:
    rng = np.random.default_rng(0)
    k, spread = 40, 0.3
    true = detectable(spread / math.sqrt(k), k)
    draws = rng.normal(true, spread, size=(20_000, k))
    p = stats.ttest_1samp(draws, 0, axis=1).pvalue
    assert float((p < LEVEL).mean()) == pytest.approx(0.8, abs=0.015)
    assert math.isnan(detectable(0.1, 1))
    assert math.isnan(detectable(0.0, 50))


def test_nothing_is_detectable_where_no_p_value_can_be_small_enough() -> None:
    assert permutation_p([[5], [6], [5], [6]])[0] == least_p(4) == 0.125
    assert math.isinf(detectable(0.01, 4))
    assert math.isfinite(detectable(0.01, 7))
    assert math.isinf(detectable(0.01, 7, hypotheses=5)), "two of 128 patterns are more than 0.05 / 5"
    assert math.isinf(detectable(0.01, 500, hypotheses=600)), "10,000 flips find no p below 1 / 10,001"
    assert math.isinf(detectable(0.4, 7)), "no difference exceeds 1"
    # No pair that decides 30% of the tests differently can differ by more.
    assert math.isinf(planned([8] * 7))
    assert planned([8] * 10) <= DISAGREEMENT
    rows = [(True, False), (True, False), (False, False), (True, True)] * 4
    four = compare(make_paired(rows, [f"k{i // 4}" for i in range(15)] + ["k0"]))
    assert math.isinf(whole_of(four)[0].mde)
    assert "| none‡ |" in markdown(four)
    assert "none: no difference can be found" in markdown(four)
    assert json.loads(to_json(report_comparison(four)))["tables"]["differences"][0]["mde"] is None


@pytest.mark.parametrize(("clusters", "hypotheses"), [(10, 1), (40, 15)])
def test_what_is_detectable_is_found_by_the_permutation_test_after_holm(clusters: int, hypotheses: int) -> None:
    rng = np.random.default_rng(clusters)
    true = detectable(0.3 / math.sqrt(clusters), clusters, hypotheses)
    draws = np.round(1000 * rng.normal(true, 0.3, size=(clusters, 600))).astype(np.int64)
    found = float((permutation_p(draws, 4000) * hypotheses < LEVEL).mean())
    assert found == pytest.approx(POWER, abs=0.07)
    # Without Holm in the formula it would be found far less often.
    assert hypotheses == 1 or found - 0.2 > float(
        (
            permutation_p(draws - int(1000 * (true - detectable(0.3 / math.sqrt(clusters), clusters))), 4000)
            * hypotheses
            < LEVEL
        ).mean()
    )


def test_equal_models_seldom_give_a_table_with_a_false_alarm() -> None:
    """Six equal models, five categories: before, a third of the tables had some p (Holm) below 0.05."""
    rng = np.random.default_rng(3)
    clusters = [f"k{i // 3}" for i in range(180)]
    categories = [f"c{i // 36}" for i in range(180)]
    alarms = old = 0
    for _ in range(12):
        found = compare(make_paired(rng.random((180, 6)) < 0.7, clusters, categories))
        by_category = found.differences[found.differences["category"] != "all"]
        alarms += (by_category["p_holm"] < LEVEL).any()
        pairs = by_category.groupby(["first", "second"])["p"]
        assert len(pairs) == 15
        old += any(min(holm(p.tolist())) < LEVEL for _, p in pairs)
    assert alarms <= 1
    assert old >= 3, "the test can tell"


def test_an_interval_and_a_p_value_that_disagree_are_marked() -> None:
    # Every prompt differs, by nearly the same: t is sure, but of four prompts no p is below 0.125.
    rows = [(False, True)] * 3 + [(True, True)]
    found = compare(make_paired((rows * 3) + [(False, True)] * 4, [f"k{i // 4}" for i in range(16)]))
    [difference] = whole_of(found)
    assert difference.low > 0
    assert difference.p == 0.125
    assert difference.disagrees
    text = markdown(found)
    assert f"+{difference.high:.3f} ≠ | 0.125 |" in text
    assert "≠ interval and p (before Holm) do not agree" in text
    assert r"$\neq$" in to_latex(report_comparison(found))
    same = compare(make_paired(rows * 4, [f"k{i % 8}" for i in range(16)]))
    assert not same.differences["disagrees"].any()
    assert "≠" not in markdown(same)


def test_what_is_planned_has_the_variance_that_is_assumed() -> None:
    rng = np.random.default_rng(0)
    sizes = np.array([1, 2, 3, 10, 4, 4, 7, 1, 1, 5, 6, 2] * 2)
    draws = []
    for _ in range(20_000):  # differences of variance `DISAGREEMENT` that correlate within a prompt
        shared = rng.normal(size=sizes.size)
        sums = [
            math.sqrt(DISAGREEMENT) * (math.sqrt(WITHIN) * n * z + math.sqrt((1 - WITHIN) * n) * rng.normal())
            for n, z in zip(sizes, shared, strict=True)
        ]
        draws.append(sum(sums) / sizes.sum())
    assert planned(sizes) == pytest.approx(detectable(float(np.std(draws)), sizes.size), rel=0.03)
    assert planned([1] * 100) < planned([1] * 50)
    found = planned_by_category([f"p{i}" for i in range(100)] * 2 + ["x", "y"], ["many"] * 200 + ["few"] * 2)
    assert found["many"] == (planned([2] * 100, hypotheses=2), 100)
    assert marked_points(*found["few"]) == "none ‡"
    assert marked_points(0.0314, 200) == "3"


@settings(max_examples=40, deadline=None)
@given(outcomes)
def test_a_comparison_adds_up(rows: list[Any]) -> None:
    paired = make_paired([row[2:] for row in rows], [row[0] for row in rows], [row[1] for row in rows])
    found = compare(paired)
    assert list(dict.fromkeys(found.rates["category"])) == ["all", *sorted({row[1] for row in rows})]
    rates = {(one.category, one.model): one for one in found.rates.itertuples()}
    for (category, model), one in rates.items():
        chosen = [row for row in rows if category in ("all", row[1])]
        assert one.tests == len(chosen)
        assert one.prompts == len({row[0] for row in chosen})
        assert one.rate == pytest.approx(sum(row[2 + int(model[1])] for row in chosen) / len(chosen))
    for one in found.differences.itertuples():
        both = rates[one.category, one.second].rate, rates[one.category, one.first].rate
        assert one.difference == pytest.approx(both[0] - both[1])
        assert 0 < one.p <= 1
        assert one.p <= one.p_holm <= 1
    of_all = found.differences["category"] == "all"
    for family in (found.differences[of_all], found.differences[~of_all]):  # which models; which models on which errors
        assert family["p_holm"].tolist() == holm(family["p"]).tolist()
    order = sorted((f"m{j}" for j in range(3)), key=lambda model: (-rates["all", model].rate, model))
    assert found.ranks["model"].tolist() == order


def ranking(*pairs: tuple[str, str, float, float], rates: dict[str, float]) -> Any:
    differences = pd.DataFrame(pairs, columns=["first", "second", "difference", "p"])
    differences["p_holm"] = holm([p for *_, p in pairs])
    return list(rank(pd.DataFrame(rates.items(), columns=["model", "rate"]), differences).itertuples())


def test_the_rank_table_says_what_its_groups_mean() -> None:
    # a beats c within the one group, so "not told apart" would be wrong.
    clusters = [f"k{i}" for i in range(60)]
    rows = [(i % 10 < 8, i % 10 < 6 or i % 20 == 9, i % 20 < 10) for i in range(60)]
    found = compare(make_paired(rows, clusters))
    differ = {(one.first, one.second) for one in whole_of(found) if one.p_holm < LEVEL}
    assert set(found.ranks["group"]) == {1}
    assert ("m0", "m2") in differ
    text = markdown(found)
    assert "told apart" not in text
    assert "Between rank groups every pair of models differs; within one, some may differ too" in text
    assert "| rank group | model | pass rate | best rank | worst rank |" in text


def test_models_that_are_not_told_apart_share_a_rank_group() -> None:
    rates = {"a": 0.9, "b": 0.8, "c": 0.5}
    found = ranking(("a", "b", -0.1, 0.3), ("a", "c", -0.4, 0.001), ("b", "c", -0.3, 0.002), rates=rates)
    assert [(r.model, r.best, r.worst, r.group) for r in found] == [("a", 1, 2, 1), ("b", 1, 2, 1), ("c", 3, 3, 2)]
    # a beats c, but b is not told from either: no line can be drawn.
    found = ranking(("a", "b", -0.1, 0.3), ("a", "c", -0.4, 0.001), ("b", "c", -0.3, 0.2), rates=rates)
    assert [r.group for r in found] == [1, 1, 1]
    assert [(r.best, r.worst) for r in found] == [(1, 2), (1, 3), (2, 3)]
    # Three pairs at 0.02 are corrected to 0.06.
    found = ranking(("a", "b", -0.1, 0.02), ("a", "c", -0.4, 0.02), ("b", "c", -0.3, 0.02), rates=rates)
    assert {r.group for r in found} == {1}


def test_a_better_model_is_found() -> None:
    draw = random.Random(0)
    clusters = [f"k{i // 4}" for i in range(400)]
    rows = [(draw.random() < 0.5, draw.random() < 0.5, draw.random() < 0.8) for _ in clusters]
    found = compare(make_paired(rows, clusters, ["x", "y"] * 200))
    best = {(d.first, d.second): d for d in whole_of(found)}
    assert best["m0", "m2"].p < 0.001
    assert best["m0", "m2"].low > 0.15
    assert best["m0", "m1"].p > 0.05
    assert found.ranks["model"][0] == "m2"
    assert found.ranks["group"].tolist() == [1, 2, 2]


# ---------------------------------------------------------------- tables


@pytest.fixture
def comparison() -> Any:
    rows = [(True, False), (True, True), (False, True), (False, True)] * 3
    return compare(make_paired(rows, [f"k{i // 4}" for i in range(12)], ["x_1", "y&z"] * 6))


def test_markdown_has_every_number_and_marks_what_is_unreliable(comparison: Any) -> None:
    text = markdown(comparison)
    assert "| all | 12 | 3† | 0.500§ [0.085, 0.915] | 0.750§ [0.180, 0.976] |" in text
    # All three prompts differ by the same: there is no interval, and with three no p below 0.25.
    assert "| all | m1 - m0 | +0.250 | 0.250 | 0.250 | -‡ |" in text
    assert "† fewer than 10 prompts" in text


def test_csv_json_and_latex_hold_the_same_numbers(comparison: Any) -> None:
    report = report_comparison(comparison)
    tables = {table.name: table for table in report.tables}
    head, first, *_ = to_csv(tables["differences"]).splitlines()
    fields = dict(zip(head.split(","), first.split(","), strict=True))
    assert (float(fields["difference"]), float(fields["p_holm"]), fields["low"]) == (0.25, 0.25, "")
    found = json.loads(to_json(report))["tables"]
    assert found["differences"][0]["difference"] == 0.25
    assert found["differences"][0]["low"] is None
    assert found["rates"][1]["rate"] == 0.75
    latex = to_latex(report)
    assert r"x\_1 & 6 & 3$\dagger$" in latex
    assert r"y\&z" in latex


def test_what_cannot_be_compared_is_named() -> None:
    run = make_run("a", [True, False], ["k", "l"])
    with pytest.raises(NNDError, match=r"no other model ran on nnd/demo \(default\)"):
        compare_runs([run])
    none = make_run("b", [None, None], ["k", "l"])
    with pytest.raises(NNDError, match="no test was scored by all of a, b"):
        compare_runs([run, none])
    some = make_run("b", [None, True], ["k", "l"])
    [found] = compare_runs([run, some])
    assert found.paired.left_out == 1
    assert "Left out: 1 test that some model could not score." in markdown(found)


def _verdicts(first: dict[str, list[int]], second: dict[str, list[int]]) -> list[str]:
    """Return the verdict on two models with these outcomes, category -> outcome on each prompt."""
    outcomes = [
        [(name, k, value) for name, row in model.items() for k, value in enumerate(row)] for model in (first, second)
    ]
    passed = np.array([[value for *_, value in model] for model in outcomes]).T
    return give_verdicts(
        compare(make_paired(passed, [str(k) for _, k, _ in outcomes[0]], [name for name, *_ in outcomes[0]]))
    )


def test_a_verdict_says_who_passes_more_on_what_and_how_surely() -> None:
    """By hand: on x the second passes 18 of 20 tests and the first 2, on y both pass 10."""
    same = [0, 1] * 10
    [said] = _verdicts({"x": [1] * 2 + [0] * 18, "y": same}, {"x": [0] * 2 + [1] * 18, "y": same})
    assert said.startswith("m1 passes more tests than m0: 70.0% against 30.0% (40 points, 95% interval ")
    assert said.endswith("p <0.001). By category, m1 passes more on x (by 80 points, p <0.001).")
    [turned] = _verdicts({"x": [0] * 2 + [1] * 18, "y": same}, {"x": [1] * 2 + [0] * 18, "y": same})
    assert turned == said.replace("m0", "m?").replace("m1", "m0").replace("m?", "m1")


def test_an_undecided_verdict_says_what_could_have_shown_and_what_would_be_needed() -> None:
    """By hand: of 30 prompts two differ, in opposite directions, so the squares of the residuals sum to 2."""
    [said] = _verdicts({"x": [1, 0] + [1] * 28}, {"x": [0, 1] + [1] * 28})
    error = math.sqrt(30 / 29 * 2) / 30
    mde = (stats.t.ppf(0.975, 29) + stats.t.ppf(0.8, 29)) * error
    count = next(
        k for k in range(2, 999)
        if (stats.t.ppf(0.975, k - 1) + stats.t.ppf(0.8, k - 1)) * error * math.sqrt(30 / k) <= 0.05
    )  # fmt: skip
    shown = f"30 prompts show differences above {100 * mde:.1f} points; about {float(f'{count:.2g}'):.0f} would be needed for 5"
    assert said == f"Undecided between m0 and m1: {shown} points."
    [equal] = _verdicts({"x": [1, 0, 1]}, {"x": [1, 0, 1]})
    assert equal.endswith("3 prompts, without any spread between them.")
    [few] = _verdicts({"x": [1, 0, 1, 0]}, {"x": [0, 1, 1, 1]})
    assert re.search(r"4 prompts can show no difference; about [\d,]+ would be needed for 5 points\.$", few)


def test_so_many_prompts_as_needed_show_the_difference_with_the_power_that_is_meant() -> None:
    rng = np.random.default_rng(5)

    def differences(prompts: int, studies: int) -> Any:  # a test per prompt: the second model wins 20%, the first 10%
        return rng.choice([1, -1, 0], p=[0.2, 0.1, 0.7], size=(prompts, studies))

    pilot = differences(4_000, 1)[:, 0]
    count = needed(float(pilot.std() / math.sqrt(4_000)), 4_000, 0.1)
    found = permutation_p(differences(int(count), 500), resamples=1_000) < LEVEL
    assert found.mean() == pytest.approx(POWER, abs=3 * math.sqrt(POWER * (1 - POWER) / 500))
    assert needed(0.1, 50, 0.1, hypotheses=600) == math.inf


def test_a_run_that_fits_no_other_is_told_with_the_reason() -> None:
    first, second = (make_run(name, [True, False], ["k", "l"]) for name in "ab")
    other = {**PROTOCOL, "prompt": "q"}
    third = make_run("c", [True, True], ["k", "l"], task="nnd_demo_other", protocol=other)
    fourth = make_run("d", [True], ["k"], task="nnd_else", protocol={**PROTOCOL, "set": "nnd/else"})
    [found] = compare_runs([first, second, third, fourth])
    assert found.paired.models == ["a", "b"]
    assert len(found.not_compared) == 2
    assert "c on nnd_demo_other is in no comparison" in found.not_compared[0]
    assert "prompt 'q' and 'p'" in found.not_compared[0]
    assert found.not_compared[1].endswith("no other model ran on nnd/else (default)")
    assert all(line in markdown(found) for line in found.not_compared)


def test_two_tasks_on_one_set_have_reports_of_their_own() -> None:
    runs = [make_run(model, [True, False], ["k", "l"], task=task) for task in ("nnd_x", "nnd_y") for model in "ab"]
    found = [report_comparison(one) for one in compare_runs(runs)]
    assert [(one.name, one.facts["task"]) for one in found] == [("compare nnd_x", "nnd_x"), ("compare nnd_y", "nnd_y")]


def test_the_diagnostics_stand_beside_the_rates(comparison: Any) -> None:
    diagnostics = diagnostics_of(comparison.paired.runs[1]).iloc[0]
    [row] = [
        row
        for row in json.loads(to_json(report_comparison(comparison)))["tables"]["diagnostics"]
        if (row["category"], row["model"]) == ("all", "m1")
    ]
    for name in ("overlap", "flips_bytes", "flips_sum"):
        assert row[name] == diagnostics[name]


def test_windows_are_compared_between_any_two_runs() -> None:
    first = make_run("a", [True], ["k"])
    shortened = make_run("b", [True], ["k"], truncated=1)
    other = make_run("c", [True], ["k"], model_info={"window": 128})
    with pytest.raises(NNDError, match="window 128 and 64"):
        compare_runs([first, other, shortened])
