"""Make our tasks known to stock ``lm_eval``, and undo it.

lm-eval looks for tasks in the folder of its package ``lm_eval.tasks`` and in ``--include_path``, and has no entry point
for tasks of other packages. So `register` puts a folder of stubs into ``lm_eval.tasks``: one file per task, which includes
our YAML by its absolute path.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from nnd_tasks.errors import NNDError
from nnd_tasks.files import changing, new_folder, only_writer
from nnd_tasks.store import task_yamls, tasks_dir, user_tasks_dir

FOLDER = "nnd_tasks"
#: Holds the paths of the YAMLs that the stubs include.
MARKER = "REGISTERED_BY_NND_TASKS.txt"


def include_paths() -> list[Path]:
    """Return the folders that lm-eval should search: ours and, if it exists, the user's."""
    return [folder for folder in (tasks_dir(), user_tasks_dir()) if folder.is_dir()]


def lm_eval_tasks_dir() -> Path:
    """Return the folder that lm-eval searches for tasks, without importing lm-eval.

    Raises:
        NNDError: lm-eval is not installed.
    """
    spec = importlib.util.find_spec("lm_eval")
    if spec is None or not spec.submodule_search_locations:
        raise NNDError("lm_eval is not installed in this environment; run: pip install 'lm-eval[hf]'")
    return Path(next(iter(spec.submodule_search_locations))) / "tasks"


def task_files() -> dict[str, Path]:
    """Return name of the stub -> YAML file, for every task and group in `include_paths`."""
    files: dict[str, Path] = {}
    for folder in include_paths():
        for path in task_yamls(folder):
            files[str(path.relative_to(folder)).replace(os.sep, "__")] = path
    return files


def _listing(paths: Iterable[Path]) -> str:
    return "".join(f"{path}\n" for path in paths)


def is_current() -> bool:
    """Tell whether stock ``lm_eval`` knows exactly the tasks of `include_paths`, from an earlier `register`."""
    folder = lm_eval_tasks_dir() / FOLDER
    try:
        listed = (folder / MARKER).read_text(encoding="utf-8")
        names = {path.name for path in folder.iterdir()}
    except OSError:
        return False
    files = task_files()
    return listed == _listing(files.values()) and names == {MARKER, *files}


def register() -> tuple[Path, int]:
    """Make our tasks known to stock ``lm_eval``, or bring the stubs of an earlier call up to date.

    Returns:
        The folder of stubs and their number.

    Raises:
        NNDError: the folder of lm-eval cannot be written, or has a folder of our name that `register` did not make.
    """
    folder = lm_eval_tasks_dir() / FOLDER
    files = task_files()
    hint = 'use `nnd run ...`, or `lm_eval --include_path "$(nnd register --print)" ...`, which need no registration'
    with changing(folder, hint=hint), _workshop(folder) as workshop:
        if folder.is_dir() and any(folder.iterdir()) and not (folder / MARKER).is_file():
            raise NNDError(f"{folder}: exists and was not made by nnd register; move it away")
        stubs = workshop / "new"
        stubs.mkdir()
        for name, path in files.items():
            (stubs / name).write_text(yaml.safe_dump({"include": str(path)}), encoding="utf-8")
        (stubs / MARKER).write_text(_listing(files.values()), encoding="utf-8")
        if folder.exists():
            folder.rename(workshop / "old")
        stubs.rename(folder)
    return folder, len(files)


def unregister() -> Path | None:
    """Remove the folder that `register` made, and return it; None if there was none.

    Raises:
        NNDError: the folder cannot be removed.
    """
    folder = lm_eval_tasks_dir() / FOLDER
    if not (folder / MARKER).is_file():
        return None
    with changing(folder, done="removed"), _workshop(folder) as workshop:
        if folder.exists():
            folder.rename(workshop / "old")
    return folder


@contextmanager
def _workshop(folder: Path) -> Iterator[Path]:
    """Yield a folder to prepare stubs in, for one process at a time; it is removed in the end.

    It lies outside of the folder that lm-eval searches, so that lm-eval sees all stubs or none. What an earlier process that
    was killed left there is removed.

    Raises:
        NNDError: another process registers for longer than a minute.
    """
    beside = folder.parent.parent / folder.name
    busy = f"{folder}: another command is still writing it; try again when it is done"
    with only_writer(beside, 60.0, busy), new_folder(beside) as workshop:
        yield workshop
