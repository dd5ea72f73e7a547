"""Which models of a family should be better than which: later checkpoints of a training, and larger models."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnd_tasks.analysis.results import Run
from nnd_tasks.analysis.side_by_side import Paired
from nnd_tasks.analysis.tags import PARAMETERS, STEP, Tags, find_family, guess_step, guess_training
from nnd_tasks.errors import NNDError


@dataclass(frozen=True, eq=False)
class Family:
    """Models of one family, and the order that their quality should have.

    Attributes:
        name: of the family.
        models: their short names.
        columns: their places among the runs of the comparison.
        better: shape (models, models); [a, b] tells whether b should be better than a.
        trainings: of each training with several checkpoints, their places in ``models`` and their steps, in order.
        orders: the same in words, a line per training and one for the sizes.
    """

    name: str
    models: list[str]
    columns: list[int]
    better: NDArray[np.bool_] = field(repr=False)
    trainings: list[list[tuple[int, float]]] = field(repr=False)
    orders: list[str]

    @property
    def contrast(self) -> NDArray[np.float64]:
        """Weights of the models, with the sum 0: how many each should be better than, less how many should be better."""
        weights: NDArray[np.float64] = self.better.sum(axis=0) - self.better.sum(axis=1).astype(np.float64)
        return weights


def families_of(paired: Paired, tags: Tags | None = None) -> tuple[list[Family], list[str]]:
    """Return the families whose models have an order, and a note on each model or family that is left out.

    Args:
        paired: runs of two models or more.
        tags: may have ``family``, ``training``, ``step`` and ``parameters`` of a model, in place of what its name says.

    Raises:
        NNDError: no family is left.
    """
    columns: dict[str, list[int]] = defaultdict(list)
    for column, run in enumerate(paired.runs):
        columns[find_family(run, tags)].append(column)
    families, notes = [], []
    for name, members in columns.items():
        family = _ordered(name, members, paired.runs, tags)
        if family.better.any():
            families.append(family)
        elif len(members) == 1:
            notes.append(f"{family.models[0]} is the only model of its family ({name})")
        else:
            notes.append(f"neither steps nor sizes say which of {', '.join(family.models)} should be better")
    if not families:
        raise NNDError(
            f"{paired.title}: no models that should differ: {'; '.join(notes)}. Run checkpoints of one training or sizes of one "
            "family, or say what they are with --tags FILE, a CSV file with the columns model, family, training, step, parameters"
        )
    return families, [f"Left out: {note}." for note in notes]


def _ordered(name: str, columns: Sequence[int], runs: Sequence[Run], tags: Tags | None) -> Family:
    """Return some models with the order that training and size give them.

    Of two checkpoints of one training, the later one should be better; of the last checkpoints of two trainings, the larger.
    """
    chosen = [runs[column] for column in columns]
    trainings = [(tags and tags.text(run, "training")) or guess_training(run) for run in chosen]
    steps = [_step(run, tags) for run in chosen]
    sizes = np.array([_parameters(run, tags) for run in chosen])
    same = np.array([[one == other for other in trainings] for one in trainings])
    ends = {training: max(s for s, t in zip(steps, trainings, strict=True) if t == training) for training in trainings}
    last = np.array([step == ends[training] for step, training in zip(steps, trainings, strict=True)])
    better = np.where(same, np.less.outer(steps, steps), np.logical_and.outer(last, last) & np.less.outer(sizes, sizes))
    several, orders = [], []
    for training in dict.fromkeys(trainings):
        points = sorted((steps[i], i) for i, t in enumerate(trainings) if t == training)
        if len({step for step, _ in points}) > 1:
            shown = ", ".join("the end" if step == math.inf else f"{step:,.12g}" for step, _ in points)
            orders.append(f"{training.rpartition('/')[2]}, steps {shown}")
            several.append([(i, step) for step, i in points if step < math.inf])
    if (better & ~same).any():
        ranked = sorted((sizes[i], chosen[i].model) for i in np.flatnonzero(last) if not math.isnan(sizes[i]))
        orders.append("sizes " + ", ".join(f"{size:,.12g} ({model})" for size, model in ranked))
    return Family(name, [run.model for run in chosen], list(columns), better, several, orders)


def _step(run: Run, tags: Tags | None) -> float:
    """Return the step of a checkpoint; infinity for a model that names none, which is the end of its training."""
    step = tags.number(run, STEP) if tags else None
    step = guess_step(run) if step is None else step
    return math.inf if step is None else step


def _parameters(run: Run, tags: Tags | None) -> Any:
    """Return the size of a model; nan where it is not known."""
    size = tags.number(run, PARAMETERS) if tags else None
    return float(run.parameters or math.nan) if size is None else size
