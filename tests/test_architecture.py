"""Covers load.

Modules import downwards only, the package itself imports fast, and one name stands for one thing.
"""

import ast
import re
import sys
from collections import Counter

from importlinter.api import read_configuration

import nnd_tasks
import nnd_tasks.sets.build
import nnd_tasks.sets.first_use
from tests.commands import run
from tests.conftest import REPO

PYPROJECT = REPO / "pyproject.toml"
PACKAGES = ("nnd_tasks", "hub_upload", "engine/shared_prefix")
MODULES = [path for package in PACKAGES for path in sorted((REPO / package).rglob("*.py"))]


# ---------------------------------------------------------------- floors


def floors():
    contracts = read_configuration(str(PYPROJECT))["contracts_options"]
    return [layer for contract in contracts if contract["type"] == "layers" for layer in contract["layers"]]


def test_every_module_imports_only_from_floors_below_its_own():
    code = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    command = [sys.executable, "-c", code, "--no-cache", "--no-logo", "--config", str(PYPROJECT)]
    result = run(command, cwd=REPO)
    assert result.returncode == 0, result.stdout + result.stderr
    assert " 0 broken" in result.stdout
    assert " 0 kept" not in result.stdout


def test_every_module_stands_on_a_floor():
    placed = {f"{name.strip()}." for layer in floors() for name in layer.replace(":", "|").split("|")}
    modules = {
        f"{'.'.join(path.relative_to(REPO).with_suffix('').parts).removeprefix('engine.')}."
        for path in MODULES
        if path.parts[-1][0] != "_"
    }
    assert {module for module in modules if not module.startswith(tuple(placed))} == set()
    assert floors()[-1] == "shared_prefix", "the engine imports nothing of the rest"


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
        assert "\n    Example:\n" in getattr(nnd_tasks, name).__doc__, name


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


# ---------------------------------------------------------------- one name, one thing


def test_no_two_modules_have_one_name():
    """Files of verbs (`cli/`) are named by the room that they serve."""
    names = Counter(path.stem for path in MODULES if path.parent.name != "cli" or path.stem.startswith("__"))
    assert {name for name, count in names.items() if count > 1} == {"__init__", "__main__"}


def test_lm_eval_is_imported_in_five_files_only():
    """Requests of tasks and others are made in one place, and a new release of lm-eval changes these files alone."""
    met = re.compile(r"^\s*(from|import) lm_eval\b|patch(\.object)?\([\"']lm_eval\b", re.MULTILINE)
    places = {"/".join(path.parts[-2:]) for path in MODULES if met.search(path.read_text("utf-8"))}
    engine = {"shared_prefix/upstream.py", "shared_prefix/servers.py"}
    assert places == {"task/task.py", "task/request.py", "run/adapter.py", *engine}


def test_files_can_be_read_in_one_sitting():
    assert not [path for path in MODULES if len(path.read_text("utf-8").splitlines()) > 600]


# ---------------------------------------------------------------- tests


def names_covered(path):
    """Read what a test file says that it covers: in backticks, before the colon of its first line, or after "covers"."""
    head, *rest = (ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "").split("\n\n")
    before, colon, _ = head.partition(":")
    texts = [*re.findall(r"`.*?`", head), before if colon else "", *(p for p in (head, *rest) if "overs " in p[:13])]
    return set(re.findall(r"\w+", " ".join(texts)))


def test_what_one_module_gives_to_another_is_named_at_the_head_of_a_test_file():
    """Functions and classes that another module imports."""
    trees = [ast.parse(path.read_text("utf-8")) for path in MODULES]
    imports = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    imported = {alias.name for node in imports for alias in node.names if str(node.module).startswith("nnd_tasks.")}
    definitions = [node for tree in trees for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    public = {node.name for node in definitions if not node.name.startswith("_")} & imported
    named = set().union(*map(names_covered, (REPO / "tests").rglob("test_*.py")))
    assert public - named == set()
