"""Every number of the analyses on stored results, against ``pins.json``; ``python -m tests.analysis.test_pins --write``.

One function for each analysis turns what it returns into flat numbers: where an analysis returns another type, only this
function changes. What is None has no key.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest

from nnd_tasks.analysis.adjust import ADJUSTED, RAW, adjust
from nnd_tasks.analysis.compare import compare_runs
from nnd_tasks.analysis.correlation import verify_rates
from nnd_tasks.analysis.diagnostics import diagnostics_of
from nnd_tasks.analysis.error_spans import around_errors
from nnd_tasks.analysis.experiments import load_experiments
from nnd_tasks.analysis.familiarity import report_familiarity
from nnd_tasks.analysis.margins import margin_parts
from nnd_tasks.analysis.reproduce import measure
from nnd_tasks.analysis.results import Run, read_results
from nnd_tasks.analysis.signal import report_signals
from nnd_tasks.analysis.text_metrics import load_metrics
from nnd_tasks.analysis.trend import Trend, find_trend, read_logs
from nnd_tasks.analysis.verdicts import give_verdicts
from nnd_tasks.analysis.verify import AGREES, verify_set
from nnd_tasks.baselines import BASELINES
from tests.analysis.judged_runs import write_scores, write_set
from tests.analysis.stored_runs import write_models, write_training
from tests.conftest import DATA, needs_data
from tests.pins import Collect, Pins, check_pins, flat, tables_of, write_pins

FILE = Path(__file__).with_name("pins.json")


# ---------------------------------------------------------------- what is read


def collect_results(folder: Path) -> Pins:
    """The one table of all runs: counts and sums per task, model and category."""
    table = read_results([write_models(folder)]).tests
    pins: Pins = {}
    for names, part in table.groupby(["task", "model", "category"]):
        columns = ["passed", "tie", "margin", "margin_sum", "margin_bytes"]
        sums = {name: float(part[name].astype(float).sum()) for name in columns}
        pins |= flat({"tests": len(part), "scored": int(part["passed"].notna().sum()), **sums}, *names)
    return pins


# ---------------------------------------------------------------- compare


def collect_compare(folder: Path) -> Pins:
    """Rates, differences, ranks and verdicts."""
    pins: Pins = {}
    for comparison in compare_runs(read_results([write_models(folder)])):
        task = comparison.paired.title
        pins[f"{task}/left_out"] = comparison.paired.left_out
        for row in comparison.rates.to_dict("records"):
            pins |= flat({"tests": row["tests"], "clusters": row["prompts"]}, task, row["category"])
            rate = {name: row[name] for name in ("rate", "standard_error", "low", "high")}
            pins |= flat(rate, task, row["model"], row["category"])
        for row in comparison.differences.rename(columns={"mde": "detectable"}).to_dict("records"):
            names = ("difference", "low", "high", "p", "p_holm", "detectable", "standard_error", "disagrees")
            one = {name: row[name] for name in names}
            pins |= flat(one, task, f"{row['second']} - {row['first']}", row["category"])
        for row in comparison.ranks.to_dict("records"):
            pins |= flat({name: row[name] for name in ("best", "worst", "group")}, task, row["model"])
        pins |= {f"{task}/verdict/{i}": said for i, said in enumerate(give_verdicts(comparison))}
    return pins


def collect_diagnostics(folder: Path) -> Pins:
    """Baselines, flips, near ties, and what holds without the context; the baseline of systems with a set that is built."""
    runs = [(run.task, run) for run in read_results([write_models(folder)])]
    pins: Pins = {}
    with _built(folder, "score"):
        runs += [("built", run) for run in _liking(folder / "built")]
        for task, run in runs:
            found = diagnostics_of(run).drop(columns=["model", "best_baseline"])
            for row in found.dropna(axis="columns").to_dict("records"):
                rules = {f"baselines/{name}": row.pop(name) for name in BASELINES if name in row}
                pins |= flat({**rules, **row}, task, run.model, row["category"])
    return pins


def collect_adjust(folder: Path) -> Pins:
    """Rates with length, and with word frequency where tokens are kept, taken out."""
    pins: Pins = {}
    for comparison in compare_runs(read_results([write_models(folder)])):
        for run in comparison.paired.runs:
            rates, notes = adjust(run, set(comparison.paired.tests["test_id"]))
            names = comparison.paired.title, run.model
            for row in rates.to_dict("records"):
                for rate in (*RAW, ADJUSTED):
                    value = {key: row[f"{rate}_{key}"] for key in ("standard_error", "low", "high")}
                    pins |= flat({"rate": row[rate], **value}, *names, row["category"], rate)
                ends = ("standard_error", "low", "high")
                change = {"difference": row["change"], **{end: row[f"change_{end}"] for end in ends}}
                pins |= flat(change, *names, "change", row["category"])
            pins |= flat({"notes": len(notes)}, *names)
    return pins


def collect_margin_parts(folder: Path) -> Pins:
    """Every part of the margins; only one of the sets has tokens."""
    found = [margin_parts(comparison.paired) for comparison in compare_runs(read_results([write_models(folder)]))]
    [parts] = [one for one in found if len(one)]
    pins: Pins = {}
    for row in parts.to_dict("records"):
        names = row.pop("model"), row.pop("category")
        ends = ("standard_error", "low", "high")
        for value, main in {
            "at": "mean",
            "after": "mean",
            **dict.fromkeys(("noticed", "only_after", "lost_after"), "rate"),
        }.items():
            pins |= flat({main: row.pop(value), **{end: row.pop(f"{value}_{end}") for end in ends}}, *names, value)
        pins |= flat(row, *names)
    return pins


# ---------------------------------------------------------------- curves and signal


def _points(trend: Trend) -> Pins:
    rows = trend.points.to_dict("records")
    names = ("task", "model", "category")
    return {key: value for row in rows for key, value in flat(row, *(row[name] for name in names)).items()}


def collect_scaling(folder: Path) -> Pins:
    """Points against the number of parameters."""
    return _points(find_trend(read_results([write_models(folder)])))


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
    return _points(find_trend(read_results([write_training(folder / "runs")]))) | _points(read_logs([log]))


def collect_signal(folder: Path) -> Pins:
    """All measures, verdicts and samples, of a family by size and of a training."""
    pins: Pins = {}
    for runs in (write_models(folder / "sizes"), write_training(folder / "training")):
        for report in report_signals(read_results([runs])):
            names, tables = (report.facts["task"], report.facts["family"]), tables_of(report)
            pins |= flat({"prompts": report.facts["prompts"], "sample": report.facts["sample"] or 0}, *names)
            for one in [*tables["signals"], *tables["verdicts"]]:
                pins |= flat(one, *names, one["category"], one["measure"])
            for one in tables["verdicts"]:
                pins[f"{'/'.join(names)}/{one['category']}/{one['measure']}/verdict"] = one["verdict"]
            for one in tables["values"]:
                pins |= flat(one["value"], *names, one["category"], one["measure"], "values", one["model"])
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
        pins |= flat({key: int(report.facts[key]) for key in ("texts", "prompts")}, kind)
        for one in tables_of(report)["effects"]:
            pins |= flat({key: one[key] for key in one if key != "few"}, kind, one["model"], one["system"])
        for one in tables_of(report)["own"]:
            names, ends = (kind, one["model"], "own"), (one["value"], one["low"], one["high"])
            quantity = one["quantity"].removeprefix("pass rate").removeprefix(", ") or "rate"
            if quantity == "rate":
                pins |= flat(one["value"], *names, quantity)
            elif one["tests"] == one["tests"]:
                part = zip(
                    ("tests", "prompts", "rate", "low", "high"), (one["tests"], one["prompts"], *ends), strict=True
                )
                pins |= flat(dict(part), *names, quantity)
            else:
                pins |= flat(ends, *names, quantity.partition(" ")[0])
    return pins


def _liking(folder: Path) -> list[Run]:
    """Return runs of three models that like the texts of one system or another, on the set that is built."""
    liked = {"first": {"A": 0.3}, "second": {"B": 0.2, "C": -0.1}, "third": {}}
    return read_results([write_scores(folder, name, values, seed) for seed, (name, values) in enumerate(liked.items())])


# ---------------------------------------------------------------- surprise around errors


def collect_surprise(folder: Path) -> Pins:
    """Means by place of the token, of the runs with marked errors."""
    rows = around_errors(read_results([write_models(folder)])).to_dict("records")
    names = ("model", "value", "place")
    return {key: value for row in rows for key, value in flat(row, *(row[name] for name in names)).items()}


# ---------------------------------------------------------------- verify and reproduce


FILES = {
    "quiz_design": "quiz_design_groups.jsonl",
    "summeval": "model_annotations.aligned.paired.jsonl",
}


def collect_verify(folder: Path) -> Pins:
    """Human scores, taus and gap correlations, with the publisher's files and text metrics that need no download."""
    pins: Pins = {}
    for name, file in FILES.items():
        metrics = load_metrics("bleu,chrf,rouge1,rouge2,rougel")
        with patch("nnd_tasks.analysis.correlation.RESAMPLES", 300):
            report = verify_set(name, DATA / name / file, metrics)
        tables = {table.name: table.data for table in report.tables}
        pins[f"{name}/contexts"] = report.facts["prompts"]
        for row in tables["scores"].itertuples():
            category = row.category if row.scorer == "nnd" else row.scorer
            pins[f"{name}/human/{row.model}/{row.category}"] = row.human
            pins[f"{name}/{row.scorer}/score/{row.model}/{category}"] = row.score
        for scorer, part in tables["agreement"].groupby("scorer"):
            pins |= _correlations(part, name, scorer)
        for row in tables["agreement"].dropna(subset="paper").itertuples():
            found = {"paper": row.paper, "agrees": abs(round(row.value - row.paper, 2)) < AGREES}
            pins |= flat(found, "paper", row.scorer, row.statistic)
    return pins


def _correlations(table: pd.DataFrame, *names: object) -> Pins:
    pins: Pins = {}
    for row in table.to_dict("records"):
        ends = {"_low": row.get("low", math.nan), "_high": row.get("high", math.nan)}
        defined = {key: value for key, value in {"": row["value"], **ends}.items() if value == value}
        pins |= {"/".join([*map(str, names), row["category"], row["statistic"] + key]): defined[key] for key in defined}
    return pins


def collect_verify_rates(folder: Path) -> Pins:
    """The same for rates that a user measured."""
    rng = np.random.default_rng(0)
    rates, human = ({f"m{i}": {"x": one[0], "y": one[1]} for i, one in enumerate(rng.random((6, 2)))} for _ in range(2))
    return _correlations(verify_rates(rates, human))


def collect_reproduce(folder: Path) -> Pins:
    """Published beside measured rates of made-up samples: one label per test, and two."""
    pins: Pins = {}
    for name in ("quiz_design", "frank", "mqm"):
        experiment = load_experiments()[name]
        published, rng = experiment.models[0], np.random.default_rng(0)
        labels = [label for label in published.rates if label != "all"]
        samples = [
            [_labelled(labels, experiment.columns, rng) for _ in range(int(rng.integers(0, 6)))] for _ in range(40)
        ]
        rows = [{"cluster_id": str(i), **test} for i, tests in enumerate(samples) for test in tests]
        table = pd.DataFrame(rows).astype({"passed": "boolean"})
        for cell in measure(table, experiment, published).to_dict("records"):
            defined = {key: value for key, value in cell.items() if value == value}
            pins |= flat(defined, name, published.name, published.tests, cell["label"])
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
