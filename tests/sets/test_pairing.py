"""Pairing: tests are those of the definition in `tests.sets.slow_pairing`, on random tables."""

import random
from collections import Counter

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from nnd_tasks.errors import NNDError
from nnd_tasks.sets.account import describe_accounts
from tests.sets.slow_pairing import slow_tests
from tests.sets.tables import LABELS, left_out, make_csv, make_rows, pick, read_arguments, read_tests, refusal

ARGUMENTS = read_arguments(__file__)

WORDS = ("good", "bad", "ugly", "odd")
MARKS = st.sampled_from([None, "n/a", "skip", *WORDS, *WORDS])
NUMBERS = st.sampled_from([None, "n/a", 1, 2, 3, 4, 4.5, 5])
COLUMNS = {name: st.sampled_from(cells) for name, cells in ARGUMENTS["columns"].items()}


@st.composite
def tables(draw):
    """Draw rows, and the recipe that they are judged by."""
    labels = draw(st.booleans())
    rule = draw(st.sampled_from(ARGUMENTS["label_rules" if labels else "score_rules"]))
    one = MARKS if labels else NUMBERS
    mark = one | st.lists(one, min_size=1, max_size=3)
    rows = draw(st.lists(st.fixed_dictionaries({**COLUMNS, "mark": mark, "other": one}), min_size=3, max_size=14))
    for row in rows:
        row["g"] = row["c"] + draw(st.sampled_from("12"))
    recipe = {"context": "c", "candidate": "t", "system": "system", "missing": ["n/a"], **rule}
    shape = draw(st.sampled_from(ARGUMENTS["shapes"]))
    recipe |= shape if "one" in shape.get("attribute", {}) else {**shape, "label" if labels else "score": "mark"}
    for role in ("rater", "category", "subcategory", "severity"):
        unused = role == "subcategory" and {"attribute", "category"} <= {*recipe}
        recipe |= {role: role} if draw(st.booleans()) and not unused else {}
    if {"category", "subcategory", "severity"} & {*recipe}:
        recipe["several_errors"] = "each"
    recipe |= {"group": "g"} if draw(st.booleans()) else {}
    recipe |= {"candidates": "rows"} if draw(st.booleans()) else {}
    return rows, recipe


@st.composite
def pair_tables(draw):
    """Draw rows of pairs, and their recipe."""
    columns = {name: COLUMNS[name] for name in ("c", "t", "rater", "category", "subcategory", "severity", "system")}
    sides = st.sampled_from(["1", "2", "tie", ""])
    columns |= {"t2": COLUMNS["t"], "system2": COLUMNS["system"], "winner": sides | st.lists(sides, max_size=3)}
    recipe = {"context": "c", "pair": ["t", "t2"], "winner": "winner", "systems": ["system", "system2"]}
    for role in ("rater", "category", "subcategory", "severity"):
        recipe |= {role: role} if draw(st.booleans()) else {}
    return draw(st.lists(st.fixed_dictionaries(columns), min_size=2, max_size=14)), recipe


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Make a folder for the tables of all examples."""
    return tmp_path_factory.mktemp("tables")


@pytest.mark.slow
@settings(max_examples=30)
@given(tables())
def test_tests_are_those_of_the_definition(folder, table):
    rows, recipe = table
    expected, keep = slow_tests(rows, recipe)
    try:
        made = make_rows(folder, rows, **recipe)
    except NNDError as error:
        assume("has the label" not in str(error))
        assert "no test comes out" in str(error), error  # noqa: PT017
        assert not expected
        return
    accounts = made.report["default"]["accounts"]
    assert accounts["rows"]["total"] == len(rows)
    assert len(describe_accounts(accounts)) >= 1 + bool(accounts["pairs"]["left_out"]), "every reason has words"
    ours = read_tests(made)
    assert accounts["pairs"]["used"] == len(
        {tuple(test[name] for name in ("test_id", "high", "low")) for test in ours}
    ) or (recipe.get("several_errors") == "each")
    names = [name for name in expected[0] if not name.endswith("_score")]
    if "majority" in recipe and recipe.get("candidates") == "rows":  # the marks themselves are shown
        names = [name for name in names if not name.endswith("_label")]
    assert pick(ours, *names) == pick(expected, *names)
    for side in ("high_score", "low_score"):
        assert [row[side] for row in ours] == pytest.approx([row[side] for row in expected])
    assert len({row["test_id"] for row in ours}) == len(ours)
    if recipe.get("candidates") == "rows":
        cleaned = read_tests(made, "default_clean") if "default_clean" in made.tables else []
        assert pick(cleaned, "test_id") == [(row["test_id"],) for row, kept in zip(ours, keep, strict=True) if kept]


def conclude(folder, rows, recipe):
    """Build rows, and say what does not depend on their order; None where no test comes out."""
    try:
        made = make_rows(folder, rows, **recipe)
    except NNDError as error:
        assert "mistake of nnd-tasks" not in str(error)  # noqa: PT017
        return None
    accounts = made.report["default"]["accounts"]
    for tally in accounts.values():
        if isinstance(tally, dict):
            tally.pop("examples", None)
    tests = read_tests(made)
    # A mean's last digit follows the order of its sum.
    names = [name for name in tests[0] if name not in ("test_id", "high_first", "low_score", "high_score")]
    return accounts, Counter(map(str, pick(tests, *names))), {test["test_id"] for test in tests}


@pytest.mark.slow
@settings(max_examples=60)
@given(tables() | pair_tables(), st.randoms(use_true_random=False))
@example(
    (
        [{"c": "A", "t": t, "rater": r, "mark": m}
         for t, r, m in [("x", "r1", "good"), ("x", "r1", "bad"), ("x", "r2", "good"), ("y", "r2", "bad")]],
        {"context": "c", "candidate": "t", "label": "mark", "rater": "rater", "better": ["good"]},
    ),
    random.Random(3),
)  # fmt: skip
def test_the_order_of_rows_changes_nothing(folder, table, dice):
    rows, recipe = table
    assert conclude(folder, rows, recipe) == conclude(folder, dice.sample(rows, len(rows)), recipe)


def test_what_is_left_out_is_counted_with_its_rows(tmp_path):
    lines = ["c,t,l,check", "q,a,good,", "q,b,bad,", "q, ,bad,", ",d,bad,", "q,e,n/a,", "q,f,skip,", "q,g,bad,yes"]
    keys = {**LABELS, "missing": "n/a", "ignore": "skip", "leave_out": {"check": "Yes"}}
    made = make_csv(tmp_path, *lines, "other,h,bad,", "q,i,good,", "q,i,bad,", **keys)
    report = made.report["default"]
    rows = {"empty": 4, "no_context": 5, "no_judgement": 6, "ignored": 7, "by_recipe: check = 'Yes'": 8}
    assert left_out(made) == dict.fromkeys(rows, 1)
    assert left_out(made, "candidates") == {"tie": 1, "no_pair": 1}
    assert report["accounts"]["rows"]["examples"] == {reason: [f"table.csv, row {row}"] for reason, row in rows.items()}


def test_prompt_fields_make_prompts_of_their_own_and_stay_as_columns(tmp_path):
    lines = ["c,t,l,f", "q,a,good,1", "q,b,bad,1", "q,a,good,2", "q,b,bad,2"]
    keys = {**LABELS, "field": {"answer": "f"}}
    tests = read_tests(make_csv(tmp_path, *lines, **keys))
    assert pick(tests, "answer", "high", "low") == [("1", "a", "b"), ("2", "a", "b")]
    assert len({test["cluster_id"] for test in tests}) == 2
    with pytest.raises(NNDError, match=r"row 4: the rows of its group do not all have the same context"):
        make_csv(tmp_path, *lines, **keys, group="c")


@pytest.mark.parametrize(("lines", "keys", "message"), ARGUMENTS["a_rule_that_gives_no_test_is_refused_in_one_line"])
def test_a_rule_that_gives_no_test_is_refused_in_one_line(lines, keys, message, tmp_path):
    assert message in refusal(make_csv, tmp_path, *lines, **LABELS | keys)


def test_one_context_with_too_many_candidates_is_refused_before_they_are_compared(tmp_path):
    lines = (f"q,{i},{'good' if i % 2 else 'bad'}" for i in range(40_000))
    with pytest.raises(NNDError, match=r"40,000 candidates in one context; is --context right"):
        make_csv(tmp_path, "c,t,l", *lines, **LABELS)
