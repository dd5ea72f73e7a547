"""Every number of the analyses on stored results, against ``pins.json``; ``python -m tests.analysis.test_pins --write``.

One function for each analysis turns what it returns into flat numbers: where an analysis returns another type, only this
function changes. What is None has no key.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnd_tasks.analysis.compare.adjusted import with_adjusted
from nnd_tasks.analysis.compare.diagnostics import diagnostics_of
from nnd_tasks.analysis.compare.margin_parts import margin_parts
from nnd_tasks.analysis.compare.model_verdicts import verdicts
from nnd_tasks.analysis.compare.paired import compare_runs
from nnd_tasks.analysis.curves.around_errors import around_errors
from nnd_tasks.analysis.curves.charts import Chart, scaling, training_curve
from nnd_tasks.analysis.curves.curve_log import logged_curve
from nnd_tasks.analysis.familiarity.familiarity import find_familiarity
from nnd_tasks.analysis.reproduce.experiments import load_experiments
from nnd_tasks.analysis.reproduce.reproduce_report import Data, measure
from nnd_tasks.analysis.results import Run, read_results
from nnd_tasks.analysis.signal.signals import find_signals
from nnd_tasks.analysis.verify.verification import verify_rates
from nnd_tasks.analysis.verify.verify_report import cells as paper_cells
from nnd_tasks.analysis.verify.verify_sets import Metrics, verify_quiz_design, verify_sets
from tests.analysis.judged_runs import write_scores, write_set
from tests.analysis.stored_runs import write_models, write_training
from tests.conftest import DATA, needs_data
from tests.pins import Collect, Pins, check_pins, flat, write_pins

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
        for result in comparison.categories:
            name = result.category
            pins |= flat({"tests": result.tests, "clusters": result.clusters}, task, name)
            for model, rate in result.rates.items():
                pins |= flat(rate, task, model, name)
            for one in result.differences:
                pins |= flat(one, task, f"{one.second} - {one.first}", name)
                pins[f"{task}/{one.second} - {one.first}/{name}/disagrees"] = one.disagrees
        for rank in comparison.ranks:
            pins |= flat({"best": rank.best, "worst": rank.worst, "group": rank.group}, task, rank.model)
        pins |= {f"{task}/verdict/{i}": said for i, said in enumerate(verdicts(comparison))}
    return pins


def collect_diagnostics(folder: Path) -> Pins:
    """Baselines, flips, near ties, and what holds without the context; the baseline of systems with a set that is built."""
    runs = [(run.task, run) for run in read_results([write_models(folder)])]
    with _built(folder, "score"):
        runs += [("built", run) for run in _liking(folder / "built")]
        found = {(task, run.model): diagnostics_of(run) for task, run in runs}
    return {key: value for names, one in found.items() for key, value in flat(one, *names).items()}


def collect_adjust(folder: Path) -> Pins:
    """Rates with length, and with word frequency where tokens are kept, taken out; coefficients; shares of longer texts."""
    pins: Pins = {}
    for comparison in map(with_adjusted, compare_runs(read_results([write_models(folder)]))):
        for model, one in comparison.adjusted.items():
            names = comparison.paired.title, model
            pins |= flat(one.rates, *names) | flat(one.changes, *names, "change")
            pins |= flat(one.coefficients, *names, "coefficient") | flat(one.longer, *names, "longer")
            pins |= flat({"better_longer": one.better_longer, "notes": len(one.notes)}, *names)
    return pins


def collect_margin_parts(folder: Path) -> Pins:
    """Every part of the margins; only one of the sets has tokens."""
    found = [margin_parts(comparison.paired) for comparison in compare_runs(read_results([write_models(folder)]))]
    [parts] = [one for one in found if one]
    return flat(parts)


# ---------------------------------------------------------------- curves and signal


def _points(charts: list[Chart]) -> Pins:
    return {
        key: value
        for chart in charts
        for point in chart.points
        for key, value in flat(point, point.task, point.model, point.category).items()
    }


def collect_scaling(folder: Path) -> Pins:
    """Points against the number of parameters."""
    return _points(scaling(read_results([write_models(folder)])))


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
    return _points(training_curve(read_results([write_training(folder / "runs")]))) | _points(logged_curve([log]))


def collect_signal(folder: Path) -> Pins:
    """All measures, verdicts and samples, of a family by size and of a training."""
    pins: Pins = {}
    for runs in (write_models(folder / "sizes"), write_training(folder / "training")):
        for found in find_signals(read_results([runs])):
            names = found.paired.title, found.family.name
            pins |= flat({"prompts": found.prompts, "sample": found.sample() or 0}, *names)
            for one in found.signals:
                pins |= flat(one, *names, one.category, one.measure)
                pins[f"{'/'.join(names)}/{one.category}/{one.measure}/verdict"] = one.verdict
            for advantage in found.advantages:
                pins |= flat(advantage, *names, advantage.category, "advantage")
                pins[f"{'/'.join(names)}/{advantage.category}/advantage/better"] = advantage.better
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
            [found] = find_familiarity(_liking(folder / kind), ["first=A", "second=B,C"])
        pins |= flat({"texts": found.texts, "prompts": found.prompts}, kind)
        for effect in found.effects:
            pins |= flat(effect, kind, effect.model, effect.system)
        for own in found.own:
            pins |= flat(replace(own, parts=[]), kind, own.model, "own")
            pins |= flat({part.which: part for part in own.parts}, kind, own.model, "own")
    return pins


def _liking(folder: Path) -> list[Run]:
    """Return runs of three models that like the texts of one system or another, on the set that is built."""
    liked = {"first": {"A": 0.3}, "second": {"B": 0.2, "C": -0.1}, "third": {}}
    return read_results([write_scores(folder, name, values, seed) for seed, (name, values) in enumerate(liked.items())])


# ---------------------------------------------------------------- surprise around errors


def collect_surprise(folder: Path) -> Pins:
    """Means by place of the token, of the runs with marked errors."""
    places = around_errors(read_results([write_models(folder)]))
    return {key: value for one in places for key, value in flat(one, one.model, one.value, one.place).items()}


# ---------------------------------------------------------------- verify and reproduce


def collect_verify(folder: Path) -> Pins:
    """Human scores, taus and gap correlations, with the publisher's files and text metrics that need no download."""
    metrics = Metrics(["bleu", "chrf", "rouge1", "rouge2", "rougel"])
    reports = [
        verify_quiz_design(DATA / "quiz_design/quiz_design_groups.jsonl", resamples=300),
        *verify_sets("summeval", DATA / "summeval/model_annotations.aligned.paired.jsonl", metrics, resamples=300),
    ]
    pins: Pins = {}
    for report in reports:
        pins |= flat(report.acceptance, report.name, "acceptance")
        pins[f"{report.name}/contexts"] = report.contexts[0]
        pins |= flat(report.verifications[0].human, report.name, "human")
        for one in report.verifications:
            pins |= flat(one.scores, report.name, one.scorer, "score")
            pins |= flat({row["category"]: row for row in one.table()}, report.name, one.scorer)
    for cell in paper_cells(reports):
        pins |= flat({"paper": cell.paper, "agrees": cell.agrees}, "paper", cell.scorer, cell.statistic)
    return pins


def collect_verify_rates(folder: Path) -> Pins:
    """The same for rates that a user measured."""
    rng = np.random.default_rng(0)
    rates, human = ({f"m{i}": {"x": one[0], "y": one[1]} for i, one in enumerate(rng.random((6, 2)))} for _ in range(2))
    return flat({row["category"]: row for row in verify_rates(rates, human, resamples=300).table()})


def collect_reproduce(folder: Path) -> Pins:
    """Published beside measured rates of made-up samples: two labels per test, and labels that our set leaves out."""
    pins: Pins = {}
    for name, lost in (("quiz_design", 0), ("frank", 0), ("frank", 24), ("mqm", 0)):
        experiment = load_experiments()[name]
        published, rng = experiment.models[0], np.random.default_rng(0)
        labels = [label for label in published.rates if label not in ("all", *experiment.left_out)]
        samples = [
            {"tests": [_labelled(labels, experiment.columns, rng) for _ in range(int(rng.integers(0, 6)))]}
            for _ in range(40)
        ]
        tests = published.tests - lost
        for cell in measure(samples, experiment, published, Data("", tests, {})):
            pins |= flat(cell, name, published.name, tests, cell.label)
    return pins


def _labelled(labels: Sequence[str], columns: Sequence[str], rng: np.random.Generator) -> dict[str, Any]:
    """Return a test of a samples file with one of the labels in each column; one in twenty was not scored."""
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
