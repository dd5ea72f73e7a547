"""The measures of `nnd_tasks.measures` of several models, by category, on the tests that all of them have scored."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from nnd_tasks.measures import MEASURES, pool_measures
from nnd_tasks.results.paired import Paired
from nnd_tasks.statistics import clustered_mean, is_few


def tests_by_category(paired: Paired) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Yield category, model and its tests of the category, of models that write; ``all`` comes first."""
    writers = [run for run in paired.runs if run.reader == "writer"]
    tests_of = {run.model: run.tests.set_index("test_id").loc[paired.tests["test_id"]] for run in writers}
    for category in paired.categories:
        for model, tests in tests_of.items():
            yield category, model, tests[paired.of_category(category)]


def category_measures(paired: Paired) -> pd.DataFrame:
    """Compute the measures of each model on all tests, then on each category.

    Returns:
        A row per category and model: ``category``, ``model``, ``prompts``, ``few``, and of each measure what
        `nnd_tasks.statistics.ClusteredMean.columns` gives. Empty without a model that writes.
    """
    rows = []
    for category, model, tests in tests_by_category(paired):
        prompts = tests["cluster_id"].nunique()
        row = {"category": category, "model": model, "prompts": prompts, "few": is_few(prompts)}
        pooled = pool_measures(tests)
        for measure in MEASURES:
            row |= clustered_mean(pooled["total", measure], pooled["weight", measure]).columns(measure)
        rows.append(row)
    return pd.DataFrame(rows)
