"""Find the task YAMLs of a set without running the code that they name, and write copies of them for lm-eval.

lm-eval looks for a task in all YAMLs below a folder and runs the code that its YAML names. So it never gets the folder of a
stranger, only a copy of the one YAML that was read here.
"""

from __future__ import annotations

import os
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from nnd_tasks.check.findings import Finding, finding
from nnd_tasks.check.loading import Loaded
from nnd_tasks.datasets import task_yamls
from nnd_tasks.errors import NNDError
from nnd_tasks.files import expand, read_text, reading
from nnd_tasks.yaml_json import PlainLoader, parse_yaml

#: What a YAML may name after ``!function``, and where: anything else is code, which lm-eval would run.
_FUNCTIONS = {
    ("class",): "nnd_tasks.harness.task.NNDTask",
    ("fewshot_config", "sampler"): "nnd_tasks.harness.prompts.ClusterSampler",
}
#: Keys by which lm-eval takes prompts or data from elsewhere; an NND task does not need them.
_ELSEWHERE = (
    *("custom_dataset", "doc_to_audio", "doc_to_decontamination_query", "doc_to_image", "unsafe_code", "use_prompt"),
)
#: Keys of ``metadata`` that name a model or let its tokenizer run code.
_MODEL = (
    *("base_url", "gguf_file", "model", "peft", "pretrained", "revision", "subfolder", "tokenizer"),
    *("tokenizer_backend", "trust_remote_code"),
)
_FILES = 100  #: files that one YAML may include, counted as often as they are named


class Function(str):
    """The name after ``!function``."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Yaml:
    """The YAML of a task.

    Attributes:
        name: of the task.
        path: of the file.
        config: the config of the set that it reads; None is the default one.
        settings: the YAML, with what it includes.
        foreign: what lm-eval would take from outside this package for it: functions, files of prompts, models.
    """

    name: str
    path: Path
    config: str | None
    settings: Mapping[str, Any]
    foreign: tuple[str, ...] = ()


@dataclass
class _Functions:
    """Collects the names after ``!function``."""

    foreign: set[str] = field(default_factory=set)
    files: int = 0  # that were read

    def loader(self, folder: Path) -> type[PlainLoader]:
        """Return a YAML loader for a file in ``folder``; it imports none of the functions that the file names."""

        def function(loader: PlainLoader, node: yaml.ScalarNode) -> Function:
            name = Function(loader.construct_scalar(node))
            # lm-eval prefers a file beside the YAML over a module of that name.
            beside = folder / f"{name.rpartition('.')[0].replace('.', '/')}.py"
            if beside.exists() or name not in _FUNCTIONS.values():
                self.foreign.add(str(name))
            return name

        class Loader(PlainLoader):
            """A class of its own, as constructors are added to the class."""

        Loader.add_constructor("!function", function)
        return Loader


def read_task_yaml(path: Path) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return a task's YAML merged with what it includes, as lm-eval does it, and what it names that is foreign.

    Raises:
        NNDError: it, or what it includes, cannot be read, is not a plain YAML mapping, or includes itself or too much.
    """
    functions = _Functions()
    merged = _merged(path.resolve(), functions, ())
    return merged, tuple(sorted(functions.foreign | set(_foreign(merged))))


def _foreign(settings: Mapping[str, Any]) -> Iterator[str]:
    """Yield the functions and keys by which lm-eval would take something from elsewhere."""
    yield from (f"{name} as {'.'.join(place)}" for place, name in _placed(settings) if _FUNCTIONS.get(place) != name)
    # None and False are what lm-eval assumes where a key is missing.
    yield from (key for key in _ELSEWHERE if settings.get(key) not in (None, False))
    metadata = settings.get("metadata")
    if isinstance(metadata, dict):
        yield from (f"metadata.{key}" for key in _MODEL if key in metadata)


def _placed(value: Any, place: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield every function below ``value`` with its place."""
    if isinstance(value, Function):
        yield place, str(value)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _placed(key, (*place, "a key"))
            yield from _placed(item, (*place, str(key)))
    elif isinstance(value, (list, tuple, set)):
        for item in value:
            yield from _placed(item, (*place, "a list"))


def _merged(path: Path, functions: _Functions, above: tuple[Path, ...]) -> dict[str, Any]:
    if path in above:
        raise NNDError(f"{path}: includes itself")
    functions.files += 1
    if functions.files > _FILES:
        raise NNDError(f"{above[0]}: includes more than {_FILES} files")
    own = parse_yaml(read_text(path), str(path), functions.loader(path.parent))
    if not isinstance(own, dict):
        raise NNDError(f"{path}: holds no mapping")
    includes = own.pop("include", [])
    merged: dict[str, Any] = {}
    for name in includes if isinstance(includes, list) else [includes]:
        merged |= _merged(_place(path.parent, str(name)), functions, (*above, path))
    return merged | own


def _place(folder: Path, name: str) -> Path:
    """Return the file that a YAML in ``folder`` names."""
    with reading(name):
        return (folder / expand(name)).resolve()


def find_yamls(loaded: Loaded, folders: Iterable[Path]) -> tuple[list[Yaml], list[Finding]]:
    """Return the tasks that read a set, and findings on YAMLs that seem to belong to it and cannot be used.

    Args:
        loaded: the set.
        folders: where to look; as for lm-eval, a task in a later folder replaces one of the same name.
    """
    tasks: dict[str, Yaml] = {}
    findings: list[Finding] = []
    for folder in folders:
        read, unreadable = _read(folder, loaded.name)
        findings += unreadable
        named = _named(read)
        here: dict[str, Yaml] = {}
        for path, (settings, foreign) in read.items():
            if not _reads(settings, loaded) or "group" in settings:
                continue
            task = settings.get("task")
            if not isinstance(task, str):
                findings.append(finding("task_invalid", f"{path.name} names no task", "add a line `task: NAME`"))
            elif others := [other for other in named[task] if other != path]:
                if task not in here:  # once for all of them
                    message = f"{path.name} and {others[0].name} are both called {task}"
                    findings.append(finding("task_invalid", message, "rename one: lm-eval takes only one of them"))
                here.setdefault(task, _yaml(task, path, settings, foreign))
            else:
                here[task] = _yaml(task, path, settings, foreign)
        # lm-eval takes a name from the later folder, even where that task, group or tag reads another set.
        tasks = {name: task for name, task in tasks.items() if name not in named} | here
    return list(tasks.values()), findings


def _yaml(task: str, path: Path, settings: Mapping[str, Any], foreign: tuple[str, ...]) -> Yaml:
    config = settings.get("dataset_name")
    return Yaml(task, path, None if config is None else str(config), settings, foreign)


def _read(folder: Path, name: str) -> tuple[dict[Path, tuple[dict[str, Any], tuple[str, ...]]], list[Finding]]:
    """Return path -> what `read_task_yaml` gives for the YAMLs of a folder, and findings for the set's unreadable ones."""
    read: dict[Path, tuple[dict[str, Any], tuple[str, ...]]] = {}
    findings: list[Finding] = []
    for path in task_yamls(folder):
        try:
            read[path] = read_task_yaml(path)
        except NNDError as error:
            if _looks_like(path, name):
                message = f"{path.name} cannot be used: {error}"
                findings.append(finding("task_invalid", message, "correct the YAML"))
    return read, findings


def _named(read: Mapping[Path, tuple[Mapping[str, Any], tuple[str, ...]]]) -> defaultdict[str, list[Path]]:
    """Return name -> the YAMLs that lm-eval may take for it; it looks up tasks, groups and tags in the same way."""
    named: defaultdict[str, list[Path]] = defaultdict(list)
    for path, (settings, _) in read.items():
        tags = settings.get("tag")
        for name in {
            value
            for value in (settings.get("task"), settings.get("group"), *(tags if isinstance(tags, list) else [tags]))
            if isinstance(value, str)
        }:
            named[name].append(path)
    return named


class _TaskDumper(yaml.SafeDumper):
    """Writes `Function` as it was read."""


_TaskDumper.add_representer(Function, lambda dumper, name: dumper.represent_scalar("!function", str(name)))


def dump_task_yaml(settings: Mapping[str, Any]) -> str:
    """Return the settings from `read_task_yaml` as one YAML, without ``include``."""
    return str(yaml.dump(dict(settings), Dumper=_TaskDumper, sort_keys=False, allow_unicode=True))


def parse_settings(text: str) -> dict[str, Any]:
    """Return the settings that `dump_task_yaml` has written."""
    settings: dict[str, Any] = parse_yaml(text, "settings", _Functions().loader(Path(os.devnull)))
    return settings


@contextmanager
def alone(task: Yaml) -> Iterator[Path]:
    """Yield a temporary folder that holds only a copy of one YAML, merged with the files that it includes.

    Raises:
        NNDError: the YAML names functions, prompts or models from outside this package.
    """
    if task.foreign:
        raise NNDError(f"{task.path}: it names {', '.join(task.foreign)}, which is not of this package")
    with tempfile.TemporaryDirectory(prefix="nnd-check-task-") as folder:
        (Path(folder) / "task.yaml").write_text(dump_task_yaml(task.settings), encoding="utf-8")
        yield Path(folder)


def _looks_like(path: Path, name: str) -> bool:
    return path.parent.name == name or path.stem == f"nnd_{name}" or path.stem.startswith(f"nnd_{name}_")


def _reads(settings: Mapping[str, Any], loaded: Loaded) -> bool:
    place = settings.get("dataset_path")
    if not isinstance(place, str):
        return False
    if place == f"nnd/{loaded.name}":
        return True
    try:
        path = Path(place).expanduser()
    except RuntimeError:  # the home of an unknown user
        return False
    return path.is_dir() and path.resolve() == loaded.folder.resolve()
