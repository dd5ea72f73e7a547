"""Outcomes and their aggregation against a slow recomputation, test by test."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lm_eval.utils import make_table

from nnd_tasks.errors import NNDError
from nnd_tasks.harness.metrics import (
    UNDEFINED,
    Breakdown,
    Outcome,
    Score,
    aggregate_rate,
    aggregate_stderr,
    coarse_precision,
    count_scored,
    decide,
    score_document,
    sizes_by,
)

quick = settings(max_examples=30, deadline=None)
nan, inf = math.nan, math.inf


# ---------------------------------------------------------------- one test


@pytest.mark.parametrize("ties", ["fail", "authors"])
@pytest.mark.parametrize("high_first", [True, False])
@pytest.mark.parametrize(
    ("high", "low", "passed"),
    [
        (-1.0, -2.0, True),
        (-2.0, -1.0, False),
        (-1.0, math.nextafter(-1.0, -2.0), True),
        (math.nextafter(-1.0, -2.0), -1.0, False),
        (-1.0, -inf, True),
    ],
)
def test_without_a_tie_the_likelier_candidate_wins_wherever_it_stands(
    high: float, low: float, passed: bool, high_first: bool, ties: str
) -> None:
    assert decide(high, low, high_first=high_first, ties=ties) == Outcome(passed, tie=False)


@pytest.mark.parametrize("value", [-1.5, 0.0, -inf])
def test_a_tie_fails_by_default_and_goes_to_the_second_candidate_with_the_authors_rule(value: float) -> None:
    assert decide(value, value, high_first=True) == Outcome(False, tie=True)
    assert decide(value, value, high_first=False) == Outcome(False, tie=True)
    assert decide(value, value, high_first=True, ties="authors") == Outcome(False, tie=True)
    assert decide(value, value, high_first=False, ties="authors") == Outcome(True, tie=True)


@pytest.mark.parametrize("ties", ["fail", "authors"])
@pytest.mark.parametrize("high_first", [True, False])
@pytest.mark.parametrize(
    ("high", "low"), [(None, -1.0), (-1.0, None), (None, None), (nan, -1.0), (-1.0, nan), (nan, nan)]
)
def test_without_two_likelihoods_there_is_no_outcome_and_no_tie(
    high: float | None, low: float | None, high_first: bool, ties: str
) -> None:
    assert decide(high, low, high_first=high_first, ties=ties) == Outcome(None, tie=False)


# ---------------------------------------------------------------- documents


@dataclass(frozen=True)
class Document:
    """A random cluster. Totals are quarters, so that the slow definition can compare in exact fractions."""

    tests: list[dict[str, Any]]
    scores: list[Score | None]


score = st.builds(
    Score,
    total=st.one_of(st.integers(-40, 0).map(lambda quarters: quarters / 4), st.just(nan)),
    tokens=st.integers(1, 4),
    size=st.integers(1, 8),
)


@st.composite
def documents(draw: st.DrawFn) -> Document:
    scores = draw(
        st.lists(st.one_of(score, score, score, st.none()), min_size=draw(st.sampled_from([1, 3])), max_size=5)
    )
    index = st.integers(0, len(scores) - 1)  # also one text on both sides
    tests = draw(
        st.lists(
            min_size=draw(st.sampled_from([1, 4])),
            max_size=8,
            elements=st.fixed_dictionaries(
                {
                    "category": st.sampled_from(["Common Sense", "Entity", "off-target"]),
                    "subcategory": st.sampled_from(["", "math"]),
                    "severity": st.sampled_from(["", "minor", "Very bad"]),
                    "high_first": st.booleans(),
                    "high": index,
                    "low": index,
                }
            ),
        )
    )
    return Document([{"test_id": f"t{i}", **test} for i, test in enumerate(tests)], scores)


collections = st.lists(documents(), max_size=5)
rules = st.sampled_from(["fail", "authors"])


def exact(value: Score | None, unit: str) -> Fraction | None:
    """Return a likelihood per token, whole or per byte, as a fraction; None without one."""
    if value is None or math.isnan(value.total):
        return None
    return Fraction(value.total) / {"": value.tokens, "_sum": 1, "_bytes": value.size}[unit]


def slow_outcome(
    test: dict[str, Any], scores: Sequence[Score | None], unit: str, ties: str
) -> tuple[bool | None, bool]:
    """Return (passed, tie). The authors' rule lets the first candidate win only when it is strictly likelier."""
    high, low = exact(scores[test["high"]], unit), exact(scores[test["low"]], unit)
    if high is None or low is None:
        return None, False
    if ties == "fail":
        return high > low, high == low
    first, second = (high, low) if test["high_first"] else (low, high)
    first_wins = first > second
    return first_wins == test["high_first"], high == low


def flat(collection: list[Document], ties: str, unit: str = "") -> list[tuple[int, dict[str, Any], bool]]:
    """Return (document, test, passed) of all tests that were scored."""
    outcomes = [
        (i, test, slow_outcome(test, document.scores, unit, ties)[0])
        for i, document in enumerate(collection)
        for test in document.tests
    ]
    return [(i, test, passed) for i, test, passed in outcomes if passed is not None]


def breakdown_of(collection: list[Document]) -> Breakdown:
    return Breakdown.of(test for document in collection for test in document.tests)


def score_all(collection: list[Document], ties: str) -> list[dict[str, Any]]:
    breakdown = breakdown_of(collection)
    return [score_document(document.tests, document.scores, breakdown, ties=ties) for document in collection]


@quick
@given(documents(), rules)
@example(
    Document(
        [
            {
                "test_id": "t",
                "category": "E",
                "subcategory": "",
                "severity": "",
                "high_first": False,
                "high": 0,
                "low": 1,
            }
        ],
        [Score(-2.0, 2, 5), Score(-4.0, 4, 7)],  # a tie per token, not as a sum or per byte
    ),
    "authors",
)
def test_every_test_of_a_document_has_a_record_of_its_outcome(document: Document, ties: str) -> None:
    result = score_document(document.tests, document.scores, breakdown_of([document]), ties=ties)
    outcomes = [slow_outcome(test, document.scores, "", ties) for test in document.tests]
    assert [(r["test_id"], r["passed"], r["tie"]) for r in result["tests"]] == [
        (test["test_id"], *outcome) for test, outcome in zip(document.tests, outcomes, strict=True)
    ]
    assert result["ties"] == sum(tie for _, tie in outcomes)
    assert result["unscored"] == sum(passed is None for passed, _ in outcomes)
    assert result["clusters"] == (1 if any(passed is not None for passed, _ in outcomes) else 0)


@quick
@given(documents())
def test_a_record_says_what_the_test_is_and_leaves_out_what_is_not_known(document: Document) -> None:
    result = score_document(document.tests, document.scores, breakdown_of([document]))
    for test, record in zip(document.tests, result["tests"], strict=True):
        known = {key: value for key, value in record.items() if key not in ("passed", "tie")}
        assert {"subcategory": "", "severity": "", **known} == {
            key: value for key, value in test.items() if key != "high_first"
        }
        assert "" not in known.values()


@quick
@given(collections, rules)
def test_pooled_over_documents_every_normalization_gives_the_rate_over_all_tests(
    collection: list[Document], ties: str
) -> None:
    results = score_all(collection, ties)
    for unit in ("", "_sum", "_bytes"):
        outcomes = [passed for _, _, passed in flat(collection, ties, unit)]
        expected = sum(outcomes) / len(outcomes) if outcomes else "N/A"
        assert aggregate_rate([result[f"pass_rate{unit}"] for result in results]) == pytest.approx(expected)


@quick
@given(collections, rules)
def test_pooled_over_documents_every_category_and_severity_has_the_rate_over_its_own_tests(
    collection: list[Document], ties: str
) -> None:
    results, outcomes = score_all(collection, ties), flat(collection, ties)
    names = {
        "pass_rate_common_sense": ("category", "Common Sense"),
        "pass_rate_entity": ("category", "Entity"),
        "pass_rate_off_target": ("category", "off-target"),
        "pass_rate_severity_minor": ("severity", "minor"),
        "pass_rate_severity_very_bad": ("severity", "Very bad"),
    }
    for name, (column, value) in names.items():
        occurs = any(test[column] == value for document in collection for test in document.tests)
        assert (name in breakdown_of(collection).selectors) == occurs
        if occurs:
            own = [passed for _, test, passed in outcomes if test[column] == value]
            expected = sum(own) / len(own) if own else "N/A"
            assert aggregate_rate([result[name] for result in results]) == pytest.approx(expected)


@quick
@given(collections, rules)
def test_categories_partition_the_scored_tests_and_severities_those_that_have_one(
    collection: list[Document], ties: str
) -> None:
    breakdown = breakdown_of(collection)
    for document, result in zip(collection, score_all(collection, ties), strict=True):

        def total(column: str, result: dict[str, Any] = result) -> tuple[int, int]:
            counts = [result[name] for name, (of, _) in breakdown.selectors.items() if of == column]
            return sum(passed for passed, _ in counts), sum(scored for _, scored in counts)

        graded = [passed for _, test, passed in flat([document], ties) if test["severity"]]
        assert total("category") == tuple(result["pass_rate"])
        assert total("severity") == (sum(graded), len(graded))


@quick
@given(collections, rules)
def test_the_error_of_every_rate_treats_a_document_as_a_cluster(collection: list[Document], ties: str) -> None:
    results = score_all(collection, ties)
    for name in [*breakdown_of(collection).selectors, "pass_rate", "pass_rate_sum", "pass_rate_bytes"]:
        unit = name.removeprefix("pass_rate") if name in ("pass_rate_sum", "pass_rate_bytes") else ""
        column, value = breakdown_of(collection).selectors.get(name, ("", ""))
        own = [(i, passed) for i, test, passed in flat(collection, ties, unit) if not column or test[column] == value]
        sizes, passes = Counter(i for i, _ in own), Counter(i for i, passed in own if passed)
        k = len(sizes)
        if k < 2:
            expected: float | str = "N/A"
        else:
            rate = Fraction(sum(passes.values()), len(own))
            squares = sum((passes[i] - rate * sizes[i]) ** 2 for i in sizes)
            expected = math.sqrt(Fraction(k, k - 1) * squares) / len(own)
        assert aggregate_stderr([result[f"{name}_stderr"] for result in results]) == pytest.approx(expected, abs=1e-9)


def test_a_document_where_nothing_could_be_scored_counts_no_cluster_and_no_rate() -> None:
    test = {"test_id": "t", "category": "E", "severity": "bad", "high_first": True, "high": 0, "low": 1}
    result = score_document([test], [Score(-1.0, 1, 1), None], Breakdown.of([test]))
    rates = [name for name in result if name.startswith("pass_rate")]
    assert len(rates) == 2 * 5
    assert {tuple(result[name]) for name in rates} == {(0, 0)}
    assert (result["clusters"], result["ties"], result["unscored"]) == (0, 0, 1)
    assert [record["passed"] for record in result["tests"]] == [None]


def test_each_normalization_can_decide_a_test_otherwise() -> None:
    test = {"test_id": "t", "category": "E", "severity": "", "high_first": True, "high": 0, "low": 1}
    result = score_document([test], [Score(-3.0, 3, 2), Score(-2.0, 1, 2)], Breakdown.of([test]))
    assert [result[name] for name in ("pass_rate", "pass_rate_sum", "pass_rate_bytes")] == [(1, 1), (0, 1), (0, 1)]
    result = score_document([test], [Score(-3.0, 1, 4), Score(-2.0, 1, 2)], Breakdown.of([test]))
    assert [result[name] for name in ("pass_rate", "pass_rate_sum", "pass_rate_bytes")] == [(0, 1), (0, 1), (1, 1)]


# ---------------------------------------------------------------- which rates


def test_categories_that_would_share_a_metric_name_are_refused() -> None:
    with pytest.raises(NNDError, match="pass_rate_a_b"):
        Breakdown.of([{"category": "a b", "severity": ""}, {"category": "a-b", "severity": ""}])


@pytest.mark.parametrize("severities", [("Major", "major"), ("重大", "軽微"), ("a b", "a-b")])
def test_no_severity_loses_its_rate_to_another_with_the_same_slug(severities: tuple[str, str]) -> None:
    try:
        breakdown = Breakdown.of([{"category": "E", "severity": severity} for severity in severities])
    except NNDError:
        return
    assert {value for column, value in breakdown.selectors.values() if column == "severity"} == set(severities)


# ---------------------------------------------------------------- aggregation


@pytest.mark.parametrize("items", [[], [(0, 0)], [(0, 0), (0, 0)]])
def test_without_scored_tests_rate_and_error_are_not_available(items: list[tuple[int, int]]) -> None:
    assert UNDEFINED == "N/A"
    assert aggregate_rate(items) == "N/A"
    assert aggregate_stderr(items) == "N/A"


def test_one_cluster_with_scored_tests_has_a_rate_but_no_error() -> None:
    assert aggregate_rate([(0, 0), (1, 4)]) == 0.25
    assert aggregate_stderr([(0, 0), (1, 4)]) == "N/A"
    assert aggregate_stderr([(1, 4), (0, 0), (1, 4)]) == 0.0


@pytest.mark.parametrize(
    ("items", "shown"),
    [
        ([(1, 1), (1, 1)], "0.0000† (2 prompts)"),
        ([(1, 1), (0, 1)], "0.5000† (2 prompts)"),
        ([(2, 4)] * 12, "0.0000† (no spread)"),
        ([(1, 1), (0, 1)] * 6 + [(0, 0)], "0.1508"),  # sqrt(0.5 * 0.5 / 11)
        ([(1, 1), (0, 1)] * 4 + [(0, 0)] * 9, "0.1890† (8 prompts)"),  # sqrt(0.5 * 0.5 / 7)
    ],
)
def test_the_table_of_lm_eval_marks_errors_that_are_not_to_be_relied_on(
    items: list[tuple[int, int]], shown: str
) -> None:
    error = aggregate_stderr(items)
    rates = {"pass_rate,none": aggregate_rate(items), "pass_rate_stderr,none": error}
    table = make_table({"results": {"t": rates}, "versions": {}, "n-shot": {}})
    assert re.search(r"±\s*\|\s*(.*?)\s*\|", table)[1] == shown  # type: ignore[index]
    assert json.loads(json.dumps(error)) == error, "in files it stays a number"


@quick
@given(collections, rules)
def test_counts_and_category_sizes_are_those_of_the_scored_tests(collection: list[Document], ties: str) -> None:
    items = [result["tests"] for result in score_all(collection, ties)]
    outcomes = flat(collection, ties)
    assert count_scored(items) == len(outcomes)
    for column in ("category", "severity"):
        sizes = sizes_by(column, items)
        assert sizes == {
            value: {
                "tests": len([test for _, test, _ in outcomes if test[column] == value]),
                "clusters": len({i for i, test, _ in outcomes if test[column] == value}),
            }
            for value in {test[column] for _, test, _ in outcomes} - {""}
        }
        assert list(sizes) == sorted(sizes)


@given(st.lists(st.floats(-400, -1, width=32), min_size=8, max_size=20), st.sampled_from([None, "bfloat16", "float16"]))
def test_sums_that_were_rounded_to_a_coarse_type_are_recognized(sums: list[float], dtype: str | None) -> None:
    import torch

    exact = torch.tensor(sums, dtype=torch.float32)
    rounded = exact if dtype is None else exact.to(getattr(torch, dtype)).float()
    expected = {
        name: bool((rounded.to(getattr(torch, name)).float() == rounded).all()) for name in ("bfloat16", "float16")
    }
    found = coarse_precision(rounded.tolist())
    assert found == next((name for name, fits in expected.items() if fits), None)
    assert dtype is None or found is not None
    assert coarse_precision(rounded.tolist()[:7]) is None
