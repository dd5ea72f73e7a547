"""Pass rates over the steps of a training, from the JSON Lines that `NNDCallback` writes or from runs of checkpoints."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from scipy.special import stdtrit

from nnd_tasks.analysis.compare.power import LEVEL
from nnd_tasks.analysis.curves.charts import EPOCH, Chart, Point, ordered, short, together, training_curve
from nnd_tasks.analysis.results import read_results
from nnd_tasks.analysis.samples import read_lines
from nnd_tasks.analysis.tags import STEP, read_tags
from nnd_tasks.errors import NNDError
from nnd_tasks.statistics import effective_tests, wilson

#: Most characters that the name of a task may have, as files are named after it.
_LONGEST = 200


def read_curve(
    places: Sequence[Path],
    x: str = STEP,
    tags: Path | None = None,
    allow: Sequence[str] = (),
    panels: str = "task",
    select: Sequence[str] = (),
) -> list[Chart]:
    """Return the curves of one training, from runs of its checkpoints or from the callback's log.

    Args:
        places: folders and files as for `read_results`; or ``.jsonl`` files that are no samples.
        x: as for `training_curve` and `logged_curve`.
        tags: file of tags; for runs only.
        allow: parts of the protocol that may differ.
        panels: ``task`` or ``category``.
        select: as for `read_results`; for runs only.

    Raises:
        NNDError: see `training_curve` and `logged_curve`.
    """
    if panels not in ("task", "category"):
        raise NNDError(f"--panels {panels}: task or category")
    chosen: Literal["category", "task"] = "task" if panels == "task" else "category"
    logs = [path for path in places if is_log(path)]
    if not logs:
        return training_curve(read_results(places, select), x, None if tags is None else read_tags(tags), allow, chosen)
    if len(logs) < len(places):
        raise NNDError(f"{logs[0]} is a log of NNDCallback, the rest are runs: plot them separately")
    if select:
        raise NNDError(f"--select {select[0]}: is for runs; {logs[0]} is a log of NNDCallback")
    if tags is not None:
        raise NNDError(f"--tags {tags}: is for runs; the lines of {logs[0]} have steps of their own")
    return logged_curve(logs, x, allow, chosen)


def is_log(path: Path) -> bool:
    """Tell whether a path names a log of the training callback rather than a run."""
    return path.suffix == ".jsonl" and not path.name.startswith("samples_")


def logged_curve(
    paths: Sequence[Path],
    x: str = STEP,
    allow: Sequence[str] = (),
    panels: Literal["category", "task"] = "task",
) -> list[Chart]:
    """Return the curves of one training from the log that the callback wrote.

    Args:
        paths: the log, or the logs of a training in parts.
        x: ``step`` or ``epoch``.
        allow: parts of the protocol that may differ.
        panels: as for `training_curve`.

    Raises:
        NNDError: a line is damaged, two have the same step, or what was asked changed.
    """
    if x not in (STEP, EPOCH):
        raise NNDError(f"--x {x}: a training's log has step and epoch")
    points: dict[str, list[Point]] = defaultdict(list)
    signatures: dict[str, dict[str, str]] = defaultdict(dict)
    places: dict[tuple[str, float], str] = {}
    for where, entry in chain.from_iterable(map(_entries, paths)):
        task, step = entry["task"], entry["step"]
        place = _place(entry, x, where)
        if (task, place) in places:
            raise NNDError(f"{where}: {task} at {x} {short(place)} is there twice, first in {places[task, place]}")
        places[task, place] = where
        points[task] += [_logged_point(where, task, step, place, *item) for item in entry["rates"].items()]
        if entry.get("signature"):
            signatures[task][f"{task}: step {step}"] = str(entry["signature"])
            _check_signatures(task, list(signatures[task].values()), allow, where)
    if not points:
        raise NNDError(f"{', '.join(map(str, paths))}: holds no evaluation; NNDCallback writes one per line")
    charts = []
    for task, of_task in points.items():
        if len({point.x for point in of_task}) < 2:
            raise NNDError(f"{', '.join(map(str, paths))}: one evaluation only of {task}; a curve needs two or more")
        charts.append(Chart("curve", task, x, "category", ordered(of_task), (), signatures[task]))
    return charts if panels == "category" else [together(charts)]


def _entries(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (place for errors, evaluation) of each line of a log.

    Raises:
        NNDError: a line is not an evaluation.
    """
    for number, entry in read_lines(path):
        where = f"{path}, line {number}"
        step, rates = entry.get("step"), entry.get("rates")
        if isinstance(step, bool) or not isinstance(step, int) or step < 0:
            raise NNDError(f"{where}: step is {step!r}, which is not a whole number")
        if not isinstance(entry.get("task"), str) or not 0 < len(entry["task"]) <= _LONGEST:
            raise NNDError(f"{where}: names no task")
        if not isinstance(rates, dict) or not all(isinstance(rate, dict) for rate in rates.values()):
            raise NNDError(f"{where}: has no rates; it is not a line of NNDCallback")
        yield where, entry


def _place(entry: Mapping[str, Any], x: str, where: str) -> float:
    """Return an evaluation's place on the x axis; raise NNDError where it is not a number."""
    place = _number(entry.get(x))
    if math.isnan(place):
        raise NNDError(f"{where}: {x} is {entry.get(x)!r}, which is not a number")
    return place


def _logged_point(where: str, task: str, step: int, place: float, category: str, logged: Mapping[str, Any]) -> Point:
    """Return a point with the interval that its standard error and number of prompts give.

    A log does not say how many tests each prompt has, so the interval takes them to have equally many.
    """
    rate, error = _number(logged.get("rate")), _number(logged.get("stderr"))
    tests, clusters = _number(logged.get("tests")), _number(logged.get("clusters"))
    if not 0 <= rate <= 1 or error < 0 or not tests >= 0:
        raise NNDError(f"{where}: {category!r} has no rate between 0 and 1 with stderr, tests and clusters")
    low = high = math.nan
    if clusters > 1 and tests > 0 and not math.isnan(error):
        rare = min(clusters, tests * min(rate, 1 - rate))
        size = effective_tests(rate, error, tests, tests / clusters, rare)
        low, high = wilson(rate, size, float(stdtrit(clusters - 1, 1 - LEVEL / 2)))
    k = None if math.isnan(clusters) else int(clusters)
    return Point(task, category, "", f"step {step}", place, int(tests), k, rate, error, low, high)


def _number(value: Any) -> float:
    """Return a finite number as a float, and nan for anything else."""
    try:
        number = float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan
    except OverflowError:  # a whole number of hundreds of digits
        number = math.nan
    return number if math.isfinite(number) else math.nan


def _check_signatures(task: str, lines: Sequence[str], allow: Sequence[str], where: str) -> None:
    """Raise NNDError where the last signature has another protocol than the first.

    Only the protocol, before `` || ``, is looked at: the model's part changes with every step.
    """
    first, last = (dict(_items(line.split(" || ")[0])) for line in (lines[0], lines[-1]))
    differ = [key for key in {**first, **last} if key not in allow and first.get(key) != last.get(key)]
    if differ:
        shown = "; ".join(f"{key} {first.get(key)!r} and {last.get(key)!r}" for key in differ)
        raise NNDError(
            f"{where}: {task}: its protocol changed during this log: {shown}; "
            f"plot the parts separately, or all with --allow {','.join(differ)}"
        )


def _items(line: str) -> Iterator[tuple[str, str]]:
    """Yield key and value of each ``key:value`` of a signature's part."""
    for item in line.split("|"):
        key, _, value = item.partition(":")
        yield key, value
