"""Which models of a family should be better than which: later checkpoints of a training, and larger models."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nnd_tasks.analysis.side_by_side import Paired
from nnd_tasks.analysis.tags import PARAMETERS, STEP, Tags, find_family, guess_training, known_number
from nnd_tasks.errors import NNDError


@dataclass(frozen=True, eq=False)
class Family:
    """Models of one family, and the order that their quality should have.

    Attributes:
        name: of the family.
        models: ``model``, ``training``, ``step`` (nan: the end) and ``parameters`` (nan: not known); the index is the place
            among the runs.
        better: shape (models, models); [a, b] tells whether b should be better than a.
    """

    name: str
    models: pd.DataFrame
    better: NDArray[np.bool_]

    @property
    def contrast(self) -> NDArray[np.float64]:
        """Weights of the models, with the sum 0: how many each should be better than, less how many should be better."""
        weights: NDArray[np.float64] = self.better.sum(axis=0) - self.better.sum(axis=1).astype(np.float64)
        return weights


def find_families(paired: Paired, tags: Tags | None = None) -> tuple[list[Family], list[str]]:
    """Return the families whose models have an order, and a note on each model or family that is left out.

    Args:
        paired: runs of two models or more.
        tags: may have ``family``, ``training``, ``step`` and ``parameters`` of a model, in place of what its name says.

    Raises:
        NNDError: no family is left.
    """
    about = [
        {
            "model": run.model,
            "family": find_family(run, tags),
            "training": (tags and tags.text(run, "training")) or guess_training(run),
            "step": known_number(run, STEP, tags),
            "parameters": known_number(run, PARAMETERS, tags),
        }
        for run in paired.runs
    ]
    numbers = {"step": np.float64, "parameters": np.float64}
    families, notes = [], []
    for name, models in pd.DataFrame(about).astype(numbers).groupby("family", sort=False):
        family = Family(str(name), models, _find_order(models))
        if family.better.any():
            families.append(family)
        else:
            notes.append(
                f"neither steps nor sizes put models of the family {name} in order ({', '.join(models['model'])})"
            )
    if not families:
        raise NNDError(
            f"{paired.title}: no models that should differ: {'; '.join(notes)}. Run checkpoints of one training or sizes of one "
            "family, or say what they are with --tags FILE, a CSV file with the columns model, family, training, step, parameters"
        )
    return families, [f"Left out: {note}." for note in notes]


def _find_order(models: pd.DataFrame) -> NDArray[np.bool_]:
    """Of two checkpoints of one training, the later one should be better; of the last ones of two trainings, the larger."""
    steps = models["step"].fillna(math.inf)
    last = (steps == steps.groupby(models["training"]).transform("max")).to_numpy()
    training, step, size = models["training"].to_numpy(), steps.to_numpy(), models["parameters"].to_numpy()
    larger = last[:, None] & last & (size[:, None] < size)
    better: NDArray[np.bool_] = np.where(training[:, None] == training, step[:, None] < step, larger)
    return better
