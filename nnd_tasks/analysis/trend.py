"""Pass rates against a number: the size of a model (paper, section 5.3), the step of a training (section 5.4), or a tag."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from nnd_tasks.analysis.compare import category_rates
from nnd_tasks.analysis.marks import FEW_PROMPTS
from nnd_tasks.analysis.model_names import short_names
from nnd_tasks.analysis.power import LEVEL
from nnd_tasks.analysis.results import Run, read_results
from nnd_tasks.analysis.side_by_side import pair_several
from nnd_tasks.analysis.tags import (
    PARAMETERS,
    STEP,
    Tags,
    find_family,
    find_number,
    guess_step,
    guess_training,
    read_tags,
)
from nnd_tasks.baselines import ALL
from nnd_tasks.errors import NNDError
from nnd_tasks.runner.training_log import read_log
from nnd_tasks.show.figures import draw_lines
from nnd_tasks.show.report import Report, Table, file_stem
from nnd_tasks.statistics import FEW, effective_tests, wilson


@dataclass(frozen=True, eq=False)
class Trend:
    """Pass rates of several models, or of one during its training.

    Attributes:
        x: what the rates stand against: ``parameters``, ``step`` or a column of the tags.
        points: one row per task, category and model: ``task``, ``category``, ``family`` (against steps, the training; empty for
            logs), ``model``, ``x``, ``tests``, ``clusters`` (prompts), ``rate``, ``standard_error`` (clustered by prompt),
            ``low`` and ``high`` (95% interval), ``signature``.
        notes: sentences for the reader.
    """

    x: str
    points: pd.DataFrame
    notes: list[str]


def read_trend(
    places: Sequence[Path],
    x: str | None = None,
    tags: Path | None = None,
    allow: Sequence[str] = (),
    select: Sequence[str] = (),
) -> Trend:
    """Return pass rates against a number, from runs or from the logs of one training.

    Args:
        places: folders and files as for `read_results`; or what `NNDCallback` wrote: ``.jsonl`` files that are no samples.
        x: as for `find_trend`; a log has ``step`` only.
        tags: file of tags; for runs only.
        allow: parts of the protocol that may differ.
        select: as for `read_results`; for runs only.

    Raises:
        NNDError: see `find_trend` and `read_logs`.
    """
    logs = [path for path in places if path.suffix == ".jsonl" and not path.name.startswith("samples_")]
    if not logs:
        return find_trend(read_results(places, select), x, None if tags is None else read_tags(tags), allow)
    if len(logs) < len(places) or select or tags is not None or x not in (None, STEP):
        raise NNDError(f"{logs[0]} is a log of NNDCallback: draw runs separately; it has no tags and no x but step")
    return read_logs(logs, allow)


def find_trend(runs: Sequence[Run], x: str | None = None, tags: Tags | None = None, allow: Sequence[str] = ()) -> Trend:
    """Return the pass rates of several models against a number (paper, Figures 3 and 4).

    Args:
        runs: of two models or checkpoints, or more.
        x: ``parameters``, ``step``, or a column of the tags. None takes ``step`` where all models are checkpoints, and two of
            them of one training; else ``parameters``.
        tags: families and numbers that the user gives the models.
        allow: parts of the protocol that may differ.

    Raises:
        NNDError: the runs cannot be compared, a number is not known, or two models of one family have the same.
    """
    groups, notes = pair_several(runs, allow, "a trend")
    models = list({run.model: run for run in runs}.values())
    trainings = [guess_training(run) for run in models if guess_step(run) is not None]
    if x is None:
        x = STEP if len(set(trainings)) < len(trainings) == len(models) else PARAMETERS
    # A model that names no step belongs to the training of the others, if that is one.
    own = trainings[:1] * len(models) if len(set(trainings)) == 1 else map(guess_training, models)
    names = short_names(list(own)) if x == STEP else [""] * len(models)
    families = {run.model: find_family(run, tags, name) for run, name in zip(models, names, strict=True)}
    rows: list[dict[str, Any]] = []
    for paired in groups:
        places = {run.model: find_number(run, x, tags) for run in paired.runs}
        lines = {run.model: run.line for run in paired.runs}
        rates = category_rates(paired).rename(columns={"prompts": "clusters"}).drop(columns="few")
        about = {"family": families, "x": places, "signature": lines}
        columns = {name: rates["model"].map(of_model) for name, of_model in about.items()}
        rows += rates.assign(task=paired.title, **columns).to_dict("records")
        notes += [f"{paired.title}: {note}" for note in paired.notes]
    if not all(tags and tags.text(run, "family") for run in models):
        notes.append("Families are guessed from names; the column family of --tags FILE names them.")
    return Trend(x, _sort_points(rows, x), notes)


def _sort_points(rows: Sequence[Mapping[str, Any]], x: str) -> pd.DataFrame:
    """Return points by task, with all tests first, then by category, family and x.

    Raises:
        NNDError: a line has two points at one place.
    """
    order = ["task", "category", "family", "x"]
    points = pd.DataFrame(rows).astype({"clusters": "Int64", "standard_error": float})
    points["x"] = pd.to_numeric(points["x"], downcast="integer")
    points = points.sort_values(order, key=lambda column: column.replace(ALL, ""), kind="stable", ignore_index=True)
    twice = points[points.duplicated(order, keep=False)]
    if len(twice):
        first, second = twice.to_dict("records")[:2]
        raise NNDError(
            f"{first['task']}: {first['model']} and {second['model']} both have {x} {first['x']:,.12g}; name only the runs that "
            "you want, or give families of their own with --tags"
        )
    return points


def read_logs(paths: Sequence[Path], allow: Sequence[str] = ()) -> Trend:
    """Return the pass rates of one training from what `NNDCallback` wrote.

    Args:
        paths: the log, or the logs of a training in parts.
        allow: parts of the protocol that may differ.

    Raises:
        NNDError: a line is damaged, two have the same step, or what was asked changed.
    """
    rows: list[dict[str, Any]] = []
    protocols: dict[str, set[str]] = {}
    named = ", ".join(map(str, paths))
    for line in (line for path in paths for line in read_log(path)):
        task, model, signature = line["task"], f"step {line['step']}", line.get("signature") or ""
        about = {"task": task, "family": "", "model": model, "x": line["step"], "signature": signature}
        rows += [{**about, "category": name, **_read_rate(rate)} for name, rate in line["rates"].items()]
        protocol = {part for part in signature.split(" || ")[0].split("|") if part.partition(":")[0] not in allow}
        if differ := protocol ^ protocols.setdefault(task, protocol):
            raise NNDError(
                f"{named}: {task}, {model}: the protocol changed during this log: {', '.join(sorted(differ))}; draw the parts "
                "separately, or name with --allow what may differ"
            )
    if len({row["x"] for row in rows}) < 2:
        raise NNDError(f"{named}: no such file, or fewer than two evaluations; NNDCallback writes one per line")
    return Trend(STEP, _sort_points(rows, STEP), [])


def _read_rate(logged: Mapping[str, Any]) -> dict[str, Any]:
    """Return a rate with its interval, for equally many tests in every prompt: a log does not say how many each has."""
    rate, error, tests, clusters = (logged[key] for key in ("rate", "stderr", "tests", "clusters"))
    low = high = np.nan
    if error is not None and clusters is not None and clusters > 1:
        rare = min(clusters, tests * min(rate, 1 - rate))
        size = effective_tests(rate, error, tests, tests / clusters, rare)
        low, high = wilson(rate, size, float(stdtrit(clusters - 1, 1 - LEVEL / 2)))
    return {"tests": tests, "clusters": clusters, "rate": rate, "standard_error": error, "low": low, "high": high}


def report_trend(trend: Trend) -> Report:
    """Return the table of a trend and its figures.

    One training has a figure with a panel for each task and a line for each category; else each task has a figure, with a panel
    for each category and a line for each family. The x axis of sizes is logarithmic, and so is one where half of the values lie
    in the first fifth of the range.
    """
    x, points = trend.x, trend.points
    unreliable = (points["clusters"] < FEW).fillna(False).astype(bool) | (points["standard_error"] == 0)
    columns = {
        "task": "{task}",
        "category": "{category}",
        "family": "{family}",
        "model": "{model}",
        x: "{x:,.12g}",
        "tests": "{tests:,}",
        "prompts": "{clusters:,}{unreliable:†}",
        "pass rate": "{rate:.3f}",
        "95% interval": "{low:.3f} to {high:.3f}",
    }
    table = Table("rates", points.assign(unreliable=unreliable), columns)
    brief = {name: columns[name] for name in ("task", "model", x, "prompts", "pass rate", "95% interval")}
    least, most = points["x"].min(), points["x"].max()
    crowded = points["x"].drop_duplicates().median() - least < (most - least) / 5
    if x == STEP and points["family"].nunique() == 1:
        panel, line, parts = "task", "category", {"all": points}
    else:
        panel, line, parts = "category", "family", dict(list(points.groupby("task")))
    figures = {
        file_stem(name): partial(
            draw_lines,
            part.assign(panel=part[panel], line=part[line], y=part["rate"]),
            f"Pass rate on {', '.join(part['task'].unique())}",
            x,
            "pass rate (share of tests)",
            main=ALL,
            log=least >= 0 and (x == PARAMETERS or crowded),
            chance=0.5,
        )
        for name, part in parts.items()
    }
    return Report(
        name="trend",
        title=f"Pass rate against {x}",
        tables=[table],
        notes=[
            *trend.notes,
            "Intervals are Wilson's, clustered by prompt. Chance is 0.5, less half the share of ties.",
        ],
        legend=FEW_PROMPTS,
        brief=Table("rates", table.data[points["category"] == ALL], brief),
        figures=figures,
        facts={"x": x},
    )
