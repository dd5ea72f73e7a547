"""The functions for plain YAMLs, and the YAMLs of their page, run by lm_eval as they stand there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nnd_tasks.errors import NNDError
from nnd_tasks.sets.build import build_set
from nnd_tasks.statistics import clustered_standard_error
from nnd_tasks.task import plain
from tests import commands, random_models
from tests.commands import printed_table as table
from tests.conftest import REPO

PAGE = REPO / "docs" / "running.md"


def doc(high: str = "ab", low: str = "abcd", cluster_id: str = "c", category: str = "Off Target") -> dict[str, Any]:
    return {"cluster_id": cluster_id, "category": category, "high": high, "low": low, "context": "."}


RESULTS = [(-1.0, True), (-9.0, True)]


# ---------------------------------------------------------------- one test


@pytest.mark.parametrize(
    ("better", "worse", "texts", "expected"),
    [
        (-3.0, -6.1, {}, True),
        (-3.0, -5.9, {}, False),  # its sum is higher, but not per byte
        (-3.0, -6.0, {}, False),  # a tie fails
        (-2.0, -2.0, {"high": "é", "low": "e"}, True),  # é has two bytes
        (-1.0, float("-inf"), {}, True),
        (-1.0, -9.0, {"high": ""}, None),
        (-1.0, -9.0, {"low": " \n"}, None),
        (float("nan"), -9.0, {}, None),
    ],
)
def test_a_test_passes_when_the_better_text_is_strictly_likelier_per_byte(
    better: float, worse: float, texts: dict[str, str], expected: bool | None
) -> None:
    assert plain.process_results(doc(**texts), [(better, False), (worse, True)])["pass_rate_bytes"].passed is expected


def test_an_empty_text_is_no_choice_that_lm_eval_would_have_to_score() -> None:
    assert plain.choices(doc("a", "b ")) == ["a", "b "]
    assert plain.choices(doc("", "\t")) == [".", "."]


@pytest.mark.parametrize("name", plain.COLUMNS)
def test_a_row_that_lacks_a_column_is_refused_by_its_name(name: str) -> None:
    for row in ({key: value for key, value in doc().items() if key != name}, {**doc(), name: None}):
        for read in (plain.choices, lambda row: plain.process_results(row, RESULTS)):
            with pytest.raises(NNDError, match=f"column '{name}'"):
                read(row)


def test_metrics_are_those_that_the_page_lists() -> None:
    plain_names = ["pass_rate_bytes", "pass_rate_bytes_stderr", "tests"]
    assert list(plain.process_results(doc(), RESULTS)) == plain_names
    assert list(plain.process_results_by_category(doc(), RESULTS)) == [
        *plain_names,
        "pass_rate_bytes_off_target",
        "pass_rate_bytes_off_target_stderr",
    ]
    with pytest.raises(NNDError, match="no ASCII letter"):
        plain.process_results_by_category(doc(category="🙂"), RESULTS)
    with pytest.raises(NNDError, match=r"found 3 results; set doc_to_choice: !function nnd_tasks.task.plain.choices"):
        plain.process_results(doc(), [(-1.0, True)] * 3)


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
    with pytest.raises(NNDError, match="'Off-target' and 'off target' are both pass_rate_bytes; rename one"):
        plain.rate(both)


def test_a_metric_without_its_aggregation_says_what_to_add() -> None:
    with pytest.raises(NNDError, match="pass_rate_bytes is not in the YAML's metric_list"):
        sum(items(("a", True)))


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


@needs_page
@pytest.mark.slow
def test_the_pages_tasks_agree_with_the_task_class_test_by_test(
    folder: Path, home: Path, tiny_models: dict[str, Path]
) -> None:
    # The first text of the user's own table is empty: lm-eval looks at the first document's choices before anything else.
    rows = [
        doc("", "Some text.", "1"),
        doc("A good text.", "Some txet txet.", "1"),
        doc("It rains again.", "Xq zz.", "2"),
    ]
    own = "".join(json.dumps({**row, "kind": "summarization"}) + "\n" for row in rows)
    (folder / "tests.jsonl").write_text(own, encoding="utf-8")
    kwargs, page = "dataset_kwargs: {data_files: {test: tests.jsonl}}", PAGE.read_text(encoding="utf-8")
    assert all(f"`{words}`" in page for words in ("dataset_path: json", kwargs))
    text = yamls()["my_demo.yaml"].replace("my_demo", "my_table").replace("dataset_name: authors\n", "")
    text = re.sub(r"dataset_path: .*", f"dataset_path: json\n{kwargs}", text)
    (folder / "tasks" / "my_table.yaml").write_text(text, encoding="utf-8")
    done = run(folder, tiny_models["gpt2"], "my_demo,my_demo_by_category,my_table")
    assert done.returncode == 0, done.stderr[-3000:]
    stored = json.loads(next((folder / "results").rglob("results_*.json")).read_text("utf-8"))["results"]
    ours = random_models.evaluate(tiny_models["gpt2"], ["nnd_demo"], log_samples=True)
    metrics = ours["results"]["nnd_demo"]

    assert stored["my_table"]["tests,none"] == 2
    overall, by_category = stored["my_demo"], stored["my_demo_by_category"]
    assert overall["tests,none"] == metrics["tests,none"] == 381
    assert 0 < overall["pass_rate_bytes,none"] < 1
    for name in ("pass_rate_bytes,none", "pass_rate_bytes_stderr,none"):
        assert overall[name] == by_category[name] == pytest.approx(metrics[name], abs=1e-12)

    # The class logs the sum and the bytes of each candidate: the outcome of each test by hand.
    expected, counts = {}, dict[str, dict[str, list[bool]]]()
    for sample in ours["samples"]["nnd_demo"]:
        for test in sample["tests"]:
            high, low = (sample["candidates"][test[side]] for side in ("high", "low"))
            won = expected[test["test_id"]] = high["sum"] / high["bytes"] > low["sum"] / low["bytes"]
            counts.setdefault(test["category"], {}).setdefault(sample["doc"]["cluster_id"], []).append(won)
    lines = next((folder / "results").rglob("samples_my_demo_2*.jsonl")).read_text("utf-8").splitlines()
    samples = [json.loads(line) for line in lines]
    assert {one["doc"]["test_id"]: plain.Item(*one["pass_rate_bytes"]).passed for one in samples} == expected
    assert counts.keys() == {"disfluent", "off_target", "unfaithful"}
    for category, prompts in counts.items():
        won, of = ([count(outcomes) for outcomes in prompts.values()] for count in (sum, len))
        assert by_category[f"pass_rate_bytes_{category},none"] == pytest.approx(sum(won) / sum(of))
        assert by_category[f"pass_rate_bytes_{category}_stderr,none"] == pytest.approx(
            clustered_standard_error(won, of)
        )

    printed = table(done.stdout)["my_demo"]["pass_rate_bytes"]
    assert float(printed[0]) == pytest.approx(overall["pass_rate_bytes,none"], abs=1e-4)
    assert float(printed[1]) == pytest.approx(overall["pass_rate_bytes_stderr,none"], abs=1e-4)
