"""Pass rates against a number: the size of a model (paper, section 5.3) or the step of a training (section 5.4)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Literal

from nnd_tasks.analysis.compare import category_rates
from nnd_tasks.analysis.results import Run
from nnd_tasks.analysis.side_by_side import Paired, not_compared, pair
from nnd_tasks.analysis.tags import (
    PARAMETERS,
    STEP,
    Tags,
    find_number,
    guess_family,
    guess_step,
    guess_training,
)
from nnd_tasks.baselines import ALL
from nnd_tasks.errors import NNDError

Kind = Literal["scaling", "curve"]
EPOCH = "epoch"


@dataclass(frozen=True, slots=True)
class Point:
    """One rate of a figure.

    Attributes:
        task: name of the task.
        category: a category of the set, or ``all``.
        family: of the model, or the training of the checkpoint; empty where there can be only one.
        model: its short name.
        x: place on the x axis.
        tests: number of tests.
        clusters: number of prompts that have tests; None where it is not known.
        rate: pass rate, between 0 and 1.
        standard_error: clustered by prompt; nan where it is not known.
        low: lower end of the 95% interval; nan where it is not known.
        high: its upper end.
    """

    task: str
    category: str
    family: str
    model: str
    x: float
    tests: int
    clusters: int | None
    rate: float
    standard_error: float
    low: float
    high: float


@dataclass(frozen=True)
class Chart:
    """A figure and the table of its numbers.

    Attributes:
        kind: ``scaling`` or ``curve``.
        task: name of the task; empty where there are several.
        x: what the x axis shows.
        panels: what has a panel of its own: each ``category``, with a line per family, or each ``task``, with a line per
            category.
        points: sorted by category, family and x.
        notes: sentences for the reader.
        signatures: ``TASK: MODEL`` -> signature of that run.
    """

    kind: Kind
    task: str
    x: str
    panels: Literal["category", "task"]
    points: tuple[Point, ...]
    notes: tuple[str, ...] = ()
    signatures: Mapping[str, str] | None = None

    @property
    def stem(self) -> str:
        """Name of its files without suffix."""
        name = f"{self.kind}_{self.task}" if self.task else self.kind
        return re.sub(r"[^\w.-]+", "_", name)

    @property
    def title(self) -> str:
        """Heading of figure and table."""
        what = "Pass rate during training" if self.x in (STEP, EPOCH) else f"Pass rate against {self.x}"
        return f"{what}: {self.task}" if self.task else what


def short(value: float) -> str:
    """Return a number as tables show it: 868,992 or 0.25."""
    return f"{value:,.0f}" if value == int(value) else f"{value:.6g}"


# ---------------------------------------------------------------- runs


def scaling(
    runs: Sequence[Run], x: str = PARAMETERS, tags: Tags | None = None, allow: Sequence[str] = ()
) -> list[Chart]:
    """Return a chart per task: a panel for all tests and for each category, a line per family (paper, Figure 3).

    Args:
        runs: of two models or more.
        x: ``parameters``, ``step``, or a column of the tags.
        tags: families and numbers that the user gives the models.
        allow: parts of the protocol that may differ.

    Raises:
        NNDError: the runs cannot be compared, a number is not known, or two models of one family have the same.
    """
    charts = []
    groups, notes = groups_of_several(runs, allow, "scaling")
    for paired in groups:
        families = {run.model: family_of(run, x, tags) for run in paired.runs}
        places = {run.model: find_number(run, x, tags) for run in paired.runs}
        for model, place in places.items():
            if x == PARAMETERS and place <= 0:
                raise NNDError(f"{model}: {short(place)} parameters; a size is above 0")
        _refuse_same(
            families,
            places,
            f"{x} {{}} in the family {{}}; name the folders of the runs that you want, or give families of their own with --tags",
        )
        points = _points(paired, families, places)
        named = tags is not None and all(tags.text(run, "family") for run in paired.runs)
        listed = "; ".join(f"{family}: {', '.join(models)}" for family, models in _invert(families).items())
        family_note = f"Families{'' if named else ', guessed from names (--tags FILE names them)'}: {listed}."
        charts.append(_chart("scaling", paired, x, points, [family_note, *notes, *paired.notes]))
    return charts


def training_curve(
    runs: Sequence[Run],
    x: str = STEP,
    tags: Tags | None = None,
    allow: Sequence[str] = (),
    panels: Literal["category", "task"] = "task",
) -> list[Chart]:
    """Return the curves of one training from runs of its checkpoints (paper, Figure 4).

    Args:
        runs: of two checkpoints or more.
        x: ``step``, or a column of the tags.
        tags: numbers that the user gives the checkpoints.
        allow: parts of the protocol that may differ.
        panels: ``task`` gives one chart with a panel per task, ``category`` a chart per task with one per category.

    Raises:
        NNDError: the runs cannot be compared, a step is not known, two runs have one step, or there are two trainings.
    """
    groups, notes = groups_of_several(runs, allow, "a curve")
    trainings = {run.model: guess_training(run) for run in runs if guess_step(run) is not None}
    different = list(dict.fromkeys(trainings.values()))
    if len(different) > 1:
        raise NNDError(
            f"checkpoints of {len(different)} trainings, {different[0]} and {different[1]}: name those of one, or draw them "
            "side by side with `nnd scaling --x step`"
        )
    charts = []
    for paired in groups:
        places = {run.model: find_number(run, x, tags) for run in paired.runs}
        families = dict.fromkeys(places, "")
        _refuse_same(families, places, f"{x} {{}}; name the folders of the runs that you want")
        charts.append(_chart("curve", paired, x, _points(paired, families, places), [*notes, *paired.notes]))
        notes = []
    return charts if panels == "category" else [together(charts)]


def groups_of_several(runs: Sequence[Run], allow: Sequence[str], what: str) -> tuple[list[Paired], list[str]]:
    """Return the runs side by side, and a note on each task that only one model ran.

    Args:
        runs: of any tasks.
        allow: parts of the protocol that may differ.
        what: is drawn, for an error.
    """
    paired = pair(runs, allow)
    groups = [group for group in paired if len(group.runs) > 1]
    alone = [f"{group.runs[0].model} on {group.title}" for group in paired if len(group.runs) == 1]
    if not groups:
        if any(one.set == other.set and one.model != other.model for one, other in combinations(runs, 2)):
            raise NNDError(not_compared(runs, paired)[0])  # on one set, but not asked the same
        raise NNDError(f"one run only ({'; '.join(alone)}): {what} needs two models or checkpoints on one task")
    return groups, [f"Left out, the only run of its task and protocol: {one}." for one in alone]


def family_of(run: Run, x: str, tags: Tags | None) -> str:
    """Return the family of a model: from the tags, else from its name."""
    given = tags.text(run, "family") if tags is not None else None
    if given:
        return given
    return guess_training(run).rpartition("/")[2] if x == STEP else guess_family(run)


def _refuse_same(families: Mapping[str, str], places: Mapping[str, float], how: str) -> None:
    """Raise NNDError where two models have one place on one line."""
    seen: dict[tuple[str, float], str] = {}
    for model, place in places.items():
        key = (families[model], place)
        if key in seen:
            raise NNDError(f"{seen[key]} and {model}: both have {how.format(short(place), families[model])}")
        seen[key] = model


def _points(paired: Paired, families: Mapping[str, str], places: Mapping[str, float]) -> list[Point]:
    """Return the rates of all models on the tests that all have scored."""
    if paired.tests.empty:
        raise NNDError(f"{paired.title}: no test was scored by all of {', '.join(paired.models)}")
    return [
        Point(
            task=paired.task_of(run),
            category=result.category,
            family=families[run.model],
            model=run.model,
            x=places[run.model],
            tests=result.tests,
            clusters=result.clusters,
            **asdict(result.rates[run.model]),
        )
        for result in category_rates(paired)
        for run in paired.runs
    ]


def _chart(kind: Kind, paired: Paired, x: str, points: Iterable[Point], notes: Iterable[str]) -> Chart:
    signatures = {f"{paired.task_of(run)}: {run.model}": run.line for run in paired.runs}
    return Chart(kind, paired.title, x, "category", ordered(points), tuple(notes), signatures)


def ordered(points: Iterable[Point]) -> tuple[Point, ...]:
    """Return points as a table shows them: all tests first, then by category, family and x."""
    return tuple(sorted(points, key=lambda p: (p.category != ALL, p.category, p.family, p.x)))


def together(charts: Sequence[Chart]) -> Chart:
    """Return one chart with a panel per task."""
    points = tuple(point for chart in charts for point in chart.points)
    notes = tuple(note for chart in charts for note in chart.notes)
    signatures = {key: line for chart in charts for key, line in (chart.signatures or {}).items()}
    task = charts[0].task if len(charts) == 1 else ""
    return Chart(charts[0].kind, task, charts[0].x, "task", points, notes, signatures)


def _invert(families: Mapping[str, str]) -> dict[str, list[str]]:
    """Return family -> its models, from model -> family."""
    models: dict[str, list[str]] = defaultdict(list)
    for model, family in families.items():
        models[family].append(model)
    return dict(sorted(models.items()))
