"""recognise_shape, write_code, read_elements: files in which a row is not one judged text.

Also covers columns_of, describe_other_json, Records, Shape.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from nnd_tasks.sets.build import build_set
from nnd_tasks.store import load
from tests.contribute.test_new import new, refusal
from tests.sets.small_files import write_files
from tests.sets.tables import pick

TWO = [("q1", "aa", "bb"), ("q2", "dd", "cc")]
#: What two or more lines of JSON hold. Text aa is better than bb, and dd better than cc.
RECORDS = {
    "objects keyed by system": """
{"id": "p1", "question": "q1", "answers": {"bart": {"text": "bb", "rating": 1}, "human": {"text": "aa", "rating": 3}}}
{"id": "p2", "question": "q2", "answers": {"bart": {"text": "dd", "rating": 4}, "human": {"text": "cc", "rating": 2}}}
""",
    "a score in an object": """
{"question": "q1", "answers": {"b": {"text": "bb", "meta": {"rating": 1}}, "h": {"text": "aa", "meta": {"rating": 3}}}}
{"question": "q2", "answers": {"b": {"text": "dd", "meta": {"rating": 4}}, "h": {"text": "cc", "meta": {"rating": 2}}}}
""",
    "a list of ratings": """
{"prompt": "q1", "outputs": {"b c": {"content": "bb", "ratings": [1, 2]}, "h": {"content": "aa", "ratings": [5, 3]}}}
{"prompt": "q2", "outputs": {"b c": {"content": "dd", "ratings": [4, 2]}, "h": {"content": "cc", "ratings": [1, 1]}}}
""",
    "lists keyed by system": """
{"q": "q1", "answers": {"b": [{"text": "bb", "score": 1}], "h": [{"text": "aa", "score": 3}]}}
{"q": "q2", "answers": {"b": [{"text": "dd", "score": 4}, {"text": "cc", "score": 2}]}}
""",
    "texts and scores keyed by system": """
{"q": "q1", "responses": {"b": "bb", "h": "aa"}, "scores": {"b": 1, "h": 3}}
{"q": "q2", "responses": {"b": "dd", "h": "cc"}, "scores": {"b": 4, "h": 2}}
""",
    "columns with empty cells": """
{"prompt": "q1", "gpt": "aa", "llama": "bb", "gpt_score": 4, "llama_score": 2}
{"prompt": "q2", "gpt": "cc", "llama": "dd", "gpt_score": 1, "llama_score": 5}
{"prompt": "q3", "gpt": "ee", "llama": null, "gpt_score": 1}
""",
    "a column of objects per system": """
{"question": "q1", "bart": {"text": "bb", "score": 1}, "human": {"text": "aa", "score": 3}}
{"question": "q2", "bart": {"text": "dd", "score": 4}, "human": {"text": "cc", "score": 2}}
""",
    "scores per attribute keyed by system": """
{"q": "q1", "answers": {"b": "bb", "h": "aa"}, "scores": {"b": {"x": 1, "y": 2}, "h": {"x": 3, "y": 2}}}
{"q": "q2", "answers": {"b": "dd", "h": "cc"}, "scores": {"b": {"x": 3, "y": 2}, "h": {"x": 1, "y": 2}}}
""",
    "a list of objects": """
{"question": "q1", "answers": [{"text": "bb", "score": 1}, {"text": "aa", "score": 3}]}
{"question": "q2", "answers": [{"text": "dd", "score": 4}, {"text": "cc", "score": 2}]}
""",
    "lists of one length": """
{"question": "q1", "texts": ["bb", "aa"], "scores": [1, 3], "models": ["x", "y"]}
{"question": "q2", "texts": ["dd", "cc"], "scores": [4, 2], "models": ["x", "y"]}
""",
}
#: The same as tables.
TABLES = [
    "prompt,gpt,llama,gpt_score,llama_score\nq1,aa,bb,4,2\nq2,cc,dd,1,5",
    "prompt,answer_a,answer_b,score_a,score_b\nq1,aa,bb,4,2\nq2,cc,dd,1,5",
    "prompt,GPT 4,Llama 2,GPT 4 score,Llama 2 score\nq1,aa,bb,4,2\nq2,cc,dd,1,5",
    "prompt,model_a,model_b,response_a,response_b,winner_model_a,winner_model_b,winner_tie\nq1,x,y,aa,bb,1,0,0\nq2,x,y,cc,dd,0,1,0",
    "prompt,text1,text2,rating1,rating2\nq1,aa,bb,4,2\nq2,cc,dd,1,5",
    "prompt,gptText,llamaText,gptScore,llamaScore\nq1,aa,bb,4,2\nq2,cc,dd,1,5",
    "prompt,gpt.text,gpt.score,gpt.len,llama.text,llama.score,llama.len\nq1,aa,4,9,bb,2,8\nq2,cc,1,8,dd,5,8",
]


def build_new(source: Path, options: str, home: Path, complete: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """Write a prepare.py, complete its lines in their order, build the set and return its tests."""
    said = new(source, options)
    prepare = home / "task_yamls" / "mine" / "prepare.py"
    lines = prepare.read_text("utf-8").split("\n")
    numbers = [number for number, line in enumerate(lines) if "[...]" in line.partition("#")[0]]
    assert len(numbers) == len(complete)
    assert ("complete lines" in said) == bool(complete)
    for number, name in zip(numbers, complete, strict=True):
        lines[number] = lines[number].replace("[...]", f"[{name!r}]", 1)
    prepare.write_text("\n".join(lines), encoding="utf-8")
    build_set("mine", source)
    return load("mine").to_list()


def test_objects_and_lists(tmp_path: Path, nnd_home: Path) -> None:
    for name, records in RECORDS.items():
        source = write_files(tmp_path, {"t.jsonl": records}) / "t.jsonl"
        tests = build_new(source, "--min-gap 1 --replace", nnd_home)
        assert pick(tests, "context", "high", "low") == TWO, name


@pytest.mark.parametrize("table", TABLES)
def test_a_column_per_system(table: str, tmp_path: Path, nnd_home: Path) -> None:
    tests = build_new(write_files(tmp_path, {"t.csv": table}) / "t.csv", "--min-gap 1", nnd_home)
    assert pick(tests, "context", "high", "low") == TWO
    if "gpt" in table.lower():  # a and b, 1 and 2 name no system
        assert len({test["high_system"] for test in tests}) == 2


RATED = [("q", "aa", "bb")]
#: A table, options -> tests, each with its category.
OTHERS: list[tuple[str, str, list[tuple[str, ...]]]] = [
    ("p,a,b,c,a_score,b_score,c_score\nq,aa,bb,cc,4,2,1", "--min-gap 1.5", [("aa", "bb"), ("aa", "cc")]),
    (
        "p,a,b,a_fluent,a_true,b_fluent,b_true\nq,aa,bb,4,2,2,5",
        "--min-gap 1",
        [("aa", "bb", "fluent"), ("bb", "aa", "true")],
    ),
    ("p,gpt,bart,t5,best\nq,aa,bb,cc,gpt\nr,dd,ff,ee,t5", "", [("aa", "bb"), ("aa", "cc"), ("ee", "dd"), ("ee", "ff")]),
    (
        "p,ann,bob,cam,ann_x,bob_x,bob_y,cam_y\nq,aa,bb,cc,4,2,1,5",
        "--context p --min-gap 1",
        [("aa", "bb")],
    ),  # y is not of ann
    ("p,gpt,gpt4,gpt_mark,gpt4_mark\nq,aa,bb,yes,no", "--system gpt,gpt4 --better yes", [("aa", "bb")]),
    ("p,text gpt-4,text bart,x gpt-4,y bart\nq,aa,bb,4,2", "--system gpt,bart --min-gap 1", [("aa", "bb")]),
    ("context,candidate,rater_1,rater_2\nq,aa,4,3\nq,bb,1,2", "--min-gap 1", [("aa", "bb")]),
    ("context,candidate,Annotator A,Annotator B\nq,aa,ok,ok\nq,bb,bad,bad", "--better ok", [("aa", "bb")]),
    ("context,candidate,anna,bert\nq,aa,4,3\nq,bb,1,", "--rater anna,bert --min-gap 1", [("aa", "bb")]),
    ('context,candidate,score\nq,aa,"3,4"\nq,bb,"1,2"\nq,cc,3', "--min-gap 1", [("aa", "bb"), ("cc", "bb")]),
    ("context,candidate,score\nq,aa,3; 4;5\nq,bb,1;n/a", "--min-gap 1", [("aa", "bb")]),
    ("context,candidate,label\nq,aa,good|good|bad\nq,bb,bad|bad|good", "--better good", [("aa", "bb")]),
]


@pytest.mark.parametrize(("table", "options", "expected"), OTHERS)
def test_columns_of_systems_and_raters_and_several_raters_in_a_cell(
    table: str, options: str, expected: list[tuple[str, ...]], tmp_path: Path, nnd_home: Path
) -> None:
    source = write_files(tmp_path, {"t.csv": table}) / "t.csv"
    tests = build_new(source, options, nnd_home)
    assert sorted(pick(tests, *("high", "low", "category")[: len(expected[0])])) == expected


def test_numbers_that_may_be_raters_or_attributes_are_asked_about(tmp_path: Path) -> None:
    source = write_files(tmp_path, {"t.csv": "context,candidate,anna,bert b\nq,aa,4,3\nq,bb,1,2"}) / "t.csv"
    said = refusal(source, "--min-gap 1")
    assert "write --attribute anna --attribute 'bert b'" in said
    assert "--rater 'anna,bert b'" in said


XML = """<doc><seg id="1"><src>q</src><hyp system="x" score="1">bb</hyp><hyp system="y" score="3">aa</hyp></seg>
<seg id="2"><src>r</src><hyp system="x" score="5">cc</hyp></seg></doc>"""
FLAT_XML = """<rows><row><prompt>q</prompt><text>bb</text><score>1</score></row>
<row><prompt>q</prompt><text>aa</text><score>3</score></row></rows>"""
WRAPPED_XML = (
    """<d by="us"><s><t>q</t><answers><h><text>bb</text><r>1</r></h><h><text>aa</text><r>3</r></h></answers></s></d>"""
)
RATED_XML = """<d><s><t>q</t><h><text>bb</text><r>1</r><r>2</r></h><h><text>aa</text><r>3</r><r>1</r></h></s></d>"""


@pytest.mark.parametrize(
    "text", [XML, RATED_XML, WRAPPED_XML, XML.replace("<doc>", '<doc xmlns="http://example.org/x">')]
)
def test_xml(text: str, tmp_path: Path, nnd_home: Path) -> None:
    source = write_files(tmp_path, {"t.xml": text}) / "t.xml"
    assert pick(build_new(source, "--min-gap 0.5", nnd_home), "context", "high", "low") == RATED


def test_xml_with_a_text_per_element_is_a_table(tmp_path: Path) -> None:
    new(write_files(tmp_path, {"t.xml": FLAT_XML}) / "t.xml", "--min-gap 1")
    assert pick(load("mine").to_list(), "context", "high", "low") == RATED


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<d><a>", "is not XML that can be read here"),
        ('<!DOCTYPE d [<!ENTITY e "x">]><d/>', "it defines entities"),
        ("<d><a/></d>", "no element in it is repeated"),
    ],
)
def test_xml_that_cannot_be_read(text: str, message: str, tmp_path: Path) -> None:
    assert message in refusal(write_files(tmp_path, {"t.xml": text}) / "t.xml")


def test_lists_keyed_by_system_are_one_table(tmp_path: Path, nnd_home: Path) -> None:
    text = '{"x": [{"question": "q", "text": "bb", "score": 1}], "y": [{"question": "q", "text": "aa", "score": 4}]}'
    new(write_files(tmp_path, {"t.json": text}) / "t.json", "--min-gap 1 --system @key")
    assert pick(load("mine").to_list(), "context", "high", "low", "high_system") == [(*RATED[0], "y")]


def test_texts_under_their_label_and_objects_in_the_cells_of_a_table(tmp_path: Path, nnd_home: Path) -> None:
    source = write_files(tmp_path, {"t.json": '[{"question": "q", "right": ["aa"], "wrong": ["bb"]}]'}) / "t.json"
    assert pick(build_new(source, "--better right", nnd_home), "context", "high", "low") == RATED
    cells = json.dumps({"x": {"text": "bb", "score": 1}, "y": {"text": "aa", "score": 4}})
    pd.DataFrame({"question": ["q"], "answers": [cells]}).to_csv(tmp_path / "t.csv", index=False)
    assert pick(build_new(tmp_path / "t.csv", "--min-gap 1 --replace", nnd_home), "context", "high", "low") == RATED


def test_what_is_not_recognised_is_for_the_user_to_complete(tmp_path: Path, nnd_home: Path) -> None:
    items = '[{"x": "aa", "y": "long", "k": 1, "l": 2}, {"x": "bb", "y": "short", "k": 2, "l": 1}]'
    source = write_files(tmp_path, {"t.json": f'[{{"a": "q", "b": "r", "items": {items}}}]'}) / "t.json"
    tests = build_new(source, "--min-gap 1", nnd_home, ("a", "x", "l"))
    assert pick(tests, "context", "high", "low") == RATED


def test_several_files_and_rows_that_are_left_out(tmp_path: Path, nnd_home: Path) -> None:
    for number, name in enumerate(("one", "two")):
        rows = f"p,a,b,a_score,b_score,control\nq{number},aa,bb,4,1,no\nx,aa,bb,1,1,yes"
        write_files(tmp_path / "data", {f"{name}.csv": rows})
    tests = build_new(tmp_path / "data", "--min-gap 1 --leave-out control=yes", nnd_home)
    assert pick(tests, "context", "high", "low") == [("q0", "aa", "bb"), ("q1", "aa", "bb")]


def test_a_dry_run_shows_the_code_and_writes_nothing(tmp_path: Path, nnd_home: Path) -> None:
    source = write_files(tmp_path, {"t.jsonl": RECORDS["a list of objects"]}) / "t.jsonl"
    assert 'for item in record["answers"]' in new(source, "--min-gap 1 --dry-run")
    assert not nnd_home.exists()
