"""Covers category_measures.

Measures of likelihoods in `nnd compare` and `nnd trend`: from samples and from logs, with and without ``token_stats``.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from nnd_tasks.results.compare import category_measures, compare_runs
from nnd_tasks.results.comparison_report import report_comparison
from nnd_tasks.results.paired import pair
from nnd_tasks.results.read_runs import read_results
from nnd_tasks.show.report import Report, Table
from nnd_tasks.training.trend import read_trend, report_trend
from tests.results import fake_runs

PROMPTS = 12
BASIC = ("bits_high", "bits_low", "margin")


def write_model(folder: Path, name: str, shift: float, *, token_stats: bool = False, **changes: Any) -> None:
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


def tables_of(report: Report) -> list[Table]:
    return [table for table in report.tables if table.name == "while training"]


def test_compare_has_one_table_of_them(tmp_path):
    write_model(tmp_path, "m1", 0.0, token_stats=True)
    write_model(tmp_path, "m2", 0.5)
    [comparison] = compare_runs(read_results(tmp_path))
    [table] = tables_of(report_comparison(comparison))
    rows = table.data.set_index(["category", "model"])
    assert rows.index.tolist() == [(category, model) for category in ("all", "a", "b") for model in ("m1", "m2")]
    # The better text of prompt i has 8 + i tokens, 30 bytes and a mean of shift - 2 - i / 10.
    sums = [(2 + 0.1 * i) * (8 + i) / math.log(2) for i in range(PROMPTS)]
    assert rows.loc[("a", "m1"), "bits_high"] == pytest.approx(sum(sums) / (30 * PROMPTS))
    twice = [value * (1 + (i % 3 == 0)) for i, value in enumerate(sums)]
    assert rows.loc[("all", "m1"), "bits_high"] == pytest.approx(sum(twice) / (30 * (PROMPTS + 4)))
    margins = [1.5 - 0.1 * i for i in range(PROMPTS)]
    found = rows.loc[("a", "m2")]
    assert found["margin"] == pytest.approx(sum(margins) / PROMPTS)
    error = float(stats.sem(margins))
    assert found["margin_standard_error"] == pytest.approx(error)
    assert found["margin_low"] == pytest.approx(found["margin"] - stats.t.ppf(0.975, PROMPTS - 1) * error)
    assert rows.loc[("a", "m1"), "top1_low"] == pytest.approx(3 * PROMPTS / sum(9 + i for i in range(PROMPTS)))
    assert math.isnan(found["entropy"]), "this run has no token_stats"
    cells = table.cells
    assert "entropy" in cells
    assert cells.loc[cells["category"] == "b", "prompts"].tolist() == ["4†", "4†"]


def test_a_reader_that_answers_has_none(tmp_path):
    for name in ("m1", "m2"):
        write_model(tmp_path, name, 0.0, protocol={"reader": "validator"})
    runs = read_results(tmp_path)
    assert runs.tests[["bits_high", "bits_low"]].isna().all(axis=None)
    [paired] = pair(runs)
    assert category_measures(paired).empty
    [comparison] = compare_runs(runs)
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


def test_logs_hold_them_too_and_older_ones_do_not(tmp_path):
    rate = {"rate": 0.6, "stderr": 0.02, "tests": 100, "clusters": 12}
    line = {"epoch": 0.5, "task": "nnd_demo", "rates": {"all": rate}, "signature": "set:s || name:m"}
    measures = {"all": {"margin": {"mean": 0.2, "stderr": 0.05}, "bits_high": {"mean": 1.5, "stderr": None}}}
    lines = [{**line, "step": 1}, {**line, "step": 2, "measures": measures}]
    path = tmp_path / "nnd.jsonl"
    path.write_text("".join(json.dumps(entry) + "\n" for entry in lines))
    points = read_trend([path]).points.set_index("x")
    half = stats.t.ppf(0.975, 11) * 0.05
    assert points.loc[2, ["margin", "margin_low", "margin_high"]].tolist() == pytest.approx(
        [0.2, 0.2 - half, 0.2 + half]
    )
    assert points.loc[1, ["margin", "bits_high"]].isna().all()
    assert math.isnan(points.loc[2, "bits_high_low"])
    [table] = tables_of(report_trend(read_trend([path])))
    assert [*table.cells.columns][-2:] == ["bits_high", "margin"]
    path.write_text("".join(json.dumps({**line, "step": step}) + "\n" for step in (1, 2)))
    assert not tables_of(report_trend(read_trend([path])))
