"""The package works without its optional packages."""

import os
import re
import shutil
import sys

import pytest

from nnd_tasks.cli import COMMANDS
from tests.commands import run
from tests.conftest import REPO

PACKAGES = ("ceiling", "contribute", "exchange", "likelihood", "page", "prompted", "studies", "training")
VERBS = {verb for verbs in COMMANDS.values() for verb in verbs}
OPTIONAL = {verb for module, verbs in COMMANDS.items() if module.split(".")[1] in PACKAGES for verb in verbs}

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
def test_without_the_optional_packages(tmp_path, gpt2, llama):
    """All are removed at once: if none of them is needed, no single one is."""
    for name in ("nnd_tasks", "task_yamls"):
        shutil.copytree(REPO / name, tmp_path / name)
    for name in PACKAGES:
        shutil.rmtree(tmp_path / "nnd_tasks" / name)
    (tmp_path / "matplotlib.py").write_text("raise SystemExit('matplotlib is imported')", "utf-8")
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "NND_HOME": str(tmp_path / "home")}
    models = [gpt2, llama]
    done = run([sys.executable, "-c", STEPS, tmp_path / "results", *models], cwd=tmp_path, env=environment)
    out = done.stdout
    statuses = dict(re.findall(r"^status of (\S+): (\d)$", out, re.MULTILINE))
    assert statuses == {"build": "0", "run": "0", "compare": "0", "--help": "0", "report": "1", "check": "1"}, (
        done.stderr
    )
    assert out.startswith(str(tmp_path / "nnd_tasks"))
    assert "; llama: nnd:" in out, "the signatures below the tables of nnd compare"
    assert {command for command in VERBS if f"│ {command} " in out} == VERBS - OPTIONAL
    for verb, package in {"report": "page", "check": "contribute"}.items():
        assert f"nnd: error: nnd {verb}: needs the package nnd_tasks.{package}, which is not installed\n" in done.stderr
    judge = "task nnd_demo_judge: reader='judge': needs the package nnd_tasks.prompted, which is not installed"
    assert done.stderr.endswith(f"nnd: error: {judge}\n")
