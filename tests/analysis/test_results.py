"""The loader on real results of lm-eval, and on what can be wrong with them."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

from nnd_tasks.analysis import diagnostics as reading
from nnd_tasks.analysis.compare import compare_runs
from nnd_tasks.analysis.diagnostics import diagnostics_of
from nnd_tasks.analysis.model_names import short_names
from nnd_tasks.analysis.results import read_results
from nnd_tasks.analysis.side_by_side import not_compared, pair
from nnd_tasks.baselines import mean_frequency
from nnd_tasks.cli import app
from nnd_tasks.datasets import read_table
from nnd_tasks.errors import NNDError
from tests.analysis.runs import make_run
from tests.conftest import REPO


@pytest.fixture
def results(scored: Path, tmp_path: Path) -> Path:
    """Return a copy that a test may damage."""
    return Path(shutil.copytree(scored, tmp_path / "results"))


def only(folder: Path, pattern: str) -> Path:
    [path] = folder.rglob(pattern)
    return path


def nnd(*arguments: Any) -> Any:
    return CliRunner().invoke(app, [*map(str, arguments)])


# ---------------------------------------------------------------- what is read


def test_every_test_is_a_row_with_its_margin(scored: Path) -> None:
    runs = read_results([scored / "gpt2", scored / "llama"])
    assert [run.model for run in runs] == ["gpt2", "llama"]
    raw = json.loads(only(scored / "gpt2", "results_*.json").read_text())
    run = runs[0]
    assert run.task == "nnd_demo"
    assert run.set == "nnd/demo (authors)"
    assert run.line == raw["configs"]["nnd_demo"]["metadata"]["nnd"]["signature"]["line"]
    assert len(run.tests) == raw["results"]["nnd_demo"]["tests,none"]
    assert run.tests["passed"].mean() == pytest.approx(raw["results"]["nnd_demo"]["pass_rate,none"])
    for suffix in ("sum", "bytes"):
        rate = (run.tests[f"margin_{suffix}"] > 0).mean()
        assert rate == pytest.approx(raw["results"]["nnd_demo"][f"pass_rate_{suffix},none"])
    samples = [json.loads(line) for line in only(scored / "gpt2", "samples_*.jsonl").read_text().splitlines()]
    sample = samples[3]
    test = sample["tests"][2]
    row = run.tests.set_index("test_id").loc[test["test_id"]]
    high, low = (sample["candidates"][test[side]] for side in ("high", "low"))
    assert row["margin"] == pytest.approx(high["sum"] / high["tokens"] - low["sum"] / low["tokens"])
    assert row["cluster_id"] == sample["doc"]["cluster_id"]
    assert bool(row["passed"]) == test["passed"]
    assert run.documents[row["document"]]["candidates"][row["high"]] == sample["doc"]["candidates"][test["high"]]


def test_the_tables_of_all_runs_say_what_the_files_say(scored: Path, tmp_path: Path) -> None:
    runs = read_results(scored)
    tests, about = runs.tests, runs.runs
    assert len(tests) == sum(len(run.tests) for run in runs)
    assert about[["model", "task", "set", "shots", "prompts"]].to_dict("list") == {
        "model": ["gpt2", "llama", "t5"],
        "task": ["nnd_demo"] * 3,
        "set": ["nnd/demo (authors)"] * 3,
        "shots": [0] * 3,
        "prompts": [10] * 3,
    }
    samples = [json.loads(line) for line in only(scored / "llama", "samples_*.jsonl").read_text().splitlines()]
    expected = {}
    for sample in samples:
        texts = sample["doc"]["candidates"]
        for test in sample["tests"]:
            high, low = (sample["candidates"][test[side]] for side in ("high", "low"))
            expected[test["test_id"]] = (
                *(1, "nnd/demo (authors)", test["category"], sample["doc"]["context"], bool(test["passed"])),
                *(texts[test["high"]], texts[test["low"]], high["sum"], low["mean"], low["tokens"], high["bytes"]),
                high["sum"] / high["tokens"] - low["sum"] / low["tokens"],
            )
    columns = ["run", "set", "category", "context", "passed", "high", "low", "high_sum", "low_mean", "low_tokens"]
    found = tests[tests["model"] == "llama"].set_index("test_id")[[*columns, "high_bytes", "margin"]]
    assert found.index.tolist() == list(expected)
    for row, wanted in zip(found.itertuples(index=False), expected.values(), strict=True):
        assert tuple(row) == pytest.approx(wanted)
    assert Path(about.loc[1, "file"]) == only(scored / "llama", "results_*.json")
    tests.to_parquet(tmp_path / "tests.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "tests.parquet"), tests)


def test_the_example_in_pandas_runs(
    scored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (REPO / "docs" / "results.md").read_text("utf-8").partition("In pandas:")[2]
    block = text.partition("```python\n")[2].partition("```")[0]
    (tmp_path / "results").symlink_to(scored)
    monkeypatch.chdir(tmp_path)
    found: dict[str, Any] = {}
    exec(block, found)
    printed = capsys.readouterr().out
    for run in found["runs"]:
        [line] = re.findall(rf"^{run.model} .*", printed.split("margin")[0], re.MULTILINE)
        rates = [f"{float(rate):.4f}" for rate in line.split()[1:]]
        passed = run.tests.groupby("category")["passed"]
        assert rates == [f"{part.sum() / part.count():.4f}" for _, part in passed]
    assert (tmp_path / "tests.parquet").is_file()


def test_the_command_compares_and_writes(scored: Path, tmp_path: Path) -> None:
    done = nnd("compare", scored / "gpt2", scored / "llama", scored / "t5", "--out", tmp_path)
    assert done.exit_code == 0, done.output
    assert "# nnd_demo on nnd/demo (authors): gpt2, llama, t5" in done.output
    assert "| rank group | model | pass rate | best rank | worst rank |" in done.output
    assert "| category | model | shorter | longer | overlap | unigram |" in done.output
    found = json.loads((tmp_path / "compare_nnd_demo.json").read_text())
    assert len([row for row in found["tables"]["differences"] if row["category"] == "all"]) == 3
    assert {row["model"] for row in found["tables"]["diagnostics"]} == {"gpt2", "llama", "t5"}


def test_one_results_or_samples_file_can_be_named(scored: Path) -> None:
    for pattern in ("results_*.json", "samples_*.jsonl"):
        [run] = read_results(only(scored / "gpt2", pattern))
        assert run.model == "gpt2"


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["a/b/gpt2", "a/c/llama"], ["gpt2", "llama"]),
        (["run1/model", "run2/model"], ["run1/model", "run2/model"]),
        (["m/step-00010", "m/step-00020"], ["m/step-00010", "m/step-00020"]),
        (["org/big", "/deep/org/big"], ["org/big", "deep/org/big"]),
        (["org/m", "org/m"], ["m #1", "m #2"]),
    ],
)
def test_models_have_short_names_of_their_own(names: list[str], expected: list[str]) -> None:
    infos = [{"chat": "x" * 60 + str(i)} for i in range(len(names))]
    assert short_names(names, infos) == expected
    assert short_names(names[:1] * 2) == short_names(names[:1]) * 2


def test_runs_of_one_model_are_named_by_what_differs() -> None:
    def name(*infos: dict[str, Any]) -> list[str]:
        return short_names(["org/m"] * len(infos), infos)

    def about(dtype: str = "auto", **arguments: str) -> dict[str, Any]:
        return {"dtype": dtype, "window": 64, "arguments": arguments}

    assert name(about(), about(softmax_dtype="float32")) == ["m", "m (softmax_dtype=float32)"]
    three = [about("float16"), about("float32", revision="b"), about()]
    assert name(*three, three[0]) == [*("m (dtype=float16)", "m (dtype=float32, revision=b)", "m", "m (dtype=float16)")]
    assert name(about(chat="x" * 60), about()) == ["m #1", "m #2"]


# ---------------------------------------------------------------- what is wrong


def _no_samples(folder: Path) -> None:
    only(folder / "gpt2", "samples_*.jsonl").unlink()


def _cut_line(folder: Path) -> None:
    path = only(folder / "gpt2", "samples_*.jsonl")
    path.write_text(path.read_text()[:-200])


def _cut_documents(folder: Path) -> None:
    path = only(folder / "gpt2", "samples_*.jsonl")
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:7]))


def _cut_results(folder: Path) -> None:
    path = only(folder / "gpt2", "results_*.json")
    path.write_text(path.read_text()[:500])


def _change(key: str, value: Any, where: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = only(folder / "gpt2", "results_*.json")
        results = json.loads(path.read_text())
        where(results)[key] = value
        path.write_text(json.dumps(results))

    return change


def _protocol(results: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = results["configs"]["nnd_demo"]["metadata"]["nnd"]["signature"]["protocol"]
    return found


def _no_results(folder: Path) -> None:
    only(folder / "gpt2", "results_*.json").unlink()


def _foreign(folder: Path) -> None:
    _change("nnd_demo", {"task": "nnd_demo", "metadata": {}}, lambda results: results["configs"])(folder)
    shutil.rmtree(folder / "llama")
    shutil.rmtree(folder / "t5")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_no_samples, r"results_.*json: its samples samples_nnd_demo_.* are missing; run the task with --log_samples"),
        (_cut_line, r"samples_nnd_demo_.*jsonl, line 10: is not valid JSON \(.*\); the file is cut off or damaged"),
        (_cut_documents, r"samples_nnd_demo_.*jsonl: 7 of 10 prompts; the file is cut off"),
        (_cut_results, r"results_.*json: is not valid JSON \(.*\); the file is cut off or damaged"),
        (_no_results, r"samples_nnd_demo_.*jsonl: its results results_.*json are missing; put them there"),
        (_foreign, r"no results of NND tasks"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(damage: Callable[[Path], None], message: str, results: Path) -> None:
    damage(results)
    with pytest.raises(NNDError) as caught:
        pair(read_results([results]))
    assert re.search(message, f"{caught.value}\n"), caught.value
    assert "\n" not in str(caught.value)


def _lose(*path: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        file = only(folder / "gpt2", "results_*.json")
        raw = found = json.loads(file.read_text())
        for key in path[:-1]:
            found = found[key]
        found[path[-1]] = None
        file.write_text(json.dumps(raw))

    return damage


@pytest.mark.parametrize(
    "damage", [_lose("configs", "nnd_demo", "metadata"), _lose("configs", "nnd_demo", "metadata", "nnd", "signature")]
)
def test_a_task_without_a_signature_is_not_ours(damage: Callable[[Path], None], results: Path) -> None:
    damage(results)
    with pytest.raises(NNDError, match="no results of NND tasks"):
        read_results([results / "gpt2"])


def test_versions_that_differ_in_the_interface_only_compare(results: Path) -> None:
    _change("nnd_demo", "1-B", lambda results: results["versions"])(results)
    assert len(pair(read_results([results]))) == 1


def test_what_may_differ_can_be_allowed(results: Path) -> None:
    _change("eos", True, _protocol)(results)
    _change("prompt", "other", _protocol)(results)
    done = nnd("compare", results, "--allow", "eos, prompt")
    assert done.exit_code == 0, done.output


def test_nothing_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(NNDError, match=r"no results_\*\.json is there; run the task with --log_samples"):
        read_results([tmp_path])
    with pytest.raises(NNDError, match="nowhere: there is no such file or folder"):
        read_results([tmp_path / "nowhere"])
    (tmp_path / "page.html").write_text("<p>")
    with pytest.raises(NNDError, match=r"page\.html: is not valid JSON.* or is not a results_\*\.json of lm-eval"):
        read_results([tmp_path / "page.html"])


def test_what_is_allowed_must_be_a_part_of_the_protocol(scored: Path) -> None:
    with pytest.raises(NNDError, match=r"--allow promt: no part of the protocol; they are .*prompt"):
        pair(read_results([scored]), ["promt"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_change("eos", True, _protocol), r"cannot be compared: eos True and False; .*--allow eos"),
        (
            _change("data", "zzz", _protocol),
            r"cannot be compared: data 'zzz' and '.*'; rerun both with equal settings$",
        ),
        (
            _change("nnd_demo", "2-A", lambda results: results["versions"]),
            r"cannot be compared: version '2' and '1'.*--allow version",
        ),
        (
            _change("selection", "5 of 60 (abc)", _protocol),
            r"selection .*; rerun both .*, or compare anyway with --allow selection$",
        ),
    ],
)
def test_a_run_of_another_protocol_stands_apart(change: Callable[[Path], None], message: str, results: Path) -> None:
    change(results)
    runs = read_results([results])
    groups = pair(runs)
    assert [group.models for group in groups] == [["gpt2"], ["llama", "t5"]]
    [line] = not_compared(runs, groups)
    assert re.search(message, line), line
    shutil.rmtree(results / "t5")
    with pytest.raises(NNDError, match=r"is in no comparison: .*cannot be compared"):
        compare_runs(read_results([results]))


def _rerun(folder: Path, name: str, date: str, **protocol: Any) -> None:
    """Copy the results of a model as if it had been run at another time, asked otherwise where that is said."""
    for path in list((folder / name).rglob("*_20*")):
        stem = path.name[: path.name.index("_20")]
        new = path.with_name(f"{stem}_{date}{path.suffix}")
        shutil.copy(path, new)
        if stem == "results":
            raw = json.loads(new.read_text())
            _protocol(raw).update(protocol)
            new.write_text(json.dumps(raw))


def test_of_equal_runs_the_latest_is_taken_and_said(
    results: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = only(results / "gpt2", "results_*.json")
    _rerun(results, "gpt2", "2099-01-01T00-00-00.5")
    runs = read_results([results])
    assert (runs[0].model, runs[0].date[:4]) == ("gpt2", "2099")
    assert len(runs) == 3
    assert runs[0].earlier == (before,)
    assert (
        f"gpt2 on nnd_demo: 2 equal runs, that of 2099-01-01T00-00-00.5 is taken; passed over: {before}" in caplog.text
    )
    done = nnd("report", results, "-o", tmp_path / "r.html")
    assert done.exit_code == 0, done.output
    assert "that of 2099-01-01T00-00-00.5 is taken" in (tmp_path / "r.html").read_text()
    only(results / "gpt2", "samples_*_2099*").unlink()  # a rerun without --log_samples says nothing about tests
    assert read_results([results])[0].path.name == before.name.replace("results", "samples_nnd_demo") + "l"


def test_runs_of_other_protocols_are_groups_of_their_own_and_can_be_chosen(results: Path, tmp_path: Path) -> None:
    for name in ("gpt2", "llama"):
        _rerun(results, name, "2099-01-01T00-00-00.5", shots=2, prompt="other", shots_seed=1234)
    out = tmp_path / "out"
    done = nnd("compare", results, "--out", out)
    assert done.exit_code == 0, done.output
    assert "# nnd_demo (shots 0) on nnd/demo (authors)" in done.output
    assert "# nnd_demo (shots 2) on nnd/demo (authors)" in done.output
    assert {path.stem for path in out.glob("*.md")} == {"compare_nnd_demo_shots_0", "compare_nnd_demo_shots_2"}
    done = nnd("compare", results, "--select", "shots=2")
    assert "# nnd_demo on nnd/demo (authors): gpt2, llama\n" in done.output
    assert "t5" not in done.output
    done = nnd("report", results, "--select", "shots=2,limit=10", "--select", "chat_template=no", "-o", out / "r.html")
    assert done.exit_code == 0, done.output
    assert "shots 0" not in (out / "r.html").read_text()
    with pytest.raises(NNDError, match=r"gpt2: several runs of it on nnd/demo .*2099.*--select"):
        pair(read_results([results]), ["shots", "prompt", "shots_seed"])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("shots=3", "--select shots=3: no run has it; they have 0"),
        ("shot=0", "--select shot: no part of the protocol; they are limit, task, set"),
        ("shots", "--select shots: write KEY=VALUE, such as shots=0"),
        ("shots=0,shots=1", "--select shots=1: no run has it; they have 0"),
    ],
)
def test_what_cannot_be_chosen_is_said(given: str, message: str, scored: Path) -> None:
    with pytest.raises(NNDError, match=re.escape(message)):
        read_results([scored], [given])


def test_runs_can_be_chosen_by_all_that_their_signature_holds(scored: Path) -> None:
    [run] = read_results([scored / "gpt2"])
    for key, value in {**run.protocol, "task": "nnd_demo", "version": "1", "limit": 10}.items():
        text = ("yes" if value else "no") if value in (None, "") or isinstance(value, bool) else value
        [one] = read_results([scored / "gpt2"], [f"{key}={text}"])
        assert one.protocol == run.protocol


def test_a_folder_that_cannot_be_read_is_named(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scan = os.scandir

    def refuse(path: Any = ".") -> Any:  # root, whom no test can keep out, runs them too
        if Path(path).name == "gpt2":
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(NNDError, match="gpt2: cannot be read"):
        read_results([results])


def test_a_pipe_among_results_is_named_and_not_opened(results: Path) -> None:
    pipe, samples = (results / f"{name}_2020-01-01T00-00-00" for name in ("results", "samples_nnd_x"))
    os.mkfifo(pipe.with_name(f"{pipe.name}.json"))
    os.mkfifo(samples.with_name(f"{samples.name}.jsonl"))
    skipped: list[str] = []
    assert [run.model for run in read_results([results], skipped=skipped)] == ["gpt2", "llama", "t5"]
    [line] = skipped
    assert line.endswith("results_2020-01-01T00-00-00.json: is not a regular file")
    with pytest.raises(NNDError, match="is not a regular file"):
        read_results([results])


# ---------------------------------------------------------------- diagnostics


def test_the_reading_aid_of_a_run_is_that_of_its_texts_and_margins() -> None:
    run = make_run(
        "a", [True, False, True, None], ["k", "k", "l", "l"], ["x", "x", "y", "y"], [1.0, -1e-9, 0.5, math.nan]
    )
    run.tests.loc[2, "margin_sum"] = -0.5
    run.tests.loc[1, "margin_bytes"] = 0.5
    found = diagnostics_of(run).set_index("category")
    assert set(found.index) == {"all", "x", "y"}
    assert found["near"].to_dict() == {"all": pytest.approx(1 / 3), "x": 0.5, "y": 0.0}
    assert found.loc[["x", "y"], ["flips_sum", "flips_bytes"]].to_numpy().tolist() == [[0.0, 0.5], [1.0, 0.0]]
    # "better cat i" against "worse text i here": shorter, and "cat" is in the context.
    assert found.loc["all", ["shorter", "longer", "overlap"]].tolist() == [1.0, 0.0, 1.0]
    assert math.isnan(found.loc["all", "pmi"])


def test_words_are_counted_in_the_whole_set_where_a_run_has_a_part_of_it(
    scored: Path,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    [run] = read_results([scored / "gpt2"])
    assert run.protocol["selection"] != "all"
    rows = read_table(home / "nnd" / "demo", "authors").to_pylist()
    rows_of_run = [row for row in rows if row["test_id"] in set(run.tests["test_id"])]

    def rate(counted: list[dict[str, Any]]) -> float:
        frequency = mean_frequency({row[side] for row in counted for side in ("high", "low")})
        return sum(frequency(row["high"]) > frequency(row["low"]) for row in rows_of_run) / len(rows_of_run)

    reading._set_facts.cache_clear()
    monkeypatch.setenv("NND_HOME", str(home))
    assert diagnostics_of(run)["unigram"][0] == pytest.approx(rate(rows))
    reading._set_facts.cache_clear()
    monkeypatch.setenv("NND_HOME", str(scored))  # where the set is not built
    assert diagnostics_of(run)["unigram"][0] == pytest.approx(rate(rows_of_run))
    reading._set_facts.cache_clear()
