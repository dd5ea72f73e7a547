"""The functions for plain YAMLs, and the YAMLs of their page, run by lm_eval as they stand there."""

from __future__ import annotations

import json
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from nnd_tasks.datasets import read_table
from nnd_tasks.errors import NNDError
from nnd_tasks.harness import plain
from nnd_tasks.sets.build import build_set
from nnd_tasks.statistics import clustered_standard_error
from tests import commands, random_models
from tests.commands import printed_table as table
from tests.conftest import REPO

PAGE = REPO / "docs" / "running.md"


def doc(high: str = "ab", low: str = "abcd", cluster_id: str = "c", category: str = "Off Target") -> dict[str, Any]:
    return {"cluster_id": cluster_id, "category": category, "high": high, "low": low, "context": "."}


def passed(better: float, worse: float, **texts: str) -> bool | None:
    """Return the outcome of a test for two sums of log-probabilities."""
    return plain.process_results(doc(**texts), [(better, False), (worse, True)])["pass_rate_bytes"].passed


# ---------------------------------------------------------------- one test


def test_a_test_passes_when_the_better_text_is_strictly_likelier_per_byte() -> None:
    assert passed(-3.0, -6.1) is True
    assert passed(-3.0, -5.9) is False, "its sum is higher, but not per byte"
    assert passed(-3.0, -6.0) is False, "a tie fails"
    assert passed(-2.0, -2.0, high="é", low="e") is True, "é has two bytes"


def test_an_empty_text_or_no_number_leaves_the_test_unscored() -> None:
    assert passed(-1.0, -9.0, high="") is None
    assert passed(-1.0, -9.0, low=" \n") is None
    assert passed(float("nan"), -9.0) is None
    assert passed(-1.0, float("-inf")) is True


def test_an_empty_text_is_no_choice_that_lm_eval_would_have_to_score() -> None:
    assert plain.choices(doc("a", "b ")) == ["a", "b "]
    assert plain.choices(doc("", "\t")) == [".", "."]


@pytest.mark.parametrize("name", plain.COLUMNS)
def test_a_row_that_lacks_a_column_is_refused_by_its_name(name: str) -> None:
    for row in ({key: value for key, value in doc().items() if key != name}, {**doc(), name: None}):
        with pytest.raises(NNDError, match=f"column '{name}'"):
            plain.process_results(row, [(-1.0, True), (-2.0, True)])
        with pytest.raises(NNDError, match=f"column '{name}'"):
            plain.choices(row)


def test_other_than_two_results_are_refused_with_the_way_out() -> None:
    with pytest.raises(
        NNDError, match=r"found 3 results; set doc_to_choice: !function nnd_tasks.harness.plain.choices"
    ):
        plain.process_results(doc(), [(-1.0, True)] * 3)


def test_metrics_are_those_that_the_page_lists() -> None:
    results = [(-1.0, True), (-9.0, True)]
    assert list(plain.process_results(doc(), results)) == ["pass_rate_bytes", "pass_rate_bytes_stderr", "tests"]
    assert list(plain.process_results_by_category(doc(), results)) == [
        "pass_rate_bytes",
        "pass_rate_bytes_stderr",
        "tests",
        "pass_rate_bytes_off_target",
        "pass_rate_bytes_off_target_stderr",
    ]
    with pytest.raises(NNDError, match="no ASCII letter"):
        plain.process_results_by_category(doc(category="🙂"), results)


# ---------------------------------------------------------------- pooling


def items(*outcomes: tuple[str, bool | None], category: str = "") -> list[plain.Item]:
    return [plain.Item(cluster, "pass_rate_bytes", category, outcome) for cluster, outcome in outcomes]


def test_rates_are_pooled_over_tests_and_errors_over_clusters() -> None:
    some = items(("a", True), ("b", False), ("a", True), ("a", False), ("b", True), ("c", None), ("d", True))
    assert plain.rate(some) == pytest.approx(4 / 6)
    assert plain.stderr(some) == pytest.approx(clustered_standard_error([2, 1, 1], [3, 2, 1]))
    assert plain.scored(some) == 6


def test_what_no_test_tells_is_not_available() -> None:
    assert plain.rate(items(("a", None))) == "N/A"
    assert plain.stderr(items(("a", True), ("a", False))) == "N/A"
    assert plain.scored(items(("a", None))) == 0


def test_two_categories_of_one_metric_are_not_pooled_silently() -> None:
    both = items(("a", True), category="Off-target") + items(("b", True), category="off target")
    for aggregation in (plain.rate, plain.stderr):
        with pytest.raises(NNDError, match="'Off-target' and 'off target' are both pass_rate_bytes; rename one"):
            aggregation(both)


def test_a_metric_without_its_aggregation_says_what_to_add() -> None:
    with pytest.raises(NNDError, match="pass_rate_bytes is not in the YAML's metric_list"):
        sum(items(("a", True)))


def test_items_survive_the_way_between_processes() -> None:
    item = items(("a", None))[0]
    assert pickle.loads(pickle.dumps(item)) == item


# ---------------------------------------------------------------- the page


def yamls() -> dict[str, str]:
    """Return the YAML files of the page by the name under which it says to save them."""
    saved = re.findall(r"Save this as `tasks/(\w+\.yaml)`[^`]*```yaml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert len(saved) == 2
    return dict(saved)


needs_page = pytest.mark.skipif(not PAGE.is_file(), reason="needs the source tree")


def run(folder: Path, model: Path, tasks: str, *more: str) -> subprocess.CompletedProcess[str]:
    """Run lm_eval in ``folder`` as the page says."""
    return commands.run(
        [
            *(sys.executable, "-m", "lm_eval", "--model", "hf", "--model_args", f"pretrained={model},dtype=float32"),
            *("--include_path", "tasks", "--tasks", tasks, "--device", "cpu", "--batch_size", "16"),
            *("--output_path", "results", "--log_samples", *more),
        ],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200", "HF_DATASETS_CACHE": str(folder / "cache")},
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder in which the page's first two steps were taken."""
    folder = tmp_path_factory.mktemp("plain")
    build_set("demo", out=folder / "nnd" / "demo")
    (folder / "tasks").mkdir()
    for name, text in yamls().items():
        (folder / "tasks" / name).write_text(text, encoding="utf-8")
    return folder


def by_test(samples: list[Mapping[str, Any]]) -> dict[str, bool | None]:
    """Return test_id -> outcome of a plain task's samples."""
    return {sample["doc"]["test_id"]: plain.Item(*sample["pass_rate_bytes"]).passed for sample in samples}


@needs_page
@pytest.mark.slow
def test_the_pages_tasks_agree_with_the_task_class_test_by_test(
    folder: Path, home: Path, tiny_models: dict[str, Path]
) -> None:
    done = run(folder, tiny_models["gpt2"], "my_demo,my_demo_by_category")
    assert done.returncode == 0, done.stderr[-3000:]
    stored = json.loads(next((folder / "results").rglob("results_*.json")).read_text("utf-8"))["results"]
    ours = random_models.evaluate(tiny_models["gpt2"], ["nnd_demo"], log_samples=True)
    metrics = ours["results"]["nnd_demo"]

    overall, by_category = stored["my_demo"], stored["my_demo_by_category"]
    assert overall["tests,none"] == metrics["tests,none"] == 381
    rates = ["pass_rate_bytes", "pass_rate_bytes_stderr"]
    for name in rates:
        assert overall[f"{name},none"] == pytest.approx(metrics[f"{name},none"], abs=1e-12)
        assert by_category[f"{name},none"] == overall[f"{name},none"]
    assert 0 < overall["pass_rate_bytes,none"] < 1

    # The class logs the sum and the bytes of each candidate: the outcome of each test by hand.
    expected = {}
    for sample in ours["samples"]["nnd_demo"]:
        for test in sample["tests"]:
            high, low = (sample["candidates"][test[side]] for side in ("high", "low"))
            expected[test["test_id"]] = high["sum"] / high["bytes"] > low["sum"] / low["bytes"]
    lines = next((folder / "results").rglob("samples_my_demo_2*.jsonl")).read_text("utf-8").splitlines()
    assert by_test([json.loads(line) for line in lines]) == expected

    rows = read_table(folder / "nnd" / "demo").to_pylist()
    for category in ("disfluent", "off_target", "unfaithful"):
        counts: dict[str, list[int]] = {}
        for row in rows:
            if row["category"] == category:
                count = counts.setdefault(row["cluster_id"], [0, 0])
                count[0] += expected[row["test_id"]]
                count[1] += 1
        won, of = ([count[i] for count in counts.values()] for i in (0, 1))
        assert by_category[f"pass_rate_bytes_{category},none"] == pytest.approx(sum(won) / sum(of))
        assert by_category[f"pass_rate_bytes_{category}_stderr,none"] == pytest.approx(
            clustered_standard_error(won, of)
        )

    printed = table(done.stdout)["my_demo"]["pass_rate_bytes"]
    assert float(printed[0]) == pytest.approx(overall["pass_rate_bytes,none"], abs=1e-4)
    assert float(printed[1]) == pytest.approx(overall["pass_rate_bytes_stderr,none"], abs=1e-4)


@needs_page
@pytest.mark.slow
def test_the_page_runs_on_a_users_own_table_with_an_empty_text(folder: Path, tiny_models: dict[str, Path]) -> None:
    """The first text is empty: lm-eval looks at the first document's choices before anything else."""
    rows = [
        doc("", "Some text.", "1", "Bad"),
        doc("A good text.", "Some txet txet.", "1", "Bad"),
        doc("It rains again today.", "Xq zz.", "2", "Worse"),
    ]
    (folder / "tests.jsonl").write_text(
        "".join(json.dumps({**row, "kind": "summarization"}) + "\n" for row in rows), encoding="utf-8"
    )
    page = PAGE.read_text(encoding="utf-8")
    assert "`dataset_path: json`" in page
    kwargs = "dataset_kwargs: {data_files: {test: tests.jsonl}}"
    assert f"`{kwargs}`" in page
    text = yamls()["my_demo.yaml"].replace("my_demo", "my_table").replace("dataset_name: authors\n", "")
    text = re.sub(r"dataset_path: .*", f"dataset_path: json\n{kwargs}", text)
    (folder / "tasks" / "my_table.yaml").write_text(text, encoding="utf-8")
    done = run(folder, tiny_models["gpt2"], "my_table")
    assert done.returncode == 0, done.stderr[-3000:]
    assert float(table(done.stdout)["my_table"]["tests"][0]) == 2


@needs_page
@pytest.mark.slow
def test_a_category_that_the_yaml_does_not_list_ends_the_run_with_what_to_add(
    folder: Path, tiny_models: dict[str, Path]
) -> None:
    text = yamls()["my_demo_by_category.yaml"].replace("my_demo_by_category", "my_short_list")
    lines = [line for line in text.splitlines(keepends=True) if "metric: pass_rate_bytes_unfaithful," not in line]
    assert len(lines) == len(text.splitlines()) - 1
    (folder / "tasks" / "my_short_list.yaml").write_text("".join(lines), encoding="utf-8")
    done = run(folder, tiny_models["gpt2"], "my_short_list", "--samples", '{"my_short_list": [0, 1, 2, 3, 4, 5, 6]}')
    assert done.returncode != 0
    assert "metric pass_rate_bytes_unfaithful is not in the YAML's metric_list" in done.stderr.strip().splitlines()[-1]
