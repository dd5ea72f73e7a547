"""Outcomes of tests and their aggregation, free of lm-eval.

A document of the harness is a cluster: one prompt, its distinct candidates, and the tests between them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nnd_tasks.schema import category_slugs, severity_slugs
from nnd_tasks.statistics import clustered_standard_error, pool, pooled_rate

#: What the harness itself writes where a number is undefined.
UNDEFINED = "N/A"

ENOUGH = 8  # fewer sums are too few to infer their precision, or that the server sends none

#: (tests passed, tests scored) of one document.
Counts = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Score:
    """What a backend gave one candidate.

    Attributes:
        total: sum of the log-probabilities of its tokens, in nats.
        tokens: number of tokens that the sum runs over.
        size: UTF-8 bytes of the candidate's text, without delimiter and end-of-sequence token; at least 1.
    """

    total: float
    tokens: int
    size: int

    @property
    def mean(self) -> float:
        """Mean log-likelihood per token (paper, Eq. 1)."""
        return self.total / self.tokens

    @property
    def per_byte(self) -> float:
        """Log-likelihood per UTF-8 byte."""
        return self.total / self.size


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of one test.

    Attributes:
        passed: None when the test could not be scored.
        tie: the two likelihoods are equal.
    """

    passed: bool | None
    tie: bool = False


def decide(high: float | None, low: float | None, *, high_first: bool, ties: str = "fail") -> Outcome:
    """Compare two normalized likelihoods (paper, Eq. 2).

    Args:
        high: of the better candidate; None or nan when it has none.
        low: of the worse candidate.
        high_first: whether the better candidate comes first in the source.
        ties: ``fail``: a tie fails (the paper's strict ``>``); ``authors``: a tie goes to the second candidate in the
            source's order, as in the authors' released code (`utils_nnd.run_nnd`).
    """
    if high is None or low is None or math.isnan(high) or math.isnan(low):
        return Outcome(None)
    if high == low:
        return Outcome(ties == "authors" and not high_first, tie=True)
    return Outcome(high > low)


#: Metric suffix -> the normalization it compares.
NORMALIZATIONS: Mapping[str, Callable[[Score], float]] = {
    "": lambda score: score.mean,
    "_sum": lambda score: score.total,
    "_bytes": lambda score: score.per_byte,
}


@dataclass(frozen=True)
class Breakdown:
    """Which rates a task reports besides the overall one: metric name -> the (column, value) that selects its tests."""

    selectors: Mapping[str, tuple[str, str]]

    @classmethod
    def of(cls, tests: Iterable[Mapping[str, Any]]) -> Breakdown:
        """Return one rate per category and per severity that occur in ``tests``.

        Raises:
            NNDError: two categories, or two severities, would have one metric name.
        """
        tests = list(tests)
        selectors = {
            f"pass_rate_{name}": ("category", category)
            for category, name in category_slugs(test["category"] for test in tests).items()
        }
        for severity, name in severity_slugs(test["severity"] for test in tests).items():
            selectors[f"pass_rate_severity_{name}"] = ("severity", severity)
        return cls(selectors)


def score_document(
    tests: Sequence[Mapping[str, Any]],
    scores: Sequence[Score | None],
    breakdown: Breakdown,
    *,
    ties: str = "fail",
    alone: Sequence[Score | None] | None = None,
) -> dict[str, Any]:
    """Return the harness's per-document metrics of one cluster.

    Args:
        tests: each with ``test_id``, ``category``, ``severity``, ``high_first``, and ``high`` and ``low`` as indices into
            ``scores``.
        scores: one per candidate; None for one that could not be scored.
        breakdown: which rates to report.
        ties: see `decide`.
        alone: the scores of the candidates after the prompt without its context, for `reliance_rates`.

    Returns:
        Metric name -> value. Rates come as (passed, scored) twice, the second time as ``<metric>_stderr``: the harness
        then finds our standard error under the key in which it prints one. ``tests`` holds a record per test.
    """
    counts: dict[str, list[int]] = {f"pass_rate{suffix}": [0, 0] for suffix in NORMALIZATIONS}
    counts |= {name: [0, 0] for name in breakdown.selectors}
    records: list[dict[str, Any]] = []
    for test in tests:
        high, low = scores[test["high"]], scores[test["low"]]
        record = {
            key: test[key]
            for key in ("test_id", "category", "subcategory", "severity", "noise_ratio", "seed", "high", "low")
            if test.get(key) not in ("", None)
        }
        for suffix, normalized in NORMALIZATIONS.items():
            values = [normalized(score) if score is not None else None for score in (high, low)]
            outcome = decide(*values, high_first=test["high_first"], ties=ties)
            if outcome.passed is not None:
                counts[f"pass_rate{suffix}"][0] += outcome.passed
                counts[f"pass_rate{suffix}"][1] += 1
            if suffix == "":
                record |= {"passed": outcome.passed, "tie": outcome.tie}
                for name, (column, value) in breakdown.selectors.items():
                    if outcome.passed is not None and test[column] == value:
                        counts[name][0] += outcome.passed
                        counts[name][1] += 1
        records.append(record)
    if alone is not None:
        counts |= _reliance(tests, records, scores, alone, breakdown)
    metrics: dict[str, Any] = {}
    for name, (passed, scored) in counts.items():
        metrics[name] = metrics[f"{name}_stderr"] = (passed, scored)
    metrics["tests"] = records
    metrics["clusters"] = int(any(record["passed"] is not None for record in records))
    metrics["ties"] = sum(record["tie"] for record in records)
    metrics["unscored"] = sum(record["passed"] is None for record in records)
    return metrics


#: With ``context_reliance``: rate -> what it is. PMI compares how much the context adds to each candidate, log p(candidate |
#: context) - log p(candidate) per token; survival is the share of the passes that pass without the context too.
RELIANCE = ("pass_rate_pmi", "survival")


def reliance_rates(breakdown: Breakdown) -> dict[str, tuple[str, str] | None]:
    """Return the names of the rates of context reliance -> (column, value) of the tests they are of; None for all."""
    names: dict[str, tuple[str, str] | None] = dict.fromkeys(RELIANCE)
    for name, selector in breakdown.selectors.items():
        names |= {f"{rate}_{name.removeprefix('pass_rate_')}": selector for rate in RELIANCE}
    return names


def _reliance(
    tests: Sequence[Mapping[str, Any]],
    records: Sequence[Mapping[str, Any]],
    scores: Sequence[Score | None],
    alone: Sequence[Score | None],
    breakdown: Breakdown,
) -> dict[str, list[int]]:
    """Count passes by PMI, and passes that survive, of one document."""
    names = reliance_rates(breakdown)
    counts = {name: [0, 0] for name in names}
    gains = [_mean(given, bare) for given, bare in zip(scores, alone, strict=True)]
    bare_means = [None if score is None else score.mean for score in alone]
    for test, record in zip(tests, records, strict=True):
        pair = test["high"], test["low"]
        pmi = decide(*(gains[i] for i in pair), high_first=test["high_first"])
        without = decide(*(bare_means[i] for i in pair), high_first=test["high_first"])
        for name, selector in names.items():
            if selector is not None and test[selector[0]] != selector[1]:
                continue
            if name.startswith("survival"):
                outcome, counted = without.passed, bool(record["passed"])
            else:
                outcome, counted = pmi.passed, True
            if counted and outcome is not None:
                counts[name][0] += outcome
                counts[name][1] += 1
    return counts


def _mean(given: Score | None, bare: Score | None) -> float | None:
    return None if given is None or bare is None else given.mean - bare.mean


# ---------------------------------------------------------------- aggregation over documents


def aggregate_rate(items: Sequence[Counts]) -> float | str:
    """Return the rate pooled over tests; ``N/A`` without any."""
    rate = pooled_rate(*pool(items))
    return UNDEFINED if math.isnan(rate) else rate


def aggregate_stderr(items: Sequence[Counts]) -> float | str:
    """Return the clustered standard error of the pooled rate; ``N/A`` for fewer than two clusters."""
    error = clustered_standard_error(*pool(items))
    return UNDEFINED if math.isnan(error) else error


def count_scored(items: Sequence[Sequence[Mapping[str, Any]]]) -> int:
    """Return how many of the test records of all documents were scored."""
    return sum(record["passed"] is not None for records in items for record in records)


def sizes_by(column: str, items: Sequence[Sequence[Mapping[str, Any]]]) -> dict[str, dict[str, int]]:
    """Return how many tests and clusters each rate rests on.

    Args:
        column: ``category`` or ``severity``.
        items: the test records of all documents.

    Returns:
        Value of the column -> number of scored tests, and of clusters that have any.
    """
    sizes: dict[str, dict[str, int]] = {}
    for records in items:
        values = [record[column] for record in records if record["passed"] is not None and column in record]
        for value in values:
            sizes.setdefault(value, {"tests": 0, "clusters": 0})["tests"] += 1
        for value in set(values):
            sizes[value]["clusters"] += 1
    return dict(sorted(sizes.items()))


def coarse_precision(totals: Sequence[float]) -> str | None:
    """Return ``bfloat16`` or ``float16`` when all sums are numbers of that type, None otherwise.

    lm-eval's hf models sum log-probabilities in the type of the model. In bfloat16 a sum between -128 and -256 moves in
    steps of 1, which makes ties of candidates that differ.

    Args:
        totals: summed log-likelihoods, shape (requests,). Fewer than eight are too few to tell.
    """
    values = np.asarray([total for total in totals if math.isfinite(total)], dtype=np.float32)
    if values.size < ENOUGH:
        return None
    if not (values.view(np.uint32) & 0xFFFF).any():  # bfloat16 is the upper half of float32
        return "bfloat16"
    with np.errstate(over="ignore"):
        return "float16" if (values.astype(np.float16) == values).all() else None
