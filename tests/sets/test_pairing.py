"""Judged candidates become the pairs that the definition in `tests.sets.slow_pairing` forms, on random tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nnd_tasks.errors import NNDError
from tests.sets.slow_pairing import slow_tests
from tests.sets.tables import LABELS, make_rows, pick, read_tests

WORDS = ("good", "bad", "ugly", "odd")
MARKS = st.sampled_from([None, "n/a", "skip", *WORDS, *WORDS])
NUMBERS = st.sampled_from([None, "n/a", 1, 2, 3, 4, 4.5, 5])
COLUMNS = {
    "c": st.sampled_from("AB"),
    "t": st.sampled_from(["x", "x ", "y", "z", " ", "é"]),
    "system": st.sampled_from(["s1", "s2"]),
    "rater": st.sampled_from(["r1", "r2", "r3", ""]),
    "category": st.sampled_from(["K", "L"]),
    "subcategory": st.sampled_from(["p", "q"]),
    "severity": st.sampled_from(["minor", "major"]),
    "name": st.sampled_from(["one", "two"]),
}
LABEL_RULES: list[dict[str, Any]] = [
    {"better": ["good"]},
    {"better": ["good", "ugly"], "ignore": ["skip"]},
    {"better": ["", "good"]},
    {"order": [["bad"], ["odd", "ugly"], ["good"]], "ignore": ["skip"]},
    {"order": [["bad"], ["good"]]},
]
SCORE_RULES: list[dict[str, Any]] = [
    {"min_gap": 1},
    {"min_gap": 0.5},
    {"majority": True},
    {"majority": True, "best": 4.0},
]
#: What a rule is combined with -> the keys; "mark" stands for the role label or score.
SHAPES: list[dict[str, Any]] = [{}, {"attribute": {"name": "name"}}, {"attribute": {"one": "mark", "two": "other"}}]


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return rows, and the recipe that they are judged by."""
    labels = draw(st.booleans())
    rule = draw(st.sampled_from(LABEL_RULES if labels else SCORE_RULES))
    one = MARKS if labels else NUMBERS
    mark = one | st.lists(one, min_size=1, max_size=3) if not labels else one
    rows = draw(st.lists(st.fixed_dictionaries({**COLUMNS, "mark": mark, "other": one}), min_size=3, max_size=14))
    for row in rows:
        row["g"] = row["c"] + draw(st.sampled_from("12"))
    recipe: dict[str, Any] = {"context": "c", "candidate": "t", "system": "system", "missing": ["n/a"], **rule}
    shape = draw(st.sampled_from(SHAPES))
    recipe |= shape if "one" in shape.get("attribute", {}) else {**shape, "label" if labels else "score": "mark"}
    for role in ("rater", "category", "subcategory", "severity"):
        recipe |= {role: role} if draw(st.booleans()) else {}
    recipe |= {"group": "g"} if draw(st.booleans()) else {}
    recipe |= {"candidates": "rows"} if draw(st.booleans()) else {}
    return rows, recipe


@settings(max_examples=200)
@given(tables())
def test_tests_are_those_of_the_definition(
    tmp_path_factory: pytest.TempPathFactory, table: tuple[list[dict[str, Any]], dict[str, Any]]
) -> None:
    rows, recipe = table
    expected, keep = slow_tests(rows, recipe)
    try:
        made = make_rows(tmp_path_factory.mktemp("t"), rows, **recipe)
    except NNDError as error:
        assume("has the label" not in str(error) and "has this label" not in str(error))
        assert "no test comes out" in str(error), error  # noqa: PT017
        assert not expected
        return
    ours = read_tests(made)
    names = [name for name in expected[0] if not name.endswith("_score")]
    if "majority" in recipe and recipe.get("candidates") == "rows":  # the marks themselves are shown
        names = [name for name in names if not name.endswith("_label")]
    assert pick(ours, *names) == pick(expected, *names)
    for side in ("high_score", "low_score"):
        assert [row[side] for row in ours] == pytest.approx([row[side] for row in expected])
    assert len({row["test_id"] for row in ours}) == len(ours)
    if recipe.get("candidates") == "rows":
        cleaned = read_tests(made, "default_clean") if "default_clean" in made.tables else []
        assert [row["test_id"] for row in cleaned] == [
            row["test_id"] for row, kept in zip(ours, keep, strict=True) if kept
        ]


@settings(max_examples=40)
@given(tables(), st.randoms(use_true_random=False))
def test_pairs_do_not_depend_on_the_order_of_rows(
    tmp_path_factory: pytest.TempPathFactory, table: tuple[list[dict[str, Any]], dict[str, Any]], draw: Any
) -> None:
    rows, recipe = table
    assume(slow_tests(rows, recipe)[0])
    recipe.pop("category", None)  # of equal texts that of the first row counts
    shuffled = draw.sample(rows, len(rows))
    folder = tmp_path_factory.mktemp("t")
    try:
        sets = [
            {(r["context_id"], r["high"], r["low"]) for r in read_tests(make_rows(folder, one, **recipe))}
            for one in (rows, shuffled)
        ]
    except NNDError as error:
        assume("label" not in str(error))
        raise
    assert sets[0] == sets[1]


ROWS = [{"c": "q", "t": "a", "l": "good"}, {"c": "q", "t": "b", "l": "bad"}]


def test_what_is_left_out_is_counted_with_its_rows(tmp_path: Path) -> None:
    rows = [
        *ROWS,
        {"c": "q", "t": " ", "l": "bad"},
        {"c": "", "t": "d", "l": "bad"},
        {"c": "q", "t": "e", "l": "n/a"},
        {"c": "q", "t": "f", "l": "skip"},
        {"c": "q", "t": "g", "l": "bad", "check": "yes"},
        {"c": "other", "t": "h", "l": "bad"},
        *({"c": "q", "t": "i", "l": label} for label in ("good", "bad")),
    ]
    report = make_rows(
        tmp_path, rows, **LABELS, missing="n/a", ignore="skip", leave_out={"check": ["Yes"]}
    ).report["default"]  # fmt: skip
    reasons = ("empty", "no_context", "no_judgement", "ignored", "by_recipe", "no_pair", "tie")
    assert {name: report["dropped"].get(name) for name in reasons} == dict.fromkeys(reasons, 1)
    assert [place.rsplit(" ", 1)[1] for name in reasons[:4] for place in report["dropped_rows"][name]] == [
        "3",
        "4",
        "5",
        "6",
    ]


def test_prompt_fields_make_prompts_of_their_own_and_stay_as_columns(tmp_path: Path) -> None:
    rows = [{**row, "f": f} for f in ("1", "2") for row in ROWS]
    tests = read_tests(make_rows(tmp_path, rows, **LABELS, field={"answer": "f"}))
    assert pick(tests, "answer", "high", "low") == [("1", "a", "b"), ("2", "a", "b")]
    assert len({test["cluster_id"] for test in tests}) == 2
    with pytest.raises(NNDError, match=r"line 3: the rows of its group do not all have the same context"):
        make_rows(tmp_path, rows, **LABELS, field={"answer": "f"}, group="c")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"better": "best"}, "no candidate has the label 'best'; the labels are 'bad', 'good'"),
        ({"better": ["Good"]}, "Good"),
        ({"better": None, "order": ["bad", "Good"]}, "the rule lacks the label 'good'; name it too"),
        ({"better": None}, "names no rule"),
        (
            {"better": None, "label": None, "score": "l", "min_gap": 1},
            "line 1, column 'l': expected a number, found 'good'",
        ),
        ({"context": "t"}, "no test comes out: no context has two candidates"),
    ],
)
def test_a_rule_that_does_not_fit_is_refused_in_one_line(keys: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(NNDError) as caught:
        make_rows(tmp_path, ROWS, **{key: value for key, value in {**LABELS, **keys}.items() if value is not None})
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_labels_beyond_the_order_are_left_out_and_named(tmp_path: Path) -> None:
    made = make_rows(
        tmp_path, [*ROWS, {"c": "q", "t": "z", "l": "???"}], **{**LABELS, "better": []}, order=["bad", "good"]
    )
    assert made.report["default"]["unranked_labels"] == ["???"]
    assert len(read_tests(made)) == 1


def test_one_context_with_too_many_candidates_is_refused_before_they_are_compared(tmp_path: Path) -> None:
    rows = ({"c": "q", "t": str(i), "l": "good" if i % 2 else "bad"} for i in range(40_000))
    with pytest.raises(NNDError, match=r"40,000 candidates in one context; is --context right"):
        make_rows(tmp_path, rows, **LABELS)


# ---------------------------------------------------------------- spans

TEXT = "The mill stood stil and stood."


@pytest.mark.parametrize(
    ("cell", "keys", "expected"),
    [
        ([{"start": 4, "end": 8, "category": "K", "severity": "minor"}], {}, ["mill"]),
        (json.dumps([{"start": 4, "end": 8}]), {}, ["mill"]),
        ({"from": 4, "to": 7}, {"start": "from", "end": "to", "end_inside": True}, ["mill"]),
        ([[4, 8], [9, 14]], {}, ["mill", "stood"]),
        ([4, 8], {}, ["mill"]),
        (["STIL  and"], {}, ["stil and"]),
        ([{"start": 22, "end": 27, "text": "stood"}], {}, ["stood"]),
        ("nowhere", {}, []),
        ([{"start": 4, "end": 99}], {}, []),
        (None, {}, []),
    ],
)
def test_spans_by_place_and_by_words(cell: Any, keys: dict[str, Any], expected: list[str], tmp_path: Path) -> None:
    rows = [{"c": "q", "t": "a", "l": "good"}, {"c": "q", "t": TEXT, "l": "bad", "s": cell}]
    made = make_rows(tmp_path, rows, **LABELS, spans={"column": "s", **keys})
    [test] = made.tables["default"].to_pylist()
    assert [TEXT[span["start"] : span["end"]] for span in test.get("low_spans") or []] == expected
    assert any("error span" in note for note in made.notes) == (not expected and cell is not None)
    if isinstance(cell, list) and isinstance(cell[0], dict) and "severity" in cell[0]:
        assert pick(test["low_spans"], "category", "severity") == [("K", "minor")]
    if isinstance(cell, list) and isinstance(cell[0], dict) and "text" in cell[0]:
        assert test["low_spans"][0]["start"] == TEXT.rindex("stood")


@pytest.mark.parametrize("cell", [[4, 9, 12], "[4, 9, 12]", 4, [[4, 9], [4]], [[4, 9, "minor"]]])
def test_what_is_no_span_is_refused_with_its_row(cell: Any, tmp_path: Path) -> None:
    rows = [{"c": "q", "t": "a", "l": "good"}, {"c": "q", "t": TEXT, "l": "bad", "s": cell}]
    with pytest.raises(NNDError, match=r"table.jsonl, line 2: .* is no error span; write an object") as caught:
        make_rows(tmp_path, rows, **LABELS, spans={"column": "s"})
    assert "\n" not in str(caught.value)


def test_spans_of_two_columns_of_marks_and_of_several_raters(tmp_path: Path) -> None:
    good = {"c": "q", "t": "a", "l": "good"}
    bad = [{"c": "q", "t": TEXT, "l": "bad", "from": start, "to": end} for start, end in ((9, 14), (4, 8), (9, 14))]
    [test] = (
        make_rows(tmp_path, [good, *bad], **LABELS, spans={"start": "from", "end": "to"}).tables["default"].to_pylist()
    )
    assert pick(test["low_spans"], "start", "end") == [(4, 8), (9, 14)]
    bad = [{"c": "q", "t": "The <v>mill</v> stood <v>stil", "l": "bad"}]
    [test] = make_rows(tmp_path, [good, *bad], **LABELS, spans={"marks": ["<v>", "</v>"]}).tables["default"].to_pylist()
    assert (test["low"], pick(test["low_spans"], "start", "end")) == ("The mill stood stil", [(4, 8), (15, 19)])
