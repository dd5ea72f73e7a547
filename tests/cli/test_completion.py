"""What the shell offers when one presses Tab."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nnd_tasks.cli import completion
from nnd_tasks.sets.build import build_set
from tests.conftest import SOURCES

#: None of these may be imported while a shell waits.
HEAVY = ("torch", "lm_eval", "transformers", "datasets", "pandas", "scipy", "matplotlib")

COMPLETE = f"""
import sys
from nnd_tasks.cli import main
sys.argv = ["nnd"]
try:
    main()
finally:
    print("heavy:", *(name for name in {HEAVY!r} if name in sys.modules), file=sys.stderr)
"""


def offered(line: str) -> list[str]:
    """Return what bash would offer for the last word of a line, from a process of its own; it must not import much."""
    words = line.split(" ")
    env = {**os.environ, "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1), "_NND_COMPLETE": "complete_bash"}
    done = subprocess.run(
        [sys.executable, "-c", COMPLETE], env=env, capture_output=True, encoding="utf-8", timeout=60, check=False
    )
    assert done.stderr == "heavy:\n", done.stderr
    return done.stdout.splitlines()


@pytest.fixture
def home(nnd_home: Path) -> Path:
    build_set("demo")
    own = nnd_home / "task_yamls" / "mine"
    own.mkdir(parents=True)
    (own / "_recipe").write_text("context: c\n", encoding="utf-8")
    (own / "nnd_mine.yaml").write_text("include: x\ntask: nnd_mine\n", encoding="utf-8")
    (own / "broken.yaml").write_bytes(b"\xff\xfe")
    return nnd_home


def test_a_shell_completes_commands_sets_tasks_and_configs_without_a_heavy_import(home: Path) -> None:
    assert offered("nnd comp") == ["compare"]
    assert offered("nnd build qu") == ["quiz_design"]
    assert offered("nnd show m") == ["mqm", "mine"]
    assert offered("nnd show demo --config c") == ["clean"]
    assert offered("nnd check ") == ["demo"]
    assert offered("nnd run --model hf --tasks nnd_fr")[:2] == ["nnd_frank", "nnd_frank_authors"]
    assert offered("nnd run --model hf --tasks nnd_frank,nnd_mi") == ["nnd_frank,nnd_mine"]
    assert offered("nnd reproduce quiz") == ["quiz_design"]


def test_every_set_and_task_is_offered(home: Path) -> None:
    from lm_eval.tasks import TaskManager

    from nnd_tasks.datasets import tasks_dir

    assert {name for name, _ in completion.sets("")} == {*SOURCES, "mine"}
    assert dict(completion.sets(""))["demo"] == "built"
    assert completion.built("") == [("demo", "built")]
    known = TaskManager(include_defaults=False, include_path=str(tasks_dir())).all_tasks
    assert {name for name, _ in completion.task_names("")} == {*known, "nnd_mine"}


def test_a_home_that_cannot_be_read_offers_nothing_and_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    monkeypatch.setenv("NND_HOME", str(loop))
    assert completion.built("") == []
    assert all(kind for _, kind in completion.sets(""))


def test_the_scripts_of_typer_can_be_shown() -> None:
    env = {**os.environ, "_NND_COMPLETE": "source_bash"}
    done = subprocess.run(
        [sys.executable, "-c", COMPLETE], env=env, capture_output=True, encoding="utf-8", timeout=60, check=False
    )
    assert "_NND_COMPLETE=complete_bash" in done.stdout
