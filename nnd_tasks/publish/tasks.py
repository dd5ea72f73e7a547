"""The task that goes out with a set of a user's own: one YAML that reads the set from the hub and needs no other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from nnd_tasks.errors import NNDError, first_line
from nnd_tasks.harness.register import tasks_dir, user_tasks_dir
from nnd_tasks.harness.user_tasks import shipped_task


class _Loader(yaml.SafeLoader):
    """Reads a YAML without running what it names."""


_Loader.add_constructor("!function", lambda loader, node: _Function(node.value))


class _Function(str):
    """What a ``!function`` names."""


def published_task(name: str, repo: str) -> str | None:
    """Return the YAML of the task of a set with the repository as its data; None for sets whose task comes with the package.

    Raises:
        NNDError: the task's YAML is not there, or names code.
    """
    if shipped_task(f"nnd_{name}") is not None:
        return None
    path = user_tasks_dir() / name / f"nnd_{name}.yaml"
    if not path.is_file():
        return None
    fields = _read(path)
    named = [key for key, value in fields.items() if _has_code(value)]
    if named:
        raise NNDError(f"{path}: {named[0]} names code, which cannot be published with a set; take it out")
    fields = {**fields, "task": f"nnd_{name}", "dataset_path": repo}
    fields.pop("include", None)
    base = (tasks_dir() / "_base").read_text(encoding="utf-8").splitlines()
    kept = [line for line in base if line.partition(":")[0] not in fields and not line.startswith("#")]
    lines = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in fields.items()]
    return "\n".join(["# Needs the package nnd-tasks.", *kept, *lines]) + "\n"


def _read(path: Path) -> dict[str, Any]:
    try:
        fields = yaml.load(path.read_text(encoding="utf-8"), _Loader)  # noqa: S506 - a SafeLoader
    except (OSError, yaml.YAMLError) as error:
        raise NNDError(f"{path}: is no readable YAML ({first_line(error)})") from error
    if not isinstance(fields, dict):
        raise NNDError(f"{path}: is no YAML of a task")
    return fields


def _has_code(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_code, value.values()))
    return any(map(_has_code, value)) if isinstance(value, list) else isinstance(value, _Function)


def how_to_score(name: str, repo: str) -> list[str]:
    """Return the section on how to score a model on a published set of a user's own."""
    return [
        "```sh",
        "pip install nnd-tasks",
        f"hf download {repo} nnd_{name}.yaml --repo-type dataset --local-dir tasks",
        f"nnd run --include_path tasks --model hf --model_args pretrained=MODEL --tasks nnd_{name}",
        "```",
    ]
