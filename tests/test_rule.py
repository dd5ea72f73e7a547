"""`nnd_tasks.rule`: passes and normalize, by cases and in exact fractions."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnd_tasks.rule import Likelihood, Normalization, Ties, passes
from nnd_tasks.task.metrics import passes_all

nan, inf = math.nan, math.inf


@pytest.mark.parametrize("ties", Ties)
@pytest.mark.parametrize("high_first", [True, False])
@pytest.mark.parametrize(
    ("high", "low", "expected"),
    [
        (-1.0, -2.0, 1),
        (-2.0, -1.0, 0),
        (-1.0, math.nextafter(-1.0, -2.0), 1),
        (math.nextafter(-1.0, -2.0), -1.0, 0),
        (-1.0, -inf, 1),
        *((value, value, "tie") for value in (-1.5, 0.0, -inf)),
        *((nan, -1.0, nan), (-1.0, nan, nan), (nan, nan, nan)),
    ],
)
def test_the_likelier_text_wins_and_only_the_authors_let_the_second_one_win_a_tie(
    high, low, expected, high_first, ties
):
    if expected == "tie":
        expected = float(ties is Ties.AUTHORS and not high_first)
    outcome = passes(Likelihood(high), Likelihood(low), ties=ties, high_first=high_first)
    assert float(outcome) == pytest.approx(expected, nan_ok=True)


texts = st.lists(
    st.tuples(st.integers(-40, 0), st.sampled_from([1, 2, 4]), st.sampled_from([1, 8])), min_size=2, max_size=8
)


@given(texts, st.sampled_from(Normalization))
def test_columns_of_texts_are_divided_by_the_length_that_is_asked_for(rows, by):
    place = {Normalization.TOKENS: 1, Normalization.BYTES: 2}.get(by)
    exact = [Fraction(row[0], 1 if place is None else row[place]) for row in rows]
    columns = Likelihood(*np.array(rows, dtype=float).T)
    for row, value in zip(rows, exact, strict=True):
        assert passes(columns, Likelihood(*row), by).tolist() == [other > value for other in exact]


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [([1], 1), ([1, 1], 1), ([0], 0), ([1, 0], 0), ([nan, 0], 0), ([1, nan], nan), ([nan], nan)],
)
def test_a_prompt_passes_all_its_tests_or_not_where_the_unscored_ones_leave_that_open(outcomes, expected):
    assert passes_all(np.array(outcomes)) == pytest.approx(expected, nan_ok=True)
