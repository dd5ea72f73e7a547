"""Which models of a family should be better than which: later checkpoints of a training, and larger models."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nnd_tasks.analysis.side_by_side import Paired
from nnd_tasks.analysis.tags import PARAMETERS, STEP, Tags, find_family, guess_training, known_number
from nnd_tasks.errors import NNDError


class Family(NamedTuple):
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
    families, notes = [], []
    for name, models in pd.DataFrame(about).astype({"step": float, "parameters": float}).groupby("family", sort=False):
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
    models = models.assign(step=models["step"].fillna(math.inf))
    models["last"] = models["step"] == models.groupby("training")["step"].transform("max")
    better: pd.Series[bool] = models.merge(models, how="cross").eval(
        "(training_x == training_y and step_x < step_y)"
        "or (training_x != training_y and last_x and last_y and parameters_x < parameters_y)",
        engine="python",
    )
    return better.to_numpy().reshape(len(models), -1)
