"""Measures of likelihoods in `nnd compare` and `nnd trend`: from samples, with and without ``token_stats``."""

import math

import numpy as np
import pytest
from scipy import stats

from nnd_tasks.results.compare import compare_runs
from nnd_tasks.results.comparison_report import report_comparison
from nnd_tasks.results.read_runs import read_results
from nnd_tasks.training.trend import read_trend, report_trend
from tests.results import fake_runs

PROMPTS = 12
BASIC = ("bits_high", "bits_low", "margin")


def write_model(folder, name, shift, *, token_stats=False, **changes):
    """Write a run with a test of kind ``a`` in each prompt, and one of kind ``b`` in each third."""
    samples = []
    for i in range(PROMPTS):
        kinds = ("a", "b") if i % 3 == 0 else ("a",)
        means = [shift - 2 - 0.1 * i, -3.0, *([-2.5] if len(kinds) == 2 else [])]
        scores = [fake_runs.score(mean, 8 + j + i, 30 + 2 * j) for j, mean in enumerate(means)]
        if token_stats:
            scores = [{**score, "top1": 2 + j, "rank": 20.0 + i, "entropy": 9.0} for j, score in enumerate(scores)]
        document = fake_runs.make_document(f"p{i}", ["good", "bad", "worse"][: len(means)], kinds)
        samples.append(fake_runs.make_sample(document, scores))
    fake_runs.write_run(folder, name, samples=samples, **changes)


def tables_of(report):
    return [table for table in report.tables if table.name == "measures"]


def test_compare_has_one_table_of_them(tmp_path):
    write_model(tmp_path, "m1", 0.0, token_stats=True)
    write_model(tmp_path, "m2", 0.5)
    [comparison] = compare_runs(read_results(tmp_path))
    [table] = tables_of(report_comparison(comparison))
    rows = table.data.set_index(["category", "model"])
    assert rows.index.tolist() == [(category, model) for category in ("all", "a", "b") for model in ("m1", "m2")]
    # The better text of prompt i has a mean of 0.5 - 2 - i / 10.
    row, margins = rows.loc[("a", "m2")], [1.5 - 0.1 * i for i in range(PROMPTS)]
    half = stats.t.ppf(0.975, PROMPTS - 1) * stats.sem(margins)
    assert row["margin"] == pytest.approx(np.mean(margins))
    assert row["margin_low"] == pytest.approx(row["margin"] - half)
    assert rows.loc[("a", "m1"), "top1_low"] == pytest.approx(3 * PROMPTS / sum(9 + i for i in range(PROMPTS)))
    assert math.isnan(row["entropy"]), "this run has no token_stats"
    cells = table.cells
    assert "entropy" in cells
    assert cells.loc[cells["category"] == "b", "prompts"].tolist() == ["4†", "4†"]


def test_a_reader_that_answers_has_none(tmp_path):
    for name in ("m1", "m2"):
        write_model(tmp_path, name, 0.0, protocol={"reader": "validator"})
    [comparison] = compare_runs(read_results(tmp_path))
    assert comparison.measures.empty
    assert not tables_of(report_comparison(comparison))


def test_trend_shows_them_against_steps(tmp_path):
    for step, shift in ((100, -0.5), (200, 0.0), (400, 0.5)):
        write_model(tmp_path, f"/runs/x/step-{step}", shift)
    [table] = tables_of(report_trend(read_trend([tmp_path])))
    overall = table.data[table.data["category"] == "all"].set_index("x")
    assert overall["margin"].is_monotonic_increasing
    assert overall["bits_high"].is_monotonic_decreasing
    assert overall["bits_low"].nunique() == 1
    assert [*table.cells.columns] == ["task", "category", "family", "model", "step", *BASIC]
