"""Tasks of sets that users make: one YAML each in `user_tasks_dir`, which `nnd run` searches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nnd_tasks.datasets import tasks_dir, user_tasks_dir
from nnd_tasks.files import changing, reading, write_text, yaml_mapping


@dataclass(frozen=True, slots=True)
class UserTask:
    """A task that scores a set.

    Attributes:
        name: of the task.
        path: of its YAML.
        kept: it was there already with other content, and was left as it is.
    """

    name: str
    path: Path
    kept: bool = False


def shipped_task(name: str) -> Path | None:
    """Return the YAML of the task ``name`` that comes with the package, or None."""
    return next(iter(sorted(tasks_dir().rglob(f"{name}.yaml"))), None)


def user_task(name: str) -> Path:
    """Return where the YAML of a user's task ``name`` is, or would be; it goes before one that comes with the package."""
    return user_tasks_dir() / name.removeprefix("nnd_") / f"{name}.yaml"


def remove_user_task(name: str) -> None:
    """Remove the YAML of a user's task ``name``, if there is one, so that another can be written in its place.

    Raises:
        NNDError: it cannot be removed.
    """
    with changing(path := user_task(name), done="replaced"):
        path.unlink(missing_ok=True)


def write_task(
    name: str, fields: Mapping[str, Any], folder: Path | None = None, *, over_shipped: bool = False
) -> UserTask:
    """Write the YAML of the task ``name``; one that a user has changed, or that comes with the package, stays.

    Args:
        name: of the task.
        fields: of the YAML besides ``include`` and ``task``.
        folder: where; None takes a folder of its own in `user_tasks_dir`.
        over_shipped: write it where a task of this name comes with the package, too.

    Raises:
        NNDError: it cannot be written.
    """
    if (shipped := shipped_task(name)) and not over_shipped:
        return UserTask(name, shipped)
    path = folder / f"{name}.yaml" if folder else user_task(name)
    text = yaml_mapping({"include": str(tasks_dir() / "_base"), "task": name, **fields})
    with reading(path):
        if path.is_file():
            return UserTask(name, path, kept=path.read_bytes().decode("utf-8") != text)
    write_text(path, text)
    return UserTask(name, path)
