"""Shape, read_elements: files in which a row is not one judged text.

Also covers columns_of, Records.
"""

from pathlib import Path

import pytest
import yaml

from nnd_tasks.sets.build import build_set
from nnd_tasks.sets.first_use import load
from tests.contribute.test_new import new, refusal
from tests.sets.small_files import write_files
from tests.sets.tables import pick

CASES = yaml.safe_load(Path(__file__).with_name("shapes.yaml").read_text("utf-8"))
RATED = [("q", "aa", "bb")]
FLAT_XML = """<rows><row><prompt>q</prompt><text>bb</text><score>1</score></row>
<row><prompt>q</prompt><text>aa</text><score>3</score></row></rows>"""


def build_new(source, options, home, complete=()):
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


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_a_shape_is_recognised_and_read(case, tmp_path, nnd_home):
    source = write_files(tmp_path, {case["file"]: case["text"]}) / case["file"]
    tests = build_new(source, case.get("options", ""), nnd_home)
    columns = case.get("columns", ["context", "high", "low"])
    assert sorted(pick(tests, *columns)) == [tuple(test) for test in case["tests"]]


def test_numbers_that_may_be_raters_or_attributes_are_asked_about(tmp_path):
    source = write_files(tmp_path, {"t.csv": "context,candidate,anna,bert b\nq,aa,4,3\nq,bb,1,2"}) / "t.csv"
    said = refusal(source, "--min-gap 1")
    assert "write --attribute anna --attribute 'bert b'" in said
    assert "--rater 'anna,bert b'" in said


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            "out gpt,answer bart",
            "'out gpt' has the texts of gpt, and no column that is called alike those of bart; only",
        ),
        ("text gpt-4,text bart", "'text gpt-4' has the texts of gpt, and no column that is called alike those of bart"),
        (
            "one,two",
            "no column has the texts of gpt; only the name of the system may differ: write it as the columns do",
        ),
    ],
)
def test_systems_whose_columns_are_not_called_alike_are_asked_about(columns, message, tmp_path):
    source = write_files(tmp_path, {"t.csv": f"p,{columns},score gpt,score bart\nq,aa,bb,4,2"}) / "t.csv"
    assert message in refusal(source, "--system gpt,bart --min-gap 1")


def test_xml_with_a_text_per_element_is_a_table(tmp_path):
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
def test_xml_that_cannot_be_read(text, message, tmp_path):
    assert message in refusal(write_files(tmp_path, {"t.xml": text}) / "t.xml")


def test_lists_keyed_by_system_are_one_table(tmp_path, nnd_home):
    text = '{"x": [{"question": "q", "text": "bb", "score": 1}], "y": [{"question": "q", "text": "aa", "score": 4}]}'
    new(write_files(tmp_path, {"t.json": text}) / "t.json", "--min-gap 1 --system @key")
    assert pick(load("mine").to_list(), "context", "high", "low", "high_system") == [(*RATED[0], "y")]


def test_what_is_not_recognised_is_for_the_user_to_complete(tmp_path, nnd_home):
    items = '[{"x": "aa", "y": "long", "k": 1, "l": 2}, {"x": "bb", "y": "short", "k": 2, "l": 1}]'
    source = write_files(tmp_path, {"t.json": f'[{{"a": "q", "b": "r", "items": {items}}}]'}) / "t.json"
    tests = build_new(source, "--min-gap 1", nnd_home, ("a", "x", "l"))
    assert pick(tests, "context", "high", "low") == RATED


def test_several_files_and_rows_that_are_left_out(tmp_path, nnd_home):
    for number, name in enumerate(("one", "two")):
        rows = f"p,a,b,a_score,b_score,control\nq{number},aa,bb,4,1,no\nx,aa,bb,1,1,yes"
        write_files(tmp_path / "data", {f"{name}.csv": rows})
    tests = build_new(tmp_path / "data", "--min-gap 1 --leave-out control=yes", nnd_home)
    assert pick(tests, "context", "high", "low") == [("q0", "aa", "bb"), ("q1", "aa", "bb")]


def test_a_dry_run_shows_the_code_and_writes_nothing(tmp_path, nnd_home):
    text = '{"question": "q", "answers": [{"text": "bb", "score": 1}, {"text": "aa", "score": 3}]}'
    source = write_files(tmp_path, {"t.jsonl": text}) / "t.jsonl"
    assert 'for item in record["answers"]' in new(source, "--min-gap 1 --dry-run")
    assert not nnd_home.exists()
