"""Modules import from layers below their own, the package itself imports fast, and nothing that is read is run."""

import re
import sys
from graphlib import TopologicalSorter

import grimp
from importlinter.api import read_configuration

import nnd_tasks
import nnd_tasks.sets.build
import nnd_tasks.sets.first_use
from tests.commands import run
from tests.conftest import REPO

PYPROJECT = REPO / "pyproject.toml"
PACKAGES = ("nnd_tasks", "hub_upload", "engine/shared_prefix")
MODULES = [path for package in PACKAGES for path in sorted((REPO / package).rglob("*.py"))]


# ---------------------------------------------------------------- layers


def layers():
    contracts = read_configuration(str(PYPROJECT))["contracts_options"]
    return [layer for contract in contracts if contract["type"] == "layers" for layer in contract["layers"]]


def test_every_module_imports_only_from_layers_below_its_own():
    code = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    command = [sys.executable, "-c", code, "--no-cache", "--no-logo", "--config", str(PYPROJECT)]
    result = run(command, cwd=REPO)
    assert result.returncode == 0, result.stdout + result.stderr
    assert " 0 broken" in result.stdout
    assert " 0 kept" not in result.stdout


def test_every_module_stands_in_a_layer():
    placed = {f"{name.strip()}." for layer in layers() for name in layer.replace(":", "|").split("|")}
    modules = {
        f"{'.'.join(path.relative_to(REPO).with_suffix('').parts).removeprefix('engine.')}."
        for path in MODULES
        if path.parts[-1][0] != "_"
    }
    assert {module for module in modules if not module.startswith(tuple(placed))} == set()
    assert layers()[-1] == "shared_prefix", "the engine imports nothing of the rest"


def test_modules_of_the_task_import_each_other_in_one_direction():
    """Imports for type checkers count, too: one that reads a module needs to know what it refers to."""
    graph = grimp.build_graph("nnd_tasks", cache_dir=None)
    modules = {"nnd_tasks.errors", *graph.find_descendants("nnd_tasks.task")}
    below = {name: graph.find_modules_directly_imported_by(name) & modules for name in modules}
    TopologicalSorter(below).prepare()  # raises CycleError
    assert not any(name.startswith("nnd_tasks") for name in graph.find_modules_directly_imported_by("nnd_tasks.errors"))


# ---------------------------------------------------------------- imports


def test_the_package_itself_imports_nothing_but_the_standard_library():
    code = "import sys, nnd_tasks; print(*{name.partition('.')[0] for name in sys.modules})"
    loaded = run([sys.executable, "-c", code]).stdout.split()
    assert "nnd_tasks" in loaded
    assert {*loaded} & {"numpy", "scipy", "pyarrow", "yaml", "typer", "requests"} == set()


def test_public_names_are_those_of_their_modules():
    assert nnd_tasks.load is nnd_tasks.sets.first_use.load
    assert nnd_tasks.build_set is nnd_tasks.sets.build.build_set
    assert {"load", "evaluate", "read_results", "build_set", "compare_runs"} <= {*dir(nnd_tasks)}
    for name in {*dir(nnd_tasks)} - {"__version__", "NNDError"}:
        assert "Example:\n" in getattr(nnd_tasks, name).__doc__, name


# ---------------------------------------------------------------- what runs code that a file holds

#: What could run code that a file holds, beside what ruff's rules S102, S301, S307 and S506 refuse.
UNSAFE = re.compile(
    r"\b(cloudpickle|joblib|marshal|torch\.load|__import__|allow_pickle=True|weights_only=False|trust_remote_code=True)\b"
    r"|SqliteDict\((?!.*encode=.*decode=)"  # pickles what it is not told how to store
    r"|noqa: S(102|30[17]|506)"
)


def test_nothing_that_is_read_is_run():
    found = {path.name: match[0] for path in MODULES if (match := UNSAFE.search(path.read_text("utf-8")))}
    assert found == {"rows.py": "noqa: S102"}, "of a set whose prepare.py the user trusts"


# ---------------------------------------------------------------- lm-eval


def test_lm_eval_is_imported_in_five_files_only():
    """Requests of tasks and others are made in one place, and a new release of lm-eval changes these files alone."""
    met = re.compile(r"^\s*(from|import) lm_eval\b|patch(\.object)?\([\"']lm_eval\b", re.MULTILINE)
    places = {"/".join(path.parts[-2:]) for path in MODULES if met.search(path.read_text("utf-8"))}
    assert places == {
        "task/task.py",
        "task/request.py",
        "run/adapter.py",
        "servers/client.py",
        "shared_prefix/upstream.py",
    }
