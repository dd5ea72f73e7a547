"""How early each measure decides which of several trainings will be better (DataDecide, arXiv 2504.11393).

The *decision accuracy* of a step is the share of pairs of trainings that a measure orders there as at the last step.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial

import numpy as np
import pandas as pd

from nnd_tasks.baselines import ALL
from nnd_tasks.errors import NNDError
from nnd_tasks.measures import MEASURES, weigh_measures
from nnd_tasks.results.model_names import STEP, Tags, full_name, guess_training, known_number
from nnd_tasks.results.paired import Paired, pair_several
from nnd_tasks.results.readers import check_writers
from nnd_tasks.results.runs import Run
from nnd_tasks.show.forms import draw_lines
from nnd_tasks.show.report import Report, make_table
from nnd_tasks.significance import step_variance

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
    return [_report(paired, arrange_checkpoints(paired, series, tags), notes) for paired in groups]


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


def decide(paired: Paired, models: pd.DataFrame) -> pd.DataFrame:
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
            # Where trainings have no order in the end, none is right.
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


def _report(paired: Paired, models: pd.DataFrame, notes: Sequence[str]) -> Report:
    decisions = decide(paired, models)
    overall = decisions[decisions["category"] == ALL]
    points = overall.assign(panel=ALL).rename(columns={"measure": "line", "step": "x", "accuracy": "y"})
    label = "share of pairs ordered as at the last step"
    left_out = f"Checkpoints left out, of steps that not all trainings have: {len(paired.runs) - models.size}."
    return Report(
        name=f"decide_{paired.title}",
        title=f"{paired.title}: how early {len(models)} trainings can be told apart",
        findings=[conclude(overall)],
        tables=[make_table("decisions", decisions, resamples=RESAMPLES, last=LAST)],
        notes=[*notes, *paired.notes, left_out],
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
    stays = enough[::-1].cummin()[::-1]  # what a measure orders for a step only is chance
    steps = stays.index[stays.any(axis="columns")]
    step = steps[0] if len(steps) else stays.index[-1]
    at = early[early["step"] == step].set_index("measure")
    others = at.drop(RATE)
    lasting = others[stays.loc[step, others.index]]
    best = (others if lasting.empty else lasting)["accuracy"].idxmax()
    scores = [
        f"{row.Index} orders {row.ordered} of {row.pairs} pairs of trainings as at the end [{row.low:.2f}, {row.high:.2f}]"
        for row in at.loc[[best, RATE]].itertuples()
    ]
    return f"By step {step:,.10g} {scores[0]}; {scores[1]}{'' if len(steps) else f'; none orders {ENOUGH:.0%}'}."
