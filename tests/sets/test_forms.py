"""The same content gives the same tests in whatever form it comes: cells are read by one function."""

import json

import pandas as pd
import pytest

from nnd_tasks.sets.build import make_set
from nnd_tasks.sets.catalogue import find_recipe
from tests.sets.tables import left_out, make, make_csv, make_rows, pick, read_tests, refusal, write_rows

CHAT = [{"role": "user", "content": "[0, 1]"}, {"role": "assistant", "content": "é"}, {"role": "user", "content": "?"}]
NAMES = {name: name for name in ("context", "rater", "category", "severity")}
ONE = {**NAMES, "candidate": "candidate", "system": "system", "several_errors": "each"}
#: What a judgement may be -> the recipe.
RULES = {
    "label": {**ONE, "label": "label", "better": "good"},
    "score": {**ONE, "score": "score", "min_gap": 1},
    "winner": {**NAMES, "pair": ["candidate", "other"], "winner": "winner"},
}
#: A candidate, who wrote it, labels, scores, winners and raters, and the categories of its errors.
CELLS = [
    ("a", ["x"], ["good", "bad", "good"], [4, 5], ["A", "B", "A"], []),
    ("[0, 1]", ["x", "y"], ["bad"], [1, 2, 3], ["B"], ["K"]),
    ("c", [], ["odd", "bad"], [2], ["tie"], ["K", "L"]),
]
PREPARE = """import pandas as pd


def rows(folder):
    return pd.read_parquet(folder / "table.parquet")
"""


def list_rows(role, context):
    """List rows of one context, judged by several raters."""
    names = ("candidate", "system", "label", "score", "winner", "category")
    rows = [
        {"context": context, "other": "{d}", "severity": "minor", **dict(zip(names, cells, strict=True))}
        for cells in CELLS
    ]
    rows = [{**row, "rater": ["r", "s", "t"][: len(row[role])]} for row in rows]
    used = {*RULES[role], *(["other"] if role == "winner" else [])}
    return [{name: cell for name, cell in row.items() if name in used | {"candidate"}} for row in rows]


def write_forms(folder, rows):
    """Write rows in each form of a table; lists in cells as JSON, or as pandas writes them."""
    frame = pd.DataFrame(rows)
    frame.to_csv(folder / "table.csv", index=False)
    texts = frame.map(lambda cell: json.dumps(cell) if isinstance(cell, list) else cell)
    texts.to_csv(folder / "table.tsv", index=False, sep="\t")
    texts.to_excel(folder / "table.xlsx", index=False)
    (folder / "table.json").write_text(json.dumps(rows), "utf-8")
    frame.to_parquet(folder / "table.parquet")
    return [folder / f"table.{ending}" for ending in ("csv", "tsv", "xlsx", "json", "parquet")]


def conclude(call, *arguments, **keys):
    made = call(*arguments, **keys)
    return read_tests(made), left_out(made)


@pytest.mark.parametrize("context", [CHAT, "(Q)"])
@pytest.mark.parametrize("role", RULES)
def test_the_same_content_gives_the_same_tests_in_every_form(role, context, tmp_path):
    rows, recipe = list_rows(role, context), RULES[role]
    expected = conclude(make, write_rows(tmp_path / "table.jsonl", rows), **recipe)
    for path in write_forms(tmp_path, rows):
        assert conclude(make, path, **recipe) == expected, path.suffix
    if role != "winner":  # those of a prepare.py have better and worse text
        (tmp_path / "prepare.py").write_text(PREPARE, "utf-8")
        keys = {key: value for key, value in recipe.items() if key in ("better", "min_gap", "several_errors")}
        (tmp_path / "_recipe").write_text(json.dumps({"files": {"table.parquet": {}}, **keys}), "utf-8")
        assert conclude(make_set, find_recipe(str(tmp_path)), trust=True) == expected


def test_a_list_holds_judgements_side_by_side_with_their_raters(tmp_path):
    """Each counts once for its rater, and a row once in the accounts; errors in a list count for one judgement."""
    rows = [
        {"c": "q", "t": "a", "l": ["good", "bad", "good"], "who": ["r", "s", "t"], "k": []},
        {"c": "q", "t": "a", "l": "bad", "who": ["s", "u"], "k": ["K"]},
        {"c": "q", "t": "b", "l": ["bad"], "who": ["r"], "k": ["K", "L"]},
    ]
    keys = {"context": "c", "candidate": "t", "label": "l", "rater": "who", "category": "k", "several_errors": "each"}
    made = make_rows(tmp_path, [rows[0], *rows[2:]], **keys, better="good")
    assert pick(read_tests(made), "high", "low", "category", "rater") == [("a", "b", "K", "r"), ("a", "b", "L", "r")]
    assert made.report["default"]["accounts"]["rows"]["total"] == 2
    assert made.report["default"]["accounts"]["judgements"]["total"] == 4
    assert "1 item of label beside 2 items of rater" in refusal(make_rows, tmp_path, rows, **keys, better="good")


def test_winners_in_a_list_are_votes(tmp_path):
    keys = {"context": "c", "pair": ["x", "y"], "winner": "w"}
    made = make_csv(tmp_path, "c,x,y,w", 'q,a,b,"[""A"", ""B"", ""B""]"', "q,c,d,['tie']", **keys)
    assert pick(read_tests(made), "high", "low") == [("b", "a")]
    assert left_out(made) == {"undecided": 1}


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (
            '"[1, 2]","[""r"", ""s"", ""t""]"',
            "row 3: 2 items of score beside 3 items of rater; lists in one row need the",
        ),
        ('"[1, [2]]",r', "row 3, column 'score': a list within a list"),
    ],
)
def test_lists_that_do_not_fit_are_refused_with_their_row(cells, message, tmp_path):
    keys = {"context": "c", "candidate": "t", "score": "s", "rater": "who", "min_gap": 1}
    assert message in refusal(make_csv, tmp_path, "c,t,s,who", "q,a,1,r", f"q,b,{cells}", **keys)


def test_a_row_with_any_item_of_leave_out_is_left_out(tmp_path):
    cells = [("a", 1, []), ("b", 2, ["x", "spam"]), ("d", 3, ["y"])]
    rows = [{"c": "q", "t": text, "s": score, "flags": flags} for text, score, flags in cells]
    made = make_rows(tmp_path, rows, context="c", candidate="t", score="s", min_gap=1, leave_out={"flags": "spam"})
    assert left_out(made) == {"by_recipe: flags = 'spam'": 1}
