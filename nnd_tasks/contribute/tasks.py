"""The task of a contributed set: its prompt, its YAML, and the files of a pull request."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nnd_tasks.contribute.recipe import Recipe
from nnd_tasks.errors import NNDError, first_line
from nnd_tasks.schema import RESERVED_COLUMNS

#: In the folder of a task; without .yaml, which lm-eval would take for a task.
RECIPE = "_recipe"


def prompt_fields(columns: Sequence[str]) -> list[str]:
    """Return the prompt fields among the columns of a table of tests."""
    return [column for column in columns if column not in RESERVED_COLUMNS]


def recipe_of(task: Path) -> Path | None:
    """Return the recipe beside the YAML of a task, or None where the set has none."""
    path = task.parent / RECIPE
    return path if path.is_file() else None


def check_prompt(recipe: Recipe) -> None:
    """Raise NNDError for a prompt that is no template, or names what a document does not have."""
    if recipe.prompt is None:
        return
    from jinja2 import Environment, TemplateError, meta

    try:
        names = meta.find_undeclared_variables(Environment(autoescape=False).parse(recipe.prompt))  # noqa: S701
    except TemplateError as error:
        raise NNDError(f"--prompt: no valid template ({first_line(error)})") from error
    known = ["context", *sorted(recipe.field)]
    wrong = sorted(names - set(known))
    if wrong:
        raise NNDError(f"--prompt: there is no {wrong[0]!r}; a prompt can name {', '.join(known)}")


def task_fields(name: str, recipe: Recipe, columns: Sequence[str], categories: Sequence[str]) -> dict[str, Any]:
    """Return what the YAML of the task says besides ``include`` and ``task``.

    Args:
        name: of the set.
        recipe: with a prompt, or None for the context, the prompt fields, and an empty line.
        columns: of the table of tests.
        categories: of the tests.
    """
    fields = prompt_fields(columns)
    prompt = recipe.prompt
    if prompt is None:
        parts = ["{{context}}", *(f"{field}: {{{{{field}}}}}" for field in fields)]
        prompt = "".join(f"{part}\n\n" for part in parts)
    found: dict[str, Any] = {"dataset_path": f"nnd/{name}", "doc_to_text": prompt}
    # The space that comes before a candidate by default would be a second one after white space.
    if not prompt or prompt[-1].isspace():
        found["target_delimiter"] = ""
    return {**found, "metadata": {"version": "1-A", "categories": sorted(categories)}}


def check_checkout(folder: Path) -> None:
    """Raise NNDError for a folder that is no checkout of nnd-tasks."""
    if not (folder / "task_yamls" / "_base").is_file():
        raise NNDError(f"--into {folder}: no checkout of nnd-tasks is there (it has no task_yamls/_base)")


def write_contribution(checkout: Path, name: str, fields: Mapping[str, Any], recipe: str, readme: str) -> list[Path]:
    """Write what a pull request of a set has: recipe, task and README, in a folder of ``task_yamls``.

    Raises:
        NNDError: the checkout cannot be written.
    """
    folder = checkout / "task_yamls" / name
    lines = ["include: ../_base", f"task: nnd_{name}"]
    lines += [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in fields.items()]
    contents = {RECIPE: recipe, f"nnd_{name}.yaml": "\n".join(lines) + "\n", "README.md": readme}
    paths = []
    try:
        folder.mkdir(exist_ok=True)
        for file, text in contents.items():
            new = folder / f".{file}.{os.getpid()}.new"
            new.write_text(text, encoding="utf-8")
            new.replace(folder / file)
            paths.append(folder / file)
    except OSError as error:
        raise NNDError(f"{folder}: cannot be written ({error.strerror or error})") from error
    return paths
