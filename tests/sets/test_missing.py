"""Traces of missing values, and what prepare.py may return: one rule for all roles, said with the way to keep them."""

import pytest

from nnd_tasks.sets.account import describe_accounts
from nnd_tasks.tables.cells import TRACES
from tests.sets.tables import LABELS, make_rows, pick, read_arguments, read_tests

ARGUMENTS = read_arguments(__file__)

GOOD, BAD = {"c": "q", "t": "a", "l": "good"}, {"c": "q", "t": "b", "l": "bad"}


@pytest.mark.parametrize(("role", "column"), [("context", "c"), ("candidate", "t"), ("label", "l")])
def test_a_trace_of_a_missing_value_is_no_text_and_no_label(role, column, tmp_path):
    rows = [GOOD, BAD, *({**BAD, "t": f"x {trace}", column: f" {trace} "} for trace in TRACES)]
    made = make_rows(tmp_path, rows, **LABELS)
    assert pick(read_tests(made), "context", "high", "low") == [("q", "a", "b")]
    accounts = made.report["default"]["accounts"]
    assert (accounts["rows"]["total"], accounts["rows"]["used"]) == (len(rows), 2)
    way = "name it in better or ignore" if role == "label" else "write `missing: []` into the recipe"
    assert {line for line in describe_accounts(accounts) if "missing value" in line} == {
        f"{role}: {trace!r} in 1 cell is taken for a missing value; if it is meant, {way}" for trace in TRACES
    }


@pytest.mark.parametrize(("row", "keys", "expected"), ARGUMENTS["what_is_meant_stays"])
def test_what_is_meant_stays(row, keys, expected, tmp_path):
    made = make_rows(tmp_path, [{**GOOD, "k": "K"}, {**BAD, "t": "x", "k": "K", **row}], **{**LABELS, **keys})
    assert pick(read_tests(made), "high", "low", "low_label") == [tuple(expected)]


def test_contexts_that_differ_in_white_space_and_texts_that_repeat_their_prompt_are_told(tmp_path):
    rows = [
        {"c": c, "t": f"{c.strip()} {t}", "l": t} for c in ("What?", "What?\u00a0", "Who?") for t in ("good", "bad")
    ]
    accounts = make_rows(tmp_path, rows, **LABELS).report["default"]["accounts"]
    assert [line.split(";")[0] for line in describe_accounts(accounts)[-2:]] == [
        "2 contexts differ in white space only",
        "3 tests with candidates that begin with their prompt, which a model then reads twice",
    ]
    words = [{"c": "cat", "t": f"catalogue {label}", "l": label} for label in ("good", "bad")]
    assert "repeated_prompts" not in make_rows(tmp_path, words, **LABELS).report["default"]["accounts"]
