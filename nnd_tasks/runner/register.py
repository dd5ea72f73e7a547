"""Make our tasks known to stock ``lm_eval``, and undo it.

lm-eval looks for tasks in the folder of its package ``lm_eval.tasks`` and in ``--include_path``, and has no entry point
for tasks of other packages. So `register` puts a folder of stubs into ``lm_eval.tasks``: one file per task, which includes
our YAML by its absolute path.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from nnd_tasks.datasets import task_yamls, tasks_dir, user_tasks_dir
from nnd_tasks.errors import NNDError
from nnd_tasks.files import changing
from nnd_tasks.folders import leftovers, lock_file, only_writer, remove, replacing
from nnd_tasks.yaml_json import read_yaml

FOLDER = "nnd_tasks"
MARKER = "REGISTERED_BY_NND_TASKS.txt"


def include_paths() -> list[Path]:
    """Return the folders that lm-eval should search: ours and, if it exists, the user's."""
    return [folder for folder in (tasks_dir(), user_tasks_dir()) if folder.is_dir()]


def lm_eval_tasks_dir() -> Path:
    """Return the folder that lm-eval searches for tasks, without importing lm-eval.

    Raises:
        NNDError: lm-eval is not installed, or has no such folder.
    """
    spec = importlib.util.find_spec("lm_eval")
    if spec is None or not spec.submodule_search_locations:
        raise NNDError("lm_eval is not installed in this environment; run: pip install 'lm-eval[hf]'")
    folder = Path(next(iter(spec.submodule_search_locations))) / "tasks"
    if not folder.is_dir():
        raise NNDError(f"{folder}: lm-eval has no such folder; nnd-tasks knows lm-eval 0.4.13 and 0.5")
    return folder


def task_files() -> dict[str, Path]:
    """Return name of the stub -> YAML file, for every task and group in `include_paths`."""
    files: dict[str, Path] = {}
    for folder in include_paths():
        for path in task_yamls(folder):
            files[str(path.relative_to(folder)).replace(os.sep, "__")] = path
    return files


def registered() -> Path | None:
    """Return the folder of stubs that `register` has made, or None."""
    folder = lm_eval_tasks_dir() / FOLDER
    return folder if (folder / MARKER).is_file() else None


def _stub(path: Path) -> str:
    return str(yaml.safe_dump({"include": str(path)}))


def is_current() -> bool:
    """Tell whether stock ``lm_eval`` knows exactly the tasks of `include_paths`, from an earlier `register`."""
    folder = registered()
    if folder is None:
        return False
    try:
        stubs = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.yaml")}
    except OSError:
        return False
    return stubs == {name: _stub(path) for name, path in task_files().items()}


def _is_ours(folder: Path) -> bool:
    """Tell whether `register` made a folder: it has the marker or, after an interrupted removal, nothing but stubs."""
    if (folder / MARKER).is_file():
        return True
    try:
        return all(path.suffix == ".yaml" and _is_stub(path) for path in folder.iterdir())
    except OSError:
        return False


def _is_stub(path: Path) -> bool:
    try:
        content = read_yaml(path)
    except NNDError:
        return False
    if content is None:  # an empty file, left by an interruption
        return True
    included = content.get("include") if isinstance(content, dict) and len(content) == 1 else None
    return isinstance(included, str) and Path(included).name == path.name.rpartition("__")[2]


@contextmanager
def _only_writer(beside: Path) -> Iterator[None]:
    """Let one process at a time change the stubs, and remove what a killed process left."""
    with only_writer(beside, 60.0, f"{beside.with_name(FOLDER)}: another command is changing the stubs; try again"):
        for path in _leftovers(beside):
            shutil.rmtree(path, ignore_errors=True)
        yield


def _outside(folder: Path) -> Path:
    """Return the path beside which stubs are made and removed: lm-eval searches ``folder.parent``, and must see all or none."""
    return folder.parent.parent / FOLDER


def _leftovers(beside: Path) -> list[Path]:
    earlier = beside.parent.glob(".nnd-*")  # of earlier releases
    paths = [*leftovers(beside, "new"), *leftovers(beside, "old"), *earlier]
    return [path for path in paths if path.is_dir() and (_is_ours(path) or _is_ours(path / FOLDER))]


def register() -> tuple[Path, int]:
    """Make our tasks known to stock ``lm_eval``, or bring the stubs of an earlier call up to date.

    Returns:
        The folder of stubs and their number.

    Raises:
        NNDError: the folder of lm-eval cannot be written, or has a folder of our name that `register` did not make.
    """
    folder = lm_eval_tasks_dir() / FOLDER
    files = task_files()
    hint = 'use `nnd run ...`, or `lm_eval --include_path "$(nnd tasks-dir)" ...`, which need no registration'
    beside = _outside(folder)
    with changing(folder, hint=hint), _only_writer(beside), replacing(folder, beside=beside) as new:
        if folder.exists() and not _is_ours(folder):
            raise NNDError(f"{folder}: exists and was not made by nnd register; move it away")
        for name, path in files.items():
            (new / name).write_text(_stub(path), encoding="utf-8")
        (new / MARKER).write_text(f"Stubs of {tasks_dir()}. Remove them with: nnd unregister\n", encoding="utf-8")
    return folder, len(files)


def unregister() -> Path | None:
    """Remove the folder that `register` made, and return it; None if there was none.

    Raises:
        NNDError: the folder cannot be removed.
    """
    folder = lm_eval_tasks_dir() / FOLDER
    beside = _outside(folder)
    if not (folder.exists() or lock_file(beside).exists() or _leftovers(beside)):
        return None
    with changing(folder, done="removed"), _only_writer(beside):
        if not folder.exists() or not _is_ours(folder):
            return None
        remove(folder, beside=beside)
    return folder
