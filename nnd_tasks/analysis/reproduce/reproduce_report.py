"""Published beside measured rates: the numbers of one run, and its part of the report."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from nnd_tasks.analysis.compare.output import FEW_NOTE, few
from nnd_tasks.analysis.reproduce.experiments import DISCLAIMER, Experiment, PublishedRun
from nnd_tasks.baselines import ALL
from nnd_tasks.formats import TextTable, number
from nnd_tasks.statistics import clustered_standard_error, pool, pooled_rate
from nnd_tasks.wording import counted


@dataclass(frozen=True)
class RateCell:
    """A published rate beside ours.

    Attributes:
        label: what the tests have in common.
        published: the authors' rate.
        measured: our rate; None where our set has no such test.
        stderr: standard error of our rate, clustered by prompt; None for fewer than two prompts.
        tests: number of tests that our run scored.
        clusters: number of prompts with such tests.
    """

    label: str
    published: float
    measured: float | None = None
    stderr: float | None = None
    tests: int = 0
    clusters: int = 0


@dataclass(frozen=True)
class Data:
    """A config of the set as it is built here.

    Attributes:
        fingerprint: of the config's table.
        tests: number of tests.
        labels: label -> number of tests that have it.
    """

    fingerprint: str
    tests: int
    labels: Mapping[str, int]


def measure(
    samples: Sequence[Mapping[str, Any]], experiment: Experiment, published: PublishedRun, data: Data
) -> list[RateCell]:
    """Return the published rates beside those of lm-eval's samples, pooled over tests.

    Where our set leaves out published tests of some labels, there is a second row, for the tests without these labels. Its
    published rate follows from the printed rates and numbers of tests. Our rate stands in the row of the tests that are
    built here.
    """

    def cell(label: str, rate: float, chosen: Callable[[Mapping[str, Any]], bool]) -> RateCell:
        per_prompt = [
            [test["passed"] for test in sample["tests"] if test["passed"] is not None and chosen(test)]
            for sample in samples
        ]
        counts = pool([(sum(passed), len(passed)) for passed in per_prompt if passed])
        measured, error = pooled_rate(*counts), clustered_standard_error(*counts)
        return RateCell(label, rate, _defined(measured), _defined(error), sum(counts[1]), len(counts[1]))

    overall, others = published.rates[ALL], _tests_left(experiment, published)
    cells = [cell(ALL, overall, lambda test: True)]
    if experiment.left_out:
        passed = overall * published.tests
        passed -= sum(published.rates[label] * experiment.counts[label] for label in experiment.left_out)
        # The printed rates have six digits, which give whole numbers of passes.
        name, rate = f"{ALL} but {', '.join(experiment.left_out)}", round(passed) / others
        if data.tests == others:
            cells = [RateCell(ALL, overall), cell(name, rate, lambda test: True)]
        else:
            cells.append(RateCell(name, rate))
    for label, rate in published.rates.items():
        if label != ALL:
            matches = partial(lambda test, label: label in map(test.get, experiment.columns), label=label)
            cells.append(cell(label, rate, matches))
    return cells


def _defined(value: float) -> float | None:
    """Return None for nan."""
    return None if math.isnan(value) else value


def _tests_left(experiment: Experiment, published: PublishedRun) -> int:
    """Return the number of published tests without the labels that our set leaves out."""
    return published.tests - sum(experiment.counts[label] for label in experiment.left_out)


def rates_table(cells: Sequence[RateCell]) -> TextTable:
    """Return a row per cell: its published and its measured rate."""
    rows = [
        [
            cell.label,
            number(cell.published, 4),
            "" if cell.measured is None else number(cell.measured, 4),
            "not measured" if cell.measured is None else number(cell.measured - cell.published, 4, signed=True),
            "" if cell.stderr is None else number(cell.stderr, 4),
            f"{cell.tests:,}",
            f"{cell.clusters:,}{few(cell.clusters, cell.stderr)}",
        ]
        for cell in cells
    ]
    return TextTable(["tests", "published", "measured", "difference", "stderr", "number", "prompts"], rows)


def model_section(experiment: Experiment, published: PublishedRun, data: Data, result: Mapping[str, Any]) -> str:
    """Return published beside measured rates of one model, as Markdown."""
    origin = "" if published.released else ", fine-tuned by the authors and never released"
    lines = [
        f"## {published.name}: {published.model}{origin}",
        "",
        f"Run: {result['weights']}, task {published.task}, {counted(result['tests'], 'test')} of "
        f"{counted(result['clusters'], 'prompt')}, {counted(result['ties'], 'tie')}, {result['unscored']:,} unscored, "
        f"{counted(result['truncated_contexts'], 'prompt')} shortened.",
    ]
    for note in _notes(experiment, published, data, result):
        lines += ["", f"Note: {note}"]
    lines += ["", *rates_table([RateCell(**cell) for cell in result["cells"]]).markdown()]
    return "\n".join(lines).rstrip()


def _notes(experiment: Experiment, published: PublishedRun, data: Data, result: Mapping[str, Any]) -> list[str]:
    notes = list(published.notes)
    if published.start_at_bos:
        notes.append(_start_note(result["model_args"].get("decoder_start_token_id")))
    if (limit := result["key"]["limit"]) is not None:
        notes.append(f"--limit {limit}: the published rates are over all prompts, the measured ones are not.")
    if data.tests not in (published.tests, _tests_left(experiment, published)):
        notes.append(
            f"the authors have {counted(published.tests, 'test')}, the set that is built here {data.tests:,}: other data."
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
    """Return a note on the token at which the decoder starts."""
    if start is None:
        return "the authors start this model's decoder at BOS; the model that ran is not a BART and starts at its own token."
    return (
        f"the decoder starts at BOS (decoder_start_token_id={start}), as in the authors' code; by itself lm-eval's hf "
        "starts at the model's own decoder_start_token_id."
    )


def head(experiment: Experiment) -> str:
    """Return the part of the report before the models."""
    reading = (
        "stderr is that of the measured rate, clustered by prompt. It does not say how near a reproduction must be: over all "
        "prompts of the same data, the same weights should come much nearer."
    )
    return "\n\n".join([f"# {experiment.title}", DISCLAIMER, *experiment.notes, reading, FEW_NOTE])
