"""Check the tasks of a set without lm-eval: their settings, categories and prompts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jinja2 import meta

from nnd_tasks.contribute.check.reading import Folder
from nnd_tasks.contribute.check.rules import Finding, Tests, finding
from nnd_tasks.errors import NNDError, reason_of
from nnd_tasks.sets.catalogue import RecipeFile
from nnd_tasks.sets.recipe import Recipe
from nnd_tasks.store import how_to_build, task_yamls, tasks_dir
from nnd_tasks.task.sandbox import SANDBOX, doubles_space, render
from nnd_tasks.task.task_files import list_variants
from nnd_tasks.task.task_yaml import CLASS, check_settings, read_task_yaml
from nnd_tasks.text import counted


@dataclass(frozen=True)
class Task:
    """A task of a set.

    Attributes:
        name: of the task.
        path: of its YAML.
        config: that it reads.
        settings: the YAML, with what it includes.
        foreign: what it names that is not of this package.
    """

    name: str
    path: Path
    config: str
    settings: dict[str, Any]
    foreign: tuple[str, ...] = ()

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What the YAML says under ``metadata``."""
        return self.settings.get("metadata") or {}


def check_tasks(folder: Folder, folders: Iterable[Path]) -> tuple[list[str], list[Finding]]:
    """Check the tasks that read a set; what they do with the data only on configs without errors.

    Args:
        folder: the set.
        folders: where to look; as for lm-eval, a task in a later folder replaces one of the same name.

    Returns:
        The names of the tasks, and findings, also on YAMLs that seem to belong to the set and cannot be used.
    """
    tasks, faults = _find_tasks(folder, folders)
    findings = [finding("task_invalid", fault) for fault in faults]
    return [task.name for task in tasks], [*findings, *_check_tasks(folder, tasks)]


def _find_tasks(folder: Folder, folders: Iterable[Path]) -> tuple[list[Task], list[str]]:
    tasks: dict[str, Task] = {}
    variants: dict[str, Task] = {}
    faults = []
    for tasks_folder in folders:
        here: dict[str, Task] = {}
        for path in sorted(task_yamls(tasks_folder)):
            try:
                settings, foreign = read_task_yaml(path)
            except NNDError as error:
                if path.parent.name == folder.name:
                    faults.append(str(error))
                continue
            if not _reads(settings, folder) or "group" in settings or ".ipynb_checkpoints" in path.parts:
                continue
            name = str(settings.get("task"))
            if name in here:
                faults.append(f"{here[name].path.name} and {path} are both called {name}")
            task = Task(name, path, str(settings.get("dataset_name") or folder.default), settings, foreign)
            here[name] = task
            try:
                changes = list_variants(settings)
            except NNDError as error:
                faults.append(str(error))
                continue
            for variant, change in changes.items():
                config = str(change.get("dataset_name", task.config))
                variants[variant] = replace(task, name=variant, config=config, settings={**settings, **change})
        tasks |= here
    return [*{**variants, **tasks}.values()], faults


def check_sent_tasks(recipe_file: RecipeFile, recipe: Recipe | None) -> Iterator[Finding]:
    """Check the prompt of a recipe and the tasks beside it, without data: a few words stand for each field."""
    fields = dict.fromkeys(["context", *(recipe.field if recipe else ())], "some words")
    loose = recipe is None or recipe_file.prepare is not None  # then the data may have other fields
    if recipe and recipe.template is not None:
        yield from _check_template(recipe.template, fields, "prompt of the recipe", loose=loose)
    for path in sorted(recipe_file.path.parent.glob("*.yaml")):
        try:
            settings, foreign = read_task_yaml(path)
            if foreign:
                yield finding("task_code", f"{path.name} names {', '.join(foreign)}")
            elif "task" not in settings or "group" in settings:
                continue
            elif settings.get("class") != CLASS:
                yield finding("task_plain", path.name)
            else:
                check_settings(settings, str(settings.get("dataset_name")))
        except NNDError as error:
            yield finding("task_invalid", str(error))
            continue
        for template in [settings.get("doc_to_text"), *_around(settings)]:
            if isinstance(template, str):
                yield from _check_template(template, fields, path.name, loose=loose)


def _check_template(template: str, fields: Mapping[str, str], location: str, *, loose: bool) -> Iterator[Finding]:
    try:
        named = dict.fromkeys(_names_in(template, location), "some words") if loose else {}
        render(template, {**named, **fields}, location)
    except NNDError as error:
        yield finding("prompt_invalid", str(error))


def _names_in(template: str, where: str) -> set[str]:
    """List the fields that a template names; raise NNDError if it is no template."""
    try:
        return set(meta.find_undeclared_variables(SANDBOX.parse(template))) - SANDBOX.globals.keys()
    except Exception as error:  # a template can be wrong in many ways
        raise NNDError(f"{where}: {reason_of(error)}") from error


def _around(settings: Mapping[str, Any]) -> list[Any]:
    """Return the templates of the texts around a prompt."""
    shots = settings.get("fewshot_config") or {}
    shots = shots if isinstance(shots, Mapping) else {}
    return [settings.get("description"), settings.get("gen_prefix"), shots.get("gen_prefix"), shots.get("doc_to_text")]


def _reads(settings: Mapping[str, Any], folder: Folder) -> bool:
    path = str(settings.get("dataset_path"))
    return path == f"nnd/{folder.name}" or Path(path).resolve() == folder.path.resolve()


def _check_tasks(folder: Folder, tasks: list[Task]) -> Iterator[Finding]:
    if not tasks:
        yield finding("task_missing", f"nnd/{folder.name}")
    for name in folder.configs:
        if tasks and name not in [task.config for task in tasks]:
            yield finding("config_without_task", name, name)
    for task in tasks:
        yield from _check_task(task, folder)
    open_tasks = [task.name for task in tasks if "categories" not in task.metadata]
    if open_tasks:
        yield finding("categories_open", ", ".join(open_tasks))


def _check_task(task: Task, folder: Folder) -> Iterator[Finding]:
    config = task.config
    if config not in folder.names:
        code = "config_not_built" if tasks_dir() in task.path.parents else "task_invalid"
        yield finding(code, f"{task.name} reads {config}; {how_to_build(folder.name)}")
    elif task.foreign:
        yield finding("task_code", f"{task.name} names {', '.join(task.foreign)}")
    elif task.settings.get("class") != CLASS:
        yield finding("task_plain", task.name)
    elif config in folder.configs:
        try:
            check_settings(task.settings, config)
        except NNDError as error:
            yield finding("task_invalid", str(error), config)
            return
        yield from _check_categories(task, folder.configs[config])
        yield from _check_prompts(task, folder.configs[config])


def _check_categories(task: Task, tests: Tests) -> Iterator[Finding]:
    category, declared = tests.frame["category"], task.metadata.get("categories")
    if declared is None:
        return
    unknown = category[~category.isin(declared)]
    if len(unknown):
        note = f"{task.name}: {', '.join(sorted({*unknown}))}"
        yield finding("categories_undeclared", note, tests.name, rows=tests.list_rows(unknown), count=len(unknown))
    absent = sorted({*declared} - {*category})
    if absent:
        yield finding("categories_absent", f"{task.name}: {', '.join(absent)}", tests.name)


def _check_prompts(task: Task, tests: Tests) -> Iterator[Finding]:
    """Render the prompt of every document, and the templates of the texts around it for the first one."""
    settings, prompts = task.settings, dict[Any, str]()
    for row, document in tests.prompts.to_dict("index").items():
        try:
            for template in filter(None, [] if prompts else _around(settings)):
                render(template, document, f"{task.name}: {template!r}")
            prompts[row] = str(render(settings["doc_to_text"], document, task.name))
        except NNDError as error:
            rows = tests.list_rows(tests.frame["context"].loc[[row]])
            yield finding("prompt_invalid", str(error), tests.name, rows=rows, count=1)
            return
    delimiter = str(settings.get("target_delimiter", " "))
    texts = tests.prompts.assign(prompt=prompts)
    doubled = texts["prompt"].map(lambda prompt: doubles_space(prompt, delimiter))
    texts = texts[~tests.blank["context"][texts.index]]  # a set without contexts has one prompt for all
    empty = texts["prompt"].str.strip() == ""
    without = [context.strip() not in prompt for context, prompt in texts[["context", "prompt"]].to_numpy()]
    for code, hits in (
        ("prompt_empty", empty),
        ("prompt_space", doubled[texts.index]),
        ("prompt_without_context", ~empty & all(without)),
        ("prompt_repeated", texts["prompt"].duplicated() & ~empty),
    ):
        if count := int(hits.sum()):
            rows = tests.list_rows(texts["context"][hits])
            yield finding(code, f"{task.name}, {counted(count, 'prompt')}", tests.name, rows=rows, count=count)
