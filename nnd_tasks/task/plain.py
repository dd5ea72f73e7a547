"""Pass rates for ordinary lm-eval YAMLs that do not use `NNDTask`: one test per document, normalized by bytes.

lm-eval does not tell a plain task how many tokens were scored, so texts of different lengths are compared by log-likelihood
per UTF-8 byte. The rates and errors equal ``pass_rate_bytes`` of `nnd_tasks.task.task.NNDTask`. ``docs/running.md`` shows
the YAML.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from nnd_tasks.errors import NNDError
from nnd_tasks.rule import Likelihood, Normalization, passes
from nnd_tasks.schema import category_slugs
from nnd_tasks.task.metrics import PLACEHOLDER, Counts, aggregate_rate, aggregate_stderr

#: Columns that a row needs, besides those that the prompt template uses.
COLUMNS = ("cluster_id", "category", "high", "low")
RATE = "pass_rate_bytes"


class Item(NamedTuple):
    """The result of one test under one metric.

    Attributes:
        cluster_id: id of the test's prompt.
        metric: name of the metric.
        category: the test's category if the metric is that of a category; else ``""``.
        passed: None if the test could not be scored.
    """

    cluster_id: str
    metric: str
    category: str
    passed: bool | None

    def __radd__(self, other: object) -> NoReturn:
        """Raise NNDError: lm-eval sums up the items of a metric for which the YAML names no aggregation."""
        raise NNDError(
            f"metric {self.metric} is not in the YAML's metric_list; add it and {self.metric}_stderr, with their aggregations"
        )


def choices(doc: Mapping[str, Any]) -> list[str]:
    """Return the better and the worse text, for ``doc_to_choice``.

    Raises:
        NNDError: the row lacks one of `COLUMNS`.
    """
    row = _read_row(doc)
    return [row[name] if row[name].strip() else PLACEHOLDER for name in ("high", "low")]


def process_results(doc: Mapping[str, Any], results: Sequence[tuple[float, bool]]) -> dict[str, Any]:
    """Return the result of one test under ``pass_rate_bytes``, ``pass_rate_bytes_stderr`` and ``tests``.

    The test passes if the better text has the strictly higher log-likelihood per byte. It is not scored if a text is empty
    or white space, or a likelihood is not a number.

    Args:
        doc: a row with `COLUMNS`.
        results: (log-likelihood, is_greedy) of the better and the worse text, shape (2, 2).

    Raises:
        NNDError: the row lacks a column, or there are not two results.
    """
    row = _read_row(doc)
    if len(results) != 2:
        raise NNDError(
            f"a test has two texts, found {len(results)} results; set doc_to_choice: !function {__name__}.choices"
        )
    high, low = (
        Likelihood(float(total) if text.strip() else math.nan, size=max(len(text.encode("utf-8")), 1))
        for text, (total, *_) in zip((row["high"], row["low"]), results, strict=True)
    )
    outcome = float(passes(high, low, Normalization.BYTES))
    passed = None if math.isnan(outcome) else bool(outcome)
    return {**_items(row, RATE, passed), "tests": Item(row["cluster_id"], "tests", "", passed)}


def process_results_by_category(doc: Mapping[str, Any], results: Sequence[tuple[float, bool]]) -> dict[str, Any]:
    """Return what `process_results` does, with the result under ``pass_rate_bytes_<category>`` and its ``_stderr`` too.

    Args:
        doc: as for `process_results`.
        results: as for `process_results`.

    Raises:
        NNDError: as `process_results`, or no metric can be named after the category.
    """
    metrics = process_results(doc, results)
    slug = category_slugs([doc["category"]])[doc["category"]]
    return {**metrics, **_items(doc, f"{RATE}_{slug}", metrics["tests"].passed, doc["category"])}


def rate(items: Sequence[Item]) -> float | str:
    """Return the rate pooled over the scored tests, for the ``aggregation`` of a rate; ``N/A`` without any.

    Raises:
        NNDError: two categories have metrics of the same name.
    """
    return aggregate_rate(_counts(items))


def stderr(items: Sequence[Item]) -> float | str:
    """Return the standard error clustered by prompt, for the ``aggregation`` of a ``_stderr`` metric.

    It is ``N/A`` for fewer than two prompts.

    Raises:
        NNDError: two categories have metrics of the same name.
    """
    return aggregate_stderr(_counts(items))


def scored(items: Sequence[Item]) -> int:
    """Return how many tests were scored, for the ``aggregation`` of ``tests``."""
    return sum(item.passed is not None for item in items)


def _items(doc: Mapping[str, Any], metric: str, passed: bool | None, category: str = "") -> dict[str, Item]:
    # lm-eval prints a standard error beside its rate if it comes after the rate.
    item = Item(doc["cluster_id"], metric, category, passed)
    return {metric: item, f"{metric}_stderr": item}


def _counts(items: Sequence[Item]) -> list[Counts]:
    """Return (passed, scored) of each prompt.

    Raises:
        NNDError: two categories have metrics of the same name.
    """
    categories = sorted({item.category for item in items})
    if len(categories) > 1:
        raise NNDError(f"categories {categories[0]!r} and {categories[1]!r} are both {items[0].metric}; rename one")
    outcomes: dict[str, list[bool]] = {}
    for item in items:
        outcomes.setdefault(item.cluster_id, []).extend([] if item.passed is None else [item.passed])
    return [(sum(passed), len(passed)) for passed in outcomes.values()]


def _read_row(doc: Mapping[str, Any]) -> dict[str, str]:
    row = {name: doc.get(name) for name in COLUMNS}
    for name, value in row.items():
        if not isinstance(value, str):
            raise NNDError(f"a row has no text in column {name!r}; a plain task needs the columns {', '.join(COLUMNS)}")
    return row  # type: ignore[return-value]
