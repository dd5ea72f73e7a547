"""Experiments of the authors' published runs, from ``experiments.yaml``, and the weights that they can be run with here.

The file says where its facts come from. The experiments have not been run on the real weights.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nnd_tasks.baselines import ALL
from nnd_tasks.errors import NNDError
from nnd_tasks.files import expand
from nnd_tasks.wording import did_you_mean
from nnd_tasks.yaml_json import read_yaml

PATH = Path(__file__).with_name("experiments.yaml")
DISCLAIMER = (
    "These experiments have not been run on the authors' weights: their numbers are checked against the published ones, and "
    "only small stand-in models were run with them."
)


@dataclass(frozen=True)
class PublishedRun:
    """One published run.

    Attributes:
        name: as the authors call the model, with the config after it where there are results on several configs.
        model: name on the hub; where the weights were never released, that of the model that they were fine-tuned from.
        task: our task with the authors' input for this family of models.
        config: of the set.
        tests: published number of tests.
        rates: label -> published pass rate; ``all`` is over all tests.
        released: the weights are on the hub.
        metadata: settings of the task besides those that all experiments share.
        start_at_bos: the authors start the decoder at BOS.
        special_tokens: to add to a tokenizer that has no EOS token.
        notes: sentences for the report.
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
        """Its name, made safe as the name of a file."""
        return re.sub(r"[^\w.-]+", "_", self.name)


@dataclass(frozen=True)
class Experiment:
    """Published runs on one human evaluation.

    Attributes:
        name: as the user types it.
        title: for people.
        set: name of the set that must be built.
        columns: columns of a test that may hold the labels of `PublishedRun.rates`.
        models: the published runs.
        counts: label -> published number of tests, where it is needed.
        left_out: labels of which our set has no tests.
        notes: sentences for the report, on all of its runs.
    """

    name: str
    title: str
    set: str
    columns: Sequence[str]
    models: Sequence[PublishedRun]
    counts: Mapping[str, int] = field(default_factory=dict)
    left_out: Sequence[str] = ()
    notes: Sequence[str] = ()


def load_experiments() -> dict[str, Experiment]:
    """Return experiment name -> experiment, in the order of the file."""
    experiments = {}
    for name, entry in read_yaml(PATH)["experiments"].items():
        shared = {key: entry.pop(key) for key in ("config", "tests")}
        models = [PublishedRun(**{**shared, **model}) for model in entry.pop("models")]
        experiments[name] = Experiment(name=name, models=models, **entry)
    return experiments


def protocol() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the settings of the task and the model arguments that all experiments share."""
    shared = read_yaml(PATH)["protocol"]
    return shared["metadata"], shared["model_args"]


def pick(name: str, known: Iterable[str], what: str) -> str:
    """Return the name of ``known`` that equals ``name``, ignoring case.

    Raises:
        NNDError: there is none; ``what`` says what was looked for.
    """
    names = {one.casefold(): one for one in known}
    if name.casefold() in names:
        return names[name.casefold()]
    meant = did_you_mean(name, names.values(), end=" ")
    raise NNDError(f"there is no {what} {name!r}; {meant}known: {', '.join(names.values())}")


def listing() -> str:
    """Return every experiment with its models, for people."""
    lines = [DISCLAIMER]
    for experiment in load_experiments().values():
        lines += ["", f"{experiment.name}: {experiment.title} (set {experiment.set})"]
        for published in experiment.models:
            model = (
                published.model
                if published.released
                else f"{published.model} fine-tuned by the authors, never released"
            )
            lines.append(f"  {published.name:<20}{published.rates[ALL]:.3f}  {published.task:<28}{model}")
    return "\n".join(lines)


# ---------------------------------------------------------------- which weights


def _folder_of(published: PublishedRun, models: Path | None) -> Path | None:
    """Return the subfolder of ``models`` that is named like the run or, if it was released, like the model on the hub."""
    names = [published.name, published.stem, *([published.model.rpartition("/")[2]] if published.released else [])]
    folders = (models / name for name in names) if models else ()
    return next((folder for folder in folders if folder.is_dir()), None)


def _is_offline() -> bool:
    """Tell whether the hub may not be asked."""
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}  # as huggingface_hub reads it


def _in_cache(model: str) -> bool:
    from huggingface_hub import try_to_load_from_cache

    return isinstance(try_to_load_from_cache(model, "config.json"), str)


def find_weights(published: PublishedRun, given: Mapping[str, Path], models: Path | None) -> tuple[str | None, str]:
    """Return the folder or name on the hub to load (None where there is none), and a line for people about it.

    Args:
        published: the run.
        given: name of a run -> the folder that the user named for it.
        models: a folder with a subfolder per model, or None.

    Raises:
        NNDError: a folder holds no model.
    """
    folder = given.get(published.name) or _folder_of(published, models)
    if folder is not None:
        if not (folder / "config.json").is_file():
            raise NNDError(f"{folder}: no model is there for {published.name} (it has no config.json)")
        return str(folder), f"{folder} (local)"
    if not published.released:
        return None, "never released by the authors; give one of your own with --model NAME=FOLDER"
    if not _is_offline():
        return published.model, f"{published.model} (hub)"
    if _in_cache(published.model):
        return published.model, f"{published.model} (the hub's cache)"
    return None, f"missing: HF_HUB_OFFLINE is set; download {published.model} into a folder and name it"


def parse_folders(pairs: Sequence[str], experiment: Experiment) -> dict[str, Path]:
    """Return model name -> folder from texts ``NAME=FOLDER``.

    Raises:
        NNDError: a text has another form, the experiment has no such model, or a model is named twice.
    """
    given: dict[str, Path] = {}
    for pair in pairs:
        name, equals, folder = pair.partition("=")
        if not (equals and folder):
            raise NNDError(f"--model {pair}: expected NAME=FOLDER")
        name = pick(name, (published.name for published in experiment.models), f"model of {experiment.name}")
        if name in given:
            raise NNDError(f"--model {name}: it is given twice")
        given[name] = expand(folder)
    return given
