"""Results that were damaged or changed by hand: each is read as it is or refused in one line, never a traceback."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from nnd_tasks.analysis.results import read_runs
from nnd_tasks.cli import app
from nnd_tasks.errors import NNDError

#: Stands for lists in lists, which `json.dumps` could not write.
DEEP = "@deep@"
ODD: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 1.5, 10**400, 1e308, float("nan"), float("-inf"), "", "x", "1", "a/b", "all"),
    *("\ud800", "\x1b[31m\nred", "../../x", [], [[]], {}, {"a": 1}, [1, "x"], DEEP),
)
#: Keys that the analysis reads; half of the mutations are of them.
READ = {
    *(
        "passed",
        "tie",
        "seed",
        "noise_ratio",
        "category",
        "severity",
        "test_id",
        "high",
        "low",
        "cluster_id",
        "context",
    ),
    *("sum", "mean", "tokens", "bytes", "candidates", "tests", "doc", "configs", "signature", "protocol", "model"),
    *("environment", "name", "window", "versions", "config", "limit", "model_args", "model_num_parameters", "results"),
    *("effective", "n-samples", "truncated_contexts", "nnd", "metadata", "set", "selection", "shots", "line", "task"),
}


def only(folder: Path, pattern: str) -> Path:
    [path] = folder.rglob(pattern)
    return path


@pytest.fixture
def results(scored: Path, tmp_path: Path) -> Path:
    """Return results of two models that a test may damage."""
    for name in ("gpt2", "llama"):
        shutil.copytree(scored / name, tmp_path / "results" / name)
    return tmp_path / "results"


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every (object or list, key or index) inside a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield value, key
        yield from places(inner)


def mutate(value: Any, rng: random.Random) -> str:
    """Change one thing in a JSON value; return what."""
    found = list(places(value))
    known = [place for place in found if place[1] in READ]
    inside, key = rng.choice(known if known and rng.random() < 0.7 else found)
    how = rng.choice(("odd", "odd", "odd", "remove", "rename"))
    if how == "odd":
        inside[key] = rng.choice(ODD)
        return f"{key} = {inside[key]!r:.60}"
    if how == "remove":
        del inside[key]
    elif isinstance(inside, dict):
        inside[rng.choice(("a/b", "", "\ud800", "x\ny"))] = inside.pop(key)
    else:
        inside.append(inside[key])
    return f"{how} {key}"


def written(value: Any) -> str:
    return json.dumps(value).replace(json.dumps(DEEP), "[" * 5000 + "]" * 5000)


def damage(folder: Path, rng: random.Random) -> str:
    """Change something in the results or in a line of the samples of a model."""
    if rng.random() < 0.4:
        file = only(folder, "results_*.json")
        raw = json.loads(file.read_text())
        done = mutate(raw, rng)
        file.write_text(written(raw))
    else:
        file = only(folder, "samples_*.jsonl")
        lines = file.read_text().splitlines()
        at = rng.randrange(len(lines))
        sample = json.loads(lines[at])
        done = mutate(sample, rng)
        lines[at] = written(sample)
        file.write_text("\n".join(lines) + "\n")
    return f"{file.name}: {done}"


def complaint(*arguments: Any) -> BaseException | None:
    """Return what a command ends in; None for success."""
    done = CliRunner().invoke(app, [*map(str, arguments)])
    return None if isinstance(done.exception, SystemExit) else done.exception


def test_no_change_of_a_results_file_ends_in_a_traceback(results: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    shutil.copytree(results / "gpt2", kept)
    for seed in range(200 if os.environ.get("NND_TEST_ALL") else 60):
        rng = random.Random(seed)
        shutil.rmtree(results / "gpt2")
        shutil.copytree(kept, results / "gpt2")
        done = damage(results / "gpt2", rng)
        out = tmp_path / "out"
        command = (
            ("report", results, "-o", out / "r.html")
            if seed % 5 == 0
            else ("compare", results, "--resamples", "100", "--out", out, "--table", out / "all.parquet")
        )
        error = complaint(*command)
        assert error is None or isinstance(error, NNDError), f"seed {seed}: {done}: {error!r}"
        assert "\n" not in str(error), f"seed {seed}"
        assert {path.name for path in tmp_path.iterdir()} <= {"kept", "results", "out", "nnd_home"}, f"seed {seed}"


# ---------------------------------------------------------------- what reads well and is wrong


def _sample(number: int, change: Callable[[dict[str, Any]], None]) -> Callable[[Path], None]:
    """Return what changes one line of the samples of gpt2."""

    def apply(results: Path) -> None:
        file = only(results / "gpt2", "samples_*.jsonl")
        lines = file.read_text().splitlines()
        sample = json.loads(lines[number - 1])
        change(sample)
        lines[number - 1] = written(sample)
        file.write_text("\n".join(lines) + "\n")

    return apply


def _results(change: Callable[[dict[str, Any]], None]) -> Callable[[Path], None]:
    """Return what changes the results of gpt2."""

    def apply(results: Path) -> None:
        file = only(results / "gpt2", "results_*.json")
        raw = json.loads(file.read_text())
        change(raw)
        file.write_text(written(raw))

    return apply


def _swap(results: Path) -> None:
    files = [only(results / name, "samples_*.jsonl") for name in ("gpt2", "llama")]
    texts = [file.read_text() for file in files]
    for file, text in zip(files, reversed(texts), strict=True):
        file.write_text(text)


def _flip(sample: dict[str, Any]) -> None:
    sample["tests"][1]["passed"] = not sample["tests"][1]["passed"]


def _test(key: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda sample: sample["tests"][0].update({key: value})


def _other_score(sample: dict[str, Any]) -> None:
    """Change scores and outcomes alike: only the stored rate can tell."""
    for test in sample["tests"]:
        low, high = sample["candidates"][test["low"]], sample["candidates"][test["high"]]
        for score, mean in ((low, -9.0), (high, -1.0)):
            score.update(mean=mean, sum=mean * score["tokens"])
    for test in sample["tests"]:
        means = [sample["candidates"][test[side]]["mean"] for side in ("high", "low")]
        test.update(passed=means[0] > means[1], tie=means[0] == means[1])


def _rename(raw: dict[str, Any]) -> None:
    raw["configs"]["a/b"] = raw["configs"].pop("nnd_demo")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_swap, r"samples_.*: its tests give \S+ [\d.]+, results_.*json says [\d.]+: they are not of one run"),
        (_sample(2, _flip), r"jsonl, line 2, test \w+: passed \w+, tie False contradict its scores"),
        (_sample(3, _other_score), r"its tests give pass_rate\S* [\d.]+, results_.*json says"),
        (_sample(1, _test("low", -1)), r"line 1, test \w+: low is -1; expected a whole number from 0 to 4"),
        (_sample(1, _test("passed", "yes")), r"line 1, test \w+: passed is 'yes', which is not true or false"),
        (_sample(1, _test("passed", None)), r"line 1, test \w+: passed None, tie False contradict its scores"),
        (_sample(1, _test("seed", 1.5)), r"line 1, test \w+: seed is 1\.5; expected a whole number"),
        (_sample(1, _test("category", ["x"])), r"line 1, test \w+: category is \['x'\], which is not text"),
        (_sample(1, _test("category", "disfluent")), r"line 1, test \w+: category is not that of its document"),
        (_sample(1, _test("test_id", 7)), r"line 1: test_id is 7, which is not text"),
        (_sample(4, lambda s: s["doc"].update(note=DEEP)), r"line 4: its lists and objects are nested"),
        (
            _sample(1, lambda s: s["candidates"].pop()),
            r"line 1: candidates has 4 scores, the document 5 candidates",
        ),
        (
            _sample(1, lambda s: s["candidates"][2].update(mean=-0.5)),
            r"line 1: candidates\[2\]: mean is -0\.5, its sum",
        ),
        (_results(_rename), r"results_.*: the name of a task is 'a/b'"),
        (_results(lambda raw: raw.update(x="\ud800")), r"results_.*: a text in it holds half of a character"),
        (_results(lambda raw: raw.update(x=DEEP)), r"results_.*json: its lists and objects are nested"),
        (
            _results(lambda raw: raw["config"].update(limit="x")),
            r"results_.*json: config: limit is 'x', expected a num",
        ),
    ],
)
def test_what_contradicts_itself_is_refused(change: Callable[[Path], None], message: str, results: Path) -> None:
    change(results)
    with pytest.raises(NNDError) as caught:
        read_runs([results])
    assert re.search(message, str(caught.value)), caught.value


def test_scores_that_are_infinite_or_missing_are_no_contradiction(results: Path) -> None:
    def blank(sample: dict[str, Any]) -> None:
        low = sample["tests"][0]["low"]
        sample["candidates"][low] = {**sample["candidates"][low], "sum": None, "mean": None}

    _sample(1, blank)(results)  # as a sum of -inf is written: the test passed
    assert len(read_runs([results])) == 2


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
        ("compare", folder, results, "--resamples", "100", "--out", out, "--table", out / "all.parquet"),
        ("report", folder, results, "-o", out / "r.html"),
    ):
        assert complaint(*command) is None
    for wrong in (folder / "no\nwhere", folder / "out" / "r.html"):
        error = complaint("compare", wrong)
        assert isinstance(error, NNDError)
        assert "\\udcff" in str(error)
