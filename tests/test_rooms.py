"""Covers has_room, load_class, load_runs, locate_results, need_room: the package without the rooms that one can take away."""

import os
import re
import shutil
import sys

import pytest

from nnd_tasks.cli import COMMANDS
from tests.commands import run
from tests.conftest import REPO

ROOMS = ("asking", "contribute", "likelihood", "page", "studies", "training")
VERBS = {verb for verbs in COMMANDS.values() for verb in verbs}
IN_ROOMS = {verb for module, verbs in COMMANDS.items() if module.split(".")[1] in ROOMS for verb in verbs}

#: Runs all commands in one process, as importing torch takes seconds.
STEPS = """
import sys
import nnd_tasks
from nnd_tasks.cli import main

folder, *models = sys.argv[1:]
words = "--tasks nnd_demo --limit 2 --log_samples --model hf --output_path".split()
runs = [["run", *words, folder, "--model_args", f"pretrained={model},softmax_dtype=float32"] for model in models]
print(nnd_tasks.__file__)
for command in (["build", "demo"], *runs, ["compare", folder], ["--help"], ["report", folder], ["check", "demo"]):
    sys.argv = ["nnd", *command]
    status = 0
    try:
        main()
    except SystemExit as stop:
        status = stop.code or 0
    print(f"status of {command[0]}: {status}")
sys.argv = ["nnd", *runs[0], "--tasks", "nnd_demo_judge"]
main()
"""


@pytest.mark.slow
def test_without_the_rooms_that_one_can_take_away(tmp_path, gpt2, llama):
    """Each is taken away with the others: none of them is needed, so no one of them is."""
    for name in ("nnd_tasks", "task_yamls"):
        shutil.copytree(REPO / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for room in ROOMS:
        shutil.rmtree(tmp_path / "nnd_tasks" / room)
    (tmp_path / "matplotlib.py").write_text("raise SystemExit('matplotlib is imported')", "utf-8")
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "NND_HOME": str(tmp_path / "home")}
    models = [gpt2, llama]
    done = run([sys.executable, "-c", STEPS, tmp_path / "results", *models], cwd=tmp_path, env=environment)
    out = done.stdout
    statuses = dict(re.findall(r"^status of (\S+): (\d)$", out, re.MULTILINE))
    assert statuses == {"build": "0", "run": "0", "compare": "0", "--help": "0", "report": "1", "check": "2"}, (
        done.stderr
    )
    assert out.startswith(str(tmp_path / "nnd_tasks"))
    assert "; llama: nnd:" in out, "the signatures below the tables of nnd compare"
    assert {command for command in VERBS if f"│ {command} " in out} == VERBS - IN_ROOMS
    assert "nnd: error: nnd report: needs nnd_tasks/page/, which this installation lacks\n" in done.stderr
    assert "No such command 'check'" in done.stderr
    asking = "task nnd_demo_judge: reader='judge': needs nnd_tasks/asking/, which this installation lacks"
    assert done.stderr.endswith(f"nnd: error: {asking}\n")
