"""Every number of the analyses on stored results, against ``pins.json``; ``python -m tests.results.test_pins --write``.

One function for each analysis turns its tables into flat numbers. What is None has no key.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest

from nnd_tasks.results.compare import compare_runs
from nnd_tasks.results.comparison_report import baselines_of, diagnostics_of, give_verdicts
from nnd_tasks.results.paired import pair
from nnd_tasks.results.read_runs import read_results
from nnd_tasks.results.runs import Run
from nnd_tasks.results.token_analyses import around_errors, margin_parts
from nnd_tasks.results.trend import find_trend, read_logs
from nnd_tasks.show.report import Report
from nnd_tasks.studies.adjust import adjust
from nnd_tasks.studies.familiarity import report_familiarity
from nnd_tasks.studies.reproduce import load_experiments, measure
from nnd_tasks.studies.signal import report_signals
from nnd_tasks.studies.verify import verify_rates, verify_sets
from tests.conftest import DATA, needs_data
from tests.pins import Collect, Pins, check_pins, flat, write_pins
from tests.results.judged_runs import write_scores, write_set
from tests.results.stored_runs import write_models, write_training

FILE = Path(__file__).with_name("pins.json")


def pin(table: pd.DataFrame, *keys: str, start: str = "") -> Pins:
    """Return the numbers of a table; the columns ``keys`` tell its rows apart."""
    assert not table.duplicated(list(keys)).any()
    rows = table.to_dict("records")
    names = ([start, *(row.pop(key) for key in keys)] for row in rows)
    return {key: value for row, own in zip(rows, names, strict=True) for key, value in flat(row, *own).items()}


def pin_report(report: Report, start: str, **keys: Sequence[str]) -> Pins:
    """Return the numbers of some tables of a report: name of the table -> columns that tell its rows apart."""
    tables = {table.name: table.data for table in report.tables}
    pins = {key: value for name, own in keys.items() for key, value in pin(tables[name], *own, start=start).items()}
    return pins | flat({"facts": report.facts}, start)


# ---------------------------------------------------------------- runs and comparisons


def collect_results(folder: Path) -> Pins:
    """The one table of all runs: counts and sums per task, model and category."""
    columns = ["passed", "tie", "margin", "margin_sum", "margin_bytes"]
    of_category = read_results([write_models(folder)]).tests.groupby(["task", "model", "category"])
    counts = {"tests": of_category.size(), "scored": of_category["passed"].count()}
    found = of_category[columns].sum().astype(float).assign(**counts)
    return pin(found.reset_index(), "task", "model", "category")


def collect_compare(folder: Path) -> Pins:
    """Rates, differences, ranks and verdicts."""
    pins: Pins = {}
    for comparison in compare_runs(read_results([write_models(folder)])):
        task = comparison.paired.title
        pins[f"{task}/left_out"] = comparison.paired.left_out
        pins |= pin(comparison.rates, "category", "model", start=task)
        pins |= pin(comparison.differences, "category", "first", "second", start=task)
        pins |= pin(comparison.ranks, "model", start=task)
        pins |= {
            f"{task}/verdict/{i}": said
            for i, said in enumerate(give_verdicts(comparison.rates, comparison.differences))
        }
    return pins


def collect_diagnostics(folder: Path) -> Pins:
    """Baselines, flips, near ties, and what holds without the context; the baseline of systems with a set that is built."""
    runs = [(run.task, run) for run in read_results([write_models(folder)])]
    with _built(folder, "score"):
        runs += [("built", run) for run in _liking(folder / "built")]
        tables = [(task, diagnostics_of(run), baselines_of(pair([run])[0])) for task, run in runs]
        found = [(task, shares.merge(rates, on="category").dropna(axis="columns")) for task, shares, rates in tables]
    return {key: value for task, table in found for key, value in pin(table, "model", "category", start=task).items()}


def collect_adjust(folder: Path) -> Pins:
    """Rates with length, and with word frequency where tokens are kept, taken out."""
    pins: Pins = {}
    for comparison in compare_runs(read_results([write_models(folder)])):
        for run in comparison.paired.runs:
            rates, notes = adjust(run, set(comparison.paired.tests["test_id"]))
            pins |= pin(rates, "model", "category", start=run.task) | {f"{run.task}/{run.model}/notes": len(notes)}
    return pins


def collect_margin_parts(folder: Path) -> Pins:
    """Every part of the margins; only one of the sets has tokens."""
    found = [margin_parts(comparison.paired) for comparison in compare_runs(read_results([write_models(folder)]))]
    [parts] = [one for one in found if len(one)]
    return pin(parts, "model", "category")


def collect_surprise(folder: Path) -> Pins:
    """Means by place of the token, of the runs with marked errors."""
    return pin(around_errors(read_results([write_models(folder)])), "model", "value", "place")


# ---------------------------------------------------------------- curves and signal


def collect_scaling(folder: Path) -> Pins:
    """Points against the number of parameters."""
    return pin(find_trend(read_results([write_models(folder)])).points, "task", "model", "category")


def collect_curve(folder: Path) -> Pins:
    """Points over the checkpoints of a training, and from the log of one."""
    log = folder / "log.jsonl"
    rates = {
        "all": {"rate": 0.6, "stderr": 0.02, "tests": 100, "clusters": 12},
        "x": {"rate": 0.99, "stderr": 0.03, "tests": 50, "clusters": 4},
        "y": {"rate": 0.5, "stderr": None, "tests": 50, "clusters": 1},
        "z": {"rate": 0.4, "stderr": 0.1, "tests": 5, "clusters": None},
    }
    entries = ({"step": step, "task": "nnd_demo", "rates": rates} for step in (0, 500))
    log.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    trends = find_trend(read_results([write_training(folder / "runs")])), read_logs([log])
    return pin(pd.concat([trend.points for trend in trends]), "task", "model", "category")


def collect_signal(folder: Path) -> Pins:
    """All measures, verdicts and samples, of a family by size and of a training."""
    pins: Pins = {}
    keys = ["category", "measure"]
    for runs in (write_models(folder / "sizes"), write_training(folder / "training")):
        for report in report_signals(read_results([runs])):
            start = f"{report.facts['task']}/{report.facts['family']}"
            pins |= pin_report(report, start, signals=keys, verdicts=keys, values=[*keys, "model"])
            [verdicts] = [table.data for table in report.tables if table.name == "verdicts"]
            pins |= {f"{start}/{'/'.join(row[:2])}/verdict": row[2] for row in verdicts[[*keys, "verdict"]].to_numpy()}
    return pins


# ---------------------------------------------------------------- familiarity


@contextmanager
def _built(folder: Path, kind: str) -> Iterator[None]:
    """Build ``nnd/made_up``, whose texts have systems, for what is inside a ``with``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NND_HOME", str(folder / "home"))
        write_set(folder / "home", kind)
        yield


def collect_familiarity(folder: Path) -> Pins:
    """Effects of systems, and what a model's own texts do to its rate, by equal judgements and by pairs."""
    pins: Pins = {}
    for kind in ("score", "pairs"):
        with _built(folder / kind, kind):
            [report] = report_familiarity(_liking(folder / kind), ["first=A", "second=B,C"])
        pins |= pin_report(report, kind, effects=["model", "system"], own=["model", "quantity"])
    return pins


def _liking(folder: Path) -> list[Run]:
    """Return runs of three models that like the texts of one system or another, on the set that is built."""
    liked = {"first": {"A": 0.3}, "second": {"B": 0.2, "C": -0.1}, "third": {}}
    return read_results([write_scores(folder, name, values, seed) for seed, (name, values) in enumerate(liked.items())])


# ---------------------------------------------------------------- verify and reproduce


def collect_verify(folder: Path) -> Pins:
    """Human scores, taus and gap correlations, with the publisher's files and text metrics that need no download."""
    pins: Pins = {}
    for name in ("quiz_design", "summeval"):
        with patch("nnd_tasks.studies.verify.RESAMPLES", 300):
            [report] = verify_sets(name, DATA, "bleu,chrf,rouge1,rouge2,rougel")
        keys = ["scorer", "category"]
        pins |= pin_report(report, name, scores=[*keys, "model"], agreement=[*keys, "statistic"])
    return pins


def collect_verify_rates(folder: Path) -> Pins:
    """The same for rates that a user measured."""
    rng = np.random.default_rng(0)
    rates, human = ({f"m{i}": {"x": one[0], "y": one[1]} for i, one in enumerate(rng.random((6, 2)))} for _ in range(2))
    return pin(verify_rates(rates, human), "category", "statistic")


def collect_reproduce(folder: Path) -> Pins:
    """Published beside measured rates of made-up samples: one label per test, and two."""
    pins: Pins = {}
    for name in ("quiz_design", "frank", "mqm"):
        experiment = load_experiments()[name]
        published, rng = experiment.models[0], np.random.default_rng(0)
        labels = [label for label in published.rates if label != "all"]
        rows = [
            {"cluster_id": str(i), **_labelled(labels, experiment.columns, rng)}
            for i in range(40)
            for _ in range(int(rng.integers(0, 6)))
        ]
        pins |= pin(
            measure(pd.DataFrame(rows).astype({"passed": "boolean"}), experiment, published), "label", start=name
        )
    return pins


def _labelled(labels: Sequence[str], columns: Sequence[str], rng: np.random.Generator) -> dict[str, Any]:
    """Return a test of a run with one of the labels in each column; one in twenty was not scored."""
    passed = None if rng.random() < 0.05 else bool(rng.random() < 0.6)
    return {"passed": passed, **{column: str(rng.choice(labels)) for column in columns}}


COLLECTORS: dict[str, Collect] = {
    name.removeprefix("collect_"): collect for name, collect in list(globals().items()) if name.startswith("collect_")
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=needs_data) if name == "verify" else name for name in COLLECTORS]
)
def test_numbers_are_those_that_are_pinned(name: str, tmp_path: Path) -> None:
    check_pins(COLLECTORS[name], name, FILE, tmp_path)


if __name__ == "__main__":
    write_pins(COLLECTORS, FILE)
