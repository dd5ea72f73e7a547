"""The YAMLs in which lm-eval finds our tasks: people write one per set and config, and its variants are made of it.

A written YAML may say ``variants: [choice, clean]``. Each variant includes it, and changes what `change_task` says. Whichever
way lm-eval is told of our tasks, it gets one folder of all of them, written and made, from `fill_folder`. Where somebody wrote
a YAML of a task, no variant of that name is made.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import platformdirs
import yaml

from nnd_tasks import __version__
from nnd_tasks.errors import NNDError
from nnd_tasks.files import PlainLoader, changing, dump_yaml, expand, parse_yaml, read_text, reading, workshop
from nnd_tasks.schema import VARIANTS, clean_name, short_hash
from nnd_tasks.store import nnd_home, task_yamls, tasks_dir, user_tasks_dir
from nnd_tasks.text import did_you_mean

#: What a YAML may name after ``!function``: anything else is code, which lm-eval would run.
CLASS, SAMPLER = "nnd_tasks.task.task.NNDTask", "nnd_tasks.task.request.ClusterSampler"
#: Keys by which lm-eval takes prompts or data from elsewhere; an NND task does not need them.
_ELSEWHERE = {"custom_dataset", "unsafe_code", "use_prompt"}
#: Keys of ``metadata`` that name a model or let its tokenizer run code.
_MODEL = {
    *("base_url", "gguf_file", "model", "peft", "pretrained", "revision", "subfolder", "tokenizer"),
    *("tokenizer_backend", "trust_remote_code"),
}
_FILES = 100  #: files that one YAML may include, counted as often as they are named


class Function(str):
    """The name after ``!function``."""

    __slots__ = ()


def read_task_yaml(path: Path) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return a task's YAML merged with what it includes, but for its variants; and what it names that is not of this package.

    Raises:
        NNDError: it, or what it includes, cannot be read, is not a plain YAML mapping, or includes itself or too much.
    """
    foreign: set[str] = set()
    settings = _merge(path.resolve(), foreign, [])
    foreign |= {key for key in _ELSEWHERE if settings.get(key)}
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
        if name not in (CLASS, SAMPLER) or beside.exists():
            foreign.add(str(name))
        return name

    Loader.add_constructor("!function", construct_function)
    written = parse_yaml(read_text(path), str(path), Loader)
    if not isinstance(written, dict):
        raise NNDError(f"{path}: holds no mapping")
    included = written.pop("include", [])
    settings: dict[str, Any] = {}
    for name in included if isinstance(included, list) else [included]:
        with reading(name):
            included_path = (path.parent / expand(str(name))).resolve()
        settings |= _merge(included_path, foreign, read)
    settings.pop("variants", None)  # those of the task that is included, not of this one
    return settings | written


#: The folder in `nnd_home` that lm-eval searches.
FOLDER = "lm_eval_tasks"
#: Lies there too: path within the folder -> what lm-eval looks for in all files to find a task, as JSON.
INDEX = "index.json"
#: Lies in each folder that `fill_folder` made: a digest of what it was made of, and the home of the user's tasks.
MARKER = "REGISTERED_BY_NND_TASKS.txt"


# ---------------------------------------------------------------- tasks and their variants


def written_folders() -> list[Path]:
    """List the folders of the YAMLs that people wrote: the package's and, if it exists, the user's."""
    return [folder for folder in (tasks_dir(), user_tasks_dir()) if folder.is_dir()]


def change_task(variant: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Say what a variant of a task sets otherwise than the task itself.

    ``choice``, ``judge``, ``rating`` and ``validator`` ask the model about the texts, ``clean`` reads the clean config, and
    ``heldout`` takes the tests that nobody trains on, among which a category may be missing.

    Args:
        variant: one of `VARIANTS`.
        settings: of the task, as `read_task_yaml` returns them.

    Raises:
        NNDError: there is no such variant.
    """
    if variant in ("choice", "judge", "rating", "validator"):
        return {"tag": [], "reader": variant}
    if variant == "clean":
        return {"tag": [], "dataset_name": clean_name(settings.get("dataset_name") or "authors")}
    if variant == "heldout":
        metadata = {key: value for key, value in (settings.get("metadata") or {}).items() if key != "categories"}
        return {"tag": [], "metadata": {**metadata, "split": "test"}}
    hint = did_you_mean(variant, VARIANTS) or f"there are: {', '.join(VARIANTS)}"
    raise NNDError(f"task {settings.get('task')}: variants: there is no {variant!r}; {hint}")


def list_variants(settings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """List the tasks that are made of a written one: name -> what it sets otherwise.

    Args:
        settings: of the written task, as `read_task_yaml` returns them.

    Raises:
        NNDError: ``variants`` is no list of them.
    """
    variants = settings.get("variants") or []
    if not isinstance(variants, list):
        raise NNDError(f"task {settings.get('task')}: variants={variants!r}: expected a list of {', '.join(VARIANTS)}")
    return {f"{settings.get('task')}_{variant}": change_task(str(variant), settings) for variant in variants}


def tasks_on(name: str, config: str) -> Iterator[dict[str, Any]]:
    """Yield the settings of the tasks on a config of a set, of the package or the user's own, the shortest name first."""
    tasks: list[dict[str, Any]] = []
    for path in [*task_yamls(tasks_dir() / name), *task_yamls(user_tasks_dir() / name)]:
        with suppress(NNDError):  # `nnd check` says what is wrong with it
            settings = read_task_yaml(path)[0]
            changes = list_variants(settings)
            tasks += [settings, *({**settings, "task": task, **change} for task, change in changes.items())]
    for settings in sorted(tasks, key=lambda settings: len(str(settings.get("task")))):
        if settings.get("dataset_name", config) == config and isinstance(settings.get("doc_to_text"), str):
            yield settings


# ---------------------------------------------------------------- the folder that lm-eval searches


def write_task_folder() -> Path:
    """Write the folder of all tasks, for ``--include_path`` and `TaskManager`, unless it is there; return its path.

    It is in `nnd_home`, or in the user's cache where that cannot be written.

    Raises:
        NNDError: neither can be written.
    """
    home = nnd_home()
    folder = home / FOLDER
    try:
        fill_folder(folder, folder)
    except NNDError:
        folder = platformdirs.user_cache_path("nnd-tasks", False) / short_hash(str(home)) / FOLDER
        fill_folder(folder, folder, hint="set NND_HOME to a folder that you can write")
    return folder


def fill_folder(folder: Path, beside: Path, *, hint: str = "") -> None:
    """Put a YAML of each task into ``folder``, all or none, unless they are there.

    A written YAML is included by its absolute path, so that a change of it counts at once.

    Args:
        folder: what is made, or made anew.
        beside: the new folder is prepared next to this path.
        hint: ends the error: what else the user can do.

    Raises:
        NNDError: the folder cannot be written, or was there and not made by this.
    """
    if is_filled(folder):
        return
    with changing(folder, hint=hint), workshop(folder, beside) as prepared:
        if is_filled(folder):  # another process did it while this one waited
            return
        foreign = any(folder.iterdir()) if folder.is_dir() else folder.exists()
        if foreign and not (folder / MARKER).is_file():
            raise NNDError(f"{folder}: exists and was not made by nnd register; move it away")
        sources = _fingerprint_sources()
        new = prepared / "new"
        files = _list_files(sources)
        for name, (text, _) in files.items():
            path = new / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        index = {
            name: {key: settings[key] for key in ("class", "group", "task", "tag") if key in settings}
            for name, (_, settings) in files.items()
            if settings
        }
        (new / INDEX).write_text(json.dumps(index), encoding="utf-8")
        (new / MARKER).write_text(f"{sources}\n{nnd_home()}", encoding="utf-8")
        if folder.exists():
            folder.rename(prepared / "old")
        new.rename(folder)


def is_filled(folder: Path) -> bool:
    """Tell whether ``folder`` is what `fill_folder` would write."""
    return _read_marker(folder) == (_fingerprint_sources(), str(nnd_home()))


def _read_marker(folder: Path) -> tuple[str, str]:
    """Read both lines of `MARKER`, which are empty where it is not there."""
    text = ""
    with suppress(OSError, UnicodeDecodeError):
        text = (folder / MARKER).read_text(encoding="utf-8")
    sources, home, *_ = f"{text}\n".split("\n")
    return sources, home


def _list_sources() -> Iterator[tuple[Path, Path]]:
    """Yield each YAML that somebody wrote, and each ``_base`` that one may include, after the folder that it is in."""
    for folder in written_folders():
        for path in [*sorted(folder.rglob("_base")), *task_yamls(folder)]:
            yield folder, path


def _fingerprint_sources() -> str:
    states = [(path, path.stat()) for path in [Path(__file__), *(path for _, path in _list_sources())]]
    return short_hash(__version__, *(f"{path} {state.st_size} {state.st_mtime_ns}" for path, state in states))


@lru_cache(maxsize=2)
def _list_files(sources: str) -> dict[str, tuple[str, dict[str, Any]]]:
    """List path within the folder -> text of each file, and its settings, none where we cannot read it.

    A task of the user takes the place of ours of the same name. ``sources`` is their fingerprint.
    """
    files: dict[str, tuple[str, dict[str, Any]]] = {}
    file_of_task: dict[str, str] = {}
    made: dict[str, tuple[str, str, dict[str, Any]]] = {}
    for folder, path in _list_sources():
        file, settings = path.relative_to(folder).as_posix(), dict[str, Any]()
        with suppress(NNDError):  # lm-eval leaves out what it cannot read
            settings = read_task_yaml(path)[0]
            task = settings.get("task")
            if isinstance(task, str):
                files.pop(file_of_task.get(task, ""), None)
                file_of_task[task] = file
            for variant, change in list_variants(settings).items():
                variant_file = (Path(file).parent / f"{variant}.yaml").as_posix()
                text = dump_yaml({"include": str(path), "task": variant, **change})
                made[variant] = variant_file, text, {**settings, "task": variant, **change}
        files[file] = dump_yaml({"include": str(path)}), settings
    for variant, (file, text, settings) in made.items():
        if variant not in file_of_task:
            files[file] = text, settings
    return files


# ---------------------------------------------------------------- what stock lm-eval knows

# lm-eval looks for tasks in the folder of its package ``lm_eval.tasks`` and in ``--include_path``; releases after 0.4.13 may also
# ask installed packages. So `register` puts the folder of all tasks into ``lm_eval.tasks``.

REGISTERED = "nnd_tasks"


def lm_eval_tasks_dir() -> Path:
    """Return the folder that lm-eval searches for tasks, without importing lm-eval.

    Raises:
        NNDError: lm-eval is not installed.
    """
    spec = importlib.util.find_spec("lm_eval")
    if spec is None or not spec.submodule_search_locations:
        raise NNDError("lm_eval is not installed in this environment; run: pip install 'lm-eval[hf]'")
    return Path(next(iter(spec.submodule_search_locations))) / "tasks"


def registered_folder() -> Path:
    """The folder of `register`, below the one that lm-eval searches."""
    return lm_eval_tasks_dir() / REGISTERED


def register() -> tuple[Path, int, str]:
    """Make our tasks known to stock ``lm_eval``, or bring what an earlier call wrote up to date.

    It knows the tasks of one home at a time, as it finds their sets by ``NND_HOME``.

    Returns:
        The folder; the number of its tasks and groups; and the other home whose own tasks it no longer knows, or ``""``.

    Raises:
        NNDError: the folder of lm-eval cannot be written, or has a folder of our name that `register` did not make.
    """
    folder = registered_folder()
    hint = 'use `nnd run ...`, or `lm_eval --include_path "$(nnd register --print)" ...`, which need no registration'
    home = _read_marker(folder)[1]
    fill_folder(folder, _beside(folder), hint=hint)
    return folder, sum(1 for _ in folder.rglob("*.yaml")), "" if home == str(nnd_home()) else home


def update_registration() -> None:
    """Make new tasks known to stock ``lm_eval`` too, if `register` made the others known.

    Raises:
        NNDError: as `register`; or the tasks of another home are registered, which stay.
    """
    folder = registered_folder()
    if not (folder / MARKER).is_file():
        return
    home = _read_marker(folder)[1]
    if home not in ("", str(nnd_home())) and Path(home).is_dir():
        raise NNDError(f"it knows those of NND_HOME={home}; `nnd register` puts these in their place")
    register()


def unregister() -> Path | None:
    """Remove the folder that `register` made, and return it; None if there was none.

    Raises:
        NNDError: the folder cannot be removed.
    """
    folder = registered_folder()
    if not (folder / MARKER).is_file():
        return None
    with changing(folder, done="removed"), workshop(folder, _beside(folder)) as removed:
        if folder.exists():
            folder.rename(removed / "old")
    return folder


def _beside(folder: Path) -> Path:
    """The new folder is prepared outside of what lm-eval searches, so that lm-eval sees all tasks or none."""
    return folder.parent.parent / folder.name
