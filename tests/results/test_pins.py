"""Numbers of compare and adjust that no definition proves to the last digit: drawn p values, MDEs, fits, verdicts.

They are in ``pins.json``; ``python -m tests.results.test_pins`` replaces them by those of today.
"""

import json
import tempfile
from pathlib import Path

import pandas as pd
import pytest

from nnd_tasks.categories import ALL, is_of_category
from nnd_tasks.likelihood.rules_report import apply_rules
from nnd_tasks.results.compare import compare_runs
from nnd_tasks.results.comparison_report import give_verdicts
from nnd_tasks.results.read_runs import read_results
from tests.results import fake_runs, token_runs

FILE = Path(__file__).with_name("pins.json")


def write_models(folder):
    """Write three models of one family, of which the larger ones pass more tests of one category."""
    for i, size in enumerate((70, 160, 410)):
        chances = {"same": 0.6, "rises": 0.4 + 0.25 * i}
        fake_runs.write_run(folder, f"org/pin-{size}m", chances, contexts=40, seed=i, parameters=size * 10**6)
    return folder


def collect_compare(folder):
    [comparison] = compare_runs(read_results(write_models(folder)))
    sentences = give_verdicts(comparison.rates, comparison.differences)
    numbers = comparison.differences[["p", "p_holm", "mde", "low", "high"]]
    return numbers.assign(sentence=pd.Series(sentences))


def collect_adjust(folder):
    [run] = read_results(token_runs.write_run(folder, "m", token_runs.documents(40)))
    tests, outcomes = apply_rules(run)
    rates = [outcomes.loc[is_of_category(tests, name), "adjusted"].mean() for name in (ALL, "grammar", "meaning")]
    return pd.DataFrame({"pass_rate_adjusted": rates})


COLLECTORS = {"compare": collect_compare, "adjust": collect_adjust}


def collect(name, folder):
    return json.loads(COLLECTORS[name](folder).to_json(orient="split", double_precision=12))


@pytest.mark.parametrize("name", COLLECTORS)
def test_numbers_are_those_that_are_pinned(name, tmp_path):
    found, pinned = collect(name, tmp_path), json.loads(FILE.read_text("utf-8"))[name]
    assert found["columns"] == pinned["columns"]
    for row, expected in zip(found["data"], pinned["data"], strict=True):
        assert row == [pytest.approx(one, rel=1e-9) if isinstance(one, float) else one for one in expected]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        pins = {name: collect(name, Path(scratch) / name) for name in COLLECTORS}
    FILE.write_text(json.dumps(pins, indent=0, ensure_ascii=False) + "\n", encoding="utf-8")
