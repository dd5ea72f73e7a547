"""Rates and their errors, against a slow recomputation, test by test."""

import json
import math
import re
from collections import Counter, defaultdict, namedtuple
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lm_eval.utils import make_table

from nnd_tasks.rule import Likelihood
from nnd_tasks.schema import break_down
from nnd_tasks.task.metrics import (
    aggregate_rate,
    aggregate_stderr,
    score_document,
    sizes_by,
)
from nnd_tasks.task.reader import coarse_precision

quick = settings(max_examples=30)


# ---------------------------------------------------------------- documents


#: A random cluster.
Document = namedtuple("Document", ["tests", "scores"])

#: Totals are quarters, so that the slow definition can compare in exact fractions.
score = st.builds(
    Likelihood,
    total=st.one_of(st.integers(-40, 0).map(lambda quarters: quarters / 4), st.just(math.nan)),
    tokens=st.integers(1, 4),
    size=st.integers(1, 8),
)


labels = {
    "category": st.sampled_from(["Common Sense", "Entity", "off-target"]),
    "subcategory": st.sampled_from(["", "math"]),
    "severity": st.sampled_from(["", "minor", "Very bad"]),
    "high_first": st.booleans(),
}


@st.composite
def documents(draw):
    scores = draw(
        st.lists(st.one_of(score, score, score, st.none()), min_size=draw(st.sampled_from([1, 3])), max_size=5)
    )
    index = st.integers(0, len(scores) - 1)  # also one text on both sides
    test = st.fixed_dictionaries({**labels, "high": index, "low": index})
    tests = draw(st.lists(test, min_size=draw(st.sampled_from([1, 4])), max_size=8))
    return Document([{"test_id": f"t{i}", **test} for i, test in enumerate(tests)], scores)


collections = st.lists(documents(), max_size=5)
rules = st.sampled_from(["fail", "authors"])


def exact(value, unit):
    """Return a likelihood per token, whole or per byte, as a fraction; None without one."""
    if value is None or math.isnan(value.total):
        return None
    return Fraction(value.total) / {"": value.tokens, "_sum": 1, "_bytes": value.size}[unit]


def slow_outcome(test, scores, unit, ties):
    """Return (passed, tie). The authors' rule lets the first candidate win only when it is strictly likelier."""
    high, low = exact(scores[test["high"]], unit), exact(scores[test["low"]], unit)
    if high is None or low is None:
        return None, False
    if ties == "fail" or test["high_first"]:
        return high > low, high == low
    return not low > high, high == low


def outcomes_of(collection, ties, breakdown):
    """Return rate -> (document, passed) of each test that was scored, or of each prompt that passes or fails as a whole."""
    outcomes = defaultdict(list)
    for unit in ("", "_sum", "_bytes"):
        for i, document in enumerate(collection):
            passed = [slow_outcome(test, document.scores, unit, ties)[0] for test in document.tests]
            if False in passed or None not in passed:
                outcomes[f"pass_rate_prompts{unit}"].append((i, False not in passed))
            for test, outcome in zip(document.tests, passed, strict=True):
                selected = [name for name, (column, value) in breakdown.items() if test[column] == value and not unit]
                for name in [f"pass_rate{unit}", *selected] if outcome is not None else ():
                    outcomes[name].append((i, bool(outcome)))
    return outcomes


def breakdown_of(collection):
    tests = [test for document in collection for test in document.tests]
    return break_down(*([test[name] for test in tests] for name in ("category", "severity")))


#: A tie per token, not as a sum or per byte.
TIE = Document(
    [{"test_id": "t", "category": "E", "subcategory": "", "severity": "", "high_first": False, "high": 0, "low": 1}],
    [Likelihood(-2.0, 2, 5), Likelihood(-4.0, 4, 7)],
)


@quick
@given(documents(), rules)
@example(TIE, "authors")
def test_every_test_of_a_document_has_a_record_of_its_outcome(document, ties):
    result = score_document(document.tests, document.scores, breakdown_of([document]), ties=ties)
    outcomes = [slow_outcome(test, document.scores, "", ties) for test in document.tests]
    # What is not known is left out.
    expected = [
        {key: value for key, value in test.items() if key != "high_first" and value != ""}
        | {"passed": passed, "tie": tie}
        for test, (passed, tie) in zip(document.tests, outcomes, strict=True)
    ]
    assert result["tests"] == expected
    assert result["ties"] == sum(tie for _, tie in outcomes)
    assert result["unscored"] == sum(passed is None for passed, _ in outcomes)
    assert result["clusters"] == (1 if any(passed is not None for passed, _ in outcomes) else 0)


@quick
@given(collections, rules)
def test_each_rate_and_its_error_are_those_of_its_tests_with_a_document_as_a_cluster(collection, ties):
    breakdown = breakdown_of(collection)
    results = [score_document(document.tests, document.scores, breakdown, ties=ties) for document in collection]
    values = {
        (column, test[column])
        for document in collection
        for test in document.tests
        for column in ("category", "severity")
    }
    assert {*breakdown.values()} == {(column, value) for column, value in values if value}
    outcomes, items = outcomes_of(collection, ties, breakdown), [result["tests"] for result in results]
    rates = [f"pass_rate{kind}{unit}" for kind in ("", "_prompts") for unit in ("", "_sum", "_bytes")]
    for name in [*breakdown, *rates]:
        sizes, passes = Counter(i for i, _ in outcomes[name]), Counter(i for i, passed in outcomes[name] if passed)
        k, count = len(sizes), sizes.total()
        if name in breakdown and count:
            column, value = breakdown[name]
            assert sizes_by(column, items)[value] == {"tests": count, "clusters": k}
        rate = Fraction(passes.total(), count or 1)
        error = "N/A"
        if k > 1:
            squares = sum((passes[i] - rate * sizes[i]) ** 2 for i in sizes)
            error = math.sqrt(Fraction(k, k - 1) * squares) / count
        assert aggregate_rate([result[name] for result in results]) == (pytest.approx(float(rate)) if count else "N/A")
        assert aggregate_stderr([result[f"{name}_stderr"] for result in results]) == pytest.approx(error, abs=1e-9)


# ---------------------------------------------------------------- which rates


@pytest.mark.parametrize(
    ("items", "shown"),
    [
        ([(1, 1), (1, 1)], "0.0000† (2 prompts)"),
        ([(2, 4)] * 12, "0.0000† (no spread)"),
        ([(1, 1), (0, 1)] * 6 + [(0, 0)], "0.1508"),  # sqrt(0.5 * 0.5 / 11)
        ([(1, 1), (0, 1)] * 4 + [(0, 0)] * 9, "0.1890† (8 prompts)"),  # sqrt(0.5 * 0.5 / 7)
    ],
)
def test_the_table_of_lm_eval_marks_errors_that_are_not_to_be_relied_on(items, shown):
    error = aggregate_stderr(items)
    rates = {"pass_rate,none": aggregate_rate(items), "pass_rate_stderr,none": error}
    table = make_table({"results": {"t": rates}, "versions": {}, "n-shot": {}})
    assert re.search(r"±\s*\|\s*(.*?)\s*\|", table)[1] == shown
    assert json.loads(json.dumps(error)) == error, "in files it stays a number"


@given(
    st.lists(st.floats(-400, -1, width=32), min_size=8, max_size=20).filter(
        lambda sums: any(total % 1 for total in sums)
    ),
    st.sampled_from([None, "bfloat16", "float16"]),
)
def test_sums_that_were_rounded_to_a_coarse_type_are_recognized(sums, dtype):
    import torch

    exact = torch.tensor(sums, dtype=torch.float32)
    rounded = exact if dtype is None else exact.to(getattr(torch, dtype)).float()
    expected = {
        name: bool((rounded.to(getattr(torch, name)).float() == rounded).all()) for name in ("bfloat16", "float16")
    }
    if any(total % 1 for total in rounded.tolist()):
        assert coarse_precision(rounded.tolist()) == next((name for name, fits in expected.items() if fits), None)
    assert coarse_precision(rounded.tolist()[:7]) is None


def test_sums_of_few_digits_are_no_bfloat16():
    assert coarse_precision([-float(total) for total in range(20, 28)]) == "whole numbers"
    assert coarse_precision([-float(total) for total in range(140, 148)]) == "bfloat16"
