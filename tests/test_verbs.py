"""Every verb once, and as users start it: three commands in a Python that has imported nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from nnd_tasks.cli import app
from tests.commands import Outcome, nnd_process
from tests.conftest import REPO
from tests.results.fake_runs import write_run

#: Command line -> its exit status, and what it prints, on standard error where the status is not 0.
COMMANDS = {
    "list": (0, "quiz_design"),
    "show demo": (0, "demo"),
    "build demo": (0, "381 tests"),
    "check demo": (0, "0 errors"),
    "new answers --from {repo}/examples/answers.csv --better right": (0, "nnd_answers"),
    "publish demo --repo a/b --dry-run": (0, "a/b"),
    "register --print": (0, "task_yamls"),  # the real one changes this environment
    "run --model hf --tasks nowhere": (1, "nowhere"),
    "compare a b": (0, "m-b"),
    "report a b --output r.html": (0, ""),
    "report a b --site site": (0, "index.html"),
    "trend a b": (0, "nnd_made_up"),
    "signal a": (1, "nnd: error: "),
    "familiarity a b": (1, "nnd build made_up"),
    "verify rouge": (1, "nnd: error: "),
    "reproduce": (0, "quiz_design"),
    "stress build x --corpus nowhere --source .": (1, "nnd: error: "),
    "stress attack x --models m --corpus nowhere --source .": (1, "nnd: error: "),
    "stress report nowhere": (1, "nnd: error: "),
    "stress metrics nowhere --corpus ted --source .": (1, "nnd: error: "),
    "stress self --models m --corpus nowhere --source .": (1, "nnd: error: "),
    "demo --out /dev/null/x": (1, "nnd: error: "),
}


def test_no_verb_is_forgotten() -> None:
    groups = [("", app), *((f"{group.name} ", group.typer_instance) for group in app.registered_groups)]
    names = {
        prefix + (command.name or command.callback.__name__)
        for prefix, group in groups
        if group
        for command in group.registered_commands
        if command.callback
    }
    assert {" ".join(command.split()[: 1 + command.startswith("stress")]) for command in COMMANDS} == names


@pytest.mark.parametrize("command", list(COMMANDS))
def test_a_verb_works(
    command: str, nnd: Callable[..., Outcome], demo_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if command.startswith(("check", "publish")):
        monkeypatch.setenv("NND_HOME", str(demo_home))
    for name in "ab":
        write_run(tmp_path / name, f"m-{name}")
    monkeypatch.chdir(tmp_path)
    status, out, err = nnd(*command.format(repo=REPO).split())
    expected, text = COMMANDS[command]
    assert status == expected, err
    assert text in (err if status else out)
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("command", "without"),
    [
        ("--help", ("torch", "transformers", "lm_eval", "matplotlib", "pandas")),
        ("list", ("torch", "transformers", "matplotlib")),
        ("run --model hf --model_args pretrained={models}/gpt2 --tasks nnd_demo --limit 2", ("matplotlib",)),
    ],
)
def test_a_fresh_process_imports_no_more_than_it_needs(
    command: str, without: tuple[str, ...], demo_home: Path, tiny_models: dict[str, Path], tmp_path: Path
) -> None:
    for name in without:
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('{name} is imported')\n", encoding="utf-8")
    path = os.pathsep.join([str(tmp_path), str(REPO)])
    words = command.format(models=tiny_models["gpt2"].parent).split()
    status, out, err = nnd_process(*words, PYTHONPATH=path, NND_HOME=str(demo_home))
    assert status == 0, err
    assert {"--help": "Near-Negative", "list": "quiz_design"}.get(command, "pass_rate") in out
