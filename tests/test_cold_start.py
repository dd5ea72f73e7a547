"""Every verb once in a Python that has imported nothing, as users start it; elsewhere commands fork (`tests.commands`)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nnd_tasks.cli import app
from tests.analysis.fake_runs import write_run
from tests.commands import nnd_process
from tests.conftest import REPO

#: Command line -> its exit status, and what it prints, on standard error where the status is not 0.
COMMANDS = {
    "list": (0, "quiz_design"),
    "show demo": (0, "demo"),
    "build demo": (0, "381 tests"),
    "check demo": (0, "0 errors"),
    "new answers --from {repo}/examples/answers.csv --better right": (0, "nnd_answers"),
    "publish demo --repo a/b --dry-run": (0, "a/b"),
    "register --print": (0, "task_yamls"),  # the real one changes this environment
    "run --model hf --model_args pretrained={models}/gpt2 --tasks nnd_demo --limit 2": (0, "pass_rate"),
    "compare a b": (0, "m-b"),
    "report a b --output r.html": (0, ""),
    "report a b --site site": (0, "index.html"),
    "trend a b": (0, "nnd_made_up"),
    "signal a": (1, "nnd: error: "),
    "familiarity a b": (1, "nnd build made_up"),
    "verify rouge": (1, "nnd: error: "),
    "reproduce": (0, "quiz_design"),
    "stress build x --corpus nowhere --source .": (1, "nnd: error: "),
    "stress report nowhere": (1, "nnd: error: "),
    "stress metrics nowhere --corpus ted --source .": (1, "nnd: error: "),
    "demo --out /dev/null/x": (1, "nnd: error: "),
}


def test_no_verb_is_forgotten() -> None:
    names = {
        command.name or command.callback.__name__
        for command in app.registered_commands
        if command.callback and not command.hidden
    }
    assert {command.split()[0] for command in COMMANDS} == {*names, "stress"}


@pytest.mark.parametrize("command", list(COMMANDS))
def test_a_verb_works_in_a_fresh_process(
    command: str, demo_home: Path, tiny_models: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if command.startswith(("check", "run", "publish")):
        monkeypatch.setenv("NND_HOME", str(demo_home))
    for name in "ab":
        write_run(tmp_path / name, f"m-{name}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NND_COLD", "1")
    status, out, err = nnd_process(*command.format(repo=REPO, models=tiny_models["gpt2"].parent).split())
    expected, text = COMMANDS[command]
    assert status == expected, err
    assert text in (err if status else out)
    assert "Traceback" not in err


@pytest.mark.parametrize("command", ["--help", "list", "show demo", "check demo", "register --print"])
def test_what_needs_no_model_imports_no_torch(
    command: str, demo_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("torch", "transformers"):
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('{name} is imported')\n", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(REPO)]))
    monkeypatch.setenv("NND_HOME", str(demo_home))
    monkeypatch.setenv("NND_COLD", "1")
    status, _, err = nnd_process(*command.split())
    assert (status, err) == (0, "")
