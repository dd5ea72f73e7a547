"""Pass rates against a number: the size of a model (paper, section 5.3), the step of a training (section 5.4), or a tag.

And how early each measure orders several trainings as at the end (DataDecide, arXiv 2504.11393).

Known limits: that two runs are of one family or training is guessed from their names, unless a file of tags says it. A measure
may order trainings early and say nothing of their quality.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import stdtrit

from nnd_tasks.categories import ALL
from nnd_tasks.errors import NNDError
from nnd_tasks.figures.lines import draw_lines
from nnd_tasks.measures import MEASURES, weigh_measures
from nnd_tasks.packages import has_package
from nnd_tasks.results.compare import category_measures, category_rates
from nnd_tasks.results.model_names import short_names
from nnd_tasks.results.paired import Paired, pair_several
from nnd_tasks.results.read_runs import read_results
from nnd_tasks.results.runs import METRIC, WRITER, Run, check_writers
from nnd_tasks.show.report import Report, file_stem, make_table, read_tables
from nnd_tasks.significance import LEVEL
from nnd_tasks.statistics import FEW, ClusteredMean, effective_tests, wilson
from nnd_tasks.text import counted
from nnd_tasks.training.model_tags import (
    PARAMETERS,
    STEP,
    Tags,
    find_family,
    full_name,
    guess_step,
    guess_training,
    known_number,
    read_tags,
)
from nnd_tasks.training.training_log import LOG_NAME, read_log


@dataclass(frozen=True, eq=False)
class Trend:
    """Pass rates of several models, or of one during its training.

    Attributes:
        x: what the rates stand against: ``parameters``, ``step`` or a column of the tags.
        points: one row per task, category and model: ``task``, ``category``, ``family`` (against steps, the training; empty for
            logs), ``model``, ``x``, ``tests``, ``clusters`` (prompts), ``rate``, ``standard_error`` (clustered by prompt),
            ``low`` and ``high`` (95% interval), ``signature``, where people can be asked what
            `nnd_tasks.ceiling.shares.find_shares` gives, and of each measure of `nnd_tasks.measures` what
            `nnd_tasks.statistics.ClusteredMean.columns` gives; nan where a run or a log has none.
        notes: sentences for the reader.
        of_documents: the rates are means over documents of tasks that are not NND's.
    """

    x: str
    points: pd.DataFrame
    notes: list[str]
    of_documents: bool = False


#: How a figure calls pass rates, on the axis too; chance; and the column and the name of what is counted.
_OF_TESTS = ("Pass rate", "pass rate (share of tests)", 0.5, "clusters", "prompt")
_OF_DOCUMENTS = ("Mean", "mean over documents", None, "tests", "document")
#: The prompts of a sample in a signature, which a log has as a line (`nnd_tasks.task.signature.selection`).
_SAMPLE = re.compile(r"\|selection:(\d+ of \d+) \(")


def read_trend(
    paths: Sequence[Path],
    x: str | None = None,
    tags: Path | None = None,
    allow: Sequence[str] = (),
    select: Sequence[str] = (),
    **fields: Any,
) -> Trend:
    """Read pass rates against a number, from runs or from the logs of trainings.

    Args:
        paths: folders and files as for `read_results`; or what `NNDCallback` wrote: ``.jsonl`` files that are no samples.
        x: as for `find_trend`; this and the others are for runs only.
        tags: file of tags.
        allow: parts of the protocol that may differ.
        select: as for `read_results`.
        **fields: ``cluster`` and ``category`` of `read_results`.

    Raises:
        NNDError: see `find_trend` and `read_logs`.
    """
    logs = [path for path in paths if path.suffix == ".jsonl" and not path.name.startswith("samples_")]
    if not logs:
        skipped: list[str] = []
        try:
            runs = read_results(paths, select, skipped, trials="selection" in allow, **fields)
        except NNDError as error:
            beside = next((path / LOG_NAME for path in paths if (path / LOG_NAME).is_file()), None)
            if beside is None:
                raise
            raise NNDError(f"{error}; {beside} is a log of NNDCallback: name it") from error
        trend = find_trend(runs, x, None if tags is None else read_tags(tags), allow)
        return replace(trend, notes=[*trend.notes, *(f"left out: {line}" for line in skipped)])
    if len(logs) < len(paths) or select or allow or tags or x or any(fields.values()):
        raise NNDError(f"{logs[0]} is a log of NNDCallback: draw runs separately; logs have no options")
    return read_logs(logs)


def find_trend(runs: Sequence[Run], x: str | None = None, tags: Tags | None = None, allow: Sequence[str] = ()) -> Trend:
    """Put the pass rates of several models against a number (paper, Figures 3 and 4).

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
    kinds = {paired.of_documents for paired in groups}
    if len(kinds) > 1:
        raise NNDError(
            f"a trend is of NND tasks or of others: add --select reader={WRITER}, or --select reader={METRIC}"
        )
    models = list({run.model: run for run in runs}.values())
    trainings = [guess_training(run) for run in models if guess_step(run) is not None]
    if x is None:
        x = STEP if len(set(trainings)) < len(trainings) == len(models) else PARAMETERS
    names = short_names(list(map(guess_training, models))) if x == STEP else [""] * len(models)
    families = {run.model: find_family(run, tags, name) for run, name in zip(models, names, strict=True)}
    tables = []
    for paired in groups:
        rates = category_rates(paired).rename(columns={"prompts": "clusters"}).drop(columns="few")
        measures = category_measures(paired)
        if len(measures):
            rates = rates.merge(measures.drop(columns=["prompts", "few"]), on=["category", "model"], how="left")
        if has_package("ceiling"):
            from nnd_tasks.ceiling.shares import find_shares

            shares = find_shares(paired)
            if len(shares):
                shares = shares.drop(columns=["tests", "prompts", "few"])
                rates = rates.merge(shares, on=["category", "model"], how="left")
        rates["task"] = paired.title
        rates["family"] = rates["model"].map(families)
        rates["x"] = rates["model"].map({run.model: known_number(run, x, tags) for run in paired.runs})
        for model in rates.loc[rates["x"].isna(), "model"]:
            raise NNDError(
                f"{x} of {model} is not known; give it with --tags FILE, a CSV file with the columns model and {x}"
            )
        rates["signature"] = rates["model"].map({run.model: run.line for run in paired.runs})
        tables.append(rates)
        notes += [f"{paired.title}: {note}" for note in paired.notes]
    return Trend(x, _sort_points(pd.concat(tables), x), notes, kinds == {True})


def _sort_points(points: pd.DataFrame, x: str) -> pd.DataFrame:
    """Sort points by task, with all tests first, then by category, family and x.

    Raises:
        NNDError: a line has two points at one place.
    """
    order = ["task", "category", "family", "x"]
    points = points.astype({"clusters": "Int64", "standard_error": float})
    points["x"] = pd.to_numeric(points["x"], downcast="integer")
    points = points.sort_values(order, key=lambda column: column.replace(ALL, ""), kind="stable", ignore_index=True)
    twice = points[points.duplicated(order, keep=False)]
    if len(twice):
        first, second = twice.to_dict("records")[:2]
        raise NNDError(
            f"{first['task']}: {first['model']} and {second['model']} both have {x} {first['x']:,.12g}; leave one out, or "
            "give them families with --tags"
        )
    return points


def read_logs(paths: Sequence[Path]) -> Trend:
    """Read the pass rates of trainings from what `NNDCallback` wrote.

    Args:
        paths: the log, or the logs of a training in parts; logs that have a task at one step in common are of several
            trainings, and each has a line of its own.

    Raises:
        NNDError: a line is damaged, one log has a step twice, or not all lines have one protocol.
    """
    named = ", ".join(map(str, paths))
    logs = [read_log(path) for path in paths]
    parts = [part for log in logs for part in {(line["task"], line["step"]) for line in log}]
    several = len({*parts}) < len(parts)
    places = [str(path.parent if path.name == LOG_NAME else path.with_suffix("")) for path in paths]
    families = short_names(places) if several else [""] * len(logs)
    if len({step for _, step in parts}) < 2:
        raise NNDError(f"{named}: no such file, or fewer than two evaluations; NNDCallback writes one per line")
    points = pd.DataFrame(
        {
            "task": line["task"],
            "family": family,
            "model": f"{family} step {line['step']}".strip(),
            "x": line["step"],
            "signature": line.get("signature") or "",
            "category": category,
            **_read_rate(rate),
            **_read_measures(line.get("measures", {}).get(category, {}), rate["clusters"]),
        }
        for family, log in zip(families, logs, strict=True)
        for line in log
        for category, rate in line["rates"].items()
    )
    protocols = points["signature"].str.partition(" || ")[0].groupby(points["task"]).nunique()
    changed = protocols.index[protocols > 1]
    if len(changed):
        raise NNDError(f"{named}: the protocol of {changed[0]} is not the same in all lines; draw those apart")
    samples = " (" + points["signature"].str.extract(_SAMPLE, expand=False) + " prompts)"
    points["task"] += samples.fillna("")
    return Trend(STEP, _sort_points(points, STEP), [])


def _read_rate(logged: Mapping[str, Any]) -> dict[str, Any]:
    """A rate with its interval, for equally many tests in every prompt: a log does not say how many each has."""
    rate, error, tests, clusters = (logged[key] for key in ("rate", "stderr", "tests", "clusters"))
    low = high = np.nan
    if error is not None and clusters is not None and clusters > 1:
        rare = min(clusters, tests * min(rate, 1 - rate))
        size = effective_tests(rate, error, tests, tests / clusters, rare)
        low, high = wilson(rate, size, float(stdtrit(clusters - 1, 1 - LEVEL / 2)))
    return {"tests": tests, "clusters": clusters, "rate": rate, "standard_error": error, "low": low, "high": high}


def _read_measures(logged: Mapping[str, Any], prompts: int) -> dict[str, float]:
    """Measures with Student's interval, for equally many tests in every prompt."""
    numbers: dict[str, float] = {}
    for measure, of_measure in logged.items():
        mean, error = of_measure["mean"], of_measure["stderr"]
        error = error or math.nan
        half = error * float(stdtrit(prompts - 1, 1 - LEVEL / 2)) if prompts > 1 else math.nan
        numbers |= ClusteredMean(mean, error, mean - half, mean + half).columns(measure)
    return numbers


def report_trend(trend: Trend) -> Report:
    """The tables of a trend and its figures.

    One training has a figure with a panel for each task and a line for each category; else each task has a figure, with a panel
    for each category and a line for each family. It has the name of its task, or ``tasks`` if there are several. The x axis of
    sizes is logarithmic, and so is one where that puts the nearest values further apart.
    """
    x, points = trend.x, trend.points
    unreliable = (points["clusters"] < FEW).fillna(False).astype(bool) | (points["standard_error"] == 0)
    key = "document_trend" if trend.of_documents else "trend"
    rate, label, chance, *counted_as = _OF_DOCUMENTS if trend.of_documents else _OF_TESTS
    columns = {x if heading == "x" else heading: cell for heading, cell in read_tables()[key]["columns"].items()}
    table = make_table(key, points.assign(unreliable=unreliable), columns)
    of_point = {heading: columns[heading] for heading in ("task", "category", "family", "model", x)}
    cells = read_tables()["measures"]["columns"]
    measures = {name: cells[name] for name in MEASURES if name in points}
    tables = [table, *([make_table("measures", points, of_point | measures)] if measures else [])]
    if "share" in points:
        columns_of_share = of_point | read_tables()["trend_shares"]["columns"]
        tables.append(make_table("trend_shares", points.dropna(subset="ceiling"), columns_of_share))
    panel, line, figure_points = "category", "family", [of_task for _, of_task in points.groupby("task")]
    if x == STEP and points["family"].nunique() == 1:
        panel, line, figure_points = "task", "category", [points]
    elif points["category"].nunique() == 1:
        panel = "task"
    figures = {}
    for chosen in figure_points:
        tasks = chosen["task"].unique()
        chosen = chosen.assign(panel=_name_panels(chosen, panel, *counted_as), line=chosen[line], y=chosen["rate"])
        subjects = chosen["panel"].unique() if panel == "task" else tasks
        figures[file_stem(tasks[0] if len(tasks) == 1 else "tasks")] = partial(
            draw_lines,
            chosen,
            f"{rate} on {subjects[0]}" if len(subjects) == 1 else "",
            x,
            label,
            main=ALL,
            log=x == PARAMETERS or _is_crowded(points["x"]),
            chance=chance,
            levels=_find_ceilings(chosen, panel),
        )
    return Report(
        name="trend",
        title=f"{rate} against {x}",
        tables=tables,
        notes=[
            *trend.notes,
            *(
                ["Intervals are Wilson's, clustered by prompt. Chance is 0.5, less half the share of ties."]
                if chance
                else []
            ),
        ],
        legend={"†": f"fewer than {FEW} prompts, or no spread between them: the interval is unreliable."},
        brief=[make_table(key, table.data[points["category"] == ALL], columns)],
        figures=figures,
        facts={"x": x},
    )


def _is_crowded(x: pd.Series) -> bool:
    """Tell whether the nearest values are further apart, as a share of the range, on a logarithmic axis; of `draw_lines`."""
    values = np.unique(x.to_numpy(float))
    if values[0] < 0 or len(values) < 3:
        return False
    logarithms = np.log10(np.maximum(values, values[values > 0][0] / 10))
    linear, logarithmic = (np.diff(axis).min() / np.ptp(axis) for axis in (values, logarithms))
    return bool(logarithmic > linear)


def _name_panels(points: pd.DataFrame, panel: str, column: str, noun: str) -> pd.Series:
    """Name each panel by its category or task, and its number of prompts, or documents; the name of a sample has this already."""
    names = {}
    for name, sizes in points.dropna(subset=column).groupby(panel)[column]:
        fewest = f"{sizes.min():,} to " if sizes.nunique() > 1 else ""  # the lines of a panel may be of categories
        if f"{noun}s)" not in name:
            names[name] = f"{name}, {fewest}{counted(sizes.max(), noun)}"
    return points[panel].replace(names)


def _find_ceilings(points: pd.DataFrame, panel: str) -> dict[str, float]:
    """Map each panel of a figure to the human ceiling of its tests, where there is one."""
    if "ceiling" not in points:
        return {}
    of_panels = points if panel == "category" else points[points["category"] == ALL]
    return dict(of_panels.groupby("panel")["ceiling"].mean().dropna())


# ---------------------------------------------------------------- how early trainings differ

# The *decision accuracy* of a step is the share of pairs of trainings that a measure orders there as at the last step.

RATE = "pass_rate"
#: Resamples of the prompts, share of pairs that is enough for a sentence, and last checkpoints of which the noise is taken.
RESAMPLES, ENOUGH, LAST = 1000, 0.9, 5


def report_decisions(
    runs: Sequence[Run], series: str | None = None, tags: Tags | None = None, *, allow: Sequence[str] = ()
) -> list[Report]:
    """Say how early each measure orders trainings as in the end, for every set and category.

    Args:
        runs: checkpoints of two trainings or more, at the same steps.
        series: a regular expression; what it matches in a model's path, or its first group there, names the training. None
            takes the path without the part that names the checkpoint.
        tags: may have ``training`` and ``step`` of a model.
        allow: parts of the protocol that may differ.

    Raises:
        NNDError: the runs cannot be compared, or are not of two trainings with two steps in common.
    """
    check_writers(runs, "--decide")
    groups, notes = pair_several(runs, allow, "--decide")
    return [_report_decisions(paired, arrange_checkpoints(paired, series, tags), notes) for paired in groups]


def arrange_checkpoints(paired: Paired, series: str | None, tags: Tags | None) -> pd.DataFrame:
    """Arrange the models: a row per training, and a column per step that all trainings have.

    Raises:
        NNDError: see `report_decisions`.
    """
    checkpoints = pd.DataFrame(
        {
            "model": run.model,
            "training": (tags and tags.text(run, "training")) or _find_training(run, series),
            "step": known_number(run, STEP, tags),
        }
        for run in paired.runs
    )
    for row in checkpoints[checkpoints.duplicated(["training", "step"]) & checkpoints["step"].notna()].itertuples():
        raise NNDError(
            f"--decide: {row.training} has step {row.step} twice; tell trainings apart with --series or --tags"
        )
    models = checkpoints.dropna().pivot(index="training", columns="step", values="model").dropna(axis="columns")
    if min(models.shape) < 2:
        raise NNDError(
            f"{paired.title}: --decide needs two trainings with two steps in common; these are "
            f"{', '.join(checkpoints['training'].unique())}; name trainings and steps with --series REGEX or --tags FILE"
        )
    return models


def _find_training(run: Run, series: str | None) -> str:
    if series is None:
        return guess_training(run)
    try:
        match = re.search(series, full_name(run))
    except re.error as error:
        raise NNDError(f"--series {series}: is no regular expression ({error})") from error
    if match is None:
        raise NNDError(f"--series {series}: does not match {full_name(run)}")
    return str(match[min(match.re.groups, 1)])


def compute_accuracies(paired: Paired, models: pd.DataFrame) -> pd.DataFrame:
    """Compute decision accuracies.

    Args:
        paired: runs on one set.
        models: see `arrange_checkpoints`.

    Returns:
        A row per category, measure and step: ``ordered``, the pairs of trainings in the order of the last step, of ``pairs``
        that have one there; ``accuracy`` with ``low`` and ``high``; ``spread`` and ``noise`` of the measure. Measures that some
        checkpoint does not have are left out.
    """
    rows = []
    late = models.iloc[:, -LAST:].stack().reset_index()
    weighed = [weigh_measures(paired.tests_of[model], ["passed", *MEASURES]) for model in models.to_numpy().ravel()]
    first, second = np.triu_indices(len(models), k=1)
    for category in paired.categories:
        pooled = np.stack([paired.sum_by_prompt(of_model, category).totals for of_model in weighed])
        prompts = pooled.shape[1]
        draws = np.random.default_rng(0).multinomial(prompts, [1 / prompts] * prompts, RESAMPLES)
        counts = np.vstack([np.ones(prompts), draws])  # the prompts themselves, then the resamples
        totals, weights = np.split(counts @ pooled, 2, axis=-1)  # shape (models, resamples, measures)
        for place, measure in enumerate([RATE, *MEASURES]):
            if not weights[:, 0, place].all():
                continue
            with np.errstate(invalid="ignore"):  # a resample may hold no test that has the measure
                values = (totals / weights)[..., place].reshape(*models.shape, -1)
                order = np.sign(values[first] - values[second])
                same = ((order == order[:, -1:]) & (order != 0)).sum(axis=0)
            # Where the trainings have no order at the last step, no pair can be right; one half stands for chance.
            accuracy = np.where(same[-1] > 0, same / np.maximum(same[-1], 1), 0.5)
            low, high = np.percentile(accuracy[:, 1:], (2.5, 97.5), axis=1)
            # Resamples are noisier than the prompts, so the interval may have to be made wider to hold the value.
            low, high = np.minimum(low, accuracy[:, 0]), np.maximum(high, accuracy[:, 0])
            numbers = {
                "ordered": same[:, 0],
                "pairs": same[-1, 0],
                "accuracy": accuracy[:, 0],
                "low": low,
                "high": high,
            }
            numbers["spread"] = np.ptp(values[:, -1, 0])
            numbers["noise"] = np.sqrt(step_variance(values[:, -LAST:, 0].ravel(), late))
            rows.append(pd.DataFrame({"category": category, "measure": measure, "step": models.columns, **numbers}))
    return pd.concat(rows, ignore_index=True)


def step_variance(values: NDArray[np.float64], models: pd.DataFrame) -> float:
    """Compute the variance of values from one checkpoint to the next, around a smooth curve; nan without three checkpoints.

    For three checkpoints in a row, the middle value is held against the straight line between the other two, over the logarithm
    of the step (Gasser, Sroka and Jennen-Steinmetz, 1986). What the curve itself bends there is in it too, so far apart
    checkpoints give too much rather than too little.

    Args:
        values: of each model, shape (models,).
        models: their ``training`` and ``step``; the end of a training, nan, has no place.
    """
    points = (
        models.assign(value=values, position=np.log1p(models["step"]))
        .groupby(["training", "step"], as_index=False)
        .last()
    )
    curves = points.groupby("training")[["position", "value"]]
    before, after = curves.shift(1), curves.shift(-1)
    b = (points["position"] - before["position"]) / (after["position"] - before["position"])
    squares = ((1 - b) * before["value"] + b * after["value"] - points["value"]) ** 2 / (1 + b**2 + (1 - b) ** 2)
    return float(squares.mean())


def _report_decisions(paired: Paired, models: pd.DataFrame, notes: Sequence[str]) -> Report:
    decisions = compute_accuracies(paired, models)
    overall = decisions[decisions["category"] == ALL]
    points = overall.assign(panel=ALL).rename(columns={"measure": "line", "step": "x", "accuracy": "y"})
    label = "share of pairs ordered as at the last step"
    left_out = len(paired.runs) - models.size
    note = [f"Checkpoints left out, of steps that not all trainings have: {left_out}."] if left_out else []
    return Report(
        name=f"decide_{paired.title}",
        title=f"{paired.title}: how early {len(models)} trainings can be told apart",
        findings=[conclude(overall)],
        tables=[make_table("decisions", decisions, resamples=RESAMPLES, last=LAST)],
        notes=[*notes, *paired.notes, *note],
        brief=[make_table("decisions_overall", overall)],
        figures={"accuracy": partial(draw_lines, points, paired.title, STEP, label, main=RATE, chance=0.5)},
        facts={"trainings": list(models.index), "signatures": {run.model: run.line for run in paired.runs}},
    )


def conclude(decisions: pd.DataFrame) -> str:
    """Say from which step on `ENOUGH` pairs are ordered, by which measure, and what the pass rate does there.

    Args:
        decisions: of all tests, see `decide`.
    """
    early = decisions[decisions["step"] < decisions["step"].max()]
    enough = early.assign(enough=(early["accuracy"] >= ENOUGH) & (early["low"] > 0.5)).pivot(
        index="step", columns="measure", values="enough"
    )
    lasts = enough[::-1].cummin()[::-1]  # a measure that orders enough pairs at one step only does so by chance
    steps = lasts.index[lasts.any(axis="columns")]
    step = steps[0] if len(steps) else lasts.index[-1]
    of_step = early[early["step"] == step].set_index("measure")
    others = of_step.drop(RATE)
    lasting = others[lasts.loc[step, others.index]]
    best = (others if lasting.empty else lasting)["accuracy"].idxmax()
    scores = [
        f"{row.Index} orders {row.ordered} of {row.pairs} pairs of trainings as at the end [{row.low:.2f}, {row.high:.2f}]"
        for row in of_step.loc[[best, RATE]].itertuples()
    ]
    return f"By step {step:,.10g} {scores[0]}; {scores[1]}{'' if len(steps) else f'; none orders {ENOUGH:.0%}'}."
