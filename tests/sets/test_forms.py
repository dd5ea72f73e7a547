"""The same content gives the same tests in whatever form it comes: cells are read by one function."""

import json
import re

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nnd_tasks.errors import NNDError
from nnd_tasks.sets.build import make_set
from nnd_tasks.sets.catalogue import find_recipe
from tests.sets.tables import left_out, make, make_csv, make_rows, pick, read_tests, refusal, write_rows

CHAT = [{"role": "user", "content": "[0, 1]"}, {"role": "assistant", "content": "é"}, {"role": "user", "content": "?"}]
NAMES = {name: name for name in ("rater", "category", "severity")}
ONE = {"context": "context", "candidate": "candidate", "system": "system", "several_errors": "each", **NAMES}
#: What a judgement may be -> the recipe.
RULES = {
    "labels": (st.sampled_from(["good", "bad", "odd"]), {**ONE, "label": "label", "better": "good"}),
    "scores": (st.integers(1, 5), {**ONE, "score": "score", "min_gap": 1}),
    "winners": (st.sampled_from(["A", "B", "tie"]),
                {"context": "context", "pair": ["candidate", "other"], "winner": "winner", **NAMES}),
}  # fmt: skip
PREPARE = """import pandas as pd


def rows(folder):
    return pd.read_parquet(folder / "table.parquet")
"""


@st.composite
def tables(draw, rule):
    """Draw rows; the cells of a column are all lists or all none."""
    judgement, recipe = RULES[rule]
    [role] = {"label", "score", "winner"} & {*recipe}
    columns = {
        "context": st.just(CHAT) if draw(st.booleans()) else st.sampled_from(["(Q)", "R"]),
        "candidate": st.sampled_from(["a", "[0, 1]", "c"]),
        "other": st.sampled_from(["b", "{d}"]),
        "system": st.lists(st.sampled_from("xyz"), max_size=2),
        role: judgement,
        "rater": st.sampled_from("rst"),
    }
    if draw(st.booleans()):
        votes = st.lists(st.tuples(judgement, columns["rater"]), max_size=3)
        columns |= {role: votes.map(lambda pairs: [one for one, _ in pairs]), "rater": st.just("r")}
    kinds = st.sampled_from(["K", "L"])
    columns["category"] = st.lists(kinds, max_size=2) if draw(st.booleans()) else kinds
    columns["severity"] = kinds
    used = {"other", *recipe} if "pair" in recipe else {*recipe}
    columns = {name: cells for name, cells in columns.items() if name in used | {"candidate"}}
    return draw(st.lists(st.fixed_dictionaries(columns), min_size=2, max_size=8))


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
    """Give tests and accounts; None where no test comes out."""
    try:
        made = call(*arguments, **keys)
    except NNDError as error:
        assert re.search("no test comes out|no candidate has the label", str(error)), error  # noqa: PT017
        return None
    return read_tests(made), left_out(made)


@pytest.mark.slow
@settings(max_examples=10)
@given(st.data())
@pytest.mark.parametrize("rule", RULES)
def test_the_same_content_gives_the_same_tests_in_every_form(rule, tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("forms")
    rows = data.draw(tables(rule))
    recipe = RULES[rule][1]
    expected = conclude(make, write_rows(folder / "table.jsonl", rows), **recipe)
    for path in write_forms(folder, rows):
        assert conclude(make, path, **recipe) == expected, path.suffix
    if rule != "winners":  # those of a prepare.py have better and worse text
        (folder / "prepare.py").write_text(PREPARE, "utf-8")
        keys = {key: value for key, value in recipe.items() if key in ("better", "min_gap", "several_errors")}
        (folder / "_recipe").write_text(json.dumps({"files": {"table.parquet": {}}, **keys}), "utf-8")
        assert conclude(make_set, find_recipe(str(folder)), trust=True) == expected


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
    assert "no test comes out" in refusal(make_rows, tmp_path, rows, **keys, better="good"), "two of four raters"


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
