"""Modules import downwards only, and the package itself imports fast."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest
from importlinter.api import read_configuration

import nnd_tasks
import nnd_tasks.build
import nnd_tasks.datasets
import nnd_tasks.errors
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


def test_a_contract_that_does_not_hold_is_reported(tmp_path: Path) -> None:
    layers = "".join(f"    {layer}\n" for layer in reversed(floors()))
    config = tmp_path / "upside_down.ini"
    config.write_text(
        "[importlinter]\nroot_package = nnd_tasks\n\n"
        f"[importlinter:contract:1]\nname = upside down\ntype = layers\nlayers =\n{layers}",
        encoding="utf-8",
    )
    result = lint_imports(config)
    assert result.returncode == 1
    assert "nnd_tasks.errors is not allowed" not in result.stdout  # it imports nothing of ours
    assert "nnd_tasks.pairing is not allowed to import nnd_tasks.schema" in result.stdout


def test_every_module_stands_on_a_floor() -> None:
    placed = {name.strip() for layer in floors() for name in layer.replace(":", "|").split("|")}
    modules = {f"nnd_tasks.{module.name}" for module in pkgutil.iter_modules(nnd_tasks.__path__)}
    assert modules - placed == set()


# ---------------------------------------------------------------- imports


def loaded_by(statement: str) -> set[str]:
    """Return the top-level packages that a fresh process has after ``statement``."""
    code = f"import sys\n{statement}\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


@pytest.mark.parametrize(
    "module",
    ["nnd_tasks", "nnd_tasks.pairing", "nnd_tasks.statistics", "nnd_tasks.datasets", "nnd_tasks.harness.metrics"],
)
def test_importing_it_does_not_import_heavy_packages(module: str) -> None:
    loaded = loaded_by(f"import {module}")
    assert "nnd_tasks" in loaded
    assert loaded & HEAVY == set()


def test_the_package_itself_imports_nothing_but_the_standard_library() -> None:
    assert loaded_by("import nnd_tasks") & {"numpy", "scipy", "pyarrow", "yaml", "typer", "requests"} == set()


def test_a_heavy_import_would_be_seen(tmp_path: Path) -> None:
    for name in HEAVY:
        (tmp_path / f"{name}.py").write_text("", encoding="utf-8")  # stands for the real one, which takes seconds
    path = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); "
    assert loaded_by(path + "import nnd_tasks") & HEAVY == set()
    assert loaded_by(path + f"import nnd_tasks, {', '.join(HEAVY)}") >= HEAVY


def test_public_names_are_those_of_their_modules() -> None:
    assert nnd_tasks.load is nnd_tasks.datasets.load
    assert nnd_tasks.build_set is nnd_tasks.build.build_set
    assert nnd_tasks.NNDError is nnd_tasks.errors.NNDError
    assert set(nnd_tasks.__all__) == {"load", "build_set", "evaluate", "NNDError", "__version__"}
    for name in nnd_tasks.__all__:
        assert getattr(nnd_tasks, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        nnd_tasks.no_such_name  # noqa: B018
