"""The demo: its training text keeps apart from its tests, and the whole chain runs as `make demo` runs it."""

from __future__ import annotations

import csv
import functools
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

import nnd_tasks.demo
from nnd_tasks.analysis.compare import compare_runs, report_comparison
from nnd_tasks.analysis.results import read_results
from nnd_tasks.baselines import ALL
from nnd_tasks.demo import COMPARISON
from nnd_tasks.demo.model import RECORD, TrainingSettings, _save, make_models, training_documents
from nnd_tasks.demo.training_text import FRAMES, WORDS, make_documents, plural, read_frames, read_words
from nnd_tasks.show.forms import to_json
from tests.conftest import DEMO_ANNOTATIONS as PATH
from tests.conftest import REPO

CATEGORIES = ("disfluent", "off_target", "unfaithful")


def rows() -> list[dict[str, str]]:
    with PATH.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def plain(text: str) -> str:
    """Return the words of a text, so that neither case nor punctuation hides an overlap."""
    return " ".join(re.findall(r"[a-z0-9]+", text.lower()))


# ---------------------------------------------------------------- the training text


def test_the_training_text_holds_no_candidate_and_no_sentence_of_a_context() -> None:
    documents = training_documents(TrainingSettings())
    everything = plain("\n".join(part for document in documents for pair in document for part in pair))
    assert len(everything) > 500_000
    everything += " " + plain(FRAMES.read_text("utf-8")) + " " + plain(WORDS.read_text("utf-8"))
    candidates = {plain(row["candidate"]) for row in rows() if len(row["candidate"].split()) >= 4}
    assert len(candidates) > 290
    assert [text for text in candidates if text in everything] == []
    sentences = {plain(part) for row in rows() for part in re.split(r"(?<=[.!?])\s+", row["context"])}
    sentences = {text for text in sentences if len(text.split()) >= 4}
    assert len(sentences) > 200
    assert [text for text in sentences if text in everything] == []


def test_an_overlap_would_be_seen() -> None:
    question = make_documents(50, 0)
    text = plain("".join(part for document in question for pair in document for part in pair))
    assert all(plain(document[0][1]) in text for document in make_documents(50, 0))


def test_documents_depend_on_the_seed_alone() -> None:
    first = list(make_documents(200, 7))
    assert first == list(make_documents(200, 7))
    assert first != list(make_documents(200, 8))


def test_documents_have_the_formats_of_the_task() -> None:
    from lm_eval import utils

    template = yaml.safe_load((REPO / "task_yamls" / "demo" / "nnd_demo.yaml").read_text("utf-8"))["doc_to_text"]
    seen: Counter[str] = Counter()
    for document in make_documents(300, 1):
        prompt = document[0][0]
        kind = {"Q": "question_answering", "S": "summarization", "A": "question_generation"}[
            prompt[0] if prompt.startswith("Question: ") else prompt.rpartition("\n\n")[2][0]
        ]
        seen[kind] += 1
        if kind == "question_answering":
            fields = {"context": prompt.removeprefix("Question: ").removesuffix("\nAnswer:"), "answer": ""}
        else:
            context, _, cue = prompt.rpartition("\n\n")
            fields = {"context": context, "answer": cue.removeprefix("Answer: ").removesuffix("\nQuestion:")}
        assert utils.apply_template(template, {"kind": kind, **fields}) == prompt
        for _, tail in document:
            assert re.fullmatch(r" [A-Z0-9\"][^\n]*[.?]", tail), tail
    assert len(seen) == 3
    assert min(seen.values()) > 40


def test_every_slot_is_filled_and_every_alternative_chosen() -> None:
    text = "\n".join(part for document in make_documents(3000, 2) for pair in document for part in pair)
    assert not set("{}[]|@=") & set(text)
    assert not re.search(r"  |\b[Aa] [aeio]", text), "articles and spaces"


def test_every_frame_can_be_asked_about_and_summed_up() -> None:
    for theme, (_, frames) in read_frames().items():
        assert len(frames) >= 10, theme
        for frame in frames:
            assert frame.questions
            if theme == "qa":
                assert len(frame.answers) >= 3
            else:
                assert frame.text
                assert frame.summaries or not frame.leads


def test_word_lists_have_no_word_twice() -> None:
    for name, members in read_words().items():
        assert all(members), name
        assert [word for word, count in Counter(members).items() if count > 1] == [], name
    assert [plural(noun) for noun in ("clock", "diary", "key", "knife/knives")] == [
        "clocks",
        "diaries",
        "keys",
        "knives",
    ]


# ---------------------------------------------------------------- models


def test_a_model_folder_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from nnd_tasks.demo import model

    tiny = TrainingSettings(steps=2, batch_tokens=512, vocabulary=400, width=32, layers=1, heads=2)
    folders = tmp_path / "untrained", tmp_path / "trained"

    def interrupted(*_: Any) -> float:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(model, "train", interrupted)
        with pytest.raises(KeyboardInterrupt):
            make_models(*folders, tiny)
    assert {path.name for path in tmp_path.iterdir()} <= {"untrained"}

    assert make_models(*folders, tiny)
    weights = (folders[1] / "model.safetensors").read_bytes()
    assert weights != (folders[0] / "model.safetensors").read_bytes()
    assert not make_models(*folders, tiny), "used again"
    assert {path.name for path in tmp_path.iterdir()} == {"untrained", "trained"}
    (folders[1] / RECORD).unlink()
    assert make_models(*folders, tiny)
    assert (folders[1] / "model.safetensors").read_bytes() == weights, "the same on the same machine"
    assert make_models(*folders, TrainingSettings(**{**tiny.__dict__, "seed": 1}))
    assert (folders[1] / "model.safetensors").read_bytes() != weights

    class Broken:
        def save_pretrained(self, folder: Path) -> None:
            (Path(folder) / "half").write_text("half")
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        _save(folders[1], Broken(), Broken(), {})  # type: ignore[arg-type]
    assert {path.name for path in tmp_path.iterdir()} == {"untrained", "trained"}
    assert (folders[1] / RECORD).is_file()


# ---------------------------------------------------------------- the whole chain


def nnd_demo(folder: Path, cwd: Path) -> str:
    """Run the real command in a process of its own, and return what it prints."""
    command = [str(Path(sys.executable).with_name("nnd")), "demo", "--out", str(folder)]
    environment = {**os.environ, "NND_HOME": str(cwd / "unused"), "COLUMNS": "120"}
    del environment["OMP_NUM_THREADS"]
    done = subprocess.run(command, env=environment, cwd=cwd, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture
def small_demo(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[Path, Path], str]:
    """Return what runs the demo in this process, with a model that is trained for a moment."""
    small = functools.partial(
        TrainingSettings, steps=12, batch_tokens=1024, vocabulary=800, width=32, layers=1, heads=2
    )
    scored: list[Sequence[str]] = []
    real = subprocess.run

    def score(command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
        """Run what the demo runs, and remember it."""
        scored.append(command)
        return real(command, **options)

    def run(folder: Path, cwd: Path) -> str:
        monkeypatch.chdir(cwd)
        monkeypatch.setenv("NND_HOME", str(cwd / "unused"))
        monkeypatch.setenv("COLUMNS", "120")
        monkeypatch.setattr(nnd_tasks.demo, "TrainingSettings", small)
        monkeypatch.setattr(nnd_tasks.demo.subprocess, "run", score)
        nnd_tasks.demo.run_demo(folder)
        assert [command[:4] for command in scored] == [[sys.executable, "-m", "nnd_tasks.cli", "run"]] * 2
        scored.clear()
        return capsys.readouterr().out

    return run


def test_the_whole_chain_runs_and_is_used_again(small_demo: Callable[[Path, Path], str], tmp_path: Path) -> None:
    check_demo(small_demo, tmp_path)


@pytest.mark.complete
def test_the_demo_trains_and_shows_what_training_changed(tmp_path: Path) -> None:
    rows = check_demo(nnd_demo, tmp_path)
    # What holds whatever the seed; the other categories depend on it.
    assert rows["disfluent"]["low"] > 0, rows


def check_demo(run: Callable[[Path, Path], str], tmp_path: Path) -> dict[str, Any]:
    """Run the demo twice, and hold what it prints and writes against each other; return its rows by category."""
    folder = tmp_path / "demo"
    printed = run(folder, tmp_path)
    found = json.loads((folder / COMPARISON).read_text("utf-8"))
    assert list(found["signatures"]) == ["untrained", "trained"]
    rows = {row["category"]: row for row in found["tables"]["differences"]}
    rates = {(row["category"], row["model"]): row for row in found["tables"]["rates"]}
    assert list(rows) == [ALL, *CATEGORIES]
    assert [rates[name, "trained"]["tests"] for name in rows] == [381, 127, 127, 127]
    [same] = compare_runs(
        read_results([folder / "results" / model for model in found["signatures"]])
    )  # as `nnd compare`
    assert json.loads(to_json(report_comparison(same)))["tables"] == found["tables"]
    for name, row in rows.items():
        before, after = (rates[name, model]["rate"] for model in ("untrained", "trained"))
        assert after - before == pytest.approx(row["difference"])
        shown = [f"{before:.3f}", f"{after:.3f}", f"{row['low']:+.3f} to {row['high']:+.3f}"]
        assert all(text in printed for text in shown)
    assert "trained in" in printed
    assert f"{Path(sys.executable).with_name('nnd')} build quiz_design" in printed
    assert not (tmp_path / "unused").exists()
    for model in ("untrained", "trained"):
        results = json.loads(next((folder / "results" / model).rglob("results_*.json")).read_text("utf-8"))["results"]
        for name in CATEGORIES:
            assert results["nnd_demo"][f"pass_rate_{name},none"] == pytest.approx(rates[name, model]["rate"])
    weights = (folder / "trained" / "model.safetensors").stat()
    again = run(folder, tmp_path)
    assert "used again" in again
    assert (folder / "trained" / "model.safetensors").stat().st_mtime_ns == weights.st_mtime_ns
    assert printed.split("Share of tests passed")[1] == again.split("Share of tests passed")[1]
    return rows
