"""Find the task YAMLs of a set, without running what they name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from nnd_tasks.check.findings import Finding, finding
from nnd_tasks.check.loading import Loaded
from nnd_tasks.errors import first_line

#: What a YAML may name after ``!function``: anything else is code of its own, which loading it would run.
_OURS = "nnd_tasks."


@dataclass(frozen=True, slots=True)
class Yaml:
    """The YAML of a task.

    Attributes:
        name: of the task.
        path: of the file.
        config: the config of the set that it reads; None is the default one.
        settings: the YAML, with what it includes.
        foreign: functions that it names and that are not of this package.
    """

    name: str
    path: Path
    config: str | None
    settings: Mapping[str, Any]
    foreign: tuple[str, ...] = ()


@dataclass
class _Functions:
    """Collects what stands after ``!function``."""

    foreign: set[str] = field(default_factory=set)

    def loader(self, folder: Path) -> type[yaml.SafeLoader]:
        """Return a YAML loader for a file in ``folder`` that imports nothing."""

        def function(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> str:
            name = str(loader.construct_scalar(node))
            # lm-eval prefers a file beside the YAML over a module of that name.
            beside = folder / f"{name.rpartition('.')[0].replace('.', '/')}.py"
            if beside.exists() or not name.startswith(_OURS):
                self.foreign.add(name)
            return name

        class Loader(yaml.SafeLoader):
            """Has constructors of its own."""

        Loader.add_constructor("!function", function)
        return Loader


def read_yaml(path: Path) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return a task's YAML merged with what it includes, as lm-eval does it, and the foreign functions that it names.

    Raises:
        ValueError: it is no mapping, or includes itself.
        OSError: it, or what it includes, cannot be read.
        yaml.YAMLError: it is no valid YAML.
    """
    functions = _Functions()
    return _merged(path.resolve(), functions, ()), tuple(sorted(functions.foreign))


def _merged(path: Path, functions: _Functions, above: tuple[Path, ...]) -> dict[str, Any]:
    if path in above:
        raise ValueError(f"{path} includes itself")
    loader = functions.loader(path.parent)(path.read_text(encoding="utf-8"))
    try:
        own = loader.get_single_data()
    finally:
        loader.dispose()
    if not isinstance(own, dict):
        raise ValueError("it holds no mapping")
    includes = own.pop("include", [])
    merged: dict[str, Any] = {}
    for name in includes if isinstance(includes, list) else [includes]:
        place = (path.parent / Path(str(name)).expanduser()).resolve()
        merged |= _merged(place, functions, (*above, path))
    return merged | own


def find_yamls(loaded: Loaded, folders: Iterable[Path]) -> tuple[list[Yaml], list[Finding]]:
    """Return the tasks that read a set, and what is wrong with YAMLs that look like its own.

    Args:
        loaded: the set.
        folders: where to look; of two tasks with one name that in the later folder counts, as for lm-eval.
    """
    found: dict[str, Yaml] = {}
    findings: list[Finding] = []
    for folder in folders:
        here: dict[str, Yaml] = {}
        for path in _files(folder):
            try:
                settings, foreign = read_yaml(path)
            except (OSError, ValueError, yaml.YAMLError) as error:
                if _looks_like(path, loaded.name):
                    message = f"{path.name} cannot be read: {first_line(error)}"
                    findings.append(finding("task_invalid", message, "mend the YAML"))
                continue
            if not _reads(settings, loaded) or "group" in settings:
                continue
            task = settings.get("task")
            if not isinstance(task, str):
                findings.append(finding("task_invalid", f"{path.name} names no task", "add a line `task: NAME`"))
            elif task in here:
                message = f"{path.name} and {here[task].path.name} are both called {task}"
                findings.append(finding("task_invalid", message, "rename one task: lm-eval takes only one of them"))
            else:
                config = settings.get("dataset_name")
                here[task] = Yaml(task, path, None if config is None else str(config), settings, foreign)
        found |= here
    return list(found.values()), findings


def _files(folder: Path) -> Iterator[Path]:
    yield from sorted(path for path in folder.rglob("*.yaml") if path.is_file())


def _looks_like(path: Path, name: str) -> bool:
    return path.parent.name == name or path.stem == f"nnd_{name}" or path.stem.startswith(f"nnd_{name}_")


def _reads(settings: Mapping[str, Any], loaded: Loaded) -> bool:
    place = settings.get("dataset_path")
    if not isinstance(place, str):
        return False
    if place == f"nnd/{loaded.name}":
        return True
    path = Path(place).expanduser()
    return path.is_dir() and path.resolve() == loaded.folder.resolve()
