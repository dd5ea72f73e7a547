"""Check the tasks of a set without lm-eval: their settings, categories and prompts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from nnd_tasks.check.findings import Finding
from nnd_tasks.check.reading import Folder
from nnd_tasks.check.rules import Tests, finding
from nnd_tasks.datasets import how_to_build, tasks_dir
from nnd_tasks.errors import NNDError
from nnd_tasks.harness.sandbox import check_languages, render
from nnd_tasks.harness.settings import Settings, check_config
from nnd_tasks.harness.task_yaml import CLASS, SAMPLER, read_task_yaml
from nnd_tasks.wording import counted

#: Keys of a task in lm-eval 0.4.13 (`lm_eval.config.task.TaskConfig`), and ``class``.
KEYS = re.compile(
    "class|custom_dataset|dataset_(path|name|kwargs)|description|doc_to_(audio|choice|decontamination_query|image|target|text)"
    "|fewshot_(config|delimiter|split)|filter_list|gen_prefix|generation_kwargs|metadata|metric_list|num_fewshot|output_type"
    "|process_(docs|results)|repeats|should_decontaminate|tag|target_delimiter|task|task_alias|(test|training|validation)_split"
    "|unsafe_code|use_prompt"
)


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


def find_tasks(folder: Folder, places: Iterable[Path]) -> tuple[list[Task], list[Finding]]:
    """Return the tasks that read a set, and findings on YAMLs that seem to belong to it and cannot be used.

    Args:
        folder: the set.
        places: where to look; as for lm-eval, a task in a later folder replaces one of the same name.
    """
    tasks: dict[str, Task] = {}
    faults = []
    for place in places:
        here: dict[str, Task] = {}
        for path in sorted(place.rglob("*.yaml")):
            try:
                settings, foreign = read_task_yaml(path)
            except NNDError as error:
                if path.parent.name == folder.name:
                    faults.append(str(error))
                continue
            if not _reads(settings, folder) or "group" in settings or ".ipynb_checkpoints" in path.parts:
                continue
            name = str(settings.get("task", ""))
            if not name or name in here:
                faults.append(
                    f"{path} and {here[name].path.name} are both called {name}" if name else f"{path} names no task"
                )
            else:
                here[name] = Task(name, path, str(settings.get("dataset_name") or folder.default), settings, foreign)
        tasks |= here
    return [*tasks.values()], [finding("task_invalid", fault) for fault in faults]


def _reads(settings: Mapping[str, Any], folder: Folder) -> bool:
    path = str(settings.get("dataset_path"))
    return path == f"nnd/{folder.name}" or Path(path).resolve() == folder.path.resolve()


def check_tasks(folder: Folder, tasks: list[Task]) -> Iterator[Finding]:
    """Check the tasks that read a set; what they do with the data only on configs without errors."""
    if not tasks:
        yield finding("task_missing", f"nnd/{folder.name}")
    for name in folder.configs:
        if tasks and name not in [task.config for task in tasks]:
            yield finding("config_without_task", name, name)
    for task in tasks:
        yield from _check_task(task, folder)
    if anything := [task.name for task in tasks if not task.foreign and "categories" not in task.metadata]:
        yield finding("categories_open", ", ".join(anything))


def _check_task(task: Task, folder: Folder) -> Iterator[Finding]:
    config = task.config
    if config not in folder.known:
        if tasks_dir() in task.path.parents:
            build = how_to_build(folder.name, config)
            yield finding("config_not_built", f"{task.name} reads {config}", fix=f"none, or build it: {build}")
        else:
            yield finding("task_invalid", f"{task.name} reads the config {config}, which is not there")
    elif task.foreign:
        yield finding("task_code", f"{task.name} names {', '.join(task.foreign)}")
    elif task.settings.get("class") != CLASS:
        yield finding("task_plain", task.name)
    elif config in folder.configs:
        try:
            _check_settings(task)
        except NNDError as error:
            yield finding("task_invalid", str(error), config)
            return
        yield from _check_categories(task, folder.configs[config])
        yield from _check_prompts(task, folder.configs[config])


def _check_settings(task: Task) -> None:
    """Raise NNDError for settings that lm-eval or the task class refuse."""
    settings = task.settings.copy()
    if unknown := [key for key in settings if not KEYS.fullmatch(str(key))]:
        raise NNDError(f"task {task.name}: lm-eval knows no key {unknown[0]!r}")
    if isinstance(shots := settings.get("fewshot_config"), dict) and shots.get("sampler") == SAMPLER:
        settings["fewshot_config"] = {key: value for key, value in shots.items() if key != "sampler"}
    check_config(settings)
    if not settings.get("test_split"):
        raise NNDError(f"task {task.name}: its YAML must set test_split (include _base)")
    Settings.read(task.metadata)
    check_languages(settings["doc_to_text"], task.config, task.name, "its data")


def _check_categories(task: Task, tests: Tests) -> Iterator[Finding]:
    category, declared = tests.frame["category"], task.metadata.get("categories")
    if declared is None:
        return
    unknown = category[~category.isin(declared)]
    if len(unknown):
        note = f"{task.name}: {', '.join(sorted({*unknown}))}"
        yield finding("categories_undeclared", note, tests.name, rows=tests.list_rows(unknown), count=len(unknown))
    if absent := sorted({*declared} - {*category}):
        yield finding("categories_absent", f"{task.name}: {', '.join(absent)}", tests.name)


def _check_prompts(task: Task, tests: Tests) -> Iterator[Finding]:
    """Render the prompt of every document, and the templates of the texts around it for the first one."""
    shots = task.settings.get("fewshot_config") or {}
    templates = {key: task.settings.get(key) for key in ("description", "gen_prefix")}
    templates |= {f"fewshot_config.{key}": shots.get(key) for key in ("gen_prefix", "doc_to_text")}
    documents = tests.prompts.to_dict("index")
    row = tests.prompts.index[0]
    try:
        for key, template in templates.items():
            if template:
                render(template, documents[row], f"{task.name}: {key}")
        prompts = {}
        for row, document in documents.items():
            prompts[row] = str(render(task.settings["doc_to_text"], document, f"{task.name}: doc_to_text"))
    except NNDError as error:
        rows = tests.list_rows(tests.frame["context"].loc[[row]])
        yield finding("prompt_invalid", str(error), tests.name, rows=rows, count=1)
        return
    texts = pd.DataFrame({"prompt": prompts, "context": tests.prompts["context"].str.strip()})
    texts = texts[texts["context"] != ""]  # a set without contexts has one prompt for all
    empty = texts["prompt"].str.strip() == ""
    without = pd.Series([context not in prompt for prompt, context in texts.to_numpy()], texts.index, dtype=bool)
    for code, marks in (
        ("prompt_empty", empty),
        ("prompt_without_context", without & ~empty & without.all()),
        ("prompt_repeated", texts["prompt"].duplicated() & ~empty),
    ):
        if count := int(marks.sum()):
            rows = tests.list_rows(texts["context"][marks])
            yield finding(code, f"{task.name}, {counted(count, 'prompt')}", tests.name, rows=rows, count=count)
