"""Lists in a table where a recipe takes them for one text: what the user is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nnd_tasks.errors import NNDError
from nnd_tasks.new.keep import build_recipe

PAIRS: list[dict[str, Any]] = [
    {
        "q": f"{n}?",
        "good": ["yes"],
        "bad": [{"text": "no", "kind": "a"}, {"text": "so", "kind": "b"}],
        "all": ["a", "b"],
    }
    for n in range(3)
]
JUDGED: list[dict[str, Any]] = [
    {"q": "Two?", "text": "2", "errors": []},
    {"q": "Two?", "text": "3", "errors": [{"kind": "count", "from": 0, "to": 1}]},
]


def built(home: Path, table: list[dict[str, Any]], **recipe: object) -> tuple[str, dict[str, int]]:
    """Return the notes of a build, joined, and the number of tests per category."""
    (home / "mine").mkdir()
    (home / "mine/_recipe").write_text(json.dumps(recipe), encoding="utf-8")
    (home / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table), encoding="utf-8")
    result, _ = build_recipe(str(home / "mine/_recipe"), home / "rows.jsonl")
    return "; ".join(result.notes), result.built[0].categories


@pytest.mark.parametrize("rows", [None, "bad[]"])
def test_a_list_that_is_joined_beside_a_single_text_is_said(nnd_home: Path, tmp_path: Path, rows: str | None) -> None:
    recipe = {"context": "q", "chosen": "good", "rejected": "bad[].text", **({"rows": rows} if rows else {})}
    notes, counts = built(tmp_path, PAIRS, **recipe)
    assert ("lists of several texts are joined to one text" in notes and "bad[]" in notes) == (rows is None)
    assert counts == {"preference": 6 if rows else 3}


def test_lists_of_steps_on_both_sides_need_no_note(nnd_home: Path, tmp_path: Path) -> None:
    rows = [{"q": "1?", "good": ["a", "b"], "bad": ["a", "c"]}, {"q": "2?", "good": ["a"], "bad": ["a", "c"]}]
    assert built(tmp_path, rows, context="q", chosen="good", rejected="bad")[0] == ""


@pytest.mark.parametrize("choice", [{}, {"list_category": {"none": "none", "several": "several"}}])
def test_categories_that_are_lists_are_said(nnd_home: Path, tmp_path: Path, choice: dict[str, object]) -> None:
    recipe = {"context": "q", "chosen": "good[0]", "rejected": "bad[0].text", "category": "all", **choice}
    notes, counts = built(tmp_path, PAIRS, **recipe)
    assert ("categories are lists, such as" in notes) != bool(choice)
    assert counts == {"several" if choice else "a\nb": 3}


@pytest.mark.parametrize("wrong", ["errors", "errors.kind", "errors[0].kind"])
def test_a_name_that_misses_the_items_of_a_list_is_an_error(nnd_home: Path, tmp_path: Path, wrong: str) -> None:
    recipe = {"context": "q", "candidate": "text", "label": "errors[].kind", "better": [""], "rows": "errors[]?"}
    with pytest.raises(NNDError, match=r"item of 'errors'; in 'errors.*' write errors\[\] in place of errors"):
        built(tmp_path, JUDGED, **recipe, severity=wrong)
    (tmp_path / "mine/_recipe").write_text(
        "context: q\nspans: {column: errors[], start: a, end: b}\n", encoding="utf-8"
    )
    with pytest.raises(NNDError, match=r"in line 2\); within \{\}, a name with \[\] needs quotes"):
        build_recipe(str(tmp_path / "mine/_recipe"), tmp_path / "rows.jsonl")


def test_spans_of_which_none_is_found_and_a_forgotten_question_mark_are_explained(
    nnd_home: Path, tmp_path: Path
) -> None:
    recipe = {"context": "q", "candidate": "text", "label": "errors[].kind", "better": [""], "rows": "errors[]?"}
    notes, counts = built(tmp_path, JUDGED, **recipe, spans={"column": "errors[]", "start": "begin", "end": "to"})
    assert "not one does: are the names in `spans` those of the table?): 1 of 1 error span" in notes
    assert counts == {"count": 1}
    (tmp_path / "mine/_recipe").write_text(json.dumps({**recipe, "rows": "errors[]"}), encoding="utf-8")
    with pytest.raises(
        NNDError, match=r"1 row whose list is empty.*a \? behind the list in `rows` keeps texts without"
    ):
        build_recipe(str(tmp_path / "mine/_recipe"), tmp_path / "rows.jsonl", replace=True)
