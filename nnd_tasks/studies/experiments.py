"""Experiments of the authors' published runs, from ``experiments.yaml``, and the weights that they can be run with here.

The file says where its facts come from. The experiments have not been run on the real weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from nnd_tasks.errors import NNDError
from nnd_tasks.files import expand
from nnd_tasks.wording import did_you_mean
from nnd_tasks.yaml_json import read_yaml

_Known = TypeVar("_Known")


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
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Experiment:
    """Published runs on one human evaluation.

    Attributes:
        name: as the user types it.
        title: for people.
        set: name of the set that must be built.
        columns: columns of a test that may hold the labels of `PublishedRun.rates`.
        models: the published runs.
        left_out: labels whose tests do not count.
        notes: sentences for the report, on all of its runs.
    """

    name: str
    title: str
    set: str
    columns: Sequence[str]
    models: Sequence[PublishedRun]
    left_out: Sequence[str] = ()
    notes: Sequence[str] = ()


def load_experiments() -> dict[str, Experiment]:
    """Return experiment name -> experiment, in the order of the file."""
    experiments = {}
    for name, entry in read_yaml(Path(__file__).with_name("experiments.yaml")).items():
        shared = {key: entry.pop(key) for key in ("config", "tests")}
        models = [PublishedRun(**{**shared, **model}) for model in entry.pop("models")]
        experiments[name] = Experiment(name=name, models=models, **entry)
    return experiments


def pick(name: str, known: Mapping[str, _Known], what: str) -> _Known:
    """Return what has a name; raise NNDError, which calls it ``what``, where there is none."""
    if name not in known:
        meant = did_you_mean(name, known, end=" ")
        raise NNDError(f"there is no {what} {name!r}; {meant}known: {', '.join(known)}")
    return known[name]


def find_weights(run: PublishedRun, folder: str = "") -> str:
    """Return the folder, or the name on the hub, to load a model from.

    Raises:
        NNDError: the folder holds no model, or the weights were never released.
    """
    if folder:
        if not (expand(folder) / "config.json").is_file():
            raise NNDError(f"{folder}: no model is there for {run.name} (it has no config.json)")
        return str(expand(folder))
    if not run.released:
        raise NNDError(
            f"{run.name}: never released by the authors; name a folder of yours: --weights {run.name}=FOLDER"
        )
    return run.model
