"""The lm-eval tasks of built sets that the package has no task for: one YAML per config in `user_tasks_dir`, with variants."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from nnd_tasks.errors import NNDError
from nnd_tasks.files import dump_yaml, read_yaml, reading, write_text
from nnd_tasks.languages import language_pair, translation_prompt
from nnd_tasks.schema import RESERVED_COLUMNS, VARIANTS, clean_name
from nnd_tasks.sets.build import BuiltSet
from nnd_tasks.sets.recipe import Recipe, SetRecipe
from nnd_tasks.store import list_configs, tasks_dir, user_tasks_dir
from nnd_tasks.tables.cells import ANSWER, FILE
from nnd_tasks.text import some_of

#: Prompt where some contexts are chats of several messages, which end with ``Assistant:``: with it, all prompts end so.
_OPEN = "{{context}}{% if not context.endswith('Assistant:') %}\n\nAssistant:{% endif %}"


@dataclass(frozen=True, slots=True)
class UserTask:
    """A task that scores a set.

    Attributes:
        name: name of the task.
        path: its YAML.
        edited: the YAML was there already with other content, and was not changed.
    """

    name: str
    path: Path
    edited: bool = False


def shipped_task(name: str) -> Path | None:
    """Find the YAML of the task ``name`` of the package, or of the task that it is a variant of; None if there is none."""
    stem, _, variant = name.rpartition("_")
    stems = (name, stem) if variant in VARIANTS else (name,)
    return next((path for path in sorted(tasks_dir().rglob("*.yaml")) if path.stem in stems), None)


def write_task(name: str, fields: Mapping[str, Any], folder: Path | None = None) -> UserTask:
    """Write the YAML of the task ``name``, unless there is one already, here or in the package.

    Args:
        name: name of the task.
        fields: what the YAML says besides ``include`` and ``task``.
        folder: where to write it; None takes its own folder in `user_tasks_dir`.

    Raises:
        NNDError: it cannot be written.
    """
    if shipped := shipped_task(name):
        return UserTask(name, shipped)
    path = (folder or user_tasks_dir() / name.removeprefix("nnd_")) / f"{name}.yaml"
    text = dump_yaml({"include": str(tasks_dir() / "_base"), "task": name, **fields})
    with reading(path):
        if path.is_file():
            return UserTask(name, path, edited=path.read_bytes().decode("utf-8") != text)
    write_text(path, text)
    return UserTask(name, path)


def write_tasks(set_recipe: SetRecipe, built: BuiltSet, *, replace: bool = False) -> list[UserTask]:
    """Write a task for each config that a build made, where the package has none; add notes to ``built``.

    Args:
        set_recipe: the set.
        built: its tests.
        replace: write tasks anew that are there already.

    Raises:
        NNDError: a task cannot be written.
    """
    name, recipe = set_recipe.name, set_recipe.recipe
    shipped_set = set_recipe.origin == "package"
    translations = shipped_set and recipe.facts.task_category == "translation"
    if shipped_set and not translations:
        return []
    covered = _list_shipped_configs(name) if shipped_set else set()
    default, several = list_configs(built.folder)[1], recipe.config == FILE or len(built.tables) > 2
    tasks: list[UserTask] = []
    for config, table in built.tables.items():
        if config in covered:
            continue
        task = f"nnd_{name}" if config == default and not translations else f"nnd_{name}_{config}"
        if shipped_task(task) is not None:
            built.notes.append(f"{config}: no task is written, as {task} comes with the package")
            continue
        languages = language_pair(config) if translations else None
        fields = task_fields(name, recipe, table, languages)
        clean = clean_name(config)
        same = clean in built.tables and task_fields(name, recipe, built.tables[clean], languages) == fields
        if several or config != default:
            fields["dataset_name"] = config
        # `nnd_tasks.task.task_files` takes a task without a dataset_name to be on `authors`.
        same &= f"{task}_clean" == f"nnd_{name}_{clean}" and fields.get("dataset_name", "authors") == config
        if "cleaned_from" not in built.report[config]:
            fields["variants"] = [variant for variant in VARIANTS if variant != "clean" or same]
        folder = user_tasks_dir() / name
        for old in (task, f"{task}_clean") if replace else ():
            (folder / f"{old}.yaml").unlink(missing_ok=True)
        written = write_task(task, fields, folder)
        if written.edited:
            built.notes.append(_describe_edited(written.path, fields["metadata"]["categories"]))
        tasks.append(written)
        if same and not written.edited:
            tasks.append(UserTask(f"{task}_clean", written.path))
            covered.add(clean)
    return tasks


def _list_shipped_configs(name: str) -> set[str]:
    """List the configs of a set that tasks of the package read."""
    configs = set()
    for path in (tasks_dir() / name).glob("*"):
        if path.suffix == ".yaml" or path.name == "_base":
            task = read_yaml(path)
            config = task.get("dataset_name")
            configs |= {config, clean_name(config)} if "clean" in task.get("variants", ()) else {config}
    return configs


def task_fields(name: str, recipe: Recipe, tests: pa.Table, languages: tuple[str, str] | None = None) -> dict[str, Any]:
    """Fill in what the YAML of a task says besides ``include`` and ``task``.

    Without a prompt in the recipe a model reads the context, the prompt fields, and an empty line; of a translation the two
    languages, where they are known; and nothing before a text without a context.
    """
    fields = [column for column in tests.column_names if column not in RESERVED_COLUMNS]
    prompt = recipe.template
    if prompt is None and recipe.facts.task_category == "translation" and not fields:
        prompt = translation_prompt(languages)
    elif prompt is None:
        parts = ["{{context}}", *(f"{field}: {{{{{field}}}}}" for field in fields)]
        prompt = "".join(f"{line}\n\n" for line in parts)
        contexts = tests.column("context").unique().to_pylist()
        if not fields and any(text.endswith(ANSWER) for text in contexts):
            prompt = _OPEN
        elif not fields and contexts == [""]:
            prompt = ""  # two empty lines alone could not be scored
        elif not fields and "" in contexts:
            prompt = "{% if context %}{{context}}\n\n{% endif %}"
    fields_of_task: dict[str, Any] = {"dataset_path": f"nnd/{name}", "doc_to_text": prompt}
    # By default a space separates prompt and candidate; after white space it would be one too many.
    if recipe.delimiter is not None:
        fields_of_task["target_delimiter"] = recipe.delimiter
    elif not prompt or prompt[-1].isspace():
        fields_of_task["target_delimiter"] = ""
    categories = tests.column("category").unique().to_pylist()
    return {**fields_of_task, "metadata": {"version": "1-A", "categories": sorted(categories)}}


def _describe_edited(path: Path, categories: list[str]) -> str:
    """What to know of a task that stays as it was."""
    before: Any = categories
    with suppress(NNDError, LookupError, TypeError):  # what people write need be no plain YAML
        before = read_yaml(path)["metadata"]["categories"]
    stale = (
        f" and its categories are not those of the set ({some_of(categories, show=str)})"
        if before != categories
        else ""
    )
    return f"{path} stays: you may have changed it{stale}; to write it anew, type the same command with --replace"
