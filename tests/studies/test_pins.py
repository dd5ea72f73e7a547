"""Every number of the stress reports on stored results, against ``pins.json``; ``python -m tests.studies.test_pins --write``."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from nnd_tasks.show.report import Report
from nnd_tasks.studies.stress import attack, edits, likelihood
from nnd_tasks.studies.stress.attack import build_attack_set
from nnd_tasks.studies.stress.corpora import read_corpus
from nnd_tasks.studies.stress.self_texts import report_own_texts
from nnd_tasks.studies.stress.stress_report import report_metric, report_results
from nnd_tasks.studies.stress.stress_set import build_stress_set
from nnd_tasks.studies.text_metrics import METRICS
from tests.pins import Collect, Pins, check_pins, flat, tables_of, write_pins
from tests.results.fake_runs import write_run

FILE = Path(__file__).with_name("pins.json")
#: Error -> level -> how much lower the second model scores its texts; an error of kinds, and one that is not ours, among them.
ERRORS = {
    "truncation": {"0.1": 0.2, "0.3": 0.6, "0.5": 1.2},
    "token_drop": {"0.1": 0.05, "0.5": 0.1},
    "injection": {"general": 0.4, "specific": -0.1},
    "of one's own": {"1": 0.3},
}
_WORDS = "the river froze in January and barges waited at a lock while Anna walked to the old house of stone"


# ---------------------------------------------------------------- runs of models


def collect_report(folder: Path) -> Pins:
    """Verdicts, and levels with intervals, of three models."""
    for skill, name in enumerate(("org/small", "org/middle", "org/large")):
        write_run(folder, name, task="nnd_blindspot_made_up", samples=noised(skill), parameters=None)
    return _of_reports(report_results(folder))


def noised(skill: int) -> list[dict[str, Any]]:
    """Return the lines of a samples file; the errors of some texts are missing, and one text was not scored."""
    rng, noise = np.random.default_rng(3), np.random.default_rng([4, skill])
    words, lines = _WORDS.split(), []
    for i in range(30):
        gold = rng.choice(words, 12).tolist()
        texts, means = [" ".join(gold)], [float(-3 + noise.normal())]
        tests: list[dict[str, Any]] = []
        for error, levels in ERRORS.items():
            for level, lower in levels.items():
                for seed in range(2):
                    if rng.random() < 0.1:
                        continue
                    kept = gold[: int(rng.integers(4, 12))]
                    texts.append(" ".join(kept * int(rng.integers(1, 3))))
                    means.append(means[0] - lower * skill + float(noise.normal()) / 3)
                    about = {
                        "test_id": f"{i:05x}-{len(tests)}",
                        "category": error,
                        "subcategory": level,
                        "severity": "",
                    }
                    ratio = round(float(rng.random()), 2)
                    tests.append({**about, "seed": seed, "noise_ratio": ratio, "high": 0, "low": len(texts) - 1})
        scores: list[Any] = [{"sum": 12 * mean, "mean": mean, "tokens": 12, "bytes": 60} for mean in means]
        if i == skill:
            scores[-1] = None
        for test in tests:
            low = test["low"]
            test |= {"passed": None if scores[low] is None else means[0] > means[low], "tie": False}
        document = {"cluster_id": f"c{i:05x}", "context": "", "candidates": texts}
        lines.append({"doc": document, "tests": tests, "candidates": scores, "truncated_contexts": 0})
    return lines


def _of_reports(reports: Sequence[Report]) -> Pins:
    pins: Pins = {}
    for report in reports:
        for row in report.tables[0].data.to_dict("records"):
            level = f"{report.name}/{row['error']}/{row['level']}"
            pins |= flat(row, level) | {f"{level}/outcome": row["outcome"]}
        pins |= flat(report.facts["unscored"], report.name, "unscored")
    return pins


# ---------------------------------------------------------------- text metrics


def collect_metrics(folder: Path) -> Pins:
    """Verdicts on two metrics, on a set that is built here."""
    corpus = folder / "mine.jsonl"
    rng = np.random.default_rng(5)
    rows = [{name: " ".join(rng.choice(_WORDS.split(), 14)) for name in ("gold", "source")} for _ in range(25)]
    references = [f"{row['gold']} {' '.join(rng.choice(_WORDS.split(), 3))}" for row in rows]
    lines = [json.dumps({**row, "references": [one]}) for row, one in zip(rows, references, strict=True)]
    corpus.write_text("\n".join(lines) + "\n")
    with _at_home(folder):
        built = build_stress_set("mine", str(corpus), errors="truncation,token_drop", seeds=2, out=folder / "mine")
    found = read_corpus(str(corpus))
    return _of_reports([report_metric(name, METRICS[name], built.folder, found) for name in ("rouge2", "bleu")])


# ---------------------------------------------------------------- attacks


class Scorer:
    """Stands for a model: its likelihoods are made of the characters of a text."""

    def __init__(self, model: str, name: str, **_: Any) -> None:
        self.name = name

    def loaded(self) -> AbstractContextManager[None]:
        return nullcontext()

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        return [-3 + zlib.crc32(f"{self.name}{text}".encode()) % 1000 / 500 for _, text in pairs]


def collect_attack(folder: Path) -> Pins:
    """What a search for errors found against two models."""
    rng = np.random.default_rng(6)
    corpus = folder / "mine.txt"
    corpus.write_text("".join(" ".join(rng.choice(_WORDS.split(), 14)) + ".\n" for _ in range(12)))
    with _at_home(folder) as patch:
        patch.setattr(likelihood, "Scorer", Scorer)
        patch.setattr(attack, "STEPS", 1)
        found = build_attack_set("mine_attacked", ("one", "two"), str(corpus), out=folder / "made")
    return flat(found.tables[0].data.set_index(["model", "search"], drop=False).to_dict("index"))


@contextmanager
def _at_home(folder: Path) -> Iterator[pytest.MonkeyPatch]:
    """Build in a home of its own, with spaCy's rules whether or not a trained pipeline is installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NND_HOME", str(folder / "home"))
        patch.setattr(edits, "PIPELINE", "not installed")
        yield patch


# ---------------------------------------------------------------- models that write


def collect_self(folder: Path) -> Pins:
    """Who likes whose texts, of two models that write and one that judges."""
    scores = np.random.default_rng(0).normal(-3, 0.4, size=(60, 3, 2))
    scores[:, 0, 0] += 0.2
    scores[7, 2, 1] = np.nan
    report = report_own_texts(["a", "b", "judge"], scores, pd.DataFrame())
    return flat({**tables_of(report), "prompts": report.facts["prompts"], "left_out": report.facts["left_out"]})


COLLECTORS: dict[str, Collect] = {
    name.removeprefix("collect_"): collect for name, collect in list(globals().items()) if name.startswith("collect_")
}


@pytest.mark.parametrize("name", COLLECTORS)
def test_numbers_are_those_that_are_pinned(name: str, tmp_path: Path) -> None:
    check_pins(COLLECTORS[name], name, FILE, tmp_path)


if __name__ == "__main__":
    write_pins(COLLECTORS, FILE)
