"""Results that are damaged or of several runs: refused in one line. Forgery is not looked for."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from nnd_tasks.analysis.results import read_results
from nnd_tasks.cli import app
from nnd_tasks.errors import NNDError


def only(folder: Path, pattern: str) -> Path:
    [path] = folder.rglob(pattern)
    return path


@pytest.fixture
def results(scored: Path, tmp_path: Path) -> Path:
    """Return results of two models that a test may damage."""
    for name in ("gpt2", "llama"):
        shutil.copytree(scored / name, tmp_path / "results" / name)
    return tmp_path / "results"


def complaint(*arguments: Any) -> BaseException | None:
    """Return what a command ends in; None for success."""
    done = CliRunner().invoke(app, [*map(str, arguments)])
    return None if isinstance(done.exception, SystemExit) else done.exception


def _sample(number: int, change: Callable[[dict[str, Any]], None]) -> Callable[[Path], None]:
    """Return what changes one line of the samples of gpt2."""

    def apply(results: Path) -> None:
        file = only(results / "gpt2", "samples_*.jsonl")
        lines = file.read_text().splitlines()
        sample = json.loads(lines[number - 1])
        change(sample)
        lines[number - 1] = json.dumps(sample)
        file.write_text("\n".join(lines) + "\n")

    return apply


def _mix(results: Path) -> None:
    files = [only(results / name, "samples_*.jsonl") for name in ("gpt2", "llama")]
    texts = [file.read_text() for file in files]
    for file, text in zip(files, reversed(texts), strict=True):
        file.write_text(text)


def _mix_half(results: Path) -> None:
    own, other = (only(results / name, "samples_*.jsonl") for name in ("gpt2", "llama"))
    halves = own.read_text().splitlines()[:5] + other.read_text().splitlines()[5:]
    own.write_text("\n".join(halves) + "\n")


def _append_again(results: Path) -> None:
    file = only(results / "gpt2", "samples_*.jsonl")
    file.write_text(file.read_text() + file.read_text())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_mix, r"samples_.*: its tests give \S+ [\d.]+, results_.*json says [\d.]+: they are not of one run"),
        (_mix_half, r"its tests give \S+ [\d.]+, results_.*json says [\d.]+: they are not of one run"),
        (_append_again, r"jsonl: test \S+ is there twice"),
        (_sample(1, lambda s: s["candidates"].pop()), r"line 1: .*damaged \(4 scores of 5 candidates\)"),
        (_sample(1, lambda s: s.pop("tests")), r"line 1: is not a sample of an NND task \(it has no 'tests'\)"),
        (_sample(2, lambda s: s["doc"]["candidates"].__setitem__(0, "\ud800")), r"line 2: .*surrogates not allowed"),
        (_sample(3, lambda s: s["candidates"][2].pop("sum")), r"line 3: .* \(it has no 'sum'\)"),
        (_sample(2, lambda s: s["tests"][0].update(low=9)), r"line 2: is not a sample of an NND task, or damaged"),
        (
            _sample(2, lambda s: s["candidates"][0].update(sum="x")),
            r"jsonl: is not a sample of an NND task, or damaged \(could not convert",
        ),
    ],
)
def test_what_is_damaged_or_of_two_runs_is_refused(change: Callable[[Path], None], message: str, results: Path) -> None:
    change(results)
    with pytest.raises(NNDError) as caught:
        read_results([results])
    assert re.search(message, str(caught.value)), caught.value
    assert "\n" not in str(caught.value)


def test_scores_that_are_infinite_or_missing_are_no_contradiction(results: Path) -> None:
    def blank(sample: dict[str, Any]) -> None:
        low = sample["tests"][0]["low"]
        sample["candidates"][low] = {**sample["candidates"][low], "sum": None, "mean": None}

    _sample(1, blank)(results)  # as a sum of -inf is written: the test passed
    assert len(read_results([results])) == 2


def test_a_folder_with_names_that_are_no_utf8_reads_and_writes(results: Path, tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe"))
    try:
        (results / "gpt2").rename(folder)
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    for file in list(folder.rglob("*_20*")):  # an earlier run, so that its file is named in a note
        shutil.copy(file, file.with_name(file.name.replace("_2026", "_2020")))
    out = folder / "out"
    for command in (
        ("compare", folder, results, "--out", out),
        ("report", folder, results, "-o", out / "r.html"),
    ):
        assert complaint(*command) is None
    for wrong in (folder / "no\nwhere", folder / "out" / "r.html"):
        error = complaint("compare", wrong)
        assert isinstance(error, NNDError)
        assert "\\udcff" in str(error)
