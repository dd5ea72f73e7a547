"""Every verb once, and as users start it: three commands in a Python that has imported nothing."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nnd_tasks import cli
from nnd_tasks.cli import app
from tests.commands import Outcome, nnd_process, run
from tests.conftest import REPO
from tests.results.fake_runs import write_run

#: Command line -> what it prints.
COMMANDS = {
    "list": "quiz_design",
    "show demo": "demo",
    "build demo": "381 tests",
    "check demo": "0 errors",
    "new answers --from {repo}/examples/answers.csv --better right": "nnd_answers",
    "publish demo --repo a/b --dry-run": "a/b",
    "register --print": "task",  # the real one changes this environment
    "compare a b": "m-b",
    "report a b --output r.html": "written: r.html",
    "report a b --site site": "index.html",
    "trend a b": "nnd_made_up",
    "reproduce": "quiz_design",
    "stress build typos --corpus {repo}/examples/answers.csv --errors token_drop": "nnd stress report",
}
#: Verbs that need a model, several models or references -> the test file that runs them for real.
ELSEWHERE = {
    "run": "results/test_readers.py",
    "demo": "test_demo.py",
    "signal": "studies/test_signal.py",
    "familiarity": "studies/test_familiarity.py",
    "verify": "studies/test_verify.py",
    "stress attack": "studies/test_attack.py",
    "stress report": "studies/test_stress_set.py",
    "stress metrics": "studies/test_stress_set.py",
    "stress self": "studies/test_self.py",
}


@pytest.mark.parametrize(("module", "commands"), cli.COMMANDS.items())
def test_a_command_imports_its_own_module_only(module: str, commands: tuple[str, ...]) -> None:
    code = f"import sys; from nnd_tasks.cli import load_app; load_app({commands[-1]!r}); print(*sys.modules)"
    loaded = run([sys.executable, "-c", code]).stdout.split()
    assert {name for name in cli.COMMANDS if f"nnd_tasks.cli.{name}" in loaded} == {module}


def test_no_verb_is_forgotten() -> None:
    groups = [("", app), *((f"{group.name} ", group.typer_instance) for group in app.registered_groups)]
    names = {
        prefix + (command.name or command.callback.__name__)
        for prefix, group in groups
        if group
        for command in group.registered_commands
        if command.callback
    }
    run_here = {" ".join(command.split()[: 1 + command.startswith("stress")]) for command in COMMANDS}
    assert run_here | set(ELSEWHERE) == names
    assert {name.split()[0] for name in names} == {name for commands in cli.COMMANDS.values() for name in commands}
    assert not run_here & set(ELSEWHERE)
    for verb, file in ELSEWHERE.items():
        words = re.search(r"\W+".join(map(re.escape, verb.split())), (REPO / "tests" / file).read_text("utf-8"))
        assert words, f"{file} does not run nnd {verb}"


@pytest.mark.parametrize("command", COMMANDS)
def test_a_verb_works(
    command: str, nnd: Callable[..., Outcome], demo_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if command.startswith(("check", "publish")):
        monkeypatch.setenv("NND_HOME", str(demo_home))
    for name in "ab":
        write_run(tmp_path / name, f"m-{name}")
    monkeypatch.chdir(tmp_path)
    status, out, err = nnd(*command.format(repo=REPO).split())
    assert status == 0, err
    assert COMMANDS[command] in out + err
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
