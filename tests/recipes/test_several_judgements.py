"""Candidates with several judgements: what goes with the judgement that counts, and who counts how often. All counted by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from nnd_tasks.recipes.make import make_tests, tables_of
from nnd_tasks.recipes.parse import make_recipe

CONTEXT = {"context": "q", "candidate": "a"}


def formed(files: dict[str, Path], **recipe: Any) -> list[dict[str, Any]]:
    """Return the tests of one config that a recipe makes of files."""
    made = make_recipe({**CONTEXT, **recipe})
    [table] = tables_of("some", made, files, {}).values()
    found = make_tests(table, made)
    rows: list[dict[str, Any]] = found.table.to_pylist()
    return rows


def csv(path: Path, *rows: dict[str, Any]) -> dict[str, Path]:
    """Write rows as a CSV; return it as the files of a set."""
    pd.DataFrame(rows).to_csv(path, index=False)
    return {path.name: path}


def test_the_category_is_that_of_the_label_which_most_raters_give(tmp_path: Path) -> None:
    marks = ["Accuracy/Mistranslation", "Accuracy/Mistranslation", "Fluency/Grammar"]
    rows = [{"q": "Q", "a": "good", "l": "No-error", "r": rater} for rater in "xyz"]
    for order in (marks, marks[::-1]):
        bad = [{"q": "Q", "a": "bad", "l": mark, "r": rater} for mark, rater in zip(order, "xyz", strict=True)]
        files = csv(tmp_path / "t.csv", *rows, *bad)
        [test] = formed(files, label="l", rater="r", better=["No-error"], separator="/")
        assert (test["high"], test["low"], test["category"]) == ("good", "bad", "Accuracy")
        assert test["subcategory"] == "Accuracy/Mistranslation"


def test_of_a_list_of_labels_the_one_that_counts_names_the_category(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    lines = [
        {"q": "Q", "a": "good", "l": ["fine", "fine", "fine"]},
        {"q": "Q", "a": "bad", "l": ["acc/x", "acc/x", "style/y"]},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    [test] = formed({path.name: path}, label="l", better=["fine"], separator="/")
    assert (test["category"], test["subcategory"]) == ("acc", "acc/x")


def test_a_label_without_a_category_leaves_out_its_own_attribute_only(tmp_path: Path) -> None:
    rows = [
        {"q": "Q", "a": "one", "adequacy": "ok", "fluency": "ok"},
        {"q": "Q", "a": "two", "adequacy": "odd", "fluency": "rough"},
        {"q": "Q", "a": "three", "adequacy": "lie", "fluency": "rough"},
    ]
    found = formed(
        csv(tmp_path / "t.csv", *rows),
        attribute=["adequacy", "fluency"],
        better=["ok"],
        categories={"odd": None, "rough": "Fluency", "lie": "Adequacy"},
    )
    assert sorted((test["low"], test["category"]) for test in found) == [
        ("three", "adequacy"),
        ("three", "fluency"),
        ("two", "fluency"),
    ]


def test_severity_is_that_of_a_judgement_which_counts(tmp_path: Path) -> None:
    judged = [("fine", "none"), ("lie", "major"), ("lie", "minor")]
    rows = [{"q": "Q", "a": "good", "l": "fine", "s": "none", "r": rater} for rater in "xyz"]
    rows += [{"q": "Q", "a": "bad", "l": one, "s": how, "r": r} for (one, how), r in zip(judged, "xyz", strict=True)]
    [test] = formed(csv(tmp_path / "t.csv", *rows), label="l", rater="r", severity="s", better=["fine"])
    assert test["severity"] == "major"


@pytest.mark.parametrize("shift", [0, 1])
def test_a_rater_counts_once_wherever_the_rows_stand(tmp_path: Path, shift: int) -> None:
    """Rater r1 gives 5 and 1, r2 and r3 give 3: the mean of the three is 3, not that of four marks."""
    one = [{"q": "Q", "a": "a", "s": 5, "r": "r1"}, {"q": "Q", "a": "a", "s": 3, "r": "r2"}]
    other = [{"q": "Q", "a": "a", "s": 1, "r": "r1"}, {"q": "Q", "a": "a", "s": 3, "r": "r3"}]
    filler = [{"q": "Z", "a": "z", "s": 3, "r": "r9"}] * shift
    last = [{"q": "Q", "a": "b", "s": 1, "r": rater} for rater in ("r1", "r2", "r3")]
    files = {**csv(tmp_path / "one.csv", *one), **csv(tmp_path / "two.csv", *filler, *other, *last)}
    [test] = formed(files, score="s", rater="r", min_gap=1)
    assert (test["high"], test["high_score"], test["low_score"]) == ("a", 3.0, 1.0)


def test_a_rater_counts_once_in_lists_that_are_taken_apart(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    votes = [{"r": "r1", "s": 5}, {"r": "r1", "s": 1}, {"r": "r2", "s": 3}]
    outs = [{"a": "a", "j": votes}, {"a": "b", "j": [{"r": "r1", "s": 1}]}]
    path.write_text(json.dumps([{"q": "Q", "outs": outs}]))
    [test] = formed(
        {path.name: path},
        candidate="outs[].a", rows="outs[].j[]", score="outs[].j[].s", rater="outs[].j[].r", min_gap=1,
    )  # fmt: skip
    assert (test["high_score"], test["low_score"]) == (3.0, 1.0)


def test_spans_of_all_rows_of_a_candidate_are_kept(tmp_path: Path) -> None:
    rows = [
        {"q": "Q", "a": "all is well", "l": "fine", "from": None, "to": None},
        {"q": "Q", "a": "all is bad", "l": "lie", "from": 7, "to": 10},
        {"q": "Q", "a": "all is bad", "l": "lie", "from": 0, "to": 3},
        {"q": "Q", "a": "all is bad", "l": "fine", "from": None, "to": None},
    ]
    files = csv(tmp_path / "t.csv", *rows)
    [test] = formed(files, label="l", better=["fine"], spans={"start": "from", "end": "to"})
    assert [(span["start"], span["end"]) for span in test["low_spans"]] == [(0, 3), (7, 10)]


def test_rows_left_out_and_marks_missing_by_number(tmp_path: Path) -> None:
    """A column with an empty cell holds 1.0 where the publisher wrote 1."""
    path = tmp_path / "t.parquet"
    rows = [("a", 5.0, None), ("b", 2.0, None), ("c", 1.0, 1.0), ("d", -1.0, None)]
    table = pd.DataFrame([{"q": "Q", "a": text, "s": score, "check": check} for text, score, check in rows])
    table.to_parquet(path)
    found = formed({path.name: path}, score="s", min_gap=1, leave_out={"check": [1]}, missing=[-1])
    assert [(test["high"], test["low"]) for test in found] == [("a", "b")]


def test_missing_is_the_same_in_any_case_for_labels(tmp_path: Path) -> None:
    rows = [{"q": "Q", "a": text, "l": label} for text, label in (("a", "ok"), ("b", "bad"), ("c", "N.A."))]
    found = formed(csv(tmp_path / "t.csv", *rows), label="l", better=["ok"], missing=["n.a."])
    assert [test["low"] for test in found] == ["b"]


def test_labels_of_a_recipe_are_compared_in_nfc(tmp_path: Path) -> None:
    rows = [{"q": "Q", "a": text, "l": label} for text, label in (("a", "gro\u00df gut \u00e9"), ("b", "bad"))]
    found = formed(csv(tmp_path / "t.csv", *rows), label="l", better=["gro\u00df gut e\u0301"])
    assert [test["high"] for test in found] == ["a"]


def test_thousands_with_underscores_are_no_numbers() -> None:
    from nnd_tasks.errors import NNDError
    from nnd_tasks.recipes.cells import Numbers

    with pytest.raises(NNDError, match="expected a number, found '1_000'"):
        Numbers().read(pa.array(["1_000"]), lambda i: f"row {i}")
