"""Make our tasks known to stock ``lm_eval``, and undo it.

lm-eval looks for tasks in the folder of its package ``lm_eval.tasks`` and in ``--include_path``; releases after 0.4.13 may also
ask installed packages. So `register` puts the folder of all tasks into ``lm_eval.tasks``.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from nnd_tasks.errors import NNDError
from nnd_tasks.files import changing, workshop
from nnd_tasks.task.task_files import MARKER, fill_folder, is_filled

FOLDER = "nnd_tasks"


def lm_eval_tasks_dir() -> Path:
    """Return the folder that lm-eval searches for tasks, without importing lm-eval.

    Raises:
        NNDError: lm-eval is not installed.
    """
    spec = importlib.util.find_spec("lm_eval")
    if spec is None or not spec.submodule_search_locations:
        raise NNDError("lm_eval is not installed in this environment; run: pip install 'lm-eval[hf]'")
    return Path(next(iter(spec.submodule_search_locations))) / "tasks"


def is_current() -> bool:
    """Tell whether stock ``lm_eval`` knows exactly the tasks of today, from an earlier `register`."""
    return is_filled(lm_eval_tasks_dir() / FOLDER)


def register() -> tuple[Path, int]:
    """Make our tasks known to stock ``lm_eval``, or bring what an earlier call wrote up to date.

    Returns:
        The folder, and the number of its tasks and groups.

    Raises:
        NNDError: the folder of lm-eval cannot be written, or has a folder of our name that `register` did not make.
    """
    folder = lm_eval_tasks_dir() / FOLDER
    hint = 'use `nnd run ...`, or `lm_eval --include_path "$(nnd register --print)" ...`, which need no registration'
    fill_folder(folder, _beside(folder), hint=hint)
    return folder, sum(1 for _ in folder.rglob("*.yaml"))


def update_registration() -> None:
    """Make new tasks known to stock ``lm_eval`` too, if `register` made the others known; raises as `register` does."""
    if (lm_eval_tasks_dir() / FOLDER / MARKER).is_file():
        register()


def unregister() -> Path | None:
    """Remove the folder that `register` made, and return it; None if there was none.

    Raises:
        NNDError: the folder cannot be removed.
    """
    folder = lm_eval_tasks_dir() / FOLDER
    if not (folder / MARKER).is_file():
        return None
    with changing(folder, done="removed"), workshop(folder, _beside(folder)) as removed:
        if folder.exists():
            folder.rename(removed / "old")
    return folder


def _beside(folder: Path) -> Path:
    """The new folder is prepared outside of what lm-eval searches, so that lm-eval sees all tasks or none."""
    return folder.parent.parent / folder.name
