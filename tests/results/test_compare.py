"""Comparisons of runs, ranks and significance, against slow definitions, scipy and simulations."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from nnd_tasks.contribute.check.rules import DISAGREEMENT, planned
from nnd_tasks.errors import NNDError
from nnd_tasks.results.compare import compare, compare_runs, rank
from nnd_tasks.results.comparison_report import give_verdicts, report_comparison
from nnd_tasks.show.forms import to_markdown
from nnd_tasks.significance import (
    LEVEL,
    POWER,
    detectable,
    holm,
    needed,
    permutation_p,
)
from nnd_tasks.statistics import WITHIN
from tests.results.runs import make_paired, make_run


def markdown(comparison):
    return to_markdown(report_comparison(comparison))


outcomes = st.lists(
    st.tuples(st.sampled_from("abcdefgh"), st.sampled_from("xy"), st.booleans(), st.booleans(), st.booleans()),
    min_size=2,
    max_size=40,
)


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=8))
def test_few_clusters_are_permuted_completely(values):
    flips = itertools.product((1, -1), repeat=len(values))
    sums = [sum(sign * value for sign, value in zip(signs, values, strict=True)) for signs in flips]
    slow = sum(abs(total) >= abs(sum(values)) for total in sums) / len(sums)
    assert permutation_p(np.array(values)[:, None])[0] == pytest.approx(slow)


def test_many_clusters_agree_with_scipy():
    values = np.random.default_rng(3).integers(-3, 5, size=60).astype(float)
    scipy = stats.permutation_test(
        (values,), np.sum, permutation_type="samples", n_resamples=20_000, rng=np.random.default_rng(5)
    )
    close = 4 * math.sqrt(scipy.pvalue / 20_000) + 1e-3
    assert permutation_p(values[:, None], resamples=20_000, seed=1)[0] == pytest.approx(scipy.pvalue, abs=close)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_by_its_definition(p_values):
    """A hypothesis is rejected from the smallest level on at which step-down testing gets to it."""
    order = np.argsort(p_values, kind="stable")
    highest = 0.0
    for rank_of_p, hypothesis in enumerate(order):
        highest = max(highest, (len(p_values) - rank_of_p) * p_values[hypothesis])
        assert holm(p_values)[hypothesis] == pytest.approx(min(1.0, highest))


def test_nothing_is_detectable_where_no_p_value_can_be_small_enough():
    assert math.isinf(detectable(0.01, 4)), "two of 16 patterns are more than 0.05"
    assert math.isinf(detectable(0.01, 7, hypotheses=5)), "two of 128 patterns are more than 0.05 / 5"
    assert math.isinf(detectable(0.01, 500, hypotheses=600)), "10,000 flips find no p below 1 / 10,001"
    assert math.isnan(detectable(0.1, 1))
    assert math.isnan(detectable(0.0, 50))
    assert planned([8] * 7) > DISAGREEMENT, "which no pair can differ by that decides 30% of the tests differently"
    assert "| none‡ |" in markdown(compare(make_paired([(1, 0), (0, 1)] * 3, "abcdef")))  # it is above 1


@pytest.mark.parametrize(("clusters", "hypotheses"), [(7, 1), (8, 5), (14, 15), (60, 1)])
def test_what_is_detectable_is_found_by_the_permutation_test_after_holm(clusters, hypotheses):
    true = detectable(0.3 / math.sqrt(clusters), clusters, hypotheses)
    draws = np.random.default_rng(clusters).normal(true, 0.3, size=(clusters, 1000))
    p_values = permutation_p(np.round(1000 * draws).astype(np.int64))
    assert (p_values * hypotheses < LEVEL).mean() == pytest.approx(POWER, abs=0.04)  # three standard errors


def test_an_interval_and_a_p_value_that_disagree_are_marked():
    # Every prompt differs, by nearly the same: t is sure, but of four prompts no p is below 0.125.
    rows = [(False, True)] * 3 + [(True, True)]
    found = compare(make_paired((rows * 3) + [(False, True)] * 4, [f"k{i // 4}" for i in range(16)]))
    low, high = (100 * found.differences[end][0] for end in ("low", "high"))
    assert low > 0
    assert f"{low:+.1f} to {high:+.1f} ≠ | 0.125 |" in markdown(found)
    assert f"({low:.1f} to {high:.1f} points, but p 0.125)" in markdown(found)


@pytest.mark.parametrize("seed", range(8))
def test_ranks_table_and_sentences_never_contradict_each_other(seed):
    """Of four models two are better, on prompts of which some have many tests that all come out alike."""
    rng = np.random.default_rng(seed)
    sizes = np.clip(np.exp(rng.normal(1.2, 1.2, int(rng.integers(6, 40)))).astype(int) + 1, 1, 60)
    easy = np.repeat(rng.normal([0.0, 0.1, 0.7, 1.0], size=(sizes.size, 4)), sizes, axis=0)
    prompts = np.repeat([f"p{i}" for i in range(sizes.size)], sizes).tolist()
    found = compare(make_paired(easy + rng.normal(size=easy.shape) > 0, prompts))
    group = found.ranks.set_index("model")["group"]
    sentences = give_verdicts(found.rates, found.differences)
    for row, sentence in zip(found.differences.query("category == 'all'").itertuples(), sentences, strict=True):
        assert row.significant == (row.p_holm < LEVEL)
        worse, better = (row.first, row.second) if row.difference > 0 else (row.second, row.first)
        expected = f"{better} passes more tests than {worse}: " if row.significant else "No difference shown: "
        assert sentence.startswith(expected)
        assert row.significant or group[row.first] == group[row.second]
        assert row.disagrees == ((row.low > 0 or row.high < 0) != row.significant)
        assert not (row.significant and row.underpowered)


def test_a_rate_is_marked_where_the_best_baseline_passes_as_many_tests():
    """In made-up runs "the shorter text wins" passes the tests whose better text is the shorter one: three of four."""
    texts = [["aa", "bbb"], ["cc", "ddd"], ["ee", "fff"], ["gggg", "hhh"]]
    paired = make_paired([(1, 1, 1), (1, 1, 1), (0, 1, 1), (0, 0, 1)], list("klmn"))
    for run in paired.runs:
        for document, candidates in zip(run.documents, texts, strict=True):
            document.update(context="", candidates=candidates)
    paired.runs = [replace(run) for run in paired.runs]
    rates = report_comparison(compare(paired)).tables[0].data.query("category == 'all'")
    assert rates[["rate", "best_baseline", "beaten"]].to_numpy().tolist() == [
        [0.5, 0.75, True],
        [0.75, 0.75, True],
        [1.0, 0.75, False],
    ]


def test_what_is_planned_has_the_variance_that_is_assumed():
    rng = np.random.default_rng(0)
    sizes = np.array([1, 2, 3, 10, 4, 4, 7, 1, 1, 5, 6, 2] * 2)
    # Differences of variance `DISAGREEMENT` that correlate within a prompt, added up by prompt, in 20,000 studies.
    shared, own = rng.normal(size=(2, 20_000, sizes.size))
    sums = math.sqrt(DISAGREEMENT) * (math.sqrt(WITHIN) * sizes * shared + np.sqrt((1 - WITHIN) * sizes) * own)
    spread = float(np.std(sums.sum(axis=1) / sizes.sum()))
    assert planned(sizes) == pytest.approx(detectable(spread, sizes.size), rel=0.03)
    assert math.isinf(planned([1, 1], hypotheses=2))


@settings(max_examples=20)
@given(outcomes)
def test_a_comparison_adds_up(rows):
    models = ["m0", "m1", "m2"]
    tests = pd.DataFrame(rows, columns=["prompt", "category", *models])
    found = compare(make_paired(tests[models], tests["prompt"].tolist(), tests["category"].tolist()))
    parts = {"all": tests, **dict(list(tests.groupby("category")))}
    rates = found.rates.set_index(["category", "model"])
    assert [*rates.index] == [(category, model) for category in parts for model in models]
    for (category, model), one in rates.iterrows():
        part = parts[category]
        assert (one["tests"], one["prompts"]) == (len(part), part["prompt"].nunique())
        assert one["rate"] == pytest.approx(part[model].mean())
    for one in found.differences.itertuples():
        both = (rates["rate"][one.category, model] for model in (one.second, one.first))
        assert one.difference == pytest.approx(np.subtract(*both))
        assert 0 < one.p <= one.p_holm <= 1
    of_all = found.differences["category"] == "all"
    for family in (found.differences[of_all], found.differences[~of_all]):  # which models; which models on which errors
        assert family["p_holm"].tolist() == holm(family["p"]).tolist()
    assert found.ranks["model"].tolist() == sorted(models, key=lambda model: (-rates["rate"]["all", model], model))


@pytest.mark.parametrize(
    ("p_values", "expected"),
    [
        ((0.3, 0.001, 0.002), [("a", 1, 2, 1), ("b", 1, 2, 1), ("c", 3, 3, 2)]),
        # a beats c, but b is not told from either: no line can be drawn.
        ((0.3, 0.001, 0.2), [("a", 1, 2, 1), ("b", 1, 3, 1), ("c", 2, 3, 1)]),
    ],
)
def test_models_that_are_not_told_apart_share_a_rank_group(p_values, expected):
    rates = pd.DataFrame({"model": list("abc"), "rate": [0.9, 0.8, 0.5]})
    differences = pd.DataFrame({"first": list("aab"), "second": list("bcc"), "difference": [-0.1, -0.4, -0.3]})
    found = rank(rates, differences.assign(significant=holm(p_values) < LEVEL))
    assert [*found[["model", "best", "worst", "group"]].itertuples(index=False, name=None)] == expected


# ---------------------------------------------------------------- the report


def test_every_number_is_shown_and_what_is_unreliable_is_marked():
    rows = [(True, False), (True, True), (False, True), (False, True)] * 3
    text = markdown(compare(make_paired(rows, [f"k{i // 4}" for i in range(12)], ["x_1", "y&z"] * 6)))
    assert "| all | 12 | 3† | 0.500§ [0.085, 0.915] | 0.750§ [0.180, 0.976] |" in text
    # All three prompts differ by the same: there is no interval, and with three no p below 0.25.
    assert "| all | m1 - m0 | +25.0 | 0.250 | 0.250 | -‡ |" in text


def test_what_cannot_be_compared_is_named():
    run, none, some = (make_run(*each, ["k", "l"]) for each in (("a", [1, 0]), ("b", [None] * 2), ("b", [None, 1])))
    with pytest.raises(NNDError, match=r"no run of another model on demo \(default\) is at hand"):
        compare_runs([run])
    with pytest.raises(NNDError, match="on one task: no run is there"):
        compare_runs([])
    with pytest.raises(NNDError, match="no test was scored by all of a, b"):
        compare_runs([run, none])
    [found] = compare_runs([run, some])
    assert "Left out: 1 test that some model could not score." in markdown(found)


def _verdicts(**passed):
    """Return the verdict on two models: category -> outcomes of each on one test of each prompt."""
    rows = [(name, str(k), both) for name, lists in passed.items() for k, both in enumerate(zip(*lists, strict=True))]
    names, prompts, outcomes = zip(*rows, strict=True)
    found = compare(make_paired(outcomes, prompts, names))
    return give_verdicts(found.rates, found.differences)


def test_a_verdict_says_who_passes_more_on_what_and_how_surely():
    """By hand: on x the first passes 18 of 20 tests and the second 2, on y both pass 10."""
    same = [0, 1] * 10
    [said] = _verdicts(x=([0] * 2 + [1] * 18, [1] * 2 + [0] * 18), y=(same, same))
    assert said == (
        "m0 passes more tests than m1: m0 70.0%, m1 30.0% (40.0 points, 95% interval 25.6 to 54.4, p <0.001). "
        "By category: m0 passes more on x (80.0 points, p <0.001); no difference shown on y."
    )


def test_a_verdict_without_a_difference_says_what_could_be_found_and_what_more_would_need():
    """By hand: of 30 prompts two differ, in opposite directions, so the squares of the residuals sum to 2."""
    [said] = _verdicts(x=([1, 0] + [1] * 28, [0, 1] + [1] * 28))
    error = math.sqrt(30 / 29 * 2) / 30
    half = stats.t.ppf(0.975, 29) * error
    mde = detectable(error, 30)
    count = needed(error, 30, 0.05)
    assert detectable(error * math.sqrt(30 / count), int(count)) == pytest.approx(0.05, rel=0.03)
    assert said == (
        f"No difference shown: m0 96.7%, m1 96.7% (−{100 * half:.1f} to {100 * half:.1f} points). "  # noqa: RUF001
        f"30 prompts can detect {100 * mde:.1f} points; 5.0 points would take about {count:.0f}."
    )
    [equal] = _verdicts(x=[[0] * 3] * 2)
    assert equal == "No difference shown: m0 0.0%, m1 0.0% (the same on every prompt)."
    [few] = _verdicts(x=([1, 0] * 2, [0, 1] * 2))
    assert few.endswith("4 prompts cannot show any difference."), "four prompts are too few to plan from"
    [spread] = _verdicts(x=([1, 1, 0] * 3, [0, 0, 1] * 3))  # by hand: a standard error of 1 / 3
    assert "(−43.5 to 100.0 points). 9 prompts have an MDE above the largest possible difference." in spread  # noqa: RUF001


def test_pairs_of_many_models_without_a_difference_are_counted():
    equal, better = [0, 1] * 20, [0] + [1] * 39
    outcomes = list(zip(*[equal] * 5, better, strict=True))
    found = compare(make_paired(outcomes, [str(k) for k in range(40)]))
    *said, last = give_verdicts(found.rates, found.differences)
    assert [sentence.split(":")[0] for sentence in said] == [f"m5 passes more tests than m{k}" for k in range(5)]
    assert last == "No difference shown: 10 of 15 pairs of models; the table of differences has each."


def test_of_more_than_20_models_neighbours_in_rank_are_shown():
    outcomes = [[k < 21 and row < 15 + k for k in range(22)] for row in range(40)]
    report = report_comparison(compare(make_paired(outcomes, [str(row) for row in range(40)])))
    ranks, differences = (table.data for table in report.brief)
    places = {model: i for i, model in enumerate(ranks["model"])}
    assert len(ranks) == 22
    assert [abs(places[row.first] - places[row.second]) for row in differences.itertuples()] == [1] * 21
    said, last = report.findings
    assert said.startswith("m0 passes more tests than m21: ")
    assert last.startswith("A difference is shown for ")
