"""Experiments of the authors' published runs, from ``experiments.yaml``, and the weights that they can be run with here.

The file says where its facts come from. The recipes have not been run on the real weights.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from nnd_tasks.baselines import ALL
from nnd_tasks.errors import NNDError
from nnd_tasks.files import expand
from nnd_tasks.wording import did_you_mean

PATH = Path(__file__).with_name("experiments.yaml")
DISCLAIMER = (
    "These recipes have not been run on the authors' weights: their numbers are checked against the published ones, and "
    "only small stand-in models were run with them."
)


@dataclass(frozen=True)
class PublishedRun:
    """One published run.

    Attributes:
        name: as the authors call the model; for a result on one of several sets with the config after it.
        model: its name on the hub; of a model that was never released, the one that it was fine-tuned from.
        task: ours with the authors' input for this family of models.
        config: of the set.
        tests: published number of tests.
        rates: label -> published pass rate; ``all`` is over all tests.
        released: the weights can be had.
        metadata: settings of the task besides those of the protocol.
        start_at_bos: the authors start the decoder at BOS.
        special_tokens: for a tokenizer that names no EOS token.
        notes: what to know of it.
    """

    name: str
    model: str
    task: str
    config: str
    tests: int
    rates: Mapping[str, float]
    released: bool = True
    metadata: Mapping[str, Any] = field(default_factory=dict)
    start_at_bos: bool = False
    special_tokens: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()

    @property
    def stem(self) -> str:
        """Its name as that of a file."""
        return re.sub(r"[^\w.-]+", "_", self.name)


@dataclass(frozen=True)
class Experiment:
    """Published runs on one human evaluation.

    Attributes:
        name: what the user calls it by.
        title: for people.
        set: what must be built.
        columns: columns of a test in which the labels of `Recipe.rates` are looked up.
        models: the published runs.
        counts: label -> published number of tests, where it is needed.
        left_out: labels of which our set has no tests.
        notes: what to know of all of them.
    """

    name: str
    title: str
    set: str
    columns: Sequence[str]
    models: Sequence[PublishedRun]
    counts: Mapping[str, int] = field(default_factory=dict)
    left_out: Sequence[str] = ()
    notes: Sequence[str] = ()


def load_recipes() -> dict[str, Experiment]:
    """Return experiment name -> experiment, in the order of the file."""
    experiments = {}
    for name, found in yaml.safe_load(PATH.read_text(encoding="utf-8"))["experiments"].items():
        shared = {key: found.pop(key) for key in ("config", "tests")}
        models = [PublishedRun(**{**shared, **model}) for model in found.pop("models")]
        experiments[name] = Experiment(name=name, models=models, **found)
    return experiments


def protocol() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the settings of the task and the model arguments that all recipes share."""
    found = yaml.safe_load(PATH.read_text(encoding="utf-8"))["protocol"]
    return found["metadata"], found["model_args"]


def pick(name: str, known: Iterable[str], what: str) -> str:
    """Return the one of ``known`` that is meant; case does not matter."""
    names = {one.casefold(): one for one in known}
    if name.casefold() in names:
        return names[name.casefold()]
    meant = did_you_mean(name, names.values(), end=" ")
    raise NNDError(f"there is no {what} {name!r}; {meant}known: {', '.join(names.values())}")


def listing() -> str:
    """Return every experiment with its models, for people."""
    lines = [DISCLAIMER]
    for experiment in load_recipes().values():
        lines += ["", f"{experiment.name}: {experiment.title} (set {experiment.set})"]
        for recipe in experiment.models:
            model = recipe.model if recipe.released else f"{recipe.model} fine-tuned by the authors, never released"
            lines.append(f"  {recipe.name:<20}{recipe.rates[ALL]:.3f}  {recipe.task:<28}{model}")
    return "\n".join(lines)


# ---------------------------------------------------------------- which weights


def _folder_of(recipe: PublishedRun, models: Path | None) -> Path | None:
    """Return the subfolder of ``models`` that is named like the recipe or, if it was released, like the hub's model."""
    names = [recipe.name, recipe.stem, *([recipe.model.rpartition("/")[2]] if recipe.released else [])]
    found = (models / name for name in names) if models else ()
    return next((folder for folder in found if folder.is_dir()), None)


def _is_offline() -> bool:
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}  # as huggingface_hub reads it


def _in_cache(model: str) -> bool:
    from huggingface_hub import try_to_load_from_cache

    return isinstance(try_to_load_from_cache(model, "config.json"), str)


def find_weights(recipe: PublishedRun, given: Mapping[str, Path], models: Path | None) -> tuple[str | None, str]:
    """Return the folder or hub name to load, None where there is none, and a line that says so.

    Raises:
        NNDError: a folder holds no model.
    """
    folder = given.get(recipe.name) or _folder_of(recipe, models)
    if folder is not None:
        if not (folder / "config.json").is_file():
            raise NNDError(f"{folder}: no model is there for {recipe.name} (it has no config.json)")
        return str(folder), f"{folder} (local)"
    if not recipe.released:
        return None, "never released by the authors; give one of your own with --model NAME=FOLDER"
    if not _is_offline():
        return recipe.model, f"{recipe.model} (hub)"
    if _in_cache(recipe.model):
        return recipe.model, f"{recipe.model} (the hub's cache)"
    return None, f"missing: HF_HUB_OFFLINE is set; download {recipe.model} into a folder and name it"


def parse_folders(pairs: Sequence[str], experiment: Experiment) -> dict[str, Path]:
    """Return model name -> folder from texts ``NAME=FOLDER``.

    Raises:
        NNDError: it is written otherwise, the experiment has no such model, or one is named twice.
    """
    given: dict[str, Path] = {}
    for pair in pairs:
        name, equals, folder = pair.partition("=")
        if not (equals and folder):
            raise NNDError(f"--model {pair}: expected NAME=FOLDER")
        name = pick(name, (recipe.name for recipe in experiment.models), f"model of {experiment.name}")
        if name in given:
            raise NNDError(f"--model {name}: it is given twice")
        given[name] = expand(folder)
    return given
