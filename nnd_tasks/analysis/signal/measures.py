"""What is measured: pass rate, margin and bits per byte of each test by each model, and their sums by prompt."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nnd_tasks.analysis.results import Run
from nnd_tasks.analysis.side_by_side import Paired
from nnd_tasks.analysis.signal.moments import Floats, Moments
from nnd_tasks.analysis.signal.orders import Family
from nnd_tasks.harness.sample_order import sample_order
from nnd_tasks.schema import short_hash

PASS_RATE, MARGIN, BITS = "pass rate", "margin", "bits per byte"
#: Measure -> 1 where more is better, -1 where less is.
MEASURES: Mapping[str, int] = {PASS_RATE: 1, MARGIN: 1, BITS: -1}
#: The measures that hold a better text against a worse one. Bits per byte do not: they fall when a model knows such texts better,
#: whether or not it sees the error. So they never make a category worth running.
CONTRASTS = (PASS_RATE, MARGIN)


@dataclass(frozen=True, eq=False)
class PromptSums:
    """One measure on the tests of one category, added up by prompt.

    Attributes:
        measure: its name.
        sums: of each prompt, the values of its tests added up, more is better, shape (prompts, models).
        tests: of each prompt, shape (prompts,).
        first: which prompts are of the first half, shape (prompts,).
        places: of the prompts in the order of ``--sample``, shape (prompts,).
    """

    measure: str
    sums: Floats
    tests: Floats
    first: NDArray[np.bool_]
    places: NDArray[np.int64]

    def moments(self, chosen: NDArray[np.bool_] | slice = slice(None)) -> Moments:
        """Return the moments of some prompts, or of all."""
        return Moments.of(self.sums[chosen], self.tests[chosen])


def values_of(paired: Paired, family: Family) -> dict[str, Floats]:
    """Return measure -> value of each test by each model, more is better, shape (tests, models); nan where not scored."""
    shape = len(paired.tests), len(family.columns)
    values = {measure: np.full(shape, math.nan) for measure in MEASURES}
    values[PASS_RATE][:] = paired.passed[:, family.columns]
    for j, column in enumerate(family.columns):
        run = paired.runs[column]
        rows = run.tests.set_index("test_id").loc[paired.tests["test_id"]]
        values[MARGIN][:, j] = rows["margin"]
        texts = zip(rows["document"], rows["high"], strict=True)
        values[BITS][:, j] = [_bits_per_byte(run.documents[document]["scores"][high]) for document, high in texts]
        values[BITS][:, j] *= MEASURES[BITS]
    return values


def _bits_per_byte(score: Mapping[str, float | None] | None) -> float:
    """Return minus the base-2 logarithm of a text's likelihood over its UTF-8 bytes; nan where it has none."""
    if score is None or score["sum"] is None:
        return math.nan
    return -score["sum"] / math.log(2) / max(score["bytes"] or 0, 1)


def sample_places(run: Run) -> dict[str, int]:
    """Return prompt -> its place in the order in which ``--sample`` takes prompts of the whole set."""
    prompts = [document["cluster_id"] for document in run.documents]
    categories: list[set[str]] = [set() for _ in prompts]
    for document, category in zip(run.tests["document"], run.tests["category"], strict=True):
        categories[document].add(category)
    return {prompts[place]: i for i, place in enumerate(sample_order(prompts, categories))}


def prompt_sums(
    clusters: Sequence[str], values: Mapping[str, Floats], rows: NDArray[np.int64], places: Mapping[str, int]
) -> list[PromptSums]:
    """Return a table per measure of some tests: ``rows`` of ``values``, whose prompts are ``clusters``."""
    number = {cluster: i for i, cluster in enumerate(dict.fromkeys(clusters))}
    prompt = np.array([number[cluster] for cluster in clusters])
    about = np.bincount(prompt).astype(float), first_half(list(number)), np.array([places[name] for name in number])
    tables = []
    for measure, table in values.items():
        sums = np.zeros((len(number), table.shape[1]))
        np.add.at(sums, prompt, table[rows])
        tables.append(PromptSums(measure, sums, *about))
    return tables


def first_half(clusters: Sequence[str]) -> NDArray[np.bool_]:
    """Tell of each prompt whether it is of the half on which categories are chosen; that depends on its id alone."""
    return np.array([int(short_hash("signal", cluster), 16) % 2 == 0 for cluster in clusters], dtype=bool)
