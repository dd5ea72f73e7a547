"""Reading and pairing of real results of lm-eval."""

import json
import math
import os
import re
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from nnd_tasks.errors import NNDError
from nnd_tasks.page.page import render_report
from nnd_tasks.results.comparison_report import baselines_of, diagnostics_of
from nnd_tasks.results.model_names import short_names
from nnd_tasks.results.paired import not_compared, pair
from nnd_tasks.results.read_runs import notes_on, read_results
from nnd_tasks.store import read_table
from tests.commands import refused
from tests.conftest import REPO
from tests.results.fake_runs import write_run
from tests.results.runs import make_run
from tests.sets.tables import read_arguments

ARGUMENTS = read_arguments(__file__)


def only(folder, pattern):
    [path] = folder.rglob(pattern)
    return path


# ---------------------------------------------------------------- what is read


def test_the_tables_of_all_runs_say_what_the_files_say(scored, tmp_path):
    runs = read_results(scored)
    assert runs.runs["model"].tolist() == ["gpt2", "llama", "t5"]
    file = only(scored / "llama", "results_*.json")
    raw = json.loads(file.read_text())
    expected = {"task": "nnd_demo", "set": "demo (authors)", "shots": 0, "prompts": 10, "file": str(file)}
    expected["parameters"] = raw["config"]["model_num_parameters"]
    expected["signature"] = raw["configs"]["nnd_demo"]["metadata"]["nnd"]["signature"]["line"]
    assert runs.runs.loc[1, [*expected]].to_dict() == expected
    rows = []
    for sample in map(json.loads, only(scored / "llama", "samples_*.jsonl").read_text().splitlines()):
        for test in sample["tests"]:
            row = {name: test[name] for name in ("test_id", "category", "passed")}
            row |= {"run": 1, "context": sample["doc"]["context"]}
            for side in ("high", "low"):
                row[side] = sample["doc"]["candidates"][test[side]]
                row |= {f"{side}_{name}": number for name, number in sample["candidates"][test[side]].items()}
            row["margin"] = row["high_sum"] / row["high_tokens"] - row["low_sum"] / row["low_tokens"]
            rows.append(row)
    tests = runs.tests.query("model == 'llama'").reset_index(drop=True)
    pd.testing.assert_frame_equal(tests[[*rows[0]]], pd.DataFrame(rows), check_dtype=False)
    runs.tests.to_parquet(tmp_path / "tests.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "tests.parquet"), runs.tests)


def test_the_example_in_pandas_runs(scored, tmp_path, monkeypatch, capsys):
    text = (REPO / "docs" / "results.md").read_text("utf-8").partition("In pandas:")[2]
    (tmp_path / "results").symlink_to(scored)
    monkeypatch.chdir(tmp_path)
    exec(text.partition("```python\n")[2].partition("```")[0], {})
    rates = capsys.readouterr().out.partition("margin")[0]
    assert re.findall(r"^(\w+) +0\.\d+", rates, re.MULTILINE) == ["gpt2", "llama", "t5"]
    assert (tmp_path / "tests.parquet").is_file()


def test_one_results_or_samples_file_can_be_named(scored):
    for pattern in ("results_*.json", "samples_*.jsonl"):
        [run] = read_results(only(scored / "gpt2", pattern))
        assert run.model == "gpt2"


def test_files_may_have_another_text_in_the_place_of_the_date(scored, tmp_path):
    folder = shutil.copytree(only(scored / "gpt2", "results_*.json").parent, tmp_path / "copy")
    results = only(folder, "results_*.json").rename(folder / "results_final.json")
    with pytest.raises(NNDError, match=r"its samples samples_nnd_demo_final\.jsonl are missing"):
        read_results(results)
    samples = only(folder, "samples_*.jsonl").rename(folder / "samples_nnd_demo_final.jsonl")
    for place in (folder, results, samples):
        [run] = read_results(place)
        assert (run.model, run.date, run.path) == ("gpt2", "final", samples)


@pytest.mark.parametrize(
    ("names", "expected"),
    ARGUMENTS["models_have_short_names_of_their_own"],
)
def test_models_have_short_names_of_their_own(names, expected):
    assert short_names(names, [{}, {}]) == expected


def test_runs_of_one_model_are_named_by_what_differs():
    auto = {"dtype": "auto", "arguments": {}}
    half, other = {**auto, "dtype": "float16"}, {"dtype": "float32", "arguments": {"revision": "b"}}
    of_four = ["m (dtype=float16)", "m (dtype=float32, revision=b)", "m", "m (dtype=float16)"]
    assert short_names(["org/m"] * 4, [half, other, auto, half]) == of_four
    assert short_names(["org/m"] * 2, [{**auto, "chat": "x" * 60}, auto]) == ["m #1", "m #2"]
    assert short_names(["org/m"] * 2, [half, auto], [True, False]) == ["m", "m"]


# ---------------------------------------------------------------- what is wrong


@pytest.mark.parametrize("metadata", [None, {"nnd": {"signature": None}}])
def test_a_task_without_a_signature_is_not_ours(metadata, tmp_path):
    file = only(write_run(tmp_path, "m"), "results_*.json")
    results = json.loads(file.read_text())
    results["configs"]["nnd_made_up"]["metadata"] = metadata
    file.write_text(json.dumps(results))
    with pytest.raises(NNDError, match="has no signature of nnd_made_up, whose samples stand beside it"):
        read_results(tmp_path)
    only(tmp_path, "samples_*").unlink()
    with pytest.raises(NNDError, match="the samples of nnd_made_up are missing"):
        read_results(tmp_path)


def test_nothing_there_is_named(tmp_path):
    with pytest.raises(NNDError, match=r"no results_\*\.json is there; run the task with --log_samples"):
        read_results([tmp_path])
    (tmp_path / "page.html").write_text("<p>")
    with pytest.raises(NNDError, match=r"page\.html: is not valid JSON"):
        read_results([tmp_path / "page.html"])


@pytest.mark.parametrize(
    ("change", "message"),
    ARGUMENTS["a_run_of_another_protocol_stands_apart"],
)
def test_a_run_of_another_protocol_stands_apart(change, message, tmp_path):
    write_run(tmp_path, "a", **change)
    write_run(tmp_path, "b")
    write_run(tmp_path, "c", version="1-B")  # another interface only
    runs = read_results(tmp_path)
    groups = pair(runs)
    assert [group.models for group in groups] == [["a"], ["b", "c"]]
    [line] = not_compared(runs, groups)
    assert re.search(message, line), line
    found = re.search(r"--allow (\w+)", line)
    assert found is None or [group.models for group in pair(runs, [found[1]])] == [["a", "b", "c"]]


def test_of_equal_runs_the_latest_is_taken_and_said(tmp_path, caplog):
    before, later = (write_run(tmp_path / date, "m", date=date) for date in ("2026", "2099"))
    [run] = runs = read_results(tmp_path)
    assert (run.date, run.earlier) == ("2099", (only(before, "results_*.json"),))
    assert f"m on nnd_made_up: 2 equal runs, that of 2099 is taken; passed over: {run.earlier[0]}" in caplog.text
    assert "that of 2099 is taken" in render_report(runs)[1]
    assert notes_on([replace(run, earlier=(), reported={"unread,none": 0.25})]) == [
        "m on nnd_made_up: 25.0% of the answers cannot be read, and their tests fail"
    ]
    only(later, "samples_*").unlink()  # a rerun without --log_samples says nothing about tests
    assert read_results(tmp_path)[0].date == "2026"


def test_runs_of_other_protocols_are_groups_of_their_own_and_can_be_chosen(tmp_path, nnd):
    for name, shots in (("a", 0), ("b", 0), ("c", 0), ("a", 2), ("b", 2)):
        protocol = {"shots": shots, "prompt": f"p{shots}", "shots_seed": shots}
        protocol |= {"chat_template": False, "selection": "10 of 60 (abc)"}
        write_run(tmp_path / str(shots), name, protocol=protocol)
    done = nnd("compare", tmp_path, "--out", tmp_path / "out")
    assert "# nnd_made_up (shots 0) (30 of 60 prompts) on made_up (authors)" in done.out
    assert {path.stem for path in (tmp_path / "out").glob("*.md")} == {
        "compare_nnd_made_up_shots_0",
        "compare_nnd_made_up_shots_2",
    }
    done = nnd("compare", tmp_path, "--select", "shots=2,limit=10", "--select", "chat_template=no")
    assert "# nnd_made_up (30 of 60 prompts) on made_up (authors): a, b\n" in done.out
    message = refused(nnd("compare", tmp_path, "--allow", "shots, prompt,shots_seed"))
    assert re.search(r"a: several runs of it on made_up .*; name .*--select", message)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("shots=3", "--select shots=3: no run has it; they have 0"),
        ("shot=0", "--select shot: no part of the protocol; they are limit, reader, task, set"),
        ("shots", "--select shots: write KEY=VALUE, such as shots=0"),
    ],
)
def test_what_cannot_be_chosen_is_said(given, message, scored):
    with pytest.raises(NNDError, match=re.escape(message)):
        read_results([scored], [given])


def test_a_folder_that_cannot_be_read_is_named(results, monkeypatch):
    scan = os.scandir

    def refuse(path="."):  # root, whom no test can keep out, runs them too
        if Path(path).name == "gpt2":
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(NNDError, match="gpt2: cannot be read"):
        read_results([results])


def test_a_pipe_among_results_is_named_and_not_opened(tmp_path):
    write_run(tmp_path, "m")
    for name in ("results_2020.json", "samples_nnd_x_2020.jsonl"):
        os.mkfifo(tmp_path / name)
    skipped = []
    assert [run.model for run in read_results([tmp_path], skipped=skipped)] == ["m"]
    [line] = skipped
    assert line.endswith("results_2020.json: is not a regular file")


def test_loops_of_links_end_and_a_file_that_is_a_link_hides_no_model(tmp_path, nnd):
    one, other = (write_run(tmp_path / "r", name, seed=seed) for seed, name in enumerate("ab"))
    for place, target in ((tmp_path / "r" / "up", ".."), (one / "results_loop.json", "results_loop.json")):
        place.symlink_to(target)
    (tmp_path / "c").mkdir()
    (tmp_path / "r" / "linked").symlink_to(write_run(tmp_path / "elsewhere", "c", seed=2))
    skipped = []
    assert [run.model for run in read_results(tmp_path / "r", skipped=skipped)] == ["a", "b", "c"]
    assert [line.partition("results_loop.json: ")[2][:14] for line in skipped] == ["cannot be read"]
    for verb in (["compare"], ["report", "-o", tmp_path / "r.html"], ["trend"]):
        assert nnd(*verb, tmp_path / "r").status == 0
    only(one, "results_2*").unlink()
    (only(one, "samples_*").with_name(only(other, "results_*").name)).symlink_to(only(other, "results_*"))
    skipped = []
    assert [run.model for run in read_results(tmp_path / "r", skipped=skipped)] == ["b", "c"]
    assert "are not those of" in skipped[-1]


def test_trials_are_left_out_beside_other_runs_unless_they_are_named(tmp_path, nnd):
    chosen = {"a": {}, "b": {}, "c": {"protocol": {"selection": "9 of 30 (abc)"}, "limit": 9.0}}
    chosen["d"] = {"protocol": {"selection": "all"}, "limit": 99.0}
    for seed, (name, more) in enumerate(chosen.items()):
        write_run(tmp_path / "r", name, contexts=9 if name == "c" else 30, seed=seed, **more)
    done = nnd("compare", tmp_path / "r")
    assert "(authors): a, b, d\n" in done.out
    assert "is a trial, with --limit 9; name this file to use it" in done.err
    trial = only(tmp_path / "r" / "c", "results_*")
    assert "cannot be compared: selection" in nnd("compare", tmp_path / "r", trial).out
    assert "(authors): a, b, c, d\n" in nnd("compare", tmp_path / "r", "--allow", "selection").out
    assert [run.model for run in read_results(tmp_path / "r", ["limit=9"], [])] == ["c"]


def test_runs_are_listed_and_removed(tmp_path, nnd):
    write_run(tmp_path / "r", "a")
    write_run(tmp_path / "r", "b", contexts=2, protocol={"selection": "2 of 30 (abc)"}, limit=2.0)
    listed = nnd("runs", tmp_path / "r").out
    assert all(
        re.search(f"{model} .*nnd_made_up .*{prompts}", listed)
        for model, prompts in (("a", "all"), ("b", r"2 of 30 \(--limit\)"))
    )
    assert "--remove: would remove every run" in refused(nnd("runs", "--remove"))
    file = only(tmp_path / "r" / "b", "results_*")
    content = json.loads(file.read_text())
    file.write_text(json.dumps({**content, "configs": {**content["configs"], "hellaswag": {}}}))
    assert (
        "holds hellaswag, too; nothing is removed" in nnd("runs", tmp_path / "r", "--select", "limit=2", "--remove").err
    )
    file.write_text(json.dumps(content))
    assert nnd("runs", tmp_path / "r", "--select", "limit=2", "--remove").out.endswith("removed 1 run\n")
    assert [path.parent.name for path in (tmp_path / "r").rglob("*.json*")] == ["a", "a"]


# ---------------------------------------------------------------- diagnostics


def test_the_reading_aid_of_a_run_is_that_of_its_texts_and_margins():
    outcomes, margins = [True, False, True, None], [1.0, -1e-9, 0.5, math.nan]
    run = make_run("a", outcomes, list("kkll"), list("xxyy"), margins)
    lengths = ["high_sum", "high_tokens", "high_bytes", "low_sum", "low_tokens", "low_bytes"]
    run.tests.loc[1, lengths] = [-2.0, 1, 4, -1.0, 1, 1]  # passes by bytes alone
    run.tests.loc[2, lengths] = [-2.0, 4, 4, -1.0, 1, 1]  # fails by sums alone; the means stay as `make_run` has them
    found = diagnostics_of(run).set_index("category")
    shares = {"all": [1 / 3] * 3, "x": [0.5, 0.0, 0.5], "y": [0.0, 1.0, 0.0]}
    for category, expected in shares.items():
        assert found.loc[category, ["near", "flips_sum", "flips_bytes"]].tolist() == pytest.approx(expected)
    assert math.isnan(found["pmi"]["all"])
    # "better cat i" against "worse text i here": shorter, and "cat" is in the context.
    baselines = baselines_of(pair([run])[0]).loc[0, ["category", "shorter", "longer", "overlap"]]
    assert baselines.tolist() == ["all", 1.0, 0.0, 1.0]


def test_words_are_counted_in_the_whole_set_where_a_run_has_a_part_of_it(scored, home, monkeypatch):
    [run] = read_results([scored / "gpt2"])
    rows = read_table(home / "nnd" / "demo", "authors").to_pylist()
    rows_of_run = [row for row in rows if row["test_id"] in set(run.tests["test_id"])]
    for place, counted in ((home, rows), (scored, rows_of_run)):  # in the second the set is not built
        monkeypatch.setenv("NND_HOME", str(place))
        texts = {row[side]: re.findall(r"\w+", row[side].lower()) for row in counted for side in ("high", "low")}
        counts = Counter(word for found in texts.values() for word in found)
        mean = {text: np.mean([math.log(counts[word]) for word in found]) for text, found in texts.items()}
        passed = [mean[row["high"]] > mean[row["low"]] for row in rows_of_run]
        assert baselines_of(pair([run])[0])["unigram"][0] == pytest.approx(np.mean(passed))
