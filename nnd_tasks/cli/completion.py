"""What the shell offers when one presses Tab: names of sets, configs, tasks and experiments.

A shell waits for this, so it looks at names of files and reads a few small ones; nothing here imports torch or lm-eval. What
cannot be read is not offered.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import wraps
from typing import Any

import typer

Offer = tuple[str, str]  # a name, and a few words about it

#: Options of `nnd run` whose values we know.
_MODELS = {"hf": "a model of transformers", "nnd_mlm": "a masked language model", "local-completions": "a server"}
_AFTER_TASKS, _AFTER_MODEL = ("--tasks", "-t"), ("--model", "-M")


def _quietly(names: Callable[..., Iterable[Offer]]) -> Callable[..., list[Offer]]:
    """Return ``names`` as a list; an error, such as an unreadable home or a broken file, gives an empty list."""

    @wraps(names)
    def call(*args: Any, **kwargs: Any) -> list[Offer]:
        offers: list[Offer] = []
        with suppress(Exception):
            offers.extend(names(*args, **kwargs))
        return offers

    return call


@_quietly
def sets(incomplete: str) -> Iterator[Offer]:
    """Yield sets that can be built or are built, and that begin so."""
    from nnd_tasks.datasets import built_sets
    from nnd_tasks.sets.shelf import list_recipes

    built = built_sets()
    for name in dict.fromkeys([*list_recipes(), *built]):
        if name.startswith(incomplete):
            yield name, "built" if name in built else "not built"


@_quietly
def built(incomplete: str) -> Iterator[Offer]:
    """Yield sets that are built and begin so."""
    from nnd_tasks.datasets import built_sets

    yield from ((name, "built") for name in built_sets() if name.startswith(incomplete))


@_quietly
def configs(incomplete: str) -> Iterator[Offer]:
    """Yield configs of the built set that the line names, which typer does not tell while an option lacks its value."""
    from nnd_tasks.datasets import built_sets, dataset_folder, list_configs

    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")
    for name in sorted(set(line.split()) & set(built_sets())):
        yield from (
            (config, f"of {name}") for config in list_configs(dataset_folder(name))[0] if config.startswith(incomplete)
        )


@_quietly
def task_names(incomplete: str) -> Iterator[Offer]:
    """Yield tasks, groups and tags of ours and of the user that begin so; after a comma, more of them."""
    from nnd_tasks.datasets import task_yamls, tasks_dir, user_tasks_dir

    before, comma, last = incomplete.rpartition(",")
    tags: set[str] = set()
    for folder in (tasks_dir(), user_tasks_dir()):
        for path in task_yamls(folder):
            with suppress(OSError, UnicodeDecodeError):
                text = path.read_text("utf-8")
                named = re.search(r"^(task|group): *['\"]?([\w.-]+)", text, re.MULTILINE)
                tags |= {
                    tag
                    for line in re.findall(r"^tag: *\[(.*)\]", text, re.MULTILINE)
                    for tag in re.findall(r"[\w.-]+", line)
                }
                if named and named[2].startswith(last) and named[2] not in before.split(","):
                    yield f"{before}{comma}{named[2]}", named[1]
    for tag in sorted(tags):
        if tag.startswith(last) and tag not in before.split(","):
            yield f"{before}{comma}{tag}", "tag"


@_quietly
def experiments(incomplete: str) -> Iterator[Offer]:
    """Yield published experiments that begin so."""
    from nnd_tasks.analysis.experiments import PATH
    from nnd_tasks.yaml_json import read_yaml

    for name, experiment in read_yaml(PATH)["experiments"].items():
        if name.startswith(incomplete):
            yield name, str(experiment["title"])


def choices(*known: str) -> Callable[[str], list[str]]:
    """Return what offers ``known`` values."""

    def offer(incomplete: str) -> list[str]:
        return [value for value in known if value.startswith(incomplete)]

    return offer


def run_arguments(context: typer.Context, incomplete: str) -> list[Offer]:
    """Return values of the options of `nnd run` that name tasks and types of models."""
    typed = context.params.get("arguments") or []
    last = typed[-1] if typed else ""
    if last in _AFTER_TASKS:
        return task_names(incomplete)
    return [offer for offer in _MODELS.items() if last in _AFTER_MODEL and offer[0].startswith(incomplete)]
