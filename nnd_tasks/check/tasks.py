"""Check the tasks of a set without lm-eval: their YAMLs are merged as it does, but what they name is not imported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from nnd_tasks.check.findings import Finding
from nnd_tasks.check.reading import Folder
from nnd_tasks.check.rules import Tests, finding
from nnd_tasks.datasets import how_to_build, tasks_dir
from nnd_tasks.errors import NNDError
from nnd_tasks.files import expand, read_text, reading
from nnd_tasks.harness.sandbox import check_languages, render
from nnd_tasks.harness.settings import Settings, check_config
from nnd_tasks.wording import counted, did_you_mean
from nnd_tasks.yaml_json import PlainLoader, parse_yaml

_CLASS, _SAMPLER = "nnd_tasks.harness.task.NNDTask", "nnd_tasks.harness.prompts.ClusterSampler"
#: Keys by which lm-eval takes prompts or data from elsewhere; an NND task does not need them.
_ELSEWHERE = ("custom_dataset", "unsafe_code", "use_prompt")
#: Keys of ``metadata`` that name a model or let its tokenizer run code.
_MODEL = set(
    "base_url gguf_file model peft pretrained revision subfolder tokenizer tokenizer_backend trust_remote_code".split()
)
#: Keys of a task in lm-eval 0.4.13 (`lm_eval.config.task.TaskConfig`), and ``class``.
KEYS = set(
    "class task task_alias tag custom_dataset dataset_path dataset_name dataset_kwargs training_split validation_split test_split "
    "fewshot_split process_docs doc_to_text doc_to_target doc_to_image doc_to_audio unsafe_code doc_to_choice process_results "
    "use_prompt description target_delimiter fewshot_delimiter fewshot_config num_fewshot metric_list output_type "
    "generation_kwargs repeats filter_list should_decontaminate doc_to_decontamination_query gen_prefix metadata".split()
)
_FILES = 100  #: files that one YAML may include, counted as often as they are named


class Function(str):
    """The name after ``!function``."""

    __slots__ = ()


class _Dumper(yaml.SafeDumper):
    """Writes `Function` as it was read."""


_Dumper.add_representer(Function, lambda dumper, name: dumper.represent_scalar("!function", str(name)))


def dump_task_yaml(settings: Mapping[str, Any]) -> str:
    """Return the settings from `read_task_yaml` as one YAML, without ``include``."""
    return str(yaml.dump(dict(settings), Dumper=_Dumper, sort_keys=False, allow_unicode=True))


def read_task_yaml(path: Path) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return a task's YAML merged with what it includes, as lm-eval does it, and what it names that is not of this package.

    Raises:
        NNDError: it, or what it includes, cannot be read, is not a plain YAML mapping, or includes itself or too much.
    """
    foreign: set[str] = set()
    settings = _merge(path.resolve(), foreign, [])
    foreign |= {key for key in _ELSEWHERE if settings.get(key) not in (None, False)}
    if isinstance(metadata := settings.get("metadata"), dict):
        foreign |= {f"metadata.{key}" for key in _MODEL & metadata.keys()}
    return settings, tuple(sorted(foreign))


def _merge(path: Path, foreign: set[str], read: list[Path]) -> dict[str, Any]:
    read.append(path)
    if len(read) > _FILES:
        raise NNDError(f"{read[0]}: includes itself, or more than {_FILES} files")

    class Loader(PlainLoader):
        """A class of its own, as constructors are added to the class."""

    def construct_function(loader: PlainLoader, node: yaml.ScalarNode) -> Function:
        name = Function(loader.construct_scalar(node))
        # lm-eval prefers a file beside the YAML over a module of that name.
        beside = path.parent / f"{name.rpartition('.')[0].replace('.', '/')}.py"
        if name not in (_CLASS, _SAMPLER) or beside.exists():
            foreign.add(str(name))
        return name

    Loader.add_constructor("!function", construct_function)
    own = parse_yaml(read_text(path), str(path), Loader)
    if not isinstance(own, dict):
        raise NNDError(f"{path}: holds no mapping")
    names, settings = own.pop("include", []), {}
    for name in names if isinstance(names, list) else [names]:
        with reading(name):
            place = (path.parent / expand(str(name))).resolve()
        settings |= _merge(place, foreign, read)
    return settings | own


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
    settings: Mapping[str, Any]
    foreign: tuple[str, ...] = ()


def find_tasks(folder: Folder, places: Iterable[Path]) -> tuple[list[Task], list[Finding]]:
    """Return the tasks that read a set, and findings on YAMLs that seem to belong to it and cannot be used.

    Args:
        folder: the set.
        places: where to look; as for lm-eval, a task in a later folder replaces one of the same name.
    """
    tasks: dict[str, Task] = {}
    findings = []
    for place in places:
        here: dict[str, Task] = {}
        for path in sorted(place.rglob("*.yaml")):
            try:
                settings, foreign = read_task_yaml(path)
            except NNDError as error:
                if path.parent.name == folder.name or path.stem.startswith(f"nnd_{folder.name}"):
                    findings.append(finding("task_invalid", f"{path.name}: {error}"))
                continue
            if "group" in settings or ".ipynb_checkpoints" in path.parts or not _reads(settings, folder):
                continue
            name = settings.get("task")
            if not isinstance(name, str):
                findings.append(finding("task_invalid", f"{path.name} names no task"))
            elif name in here:
                findings.append(finding("task_invalid", f"{here[name].path.name} and {path.name} are both called {name}"))
            else:
                here[name] = Task(name, path, str(settings.get("dataset_name") or folder.default), settings, foreign)
        tasks |= here
    return list(tasks.values()), findings


def _reads(settings: Mapping[str, Any], folder: Folder) -> bool:
    path = settings.get("dataset_path")
    return path == f"nnd/{folder.name}" or (isinstance(path, str) and Path(path).resolve() == folder.path.resolve())


def check_tasks(folder: Folder, tasks: list[Task]) -> Iterator[Finding]:
    """Check the tasks that read a set; not on configs that have errors."""
    if not tasks:
        yield finding("task_missing", f"nnd/{folder.name}")
    used = {task.config for task in tasks}
    for name in folder.configs:
        if tasks and name not in used:
            yield finding("config_without_task", name, name)
    for task in tasks:
        yield from _check_task(task, folder)
    open_ = [task.name for task in tasks if not task.foreign and "categories" not in (task.settings.get("metadata") or {})]
    if open_:
        yield finding("categories_open", ", ".join(open_))


def _check_task(task: Task, folder: Folder) -> Iterator[Finding]:
    settings, config = task.settings, task.config
    if config not in folder.known:
        if tasks_dir() in task.path.parents:
            fix = f"none, or build it: {how_to_build(folder.name, config)}"
            yield finding("config_not_built", f"{task.name} reads {config}", fix=fix)
        else:
            yield finding("task_invalid", f"{task.name} reads the config {config}, which is not there")
    elif task.foreign:
        yield finding("task_code", f"{task.name} names {', '.join(task.foreign)}")
    elif settings.get("class") != _CLASS:
        yield finding("task_plain", task.name)
    elif (tests := folder.configs.get(config)) is not None:
        try:
            _check_settings(settings, config)
        except NNDError as error:
            yield finding("task_invalid", f"{task.name}: {error}", config)
            return
        yield from _check_categories(task, tests)
        yield from _check_prompts(task, tests)


def _check_settings(settings: Mapping[str, Any], config: str) -> None:
    """Raise NNDError for settings that lm-eval or the task class refuse."""
    for key in settings:
        if key not in KEYS:
            raise NNDError(f"lm-eval knows no key {key!r}; {did_you_mean(str(key), KEYS)}")
    shots = settings.get("fewshot_config")
    if isinstance(shots, dict):
        if shots.get("sampler", _SAMPLER) != _SAMPLER:
            raise NNDError("it sets fewshot_config.sampler; the sampler is ours")
        shots = {key: value for key, value in shots.items() if key != "sampler"}
    check_config({**settings, "fewshot_config": shots})
    if not settings.get("test_split"):
        raise NNDError("it sets no test_split; include _base")
    Settings.read(settings.get("metadata") or {})
    check_languages(settings["doc_to_text"], config, str(settings["task"]), "")


def _check_categories(task: Task, tests: Tests) -> Iterator[Finding]:
    declared = (task.settings.get("metadata") or {}).get("categories")
    if declared is not None:
        category = tests.frame["category"]
        unknown = category[~category.isin(declared)]
        if len(unknown):
            note = f"{task.name}: {', '.join(sorted({*unknown}))}"
            rows = tests.rows(unknown == unknown, str)
            yield finding("categories_undeclared", note, tests.name, rows=rows, count=len(unknown))
        if absent := sorted({*declared} - {*category}):
            yield finding("categories_absent", f"{task.name}: {', '.join(absent)}", tests.name)


def _check_prompts(task: Task, tests: Tests) -> Iterator[Finding]:
    """Render the prompt of every document, and the other templates for the first one."""
    shots = task.settings.get("fewshot_config") or {}
    others = {key: task.settings.get(key) for key in ("description", "gen_prefix")}
    others |= {f"fewshot_config.{key}": shots.get(key) for key in ("gen_prefix", "doc_to_text")}
    documents, prompts = tests.prompts.to_dict("records"), []
    where = f"task {task.name}: "
    try:
        for key, template in others.items():
            if template:
                render(template, documents[0], where + key)
        for document in documents:
            prompts.append(str(render(task.settings["doc_to_text"], document, f"{where}doc_to_text")))
    except NNDError as error:
        test = tests.frame["test_id"][tests.prompts.index[len(prompts)]]
        yield finding("prompt_invalid", f"{error}; test {test}", tests.name)
        return
    contexts = tests.prompts["context"].str.strip()
    prompt = pd.Series(prompts, index=contexts.index, dtype=object)[contexts != ""]
    contexts = contexts[prompt.index]  # a set without contexts has one prompt for all
    empty = prompt.str.strip() == ""
    without = pd.Series([c not in p for c, p in zip(contexts, prompt, strict=True)], prompt.index, dtype=bool)
    for code, rows in (
        ("prompt_empty", empty),
        ("prompt_without_context", without & ~empty & without.all()),
        ("prompt_repeated", prompt.duplicated() & ~empty),
    ):
        if count := int(rows.sum()):
            shown = tests.rows(contexts[rows], show=lambda text: text[:0])
            yield finding(code, f"{task.name}, {counted(count, 'prompt')}", tests.name, rows=shown, count=count)
