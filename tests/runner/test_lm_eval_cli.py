"""The real command lines, in subprocesses, as a user types them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nnd_tasks.runner import register as registration
from tests import commands
from tests.commands import printed_table as table
from tests.conftest import DATA, MODELS, needs_data, needs_models

BIN = Path(sys.executable).parent
MODEL = MODELS / "tiny-lm-xs"


@pytest.fixture(scope="module")
def built(real_sets: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    for name in ("demo", *(("summeval", "frank") if DATA.is_dir() else ())):
        shutil.copytree(real_sets(name), home / "nnd" / name)
    return home


def call(home: Path, *command: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NND_HOME": str(home), "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    return commands.run([BIN / command[0], *command[1:]], env=environment, cwd=cwd)


@pytest.fixture
def registered(built: Path) -> Iterator[Path]:
    """Register through the command; leave the environment as it was found."""
    done = call(built, "nnd", "register")
    assert done.returncode == 0, done.stderr
    yield registration.lm_eval_tasks_dir() / registration.FOLDER
    registration.unregister()


@needs_data
@needs_models
def test_the_literal_command_scores_two_sets_after_nnd_register(registered: Path, built: Path, tmp_path: Path) -> None:
    command = (
        f"lm_eval --model hf --model_args pretrained={MODEL},dtype=float32 --tasks nnd_summeval,nnd_frank --device cpu "
        f"--limit 3 --batch_size 4 --output_path {tmp_path / 'out'} --log_samples"
    )
    done = call(built, *command.split(), cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    printed = table(done.stdout)
    assert set(printed) == {"nnd_summeval", "nnd_frank"}
    results = json.loads(next((tmp_path / "out").rglob("results_*.json")).read_text())["results"]
    for task, metrics in printed.items():
        assert {"pass_rate", "pass_rate_sum", "pass_rate_bytes", "tests", "clusters", "ties", "unscored"} <= set(
            metrics
        )
        value, error = metrics["pass_rate"]
        assert float(value) == pytest.approx(results[task]["pass_rate,none"], abs=1e-4)
        assert float(error.split("†")[0]) == pytest.approx(results[task]["pass_rate_stderr,none"], abs=1e-4)
        assert float(metrics["clusters"][0]) == 3
    assert {"pass_rate_consistency", "pass_rate_coherence", "pass_rate_fluency", "pass_rate_relevance"} <= set(
        printed["nnd_summeval"]
    )
    for path in (tmp_path / "out").rglob("samples_*.jsonl"):
        samples = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        task = re.sub(r"samples_(.*?)_\d{4}-.*", r"\1", path.name)
        outcomes = [test["passed"] for sample in samples for test in sample["tests"]]
        assert sum(outcomes) / len(outcomes) == pytest.approx(results[task]["pass_rate,none"])
        for sample in samples:
            for record in sample["candidates"]:
                assert record["mean"] == pytest.approx(record["sum"] / record["tokens"])


def test_undo_makes_lm_eval_forget(registered: Path, built: Path) -> None:
    assert {"nnd.yaml", "quiz_design__nnd_quiz_design_mixqg.yaml"} <= {path.name for path in registered.iterdir()}
    assert call(built, "nnd", "register", "--undo").returncode == 0
    assert not registered.exists()
    assert "nothing was registered" in call(built, "nnd", "register", "--undo").stdout


@needs_models
def test_nnd_run_needs_no_registration_and_passes_everything_on(built: Path, tmp_path: Path) -> None:
    (tmp_path / "extra").mkdir()
    demo = registration.tasks_dir() / "demo" / "nnd_demo.yaml"
    (tmp_path / "extra" / "mine.yaml").write_text(f"include: {demo}\ntask: mine\n")
    command = (
        f"nnd run --model hf --model_args pretrained={MODEL},dtype=float32 --tasks nnd_demo,mine --device cpu --limit 4 "
        f"--include_path {tmp_path / 'extra'} --batch_size auto --use_cache {tmp_path / 'cache'} --num_fewshot 1 "
        f"--output_path {tmp_path / 'out'}"
    )
    done = call(built, *command.split(), "--metadata", '{"append_eos": true, "ties": "authors"}', cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    printed = table(done.stdout)
    assert printed["nnd_demo"] == printed["mine"]
    again = call(built, *command.split(), "--metadata", '{"append_eos": true, "ties": "authors"}', cwd=tmp_path)
    assert table(again.stdout) == printed
    assert "Requests remaining: 0" in again.stderr + again.stdout
    stored = json.loads(next((tmp_path / "out").rglob("results_*.json")).read_text())
    assert stored["configs"]["nnd_demo"]["metadata"]["nnd"]["append_eos"] is True
    assert stored["n-shot"]["nnd_demo"] == 1


def test_lm_eval_lists_and_validates_our_tasks(built: Path) -> None:
    include = ("--include_path", str(registration.tasks_dir()))
    listed = call(built, "lm_eval", "ls", "tasks", *include)
    assert listed.returncode == 0, listed.stderr[-3000:]
    for name in ("nnd_quiz_design", "nnd_challenge300_macaw", "nnd_mqm_ende_gpt2", "nnd_news_gpt3_bbc"):
        assert re.search(rf"\|\s*{name}\s*\|", listed.stdout)
    assert re.search(r"\|\s*nnd\s*\|", listed.stdout)
    valid = call(built, "lm_eval", "validate", "--tasks", "nnd_demo", *include)
    assert valid.returncode == 0, valid.stderr[-3000:]
    assert "all tasks found and valid" in valid.stdout.lower(), valid.stdout


def test_a_mistake_ends_in_one_clear_line_with_the_literal_command_too(built: Path, tmp_path: Path) -> None:
    include = ("--include_path", str(registration.tasks_dir()))
    stock = call(built, "lm_eval", "--model", "dummy", "--tasks", "nnd_quiz_design", *include, cwd=tmp_path)
    assert stock.returncode != 0
    assert "run: nnd build quiz_design" in stock.stderr.strip().splitlines()[-1]
