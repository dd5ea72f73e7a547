"""nnd build, run and compare, in a copy of the package without the rooms that one can take away, nor matplotlib."""

from __future__ import annotations

import os
import shutil
import sys

import pytest

from tests.commands import run
from tests.conftest import REPO

#: Runs all commands in one process, as importing torch takes seconds.
COMMANDS = """
import sys
import nnd_tasks
from nnd_tasks.cli import main

folder, *models = sys.argv[1:]
words = "--tasks nnd_demo --limit 2 --log_samples --model hf --output_path".split()
runs = [["run", *words, folder, "--model_args", f"pretrained={model},softmax_dtype=float32"] for model in models]
print(nnd_tasks.__file__)
for command in (["build", "demo"], *runs, ["compare", folder]):
    sys.argv = ["nnd", *command]
    try:
        main()
    except SystemExit as stop:
        if stop.code:
            raise
"""


@pytest.mark.slow
def test_without_the_rooms_that_one_can_take_away(tmp_path, gpt2, llama):
    """Each is taken away with the others: none of them is needed, so no one of them is."""
    for name in ("nnd_tasks", "task_yamls"):
        shutil.copytree(REPO / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for room in ("studies", "contribute", "likelihood", "page"):
        shutil.rmtree(tmp_path / "nnd_tasks" / room)
    (tmp_path / "matplotlib.py").write_text("raise SystemExit('matplotlib is imported')", "utf-8")
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "NND_HOME": str(tmp_path / "home")}
    models = [gpt2, llama]
    done = run([sys.executable, "-c", COMMANDS, tmp_path / "results", *models], cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(tmp_path / "nnd_tasks"))
    assert "; llama: nnd:" in done.stdout, "the signatures below the tables of nnd compare"
