"""Published beside measured rates: the numbers of one run, and what people read of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from nnd_tasks.analysis.reproduce.experiments import DISCLAIMER, Experiment, PublishedRun
from nnd_tasks.baselines import ALL
from nnd_tasks.statistics import clustered_standard_error, pool, pooled_rate
from nnd_tasks.wording import counted


@dataclass(frozen=True)
class RateCell:
    """A published rate beside ours.

    Attributes:
        label: what the tests have in common.
        published: the authors' rate.
        measured: ours; None where we have no such test.
        stderr: of ours, clustered by context; None for fewer than two contexts.
        tests: scored in our run.
        clusters: contexts with such tests.
    """

    label: str
    published: float
    measured: float | None = None
    stderr: float | None = None
    tests: int = 0
    clusters: int = 0


@dataclass(frozen=True)
class Data:
    """What is built of a set.

    Attributes:
        fingerprint: of the config's table.
        tests: how many it has.
        labels: label -> how many tests have it.
    """

    fingerprint: str
    tests: int
    labels: Mapping[str, int]


def measure(
    samples: Sequence[Mapping[str, Any]], experiment: Experiment, recipe: PublishedRun, data: Data
) -> list[RateCell]:
    """Return the published rates beside those of lm-eval's samples, pooled over tests.

    Where our set leaves published tests out, there is a row for the others too: the published rate over them follows from the
    printed rates and numbers of tests. Ours stands in the row of the tests that are built.
    """

    def cell(label: str, published: float, chosen: Callable[[Mapping[str, Any]], bool]) -> RateCell:
        per_context = [
            [test["passed"] for test in sample["tests"] if test["passed"] is not None and chosen(test)]
            for sample in samples
        ]
        counts = pool([(sum(passed), len(passed)) for passed in per_context if passed])
        rate, error = pooled_rate(*counts), clustered_standard_error(*counts)
        return RateCell(label, published, _defined(rate), _defined(error), sum(counts[1]), len(counts[1]))

    overall, others = recipe.rates[ALL], _tests_left(experiment, recipe)
    cells = [cell(ALL, overall, lambda test: True)]
    if experiment.left_out:
        passed = overall * recipe.tests
        passed -= sum(recipe.rates[label] * experiment.counts[label] for label in experiment.left_out)
        # The printed rates have six digits, which give whole numbers of passes.
        name, published = f"{ALL} but {', '.join(experiment.left_out)}", round(passed) / others
        if data.tests == others:
            cells = [RateCell(ALL, overall), cell(name, published, lambda test: True)]
        else:
            cells.append(RateCell(name, published))
    for label, published in recipe.rates.items():
        if label != ALL:
            matches = partial(lambda test, label: label in map(test.get, experiment.columns), label=label)
            cells.append(cell(label, published, matches))
    return cells


def _defined(value: float) -> float | None:
    return None if math.isnan(value) else value


def _tests_left(experiment: Experiment, recipe: PublishedRun) -> int:
    """Return how many of the published tests are of no label that our set leaves out."""
    return recipe.tests - sum(experiment.counts[label] for label in experiment.left_out)


def table(experiment: Experiment, recipe: PublishedRun, data: Data, result: Mapping[str, Any]) -> str:
    """Return published beside measured rates of one model, as Markdown."""
    origin = "" if recipe.released else ", fine-tuned by the authors and never released"
    lines = [
        f"## {recipe.name}: {recipe.model}{origin}",
        "",
        f"Run: {result['weights']}, task {recipe.task}, {counted(result['tests'], 'test')} of "
        f"{counted(result['clusters'], 'prompt')}, {counted(result['ties'], 'tie')}, {result['unscored']:,} unscored, "
        f"{counted(result['truncated_contexts'], 'context')} shortened.",
    ]
    for note in _notes(experiment, recipe, data, result):
        lines += ["", f"Note: {note}"]
    lines += [
        "",
        "| tests | published | measured | difference | stderr | number | contexts |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for cell in (RateCell(**found) for found in result["cells"]):
        measured, stderr = (f"{x:.4f}" if x is not None else "" for x in (cell.measured, cell.stderr))
        difference = f"{cell.measured - cell.published:+.4f}" if cell.measured is not None else "not measured"
        lines.append(
            f"| {cell.label} | {cell.published:.4f} | {measured} | {difference} | {stderr} | {cell.tests:,} | {cell.clusters:,} |"
        )
    return "\n".join(lines)


def _notes(experiment: Experiment, recipe: PublishedRun, data: Data, result: Mapping[str, Any]) -> list[str]:
    notes = list(recipe.notes)
    if recipe.start_at_bos:
        notes.append(_start_note(result["model_args"].get("decoder_start_token_id")))
    if (limit := result["key"]["limit"]) is not None:
        notes.append(f"--limit {limit}: the published rates are over all contexts, the measured ones are not.")
    if data.tests not in (recipe.tests, _tests_left(experiment, recipe)):
        notes.append(
            f"the authors have {counted(recipe.tests, 'test')}, the set that is built here {data.tests:,}: other data."
        )
    other = [
        f"{label} {data.labels.get(label, 0):,} instead of {count:,}"
        for label, count in experiment.counts.items()
        if label not in experiment.left_out and data.labels.get(label, 0) != count
    ]
    if other:
        notes.append(
            f"the labels of the set that is built here are not those of the authors: {', '.join(other)} tests."
        )
    return notes


def _start_note(start: int | None) -> str:
    if start is None:
        return "the authors start this model's decoder at BOS; the one that ran is no BART and starts at its own token."
    return (
        f"the decoder starts at BOS (decoder_start_token_id={start}), as in the authors' code; by itself lm-eval's hf "
        "starts at the model's own decoder_start_token_id."
    )


def head(experiment: Experiment) -> str:
    """Return what is said once, before the models."""
    reading = (
        "stderr is that of the measured rate, clustered by context. It is no yardstick for a reproduction: over all contexts of "
        "the same data, the same weights should come out much nearer."
    )
    return "\n\n".join([f"# {experiment.title}", DISCLAIMER, *experiment.notes, reading])
