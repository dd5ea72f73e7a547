"""Correlations of `benchmarks/verify.py`: scipy, slow definitions, and known answers on the real files."""

from itertools import combinations, permutations, product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau, pearsonr

from benchmarks import verify
from benchmarks.verify import add_up, correlate, verify_set


@given(st.lists(st.tuples(st.integers(-4, 4), st.integers(-4, 4)), min_size=3, max_size=8))
def test_correlations_are_scipys_and_the_papers_definitions_ties_among_them(scores):
    x, y = np.transpose(scores) / 8
    tau, r, in_order = map(float, correlate(x, y))
    if len(set(x)) == 1 or len(set(y)) == 1:
        assert np.isnan([tau, r, in_order]).all()
        return
    assert tau == pytest.approx(kendalltau(x, y).statistic, abs=1e-9)
    for value, pairs in ((r, permutations(range(len(x)), 2)), (in_order, combinations(range(len(x)), 2))):
        gaps_of_both = zip(*((x[i] - x[j], y[i] - y[j]) for i, j in pairs), strict=True)
        assert value == pytest.approx(pearsonr(*gaps_of_both)[0], abs=1e-9)


def test_intervals_are_those_of_a_slow_loop(monkeypatch):
    rng, models, prompts, resamples = np.random.default_rng(2), list("abcde"), 12, 8
    outputs = pd.DataFrame(product(range(prompts), models), columns=["prompt", "model"])
    outputs = outputs.loc[outputs.index.repeat(rng.integers(1, 4, len(outputs)))]
    outputs[["x", "y", "metric"]] = rng.random((len(outputs), 3))
    human, metric = add_up(outputs, models, ["x", "y"]), add_up(outputs, models, ["metric"])
    monkeypatch.setattr(verify, "RESAMPLES", resamples)
    ends = verify.verify(human, metric, ["x", "y"])[["low", "high"]].to_numpy()
    drawn = []
    for weights in np.random.default_rng(0).multinomial(prompts, np.full(prompts, 1 / prompts), size=resamples):
        rows = np.repeat(np.arange(len(outputs)), weights[outputs["prompt"]])
        means = outputs.iloc[rows].groupby("model")[["x", "y", "metric"]].mean()
        both = [correlate(means["metric"], means[category]) for category in "xy"]
        drawn.append([*both, np.mean(both, axis=0)])
    np.testing.assert_allclose(ends.T, np.quantile(drawn, [0.025, 0.975], axis=0).reshape(2, -1))


@pytest.mark.parametrize(
    ("name", "file", "scorer", "expected"),
    [
        ("quiz_design", "quiz_design_groups.jsonl", "nnd", "0.79 0.78; 0.82 0.80"),
        # What this file gives; the paper prints 0.84 and 0.86 for r.
        ("summeval", "model_annotations.aligned.paired.jsonl", "rouge1", "0.55 0.55; 0.78 0.84"),
        ("summeval", "model_annotations.aligned.paired.jsonl", "rouge2", "0.55 0.55; 0.80 0.86"),
    ],
)
def test_averages_stand_beside_the_papers(name, file, scorer, expected, data):
    found = verify_set(name, data / name / file, "rouge1,rouge2").loc[(scorer, "average")]
    assert "; ".join(f"{row.value:.2f} {row.paper:.2f}" for row in found[:2].itertuples()) == expected
