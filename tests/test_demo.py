"""The demo: its set cannot be passed by a trivial rule, and the whole command runs, here with a tiny model.

Also covers baseline_passes, baseline_rates, favourite, run_demo, table_rates, writers_of.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nnd_tasks.baselines import ALL, table_rates
from nnd_tasks.cli.demo import describe, make_untrained_twin, run_demo
from nnd_tasks.errors import NNDError
from nnd_tasks.results.compare import compare_runs
from nnd_tasks.results.read_runs import read_results
from nnd_tasks.store import read_table

CATEGORIES = ("disfluent", "off_target", "unfaithful")


def test_no_rule_without_understanding_decides_a_category(demo_home: Path) -> None:
    tests = read_table(demo_home / "nnd" / "demo")
    assert [tests["category"].to_pylist().count(name) for name in CATEGORIES] == [127] * 3
    rates = table_rates(tests)
    assert set(rates) == {ALL, *CATEGORIES}
    for name, rules in rates.items():
        assert {*rules} == {"shorter", "longer", "overlap", "unigram"}
        assert all(0.4 < rate < 0.6 for rate in rules.values()), (name, rules)


def test_the_whole_demo(
    tiny_models: dict[str, Path], tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "demo"
    monkeypatch.setenv("COLUMNS", "120")
    sentences = run_demo(folder, str(tiny_models["llama"]))
    printed = capfd.readouterr().out
    assert all(sentence in printed for sentence in sentences)
    runs = read_results(folder / "results")
    assert {run.model for run in runs} == {"llama", "untrained"}
    for path in (folder / "results").rglob("results_*.json"):
        found = json.loads(path.read_text("utf-8"))["results"]["nnd_demo"]
        assert found["tests,none"] == 381
        for name in CATEGORIES:
            assert f"{found[f'pass_rate_{name},none']:.3f}" in printed
    assert "nnd_demo" in (folder / "report.html").read_text("utf-8")

    weights = (folder / "untrained" / "model.safetensors").stat().st_mtime_ns
    assert run_demo(folder, str(tiny_models["llama"])) == sentences
    assert (folder / "untrained" / "model.safetensors").stat().st_mtime_ns == weights

    [comparison] = compare_runs(sorted(runs, key=lambda run: run.model != "untrained"))
    rates, model = comparison.rates, comparison.rates["model"] == "llama"
    made = {"disfluent": (0.984, 0.96, 1.0), "off_target": (0.43, 0.33, 0.53), "unfaithful": (0.7, 0.6, 0.8)}
    for name, numbers in made.items():
        rates.loc[model & (rates["category"] == name), ["rate", "low", "high"]] = numbers
    first, second, _ = describe(comparison)
    assert "98% of the disfluent texts and 70% of the unfaithful texts" in first
    assert "off_target" not in first
    assert "off_target (43%, interval 33% to 53%)" in second
    assert "disfluent" not in second


def test_a_model_that_cannot_be_loaded_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(
        NNDError, match=r"nowhere/nothing: cannot be loaded .*for the model of the demo run `pip install"
    ):
        make_untrained_twin("nowhere/nothing", tmp_path / "untrained")
    assert not (tmp_path / "untrained").exists()
