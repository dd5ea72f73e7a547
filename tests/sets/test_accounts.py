"""Rows read are rows used and rows left out for a reason (`nnd_tasks.sets.account`), whatever the file is."""

import json

import pandas as pd
import pytest

from nnd_tasks.errors import NNDError
from nnd_tasks.sets.account import describe_accounts, tally_table
from tests.sets.tables import LABELS, left_out, make, make_csv, make_rows

SCORES = {"context": "c", "candidate": "t", "score": "s", "min_gap": 1}
ASPECTS = ["c,t,k,s", "q,a,fluency,5", "q,a,meaning,1", "q,b,fluency,1", "q,b,meaning,4"]


LABELLED = ["c,t,k,l,u", "q,a,fluency,good,[]", "q,a,meaning,bad,[]", "q,b,fluency,bad,[]", "q,b,meaning,good,[]"]


@pytest.mark.parametrize(
    ("lines", "keys", "message"),
    [
        *((ASPECTS, {**SCORES, "min_gap": 0.5, role: "k"}, f"row 2: judgements of one candidate differ in {role} .'fluency'")
          for role in ("category", "subcategory", "severity")),
        (LABELLED, {**LABELS, "category": "k"}, "row 2: .* differ in category .'fluency', 'meaning'.; --attribute k judges"),
        (LABELLED, LABELS, "if of several aspects, name their column with --attribute"),
        (LABELLED, {**LABELS, "attribute": "u"}, "row 2, column 'u': a list of attributes; make a row of each in prepare.py"),
    ],
)  # fmt: skip
def test_judgements_that_differ_are_never_the_first_one_or_a_tie_unsaid(lines, keys, message, tmp_path):
    with pytest.raises(NNDError, match=message):
        make_csv(tmp_path, *lines, **keys)


def test_scores_that_differ_are_told(tmp_path):
    made = make_csv(tmp_path, "c,t,s", "q,a,5", "q,a,1", "q,b,1", **SCORES)
    line = "1 candidate judged differently by several: the mean of their scores counts"
    assert line in describe_accounts(made.report["default"]["accounts"], on_card=True)


def test_what_a_judgement_lacks_beside_others_of_its_row_is_no_row(tmp_path):
    lines = ["c,t,x,y", "q,a,5,4", "q,b,1,", "q,d,,"]
    made = make_csv(tmp_path, *lines, context="c", candidate="t", attribute=["x", "y"], min_gap=1)
    assert left_out(made) == {"no_judgement": 1}
    assert left_out(made, "judgements") == {"no_judgement": 1}


def test_a_value_that_one_of_several_files_has_is_known(tmp_path):
    for name, check in (("one", "no"), ("two", "yes")):
        lines = ["c,t,l,check", f"{name},a,good,no", f"{name},b,bad,no", f"{name},d,bad,{check}"]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines), encoding="utf-8")
    made = make(tmp_path, **LABELS, config="@file", leave_out={"check": ["yes", "maybe"]})
    assert [left_out(made, config=config) for config in ("one", "two")] == [{}, {"by_recipe: check = 'yes'": 1}]
    assert made.notes == ["`leave_out` names check = 'maybe', which no row has"]


def test_rows_that_nothing_accounts_for_are_an_error_of_ours():
    rows = pd.DataFrame({"exclusion": ["", "lost"], "where": ["1", "2"]})
    with pytest.raises(RuntimeError, match="of 2 rows, 1 are used and 0 left out"):
        tally_table(rows, "row")


def test_a_build_says_why_rows_are_left_out(nnd, tmp_path):
    (tmp_path / "t.csv").write_text("\n".join([*ASPECTS, "q,c,,3"]), encoding="utf-8")
    recipe = "context: c\ncandidate: t\nscore: s\nmin_gap: 1\nattribute: k\nfiles: {t.csv: {}}\n"
    (tmp_path / "_recipe").write_text(recipe, encoding="utf-8")
    folder = tmp_path / "out"
    line = "5 rows read = 4 used + 1 left out: 1 row with an empty attribute"
    assert f"default: {line} (such as t.csv, row 6)" in nnd("build", tmp_path / "_recipe", "--out", folder).out
    assert f"- `default`: {line}." in (folder / "README.md").read_text("utf-8")
    accounts = json.loads((folder / "build_report.json").read_text("utf-8"))["default"]["accounts"]
    assert accounts["rows"]["left_out"] == {"no_attribute": 1}


def test_a_row_with_several_judgements_is_one_example(tmp_path):
    rows = [{"c": "q", "t": "a", "s": [None, None, 3]}, {"c": "q", "t": "b", "s": [1, None]}]
    made = make_rows(tmp_path, rows, context="c", candidate="t", score="s", min_gap=1)
    examples = made.report["default"]["accounts"]["judgements"]["examples"]
    assert examples == {"no_judgement": ["table.jsonl, line 1", "table.jsonl, line 2"]}
