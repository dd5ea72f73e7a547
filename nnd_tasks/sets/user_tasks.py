"""The tasks of users' own sets: each is one YAML in `user_tasks_dir`, which `nnd run` searches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nnd_tasks.datasets import tasks_dir, user_tasks_dir
from nnd_tasks.files import reading, write_text
from nnd_tasks.yaml_json import yaml_mapping


@dataclass(frozen=True, slots=True)
class UserTask:
    """A task that scores a set.

    Attributes:
        name: name of the task.
        path: its YAML.
        kept: the YAML was there already with other content, and was not changed.
    """

    name: str
    path: Path
    kept: bool = False


def shipped_task(name: str) -> Path | None:
    """Return the YAML of the task ``name`` of the package; None if the package has no such task."""
    return next(iter(sorted(tasks_dir().rglob(f"{name}.yaml"))), None)


def user_task(name: str) -> Path:
    """Return the place of the YAML of a user's task ``name``; that task is taken even if the package has one of this name."""
    return user_tasks_dir() / name.removeprefix("nnd_") / f"{name}.yaml"


def write_task(
    name: str, fields: Mapping[str, Any], folder: Path | None = None, *, over_shipped: bool = False
) -> UserTask:
    """Write the YAML of the task ``name``, unless there is one already.

    Args:
        name: name of the task.
        fields: what the YAML says besides ``include`` and ``task``.
        folder: where to write it; None takes its own folder in `user_tasks_dir`.
        over_shipped: write it even if the package has a task of this name.

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
