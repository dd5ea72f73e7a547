"""Outcomes of tests and their aggregation; nothing here imports lm-eval.

A document is one prompt with its distinct candidates and the tests between them.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from nnd_tasks.rule import Likelihood, Normalization, Ties, normalize, passes
from nnd_tasks.schema import Breakdown
from nnd_tasks.statistics import FEW, ClusteredMean, clustered_mean, summarize_rate
from nnd_tasks.task.signature import digest

#: What lm-eval writes for a number that is undefined.
UNDEFINED = "N/A"

#: What the samples have of each test, where the set has it.
_RECORDED = ("test_id", "category", "subcategory", "severity", "noise_ratio", "seed", "high", "low")

#: (tests passed, tests scored) of one document; or of a measure, the sums of weighted values and of weights.
Counts = tuple[float, float]
#: Pools the first and the second numbers of all documents.
Summarize = Callable[[Any, Any], ClusteredMean]


#: Rate -> what it divides the likelihoods by.
NORMALIZATIONS = {
    "pass_rate": Normalization.TOKENS,
    "pass_rate_sum": Normalization.NONE,
    "pass_rate_bytes": Normalization.BYTES,
}
#: Rate of the prompts that pass all of their tests -> the rate that says which tests pass.
PROMPT_RATES = {name.replace("pass_rate", "pass_rate_prompts"): name for name in NORMALIZATIONS}
#: The rates of context reliance. ``pass_rate_pmi`` compares how much the context adds to each candidate: log p(candidate |
#: context) - log p(candidate), per token. ``survival`` is the share of the passed tests that pass without the context too.
RELIANCE = ("pass_rate_pmi", "survival")


def list_rates(breakdown: Breakdown, *, context_reliance: bool) -> dict[str, tuple[str, tuple[str, str] | None]]:
    """List the rates of a task.

    Args:
        breakdown: the subsets of the tests that have rates of their own.
        context_reliance: whether the rates of `RELIANCE` are among them.

    Returns:
        Name -> what decides a test, a key of `NORMALIZATIONS` or one of `RELIANCE`, or a prompt, a key of `PROMPT_RATES`; and
        (column, value) that selects the tests, None for all.
    """
    rates: dict[str, tuple[str, tuple[str, str] | None]] = {
        name: (name, None) for name in (*NORMALIZATIONS, *PROMPT_RATES)
    }
    rates |= {name: ("pass_rate", selector) for name, selector in breakdown.items()}
    if context_reliance:
        subsets: dict[str, tuple[str, str] | None] = {"": None}
        subsets |= {name.removeprefix("pass_rate"): selector for name, selector in breakdown.items()}
        rates |= {f"{rate}{suffix}": (rate, selector) for suffix, selector in subsets.items() for rate in RELIANCE}
    return rates


def score_document(
    tests: Sequence[Mapping[str, Any]],
    scores: Sequence[Likelihood | None],
    breakdown: Breakdown,
    *,
    ties: str = "fail",
    without_context: Sequence[Likelihood | None] | None = None,
    unread_fails: bool = False,
) -> dict[str, Any]:
    """Count the passed and the scored tests of one document for each rate.

    Args:
        tests: each with ``test_id``, ``category``, ``severity``, ``high_first``, and ``high`` and ``low`` as indices into
            ``scores``.
        scores: one per candidate; None for one that could not be scored.
        breakdown: which rates to report.
        ties: a value of `nnd_tasks.rule.Ties`; in the rates of `RELIANCE` a tie always fails.
        without_context: the scores of the candidates after the prompt without its context, for the rates of `RELIANCE`.
        unread_fails: a test with a score that is nan fails, instead of being left out.

    Returns:
        Metric name -> value. The value of a rate is (passed, scored), and stands under ``<metric>_stderr`` too, because
        lm-eval prints a metric of that name as the standard error. ``tests`` has one record per test.
    """
    high, low = (_side_likelihoods(tests, side, scores) for side in ("high", "low"))
    high_first = np.array([test["high_first"] for test in tests], dtype=bool)
    passed = {name: passes(high, low, by, Ties(ties), high_first=high_first) for name, by in NORMALIZATIONS.items()}
    if without_context is not None:
        high_alone, low_alone = (_side_likelihoods(tests, side, without_context) for side in ("high", "low"))
        with np.errstate(invalid="ignore"):  # two infinite likelihoods have no difference
            high_gain, low_gain = normalize(high) - normalize(high_alone), normalize(low) - normalize(low_alone)
        passed["pass_rate_pmi"] = passes(Likelihood(high_gain), Likelihood(low_gain))
        passed["survival"] = np.where(passed["pass_rate"] == 1, passes(high_alone, low_alone), np.nan)
    if unread_fails:
        answered = [scores[test["high"]] is not None and scores[test["low"]] is not None for test in tests]
        passed = {name: np.where(answered, np.nan_to_num(outcomes), np.nan) for name, outcomes in passed.items()}
    passed |= {name: np.array([passes_all(passed[rate])]) for name, rate in PROMPT_RATES.items()}
    metrics: dict[str, Any] = {}
    columns = {column: np.array([test[column] for test in tests], dtype=object) for column, _ in breakdown.values()}
    for name, (rate, selector) in list_rates(breakdown, context_reliance=without_context is not None).items():
        outcomes = passed[rate]
        if selector:
            outcomes = outcomes[columns[selector[0]] == selector[1]]
        scored = outcomes[~np.isnan(outcomes)]
        metrics[name] = metrics[f"{name}_stderr"] = (int(scored.sum()), len(scored))
    ties_met = normalize(high) == normalize(low)
    records = [
        {
            **{key: test[key] for key in _RECORDED if test.get(key) not in ("", None)},
            "passed": None if math.isnan(outcome) else bool(outcome),
            "tie": bool(tie),
        }
        for test, outcome, tie in zip(tests, passed["pass_rate"].tolist(), ties_met.tolist(), strict=True)
    ]
    metrics["tests"] = records
    metrics["clusters"] = int(any(record["passed"] is not None for record in records))
    metrics["ties"] = sum(record["tie"] for record in records)
    metrics["unscored"] = sum(record["passed"] is None for record in records)
    return metrics


def passes_all(passed: Any) -> float:
    """Tell whether a prompt passes all of its tests: 1 or 0; nan where one has no outcome and no other fails.

    Where one text of a prompt is right and each test has it as the better one, this is the accuracy of multiple choice: the
    right text is likelier than every wrong one. Of two that are equally likely, lm-eval takes the first one; here that fails.

    Args:
        passed: what `passes` tells of these tests, shape (tests,); at least one.
    """
    return 0.0 if np.equal(passed, 0).any() else float(np.min(passed))


def _side_likelihoods(tests: Sequence[Mapping[str, Any]], side: str, scores: Sequence[Likelihood | None]) -> Likelihood:
    """The likelihoods of the ``high`` or the ``low`` candidates of tests, as arrays of shape (tests,)."""
    texts, places = [score or Likelihood(math.nan) for score in scores], [test[side] for test in tests]
    return Likelihood(
        np.array([text.total for text in texts], dtype=float)[places],
        np.array([text.tokens for text in texts])[places],
        np.array([text.size for text in texts])[places],
    )


# ---------------------------------------------------------------- aggregation over documents


def aggregate_rate(items: Sequence[Counts], summarize: Summarize = summarize_rate) -> float | str:
    """Return the rate pooled over tests; ``N/A`` without any.

    Args:
        items: of each document.
        summarize: `clustered_mean` for a measure.
    """
    rate = summarize(*np.reshape(items, (-1, 2)).T).mean
    return UNDEFINED if math.isnan(rate) else rate


class UnreliableEstimate(float):
    """A standard error that is not to be relied on. In lm-eval's table a mark and the reason follow it."""

    why = ""

    def __format__(self, spec: str) -> str:
        return f"{super().__format__(spec)}† ({self.why})"


def aggregate_stderr(items: Sequence[Counts], unit: float = 1.0, summarize: Summarize = summarize_rate) -> float | str:
    """Return the clustered standard error of the pooled rate times ``unit``; ``N/A`` for fewer than two prompts.

    One of fewer than `FEW` prompts, or of 0, is an `UnreliableEstimate`.
    """
    passed, tests = np.reshape(items, (-1, 2)).T
    error = unit * summarize(passed, tests).standard_error
    if math.isnan(error):
        return UNDEFINED
    prompts = int(np.count_nonzero(tests))
    if prompts >= FEW and error > 0:
        return error
    unreliable = UnreliableEstimate(error)
    unreliable.why = f"{prompts} prompts" if prompts < FEW else "no spread"
    return unreliable


def aggregations(rates: Iterable[str], measures: Iterable[str] = ()) -> dict[str, Callable[[Any], Any]]:
    """Return metric name -> function that pools the metric over documents, for rates, measures and all counts."""
    functions: dict[str, Callable[[Any], Any]] = {}
    for names, summarize in ((measures, clustered_mean), (rates, summarize_rate)):
        for name in names:
            functions[name] = partial(aggregate_rate, summarize=summarize)
            functions[f"{name}_stderr"] = partial(aggregate_stderr, summarize=summarize)
    counts = dict.fromkeys(("clusters", "ties", "unscored", "truncated_contexts"), sum)
    return {**functions, "no_context": count_present, **counts}


def count_present(items: Sequence[Sequence[Any]]) -> int:
    """Return how many of the records of all documents are not None."""
    return sum(record is not None for records in items for record in records)


def sizes_by(column: str, items: Sequence[Sequence[Mapping[str, Any]]]) -> dict[str, dict[str, int]]:
    """Return how many tests and prompts each rate rests on.

    Args:
        column: ``category`` or ``severity``.
        items: the test records of all documents.

    Returns:
        Value of the column -> ``tests``, the scored tests, and ``clusters``, the prompts that have any.
    """
    tests, clusters = Counter[str](), Counter[str]()
    for records in items:
        values = [record[column] for record in records if record["passed"] is not None and column in record]
        tests.update(values)
        clusters.update({*values})
    return {value: {"tests": tests[value], "clusters": clusters[value]} for value in sorted(tests)}


def answers_digest(scores: Iterable[Mapping[str, Any] | None]) -> str:
    """Return a digest of the sums and numbers of tokens of all candidates of a run, in any order.

    Args:
        scores: ``sum`` and ``tokens`` of each candidate; None for one that was not scored.
    """
    pairs = json.dumps([[score["sum"], score["tokens"]] for score in scores if score])  # in one call, as they are many
    return digest(sorted(f"[{pair}]" for pair in pairs[2:-2].split("], [") if pair))


@dataclass
class PooledRecords:
    """What the records of all documents tell: with several processes, they come together only where they are pooled.

    Attributes:
        sizes: ``categories`` and ``severities``, see `sizes_by`; empty before.
        candidates: the records of the scored candidates; None before.
        answers: their digest, which tells the files of the run from others; empty before.
    """

    sizes: dict[str, Any] = field(default_factory=dict)
    candidates: list[Mapping[str, Any]] | None = None
    answers: str = ""

    def count_tests(self, items: Sequence[Sequence[Mapping[str, Any]]]) -> int:
        """Count the scored tests, and keep the numbers of each category and severity."""
        self.sizes = {"categories": sizes_by("category", items), "severities": sizes_by("severity", items)}
        return sum(record["passed"] is not None for records in items for record in records)

    def count_candidates(self, items: Sequence[Sequence[Mapping[str, Any] | None]]) -> int:
        """Count the scored candidates, and keep their records."""
        self.candidates = [record for of_document in items for record in of_document if record]
        self.answers = answers_digest(self.candidates)
        return len(self.candidates)
