"""The task that is published with a user's own set: one YAML that reads the set from the hub and includes no other."""

from __future__ import annotations

from nnd_tasks.datasets import user_tasks_dir
from nnd_tasks.errors import NNDError
from nnd_tasks.harness.task_yaml import dump_task_yaml, read_task_yaml
from nnd_tasks.harness.user_tasks import shipped_task


def published_task(name: str, repo: str) -> str | None:
    """Return the YAML of the task of a set with the repository as its data; None for sets whose task comes with the package.

    Raises:
        NNDError: the task's YAML cannot be read, or names code or models.
    """
    path = user_tasks_dir() / name / f"nnd_{name}.yaml"
    if shipped_task(f"nnd_{name}") is not None or not path.is_file():
        return None
    settings, foreign = read_task_yaml(path)
    if foreign:
        raise NNDError(f"{path}: it names {', '.join(foreign)}, which cannot be published with a set; take it out")
    return "# Needs the package nnd-tasks.\n" + dump_task_yaml({**settings, "dataset_path": repo})


def how_to_score(name: str, repo: str) -> list[str]:
    """Return the section on how to score a model on a published set of a user's own."""
    return [
        "Install nnd-tasks from a clone of its repository, as it is on no package index yet: `pip install .` there. Then:",
        "",
        "```sh",
        f"hf download {repo} nnd_{name}.yaml --repo-type dataset --local-dir tasks",
        f"nnd run --include_path tasks --model hf --model_args pretrained=MODEL --tasks nnd_{name}",
        "```",
        "",
        "lm-eval runs whatever code a task YAML names after `!function`, as soon as it reads the file: look into it first. All",
        "that it should name there begins with `nnd_tasks.`; templates of an NND task are rendered in a sandbox.",
    ]
