"""The YAML of a task, merged with what it includes as lm-eval does it; the code that it names is not imported."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from nnd_tasks.errors import NNDError
from nnd_tasks.files import PlainLoader, expand, parse_yaml, read_text, reading
from nnd_tasks.languages import check_languages
from nnd_tasks.task.settings import READER_KEYS, Settings, check_config

#: What a YAML may name after ``!function``: anything else is code, which lm-eval would run.
CLASS, SAMPLER = "nnd_tasks.task.task.NNDTask", "nnd_tasks.task.request.ClusterSampler"
#: Keys by which lm-eval takes prompts or data from elsewhere; an NND task does not need them.
_ELSEWHERE = {"custom_dataset", "unsafe_code", "use_prompt"}
#: Keys of ``metadata`` that name a model or let its tokenizer run code.
_MODEL = {
    *("base_url", "gguf_file", "model", "peft", "pretrained", "revision", "subfolder", "tokenizer"),
    *("tokenizer_backend", "trust_remote_code"),
}
#: Keys of a task in lm-eval 0.4.13 (`lm_eval.config.task.TaskConfig`), ``class``, and our own.
_KEYS = re.compile(
    "class|custom_dataset|dataset_(path|name|kwargs)|description|doc_to_(audio|choice|decontamination_query|image|target|text)"
    "|fewshot_(config|delimiter|split)|filter_list|gen_prefix|generation_kwargs|metadata|metric_list|num_fewshot|output_type"
    "|process_(docs|results)|repeats|should_decontaminate|tag|target_delimiter|task|task_alias|(test|training|validation)_split"
    f"|unsafe_code|use_prompt|variants|{'|'.join(READER_KEYS)}"
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


def check_settings(settings: Mapping[str, Any], config: str) -> None:
    """Check what `read_task_yaml` returns as lm-eval and the task class do when they load the task.

    Args:
        settings: of a task of our class.
        config: whose data it reads.

    Raises:
        NNDError: one of the settings is wrong.
    """
    name = str(settings["task"])
    if unknown := [key for key in settings if not _KEYS.fullmatch(str(key))]:
        raise NNDError(f"task {name}: lm-eval knows no key {unknown[0]!r}")
    check_config(settings, SAMPLER)
    if not settings.get("test_split"):
        raise NNDError(f"task {name}: its YAML must set test_split (include _base)")
    Settings.read(settings.get("metadata") or {})
    check_languages(settings["doc_to_text"], config, name, "its data")
