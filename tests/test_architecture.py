"""Modules import downwards only, the package itself imports fast, and one name stands for one thing."""

from __future__ import annotations

import ast
import pkgutil
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from importlinter.api import read_configuration

import nnd_tasks
import nnd_tasks.datasets
import nnd_tasks.errors
import nnd_tasks.sets.build
from tests.conftest import REPO

PYPROJECT = REPO / "pyproject.toml"
HEAVY = {"torch", "datasets", "lm_eval", "transformers", "tensorflow", "jax"}

pytestmark = pytest.mark.skipif(not PYPROJECT.is_file(), reason="needs the source tree")


# ---------------------------------------------------------------- floors


def lint_imports(config: Path) -> subprocess.CompletedProcess[str]:
    code = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    command = [sys.executable, "-c", code, "--no-cache", "--no-logo", "--config", str(config)]
    return subprocess.run(command, cwd=REPO, capture_output=True, text=True, check=False)


def floors() -> list[str]:
    contracts = read_configuration(str(PYPROJECT))["contracts_options"]
    return [layer for contract in contracts if contract["type"] == "layers" for layer in contract["layers"]]


def test_every_module_imports_only_from_floors_below_its_own() -> None:
    result = lint_imports(PYPROJECT)
    assert result.returncode == 0, result.stdout + result.stderr
    assert " 0 broken" in result.stdout
    assert " 0 kept" not in result.stdout


def test_every_module_stands_on_a_floor() -> None:
    placed = {name.strip() for layer in floors() for name in layer.replace(":", "|").split("|")}
    modules = {f"nnd_tasks.{module.name}" for module in pkgutil.iter_modules(nnd_tasks.__path__)}
    assert modules - placed == set()


def test_the_engine_imports_nothing_of_the_rest() -> None:
    assert floors()[-1] == "nnd_tasks.models"


# ---------------------------------------------------------------- imports


def loaded_by(statement: str) -> set[str]:
    """Return the top-level packages that a fresh process has after ``statement``."""
    code = f"import sys\n{statement}\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


def test_most_modules_import_no_heavy_packages() -> None:
    modules = ("sets.recipe", "statistics", "datasets", "harness.metrics")
    loaded = loaded_by(f"import {', '.join(f'nnd_tasks.{module}' for module in modules)}")
    assert "nnd_tasks" in loaded
    assert loaded & HEAVY == set()


def test_the_package_itself_imports_nothing_but_the_standard_library() -> None:
    assert loaded_by("import nnd_tasks") & {"numpy", "scipy", "pyarrow", "yaml", "typer", "requests"} == set()


def test_public_names_are_those_of_their_modules() -> None:
    assert nnd_tasks.load is nnd_tasks.datasets.load
    assert nnd_tasks.build_set is nnd_tasks.sets.build.build_set
    assert nnd_tasks.NNDError is nnd_tasks.errors.NNDError
    assert set(nnd_tasks.__all__) == {
        "load",
        "build_set",
        "evaluate",
        "read_results",
        "NNDCallback",
        "NNDError",
        "__version__",
    }
    for name in nnd_tasks.__all__:
        assert getattr(nnd_tasks, name) is not None


# ---------------------------------------------------------------- what runs code that a file holds

UNSAFE_MODULES = {"pickle", "_pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
UNSAFE_CALLS = {
    "eval", "exec", "compile", "__import__", "torch.load", "numpy.load", "np.load", "yaml.load", "yaml.load_all",
    "yaml.full_load", "yaml.unsafe_load", "pandas.read_pickle", "pd.read_pickle",
}  # fmt: skip


def dotted(node: ast.expr) -> str:
    """Return ``a.b`` of an expression that is a name or an attribute of one, else ``""``."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (owner := dotted(node.value)):
        return f"{owner}.{node.attr}"
    return ""


def unsafe(source: str) -> list[str]:
    """Return what in ``source`` could run code that it reads."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
            names = [f"{module}.{alias.name}" if module else alias.name for alias in node.names]
            found += [name for name in names if name.split(".")[0] in UNSAFE_MODULES or name in UNSAFE_CALLS]
        elif isinstance(node, ast.Call):
            name = dotted(node.func)
            given = {keyword.arg for keyword in node.keywords}
            # SqliteDict pickles what it is not told how to store.
            if name in UNSAFE_CALLS or (name.endswith("SqliteDict") and not {"encode", "decode"} <= given):
                found.append(name)
            found += [
                f"{keyword.arg}={keyword.value.value}"
                for keyword in node.keywords
                if isinstance(keyword.value, ast.Constant)
                and (keyword.arg, keyword.value.value)
                in {("allow_pickle", True), ("weights_only", False), ("trust_remote_code", True)}
            ]
    return found


def test_nothing_that_is_read_is_run() -> None:
    files = sorted((REPO / "nnd_tasks").rglob("*.py"))
    assert len(files) > 20
    found = {str(file.relative_to(REPO)): bad for file in files if (bad := unsafe(file.read_text(encoding="utf-8")))}
    assert found == {"nnd_tasks/sets/prepare.py": ["exec", "compile"]}, "the prepare.py of a set that the user trusts"


@pytest.mark.parametrize(
    "line",
    [
        "import pickle",
        "from dill import loads",
        "from torch import load",
        "x = torch.load(path)",
        "x = yaml.load(text, yaml.SafeLoader)",
        "x = eval(text)",
        "exec(text)",
        "x = AutoModel.from_pretrained(name, trust_remote_code=True)",
        "x = SqliteDict(path)",
    ],
)
def test_what_would_run_what_it_reads_is_seen(line: str) -> None:
    assert unsafe(f"def f():\n    {line}\n")
    assert not unsafe("model.eval()\nx = yaml.safe_load(text)\nx = SqliteDict(path, encode=dumps, decode=loads)\n")


# ---------------------------------------------------------------- one name, one thing


def public_classes() -> dict[str, list[str]]:
    """Return name -> the modules that define a public class of this name."""
    found: dict[str, list[str]] = {}
    for package in ("nnd_tasks", "hub_upload"):
        for path in sorted((REPO / package).rglob("*.py")):
            for node in ast.parse(path.read_text("utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    found.setdefault(node.name, []).append(str(path.relative_to(REPO)))
    return found


def test_no_two_modules_have_one_name() -> None:
    names = Counter(path.stem for package in ("nnd_tasks", "hub_upload") for path in (REPO / package).rglob("*.py"))
    assert {name for name, count in names.items() if count > 1} == {"__init__", "__main__"}


def test_no_two_public_classes_have_one_name() -> None:
    assert {name: places for name, places in public_classes().items() if len(places) > 1} == {}


def test_each_floor_meets_lm_eval_in_one_file() -> None:
    """What runs in lm-eval, with whichever release, imports it there; what reads or makes sets does not."""
    met = re.compile(r"^\s*(from|import) lm_eval\b|patch(\.object)?\([\"']lm_eval\b", re.MULTILINE)
    places = {
        str(path.relative_to(REPO / "nnd_tasks"))
        for floor in ("models", "harness", "runner", "sets", "check", "show", "cli")
        for path in (REPO / "nnd_tasks" / floor).rglob("*.py")
        if met.search(path.read_text("utf-8"))
    }
    assert places == {"models/upstream.py", "harness/base_task.py", "runner/adapter.py"}


def test_files_can_be_read_in_one_sitting() -> None:
    lengths = {path: len(path.read_text("utf-8").splitlines()) for path in (REPO / "nnd_tasks").rglob("*.py")}
    assert {str(path): length for path, length in lengths.items() if length > 400} == {}
