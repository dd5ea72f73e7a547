"""What the language of recipes says of comments, winners, lists and error spans, on files that no set of ours has."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nnd_tasks.datasets import read_table
from nnd_tasks.errors import NNDError
from nnd_tasks.recipes.base_table import Table
from nnd_tasks.recipes.cells import unpacked
from nnd_tasks.recipes.make import Made, make_tests
from nnd_tasks.recipes.parse import make_recipe
from nnd_tasks.recipes.readers import open_table
from nnd_tasks.recipes.recipe import Recipe
from nnd_tasks.recipes.winners import winner
from tests.conftest import TODAY

Row = dict[str, Any]


def opened(path: Path, content: Any, options: Row) -> tuple[Table, Recipe]:
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    recipe = make_recipe(options)
    return open_table(str(path), recipe), recipe


def made(path: Path, content: Any, options: Row) -> Made:
    return make_tests(*opened(path, content, options))


def texts(result: Made) -> list[tuple[str, str]]:
    return sorted((row["high"], row["low"]) for row in result.table.to_pylist())


# ---------------------------------------------------------------- comments

LABELLED = {"context": "q", "candidate": "t", "label": "l", "better": ["ok"]}
HEADERS = {
    "lines before the header": "# by A and B, 2023\n# CC BY\nq,t,l\n{}",
    "an empty line too": "# by A and B, of C\n\nq,t,l\n{}",
    "as many cells as columns": "# by A, B, C\nq,t,l\n{}",
    "a cell that rows lack": "q,t,l,# see the paper\n{}",
    "a cell that rows leave empty": "q,t,l,# see the paper,# and the appendix\n{,,}",
    "both": "# by A\nq,t,l,# see the paper\n{,}",
    "quotes and a line break": '# "by A\nq,t,l,"# see\nthe paper"\n{}',
    "semicolons": "# by A, B\nq;t;l;# see the paper\n{;}",
    "tabs": "# by A\nq\tt\tl\t# see\n{\t}",
}


@pytest.mark.parametrize("quotes", [None, True])
@pytest.mark.parametrize("text", HEADERS.values(), ids=HEADERS)
def test_comments_of_a_header_are_no_columns(text: str, quotes: bool | None, tmp_path: Path) -> None:
    start, end = text.split("{")
    more = end.removesuffix("}")
    delimiter = next(one for one in "\t;," if f"q{one}t" in start)
    rows = "".join(delimiter.join(row) + more + "\n" for row in (("Q", "x", "ok"), ("Q", "y", "bad")))
    path = tmp_path / ("t.tsv" if delimiter == "\t" else "t.csv")
    table, recipe = opened(path, start + rows, LABELLED | ({"quotes": quotes} if quotes else {}))
    assert list(table.known or ())[:-2] == ["q", "t", "l"]
    assert [note for note in table.notes if "comment" in note], "it is said"
    assert texts(make_tests(table, recipe)) == [("x", "y")]
    numbers = [number for batch in table.read() for number in batch.numbers]
    header = table.header.removeprefix(", row ")
    assert numbers[0] > int(header) == start.split("q" + delimiter)[0].count("\n") + 1


def test_a_real_last_column_may_begin_with_a_number_sign(tmp_path: Path) -> None:
    text = "q,t,l,#votes\nQ,x,ok,\nQ,y,bad,3\n"
    table, recipe = opened(tmp_path / "t.csv", text, LABELLED)
    assert list(table.known or ())[:-2] == ["q", "t", "l", "#votes"]
    assert not table.notes
    assert texts(make_tests(table, recipe)) == [("x", "y")]
    empty = "q,t,l,# annotators\nQ,x,ok,\nQ,y,bad,\n"
    assert "# annotators" not in list(opened(tmp_path / "t.csv", empty, LABELLED)[0].known or ())
    used = opened(tmp_path / "t.csv", empty, {**LABELLED, "rater": "# annotators"})[0]
    assert "# annotators" in list(used.known or ()), "the recipe says that it is a column"


def test_a_first_column_may_begin_with_a_number_sign(tmp_path: Path) -> None:
    rows = 'Q,"x, y",ok\nQ,z,bad\n'
    named = opened(tmp_path / "t.csv", f"# by A\n#q,t,l\n{rows}", {**LABELLED, "context": "#q"})
    assert list(named[0].known or ())[:-2] == ["#q", "t", "l"]
    assert texts(make_tests(*named)) == [("x, y", "z")]
    free = opened(tmp_path / "t.csv", f"#id,text,verdict\n{rows}", {})[0]
    assert list(free.known or ())[:-2] == ["#id", "text", "verdict"], "as many cells as the rows"


def test_a_row_that_is_wrong_after_comments_is_named(tmp_path: Path) -> None:
    with pytest.raises(NNDError, match=r"row 5: 2 columns, the header has 3"):
        made(tmp_path / "t.csv", "# a\n# b\nq,t,l\nQ,x,ok\nQ,y\n", LABELLED)
    with pytest.raises(NNDError, match=r"row 5: 2 columns, the header has 3"):
        made(tmp_path / "t.csv", "# a\n# b\nq,t,l\nQ,x,ok\nQ,y\n", {**LABELLED, "quotes": True})


# ---------------------------------------------------------------- winners

PAIR = Recipe(pair=("text_a", "text_b"), winner="w")


def test_sides_by_place_and_by_number() -> None:
    for pair in (PAIR, Recipe(pair=("answer_1", "answer_2"), winner="w"), Recipe(pair=("x", "y"), winner="w")):
        first = (
            "left | first | the first one | better1 | better_1 | model_a | the left one | first response is better | A"
        )
        second = "right | second | Second | better2 | model2 | response_2 | the second is better | 2.0 | B"
        assert [winner(one, pair, "here") for one in first.split(" | ")] == [0] * 9
        assert [winner(one, pair, "here") for one in second.split(" | ")] == [1] * 9
    turned = Recipe(pair=("second_answer", "first_answer"), winner="w")
    assert [winner(one, turned, "here") for one in ("first", "second", "first_answer")] == [1, 0, 1]
    zero = Recipe(pair=("response_0", "response_1"), winner="w")
    assert [winner(one, zero, "here") for one in (0, 1, "response_1")] == [0, 1, 1]


@pytest.mark.parametrize("value", [0, 3, -1, True, "better than A", "second best", "the first and the second", "gpt"])
def test_a_value_that_may_mean_anything_is_refused_with_what_to_write(value: Any) -> None:
    with pytest.raises(NNDError, match=r"row 7: .*names neither .*`winners: \{.*: first, \.\.\.\}`") as refused:
        winner(value, PAIR, "row 7")
    assert repr(str(value).lower() if value is True else str(value)) in str(refused.value)


def test_a_table_of_values_says_what_they_mean() -> None:
    recipe = make_recipe(
        {"pair": ["x", "y"], "winner": "w", "winners": {0: "first", 1: "second", 2: "tie", "Beide": "tie"}}
    )
    values = [0, "1", 1.0, "2", "beide", ""]
    assert [winner(one, recipe, "here") for one in values] == [0, 1, 1, "tie", "tie", "no_judgement"]
    assert make_recipe(recipe.dump()) == recipe
    with pytest.raises(NNDError, match=r"here: 'x' is none of the values of winners \('0', '1', '2'.*; add 'x' to it"):
        winner("x", recipe, "here")


def test_a_winner_may_be_named_by_its_system(tmp_path: Path) -> None:
    options = {"context": "q", "pair": ["x", "y"], "winner": "w", "systems": ["by.x", "by.y"]}
    rows = [
        {"q": f"Q{i}", "x": "1st", "y": "2nd", "by": {"x": one, "y": other}, "w": won}
        for i, (one, other, won) in enumerate(
            [("m-1", "m-2", "m-2"), ("m-2", "m-1", "m-2"), ("m-1", "m-2", "tie"), ("m-1", "m-2", "model_a")]
        )
    ]
    result = made(tmp_path / "t.json", rows, options)
    assert [(row["high"], row["high_system"]) for row in result.table.to_pylist()] == [
        ("2nd", "m-2"), ("1st", "m-2"), ("1st", "m-1"),
    ]  # fmt: skip
    assert result.dropped.counts == {"undecided": 1}
    recipe = make_recipe(options)
    with pytest.raises(NNDError, match=r"item 1: 'm-3' names neither .* by its column or system"):
        winner("m-3", recipe, "item 1", ["m-1", "m-2"])
    with pytest.raises(NNDError, match="both texts are by 'm'"):
        winner("m", recipe, "item 1", ["m", "m"])
    with pytest.raises(
        NNDError, match=r"'A' is the system of 'y', but may also stand for 'x'.*`winners: \{'A': system\}`"
    ):
        winner("A", recipe, "item 1", ["B", "A"])
    known = make_recipe({**options, "winners": {"A": "system", "B": "system"}})
    assert [winner(one, known, "here", ["B", "A"]) for one in "AB"] == [1, 0]
    with pytest.raises(NNDError, match=r"'A' is none of the systems of this row \('B', 'C'\)"):
        winner("A", known, "here", ["B", "C"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"winners": {"1": "left"}}, "winners: '1' means first, second, tie, or system .beside systems., not 'left'"),
        ({"winners": {"1": "system"}}, "not 'system'"),
        ({"winners": {True: "first"}}, "winners holds true, yes or on"),
        ({"winners": ["1"]}, "winners is a mapping of names to first, second or tie"),
        ({"pair": None, "winner": None, "chosen": "x", "rejected": "y", "winners": {"1": "tie"}}, "`?-?-?winner"),
    ],
)
def test_a_wrong_table_of_winners_is_named(options: Row, message: str) -> None:
    with pytest.raises(NNDError, match=message):
        make_recipe({"pair": ["x", "y"], "winner": "w", **options})


# ---------------------------------------------------------------- lists

ERRORS = {"context": "q", "candidate": "outs[].t", "label": "outs[].errors[].kind", "better": [""]}
OUTS = [
    {"t": "free of errors", "errors": []},
    {"t": "not judged", "errors": None},
    {"t": "not judged either"},
    {"t": "wrong", "errors": [{"kind": "fact"}]},
    {"t": "wrong somehow", "errors": [{"severity": "major"}]},
]
LISTED = [{"q": "Q", "outs": OUTS}, {"q": "R", "outs": []}, {"q": "S"}]


@pytest.mark.parametrize(
    ("rows", "good", "dropped"),
    [
        ("outs[].errors[]?", ["free of errors"], {"empty_list": 1, "no_list": 3, "no_label": 1}),
        ("outs[]?.errors[]?", ["free of errors"], {"no_list": 4, "no_label": 1}),
        ("outs[].errors[]??", ["free of errors", "not judged", "not judged either"],
         {"empty_list": 1, "no_list": 1, "no_label": 1}),
    ],
)  # fmt: skip
def test_a_text_that_nobody_judged_is_not_free_of_errors(
    rows: str, good: list[str], dropped: dict[str, int], tmp_path: Path
) -> None:
    result = made(tmp_path / "t.json", LISTED, {**ERRORS, "rows": rows})
    assert texts(result) == [(text, "wrong") for text in good]
    assert {reason: count for reason, count in result.dropped.counts.items() if reason != "no_order"} == dropped
    assert result.counts["rows"] == len(good) + 1 + sum(dropped.values())


def test_an_empty_list_is_counted_where_it_is_not_optional(tmp_path: Path) -> None:
    with pytest.raises(
        NNDError, match="left out are 2 rows whose list is empty, 3 rows whose list is missing, 1 item of a"
    ):
        made(tmp_path / "t.json", LISTED, {**ERRORS, "rows": "outs[].errors[]"})


def test_lists_that_are_left_out_do_not_count_once_per_value_of_each(tmp_path: Path) -> None:
    rows = [{"q": "Q", "x": [{"a": "1", "b": "2"}], "s": {"a": 1, "b": 3}}, {"q": "R", "x": [], "s": {"a": 1, "b": 3}}]
    options = {"rows": "x[]", "context": "q", "each": {"who": ["a", "b"]}, "candidate": "x[].{who}", "score": "s.{who}"}
    result = made(tmp_path / "t.json", rows, {**options, "min_gap": 1})
    assert (texts(result), result.dropped.counts) == ([("2", "1")], {"empty_list": 1})


def test_a_csv_may_hold_lists_as_json_or_as_python_writes_them(tmp_path: Path) -> None:
    cells = ["[]", "", """[{'kind': "it's", 'at': (0, 5)}]""", '[{"kind": "fact", "at": [0, 5]}]']
    with (tmp_path / "t.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["q", "t", "e"], *(["Q", f"wrong {i}", cell] for i, cell in enumerate(cells))])
    options = {"rows": "e[]?", "context": "q", "candidate": "t", "label": "e[].kind", "better": [""]}
    recipe = make_recipe({**options, "spans": {"column": "e[].at"}})
    result = make_tests(open_table(str(tmp_path / "t.csv"), recipe), recipe)
    found = [(row["high"], row["low"], row["category"], row["low_spans"][0]["end"]) for row in result.table.to_pylist()]
    assert found == [("wrong 0", "wrong 2", "it's", 5), ("wrong 0", "wrong 3", "fact", 5)]
    assert result.dropped.counts["no_list"] == 1


def test_marks_in_a_cell_of_a_csv_are_one_per_rater(tmp_path: Path) -> None:
    text = 'q,t,s\nQ,x,"[5, 4]"\nQ,y,"[1, 2]"\n'
    [row] = made(
        tmp_path / "t.csv", text, {"context": "q", "candidate": "t", "score": "s", "min_gap": 3}
    ).table.to_pylist()
    assert (row["high_score"], row["low_score"]) == (4.5, 1.5)


@pytest.mark.parametrize(
    "text",
    ["['a' 'b']", "[f()]", "[--1]", "['a', b]", "[1] + [2]", "(not a list)", "{1, 2}", "(" * 30 + ")" * 30, "['open"],
)
def test_what_is_no_plain_list_stays_a_text(text: str) -> None:
    assert unpacked(text) == text


# ---------------------------------------------------------------- categories


def test_a_finer_label_of_a_category_that_is_left_out_is_left_out_too(tmp_path: Path) -> None:
    labels = ["No-error", "Source issue/x", "Source issue", "Accuracy/y", "Fluency/z"]
    text = "q,t,l\n" + "".join(f"Q,{i},{label}\n" for i, label in enumerate(labels))
    options = {"context": "q", "candidate": "t", "label": "l", "better": ["No-error"], "separator": "/"}
    result = made(tmp_path / "t.csv", text, {**options, "categories": {"Source issue": None, "Accuracy": "Meaning"}})
    found = [(row["low"], row["category"], row["subcategory"]) for row in result.table.to_pylist()]
    assert found == [("3", "Meaning", "Accuracy/y"), ("4", "Fluency", "Fluency/z")]
    assert result.dropped.counts["no_test_category"] == 2


# ---------------------------------------------------------------- error spans

WORDS = "Alles waren waren guut."
SPANS: list[tuple[Any, Row, list[str]]] = [
    ([{"at": {"from": 6, "to": 11}}], {"column": "e", "start": "at.from", "end": "at.to"}, ["waren"]),
    ({"at": {"from": 6, "to": 11}}, {"start": "e.at.from", "end": "e.at.to"}, ["waren"]),
    ([{"from": 0, "to": 5}, {"from": 6, "to": 11}], {"start": "e[].from", "end": "e[].to"}, ["Alles", "waren"]),
    ([[0, 5], [6, 11]], {"column": "e"}, ["Alles", "waren"]),
    ([0, 4], {"column": "e", "end_inside": True}, ["Alles"]),
    ("[(0, 5), (6, 11)]", {"column": "e"}, ["Alles", "waren"]),
    ("(0, 5)", {"column": "e"}, ["Alles"]),
    ("""['GUUT.', "alles\\twaren"]""", {"column": "e"}, ["guut.", "Alles waren"]),
    ("['not closed", {"column": "e"}, []),
    ("[1]", {"column": "e", "items": True}, [WORDS]),
    ({"a": "guut", "b": ["Alles", "Nichts"]}, {"columns": {"A": "e.a", "B": "e.b"}}, ["guut", "Alles"]),
]


@pytest.mark.parametrize(("cell", "spans", "expected"), SPANS)
def test_error_spans_in_many_forms(cell: Any, spans: Row, expected: list[str], tmp_path: Path) -> None:
    rows = [{"q": "Q", "t": "Alles ist gut.", "l": "ok", "e": None}, {"q": "Q", "t": WORDS, "l": "bad", "e": cell}]
    table, recipe = opened(tmp_path / "t.json", rows, {**LABELLED, "spans": spans})
    [row] = make_tests(table, recipe).table.to_pylist()
    assert [row["low"][span["start"] : span["end"]] for span in row["low_spans"]] == expected
    if "columns" in spans:
        assert [span["category"] for span in row["low_spans"]] == ["A", "B"]
        assert table.notes == ["left out, as they do not lie in their candidate: 1 of 3 error spans"]


def test_spans_of_either_text_of_a_pair(tmp_path: Path) -> None:
    rows = [
        {"chosen": "A cat sat.", "rejected": "A dog  sat up.", "prompt": "P", "e": ["DOG sat", "cat", "sat", "bird"]}
    ]
    options = {"context": "prompt", "chosen": "chosen", "rejected": "rejected"}
    table, recipe = opened(tmp_path / "t.json", rows, {**options, "spans": {"column": "e", "either": True}})
    [row] = make_tests(table, recipe).table.to_pylist()
    assert [row["low"][span["start"] : span["end"]] for span in row["low_spans"]] == ["dog  sat"]
    assert table.notes == [
        "left out, as they do not lie in their candidate: 1 of 4 error spans",
        "left out, as they are of the better text: 1 of 4 error spans",
        "left out, as their words stand in both texts: 1 of 4 error spans",
    ]


@pytest.mark.parametrize(
    ("spans", "message"),
    [
        ({"column": "e", "either": True}, "either is for the words of spans in a column, of ready-made pairs"),
        ({"columns": {}}, "columns names the categories and their columns"),
        ({"columns": {"A": 1}}, "columns is a mapping of categories to columns"),
        ({"columns": {"A": "e"}, "category": "c"}, "leave column and category out"),
        ({"column": "e", "either": "yes"}, "either is true or false"),
    ],
)
def test_wrong_spans_are_named(spans: Row, message: str) -> None:
    with pytest.raises(NNDError, match=message):
        make_recipe({**LABELLED, "spans": spans})


def test_positions_of_different_number_are_an_error(tmp_path: Path) -> None:
    rows = [{"q": "Q", "t": "x", "l": "ok", "from": [0], "to": [1, 2]}]
    with pytest.raises(NNDError, match=r"item 1, column 'from': its lists of error spans have different lengths"):
        made(tmp_path / "t.json", rows, {**LABELLED, "spans": {"start": "from", "end": "to"}})


def test_lfqa_spans_are_those_that_experts_ascribed_to_the_worse_answer(
    real_sets: Callable[[str], Path], data: Path
) -> None:
    """Another column says whose span each is. It agrees wherever the words stand in one answer only."""
    import ast

    expected: Counter[tuple[str, str, str]] = Counter()
    kinds = {"factuality": "factuality", "irrelevance": "irrelevance", "incompleteness": "incomplete_ans"}

    def bare(text: str) -> str:
        return "".join(text.split()).casefold()

    with (data / TODAY["lfqa"] / "HaluQuestQA.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            won = int(row["ans_preference"][-1])
            for kind, column in kinds.items():
                words, owners = (ast.literal_eval(row[f"{column}_{what}"] or "[]") for what in ("span", "label"))
                expected.update(
                    (row["question_text"], kind, bare(word))
                    for word, owner in zip(words, owners, strict=True)
                    if owner == f"answer{3 - won}" and bare(word) not in bare(row[f"ans{won}_text"])
                    and bare(word) in bare(row[f"ans{3 - won}_text"])
                )  # fmt: skip
    found = Counter(
        (row["context"], span["category"], bare(row["low"][span["start"] : span["end"]]))
        for row in read_table(real_sets("lfqa")).to_pylist()
        for span in row["low_spans"]
    )
    assert found == expected
    assert Counter(kind for _, kind, _ in found.elements()) == {
        "factuality": 209,
        "irrelevance": 315,
        "incompleteness": 316,
    }
