"""Make our tasks known to stock ``lm_eval``, and undo it.

lm-eval 0.4.13 looks for tasks below the folder of its imported ``lm_eval.tasks`` package and in ``--include_path``; an
installed package cannot advertise any. So `register` puts one folder of stubs there, one file per task, each of which
includes our YAML by its absolute path.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from pathlib import Path

import yaml

from nnd_tasks.datasets import tasks_dir, user_tasks_dir
from nnd_tasks.errors import NNDError

FOLDER = "nnd_tasks"
MARKER = "REGISTERED_BY_NND_TASKS.txt"


def include_paths() -> list[Path]:
    """Return the folders that lm-eval should search, ours and, if there is one, the user's."""
    return [folder for folder in (tasks_dir(), user_tasks_dir()) if folder.is_dir()]


def lm_eval_tasks_dir() -> Path:
    """Return the folder that the imported lm-eval searches; importing lm-eval itself is not needed for it.

    Raises:
        NNDError: lm-eval is not installed, or has no such folder.
    """
    spec = importlib.util.find_spec("lm_eval")
    if spec is None or not spec.submodule_search_locations:
        raise NNDError("lm_eval is not installed in this environment; run: pip install 'lm-eval[hf]'")
    folder = Path(next(iter(spec.submodule_search_locations))) / "tasks"
    if not folder.is_dir():
        raise NNDError(f"{folder}: lm-eval has no such folder; this release knows lm-eval 0.4.13")
    return folder


def task_files() -> dict[str, Path]:
    """Return stub name -> YAML file of every task and group in `include_paths`."""
    files: dict[str, Path] = {}
    for folder in include_paths():
        for path in sorted(folder.rglob("*.yaml")):
            files[str(path.relative_to(folder)).replace(os.sep, "__")] = path
    return files


def registered() -> Path | None:
    """Return the folder of stubs if `register` has made one."""
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


def register() -> tuple[Path, int]:
    """Make our tasks known to stock ``lm_eval``; doing it again brings the stubs up to date.

    Returns:
        The folder of stubs and their number.

    Raises:
        NNDError: the folder of lm-eval cannot be written, or something else has our name there.
    """
    folder = lm_eval_tasks_dir() / FOLDER
    if folder.exists() and not (folder / MARKER).is_file():
        raise NNDError(f"{folder}: exists and was not made by nnd register; move it away")
    files = task_files()
    try:
        # The stubs are made outside the folder that lm-eval searches, which must never see half of them.
        new = Path(tempfile.mkdtemp(prefix=".nnd-", dir=folder.parent.parent))
        try:
            new.chmod(0o755)
            (new / MARKER).write_text(f"Stubs of {tasks_dir()}. Remove them with: nnd unregister\n", encoding="utf-8")
            for name, path in files.items():
                (new / name).write_text(_stub(path), encoding="utf-8")
            if folder.exists():
                shutil.rmtree(folder)
            new.rename(folder)
        finally:
            shutil.rmtree(new, ignore_errors=True)
    except OSError as error:
        raise NNDError(
            f"{folder}: cannot be written ({error.strerror or error}); use `nnd run ...`, or "
            '`lm_eval --include_path "$(nnd tasks-dir)" ...`, which need no registration'
        ) from error
    return folder, len(files)


def unregister() -> Path | None:
    """Remove what `register` made; return the folder, or None when there was none.

    Raises:
        NNDError: it cannot be removed.
    """
    folder = registered()
    if folder is None:
        return None
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise NNDError(f"{folder}: cannot be removed ({error.strerror or error})") from error
    return folder
