"""`nnd new`: from options to a recipe, its tests, a dataset folder and a task; or to a recipe and a prepare.py to complete."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from nnd_tasks.cli import app
from nnd_tasks.datasets import load, read_report, read_table
from nnd_tasks.errors import NNDError
from nnd_tasks.sets.build import build_set
from nnd_tasks.sets.new import draft_set, write_draft
from nnd_tasks.tables import fingerprint
from nnd_tasks.yaml_json import read_yaml
from tests.sets.tables import pick, write_rows

ROWS = [
    {"q": q, "a": f"{q} {label} {who}", "l": label, "n": number, "m": {"x": number}, "who": who, "by": who.upper(),
     "k": label[:1], "g": "one", "s": "q", "from": 0, "to": 2, "check": "no"}
    for q in ("q1", "q2")
    for who, label, number in (("r", "good", 5), ("s", "bad", 2), ("t", "poor", -9))
]  # fmt: skip
JUDGED = ["--context", "q", "--candidate", "a"]
LABEL = [*JUDGED, "--label", "l", "--better", "good"]
SCORE = [*JUDGED, "--score", "n", "--min-gap", "2"]
PAIRS = [{"q": "q1", "x": "good", "y": "bad", "w": "x"}, {"q": "q2", "x": "worse", "y": "fine", "w": "2"}]
#: Options -> what they put into the recipe, a column of the tests, and its values.
OPTIONS: list[tuple[list[str], dict[str, Any], str, Any]] = [
    (LABEL, {"label": "l", "better": ["good"]}, "category", ["bad", "poor"] * 2),
    (["--candidate", "a", "--label", "l", "--context", "g", "--better", "good"], {"context": "g"}, "context", ["one"] * 8),
    (SCORE, {"score": "n", "min_gap": 2.0}, "low_score", [2, -9, -9] * 2),
    ([*JUDGED, "--score", "m.x", "--min-gap", "2", "--missing=-9"], {"missing": ["-9"]}, "high_score", [5, 5]),
    ([*LABEL, "--system", "by", "--rater", "who"], {"system": "by", "rater": "who"}, "low_system", ["S", "T"] * 2),
    ([*LABEL, "--category", "k"], {"category": "k"}, "category", ["b", "p"] * 2),
    ([*LABEL, "--group", "q,g"], {"group": ["q", "g"]}, "high", ["q1 good r"] * 2 + ["q2 good r"] * 2),
    ([*LABEL, "--leave-out", "l=Poor", "--leave-out", "check=Yes"], {"leave_out": {"l": ["Poor"], "check": ["Yes"]}},
     "category", ["bad"] * 2),
    ([*JUDGED, "--attribute", "clear=m.x", "--attribute", "n", "--min-gap", "6"], {"attribute": {"clear": "m.x", "n": "n"}},
     "category", ["clear", "clear", "n", "n"] * 2),
    ([*LABEL, "--spans", "s"], {"spans": {"column": "s"}}, "low_spans", [(0, 1)] * 4),
    ([*LABEL, "--spans", "from,to"], {"spans": {"start": "from", "end": "to"}}, "low_spans", [(0, 2)] * 4),
    ([*LABEL, "--spans", "<v>,</v>"], {"spans": {"marks": ["<v>", "</v>"]}}, "high_label", ["good"] * 4),
    ([*LABEL, "--license", "mit", "--language", "en,de"], {"facts": {"license": "mit", "language": ["en", "de"]}}, "rater", None),
    (["--context", "q", "--chosen", "x", "--rejected", "y"], {"chosen": "x", "rejected": "y"}, "high", ["good", "worse"]),
    (["--context", "q", "--pair", "x,y", "--winner", "w"], {"pair": ["x", "y"], "winner": "w"}, "high", ["good", "fine"]),
]  # fmt: skip


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "answers.jsonl", ROWS)


def new(source: Path, *options: str, name: str = "mine") -> str:
    done = CliRunner().invoke(app, ["new", name, "--from", str(source), *options], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def refusal(source: Path, *options: str, name: str = "mine") -> str:
    with pytest.raises(NNDError) as caught:
        new(source, *options, name=name)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(("options", "keys", "column", "values"), OPTIONS)
def test_each_option_is_a_key_of_the_recipe_which_builds_the_same_again(
    options: list[str], keys: dict[str, Any], column: str, values: list[Any], tmp_path: Path, nnd_home: Path
) -> None:
    source = write_rows(tmp_path / "t.jsonl", PAIRS if {"--chosen", "--pair"} & {*options} else ROWS)
    new(source, *options)
    recipe = read_yaml(nnd_home / "task_yamls" / "mine" / "_recipe")
    assert {key: recipe[key] for key in keys} == keys
    tests = read_table(nnd_home / "nnd" / "mine")
    if column == "low_spans":
        found = [(span["start"], span["end"]) for row in tests.to_pylist() for span in row[column]]
    else:
        found = tests.column(column).to_pylist() if column in tests.column_names else None
    assert found == values
    assert recipe["expected"] == next(iter(read_report(nnd_home / "nnd/mine").values()))["categories"]
    again = build_set("mine", source, tmp_path / "again")
    assert fingerprint(read_table(again.folder)) == fingerprint(tests)
    assert [note for note in again.notes if "left out" not in note and "no row has" not in note] == []


def test_how_a_german_spreadsheet_is_read_is_said_once(tmp_path: Path, nnd_home: Path) -> None:
    path = tmp_path / "noten.csv"
    path.write_text("Frage;Antwort;Note\nWärme?;Ja, €;1,5\nWärme?;Nö;2,0\n", encoding="cp1252")
    options = ["--context", "Frage", "--candidate", "Antwort", "--score", "Note", "--min-gap", "0.5"]
    assert "row 2, column 'Note'" in refusal(path, *options)
    new(path, *options, "--decimal", ",", "--encoding", "cp1252")
    recipe = read_yaml(nnd_home / "task_yamls/mine/_recipe")
    assert (recipe["decimal"], recipe["encoding"]) == (",", "cp1252")
    assert pick(load("mine").to_list(), "high", "low") == [("Nö", "Ja, €")]


def test_columns_are_taken_by_their_names_and_shown(tmp_path: Path) -> None:
    rows = [{"Question": "q", "answer": text, "rating": number, "model": "m"} for text, number in (("a", 1), ("b", 4))]
    shown = new(write_rows(tmp_path / "t.jsonl", rows), "--min-gap", "1", "--dry-run")
    for role, column in (("context", "Question"), ("candidate", "answer"), ("score", "rating"), ("system", "model")):
        assert f"{role}: column {column!r}, by its name" in shown


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([*JUDGED, "--label", "l"], "holds the labels 'bad', 'good', 'poor', so --better LABEL"),
        ([*JUDGED, "--score", "n"], "holds numbers from -9 to 5, so --min-gap X"),
        ([*JUDGED, "--label", "n"], "so --score n --min-gap X"),
        (
            ["--candidate", "a", "--label", "l", "--better", "good"],
            "name the column of the context with --context; there are: q, a, l",
        ),
        (JUDGED, "name the column of judgements with --label, --score or --attribute"),
        ([*JUDGED, "--label", "ll", "--better", "good"], "no column 'll'"),
        ([*LABEL, "--min-gap", "1"], "better and min_gap: one rule says what is better"),
        ([*LABEL, "--spans", "a,b,c"], "--spans a,b,c: write COLUMN, START,END or two marks"),
        ([*LABEL, "--leave-out", "l"], "--leave-out l: write COLUMN=VALUE"),
        ([*JUDGED, "--attribute", "=x", "--min-gap", "1"], "--attribute =x: write NAME=COLUMN"),
        ([*LABEL, "--language", "Elvish"], "'Elvish' is no code of a language"),
        ([*LABEL, "--decimal", ";"], "decimal"),
        (["--chosen", "a", "--rejected", "zz", "--context", "q"], "no column 'zz'"),
    ],
)
def test_a_mistake_is_one_line_that_says_what_to_write(
    options: list[str], message: str, table: Path, nnd_home: Path
) -> None:
    assert message in refusal(table, *options)
    assert not nnd_home.exists()


@pytest.mark.parametrize("name", ["my set", "../x", "nnd_x", "1a", "frank", "quiz_design_clean"])
def test_a_name_that_is_taken_or_no_name_is_refused(name: str, table: Path) -> None:
    assert (
        "take another name" in (message := refusal(table, *LABEL, name=name))
    ) or "a set is named by letters" in message


def test_a_dry_run_writes_nothing(table: Path, nnd_home: Path) -> None:
    shown = new(table, *LABEL, "--dry-run")
    assert "rule: Candidates labelled `good` are better" in shown
    assert "4 tests" in shown
    assert "nothing written (--dry-run)" in shown
    assert not nnd_home.exists()


def test_another_table_of_that_name_needs_replace_and_facts_stay(table: Path, nnd_home: Path) -> None:
    said = new(table, *LABEL, "--license", "mit")
    assert "- judges: who judged" in said
    assert "- license:" not in said
    new(table, *LABEL, "--language", "en")
    recipe = nnd_home / "task_yamls/mine/_recipe"
    assert read_yaml(recipe)["facts"] == {"license": "mit", "language": ["en"]}
    before = recipe.read_text("utf-8")
    assert "(better, label, min_gap, score)" in refusal(table, *SCORE)
    assert recipe.read_text("utf-8") == before
    new(table, *SCORE, "--replace")
    assert "facts" not in read_yaml(recipe)
    assert set(load("mine")["category"]) == {"preference"}


def test_what_people_wrote_on_the_card_and_into_the_task_stays(table: Path, nnd_home: Path) -> None:
    new(table, *LABEL)
    task = nnd_home / "task_yamls/mine/nnd_mine.yaml"
    task.write_text(task.read_text("utf-8").replace("{{context}}", "Q: {{context}}"), encoding="utf-8")
    assert "has other content than this set would give it, and stays" in new(table, *LABEL)
    assert "Q: {{context}}" in task.read_text("utf-8")
    new(table, *LABEL, "--replace")
    assert "Q: " not in task.read_text("utf-8")


def test_nothing_that_a_table_says_is_a_command_of_the_terminal(tmp_path: Path) -> None:
    rows = [{"q": "\x1b[2J[bold]q", "a": "\x1b]0;x\x07" + text, "l": f"{text}\x1b[1m"} for text in ("good", "bad")]
    shown = new(write_rows(tmp_path / "t.jsonl", rows), *JUDGED, "--label", "l", "--better", "good\x1b[1m", "--dry-run")
    assert "\x1b" not in shown
    assert "[bold]q" in shown


def test_the_task_is_one_of_lm_eval(table: Path, nnd_home: Path) -> None:
    from lm_eval.tasks import TaskManager

    new(table, *LABEL)
    manager = TaskManager(include_path=[str(nnd_home / "task_yamls" / "mine")], include_defaults=False)
    task = manager.load(["nnd_mine"])["tasks"]["nnd_mine"]
    documents = list(task.eval_docs)
    assert sorted(task.doc_to_text(doc) for doc in documents) == ["q1\n\n", "q2\n\n"]
    assert sorted(len(doc["candidates"]) for doc in documents) == [3, 3]


def test_prompts_and_fields_of_a_recipe_come_into_the_task(tmp_path: Path, nnd_home: Path, table: Path) -> None:
    path = nnd_home / "task_yamls" / "mine" / "_recipe"
    path.parent.mkdir(parents=True)
    recipe = "context: q\ncandidate: a\nlabel: l\nbetter: good\nfield: {hint: g}\nprompt: '{{hint}}: {{context}} A:'\n"
    path.write_text(recipe, encoding="utf-8")
    done = CliRunner().invoke(app, ["build", "mine", "--source", str(table)], catch_exceptions=False)
    assert "default: 4 tests" in done.output
    task = read_yaml(path.parent / "nnd_mine.yaml")
    assert (task["doc_to_text"], task["metadata"]["categories"]) == ("{{hint}}: {{context}} A:", ["bad", "poor"])
    path.write_text(recipe.replace("{{hint}}", "{{hind}}"), encoding="utf-8")
    with pytest.raises(NNDError, match="prompt: there is no 'hind'; a prompt can name context, hint"):
        CliRunner().invoke(app, ["build", "mine", "--source", str(table), "--replace"], catch_exceptions=False)


# ---------------------------------------------------------------- a prepare.py to complete

NESTED = [
    {"id": i, "doc": f"D{i}", "answers": [{"text": f"a{i}", "mark": "ok"}, {"text": f"b{i}", "mark": "no"}]}
    for i in (1, 2)
]


def complete(text: str, *values: str) -> str:
    """Return a prepare.py with its lines filled in, one after another."""
    for value in values:
        text = text.replace("[...]", f"[{value!r}]", 1)
    return text


@pytest.mark.parametrize(
    ("write", "field"),
    [
        (lambda path: write_rows(path.with_suffix(".jsonl"), NESTED), "answers"),
        (lambda path: _put(path, json.dumps({str(doc["id"]): doc for doc in NESTED})), "answers"),
    ],
)
def test_a_nested_file_gives_a_recipe_and_a_prepare_to_complete(
    write: Callable[[Path], Path], field: str, tmp_path: Path, nnd_home: Path
) -> None:
    source = write(tmp_path / "nested.json")
    said = new(source, "--license", "mit")
    folder = nnd_home / "task_yamls" / "mine"
    text = (folder / "prepare.py").read_text("utf-8")
    lines = [number for number, line in enumerate(text.splitlines(), 1) if "[...]" in line]
    assert f"complete lines {', '.join(map(str, lines))} of {folder / 'prepare.py'}" in said
    assert f"record['{field}']" in text
    assert "id, doc, answers" in text
    assert "text, mark" in text
    assert not (nnd_home / "nnd").exists()
    with pytest.raises(NNDError, match=re.escape(f"{folder / 'prepare.py'}, line {lines[0]}")):
        build_set("mine", source)
    (folder / "prepare.py").write_text(complete(text, "doc", "text", "mark"), encoding="utf-8")
    recipe = (folder / "_recipe").read_text("utf-8")
    (folder / "_recipe").write_text(re.sub("'?TODO: the best label'?", "ok", recipe), encoding="utf-8")
    result = build_set("mine", source)
    assert pick(load("mine").to_list(), "context", "high", "low", "category") == [
        ("D1", "a1", "b1", "no"),
        ("D2", "a2", "b2", "no"),
    ]
    assert result.notes == []
    assert "a recipe is there already" in refusal(source)


def _put(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_that_is_no_table_gives_a_skeleton_too(tmp_path: Path, nnd_home: Path) -> None:
    new(_put(tmp_path / "notes.json", '{"meta": {"by": "us"}, "rows": [1, 2]}'))
    assert "see the file" in (nnd_home / "task_yamls/mine/prepare.py").read_text("utf-8")
    assert "a table ends in" in refusal(_put(tmp_path / "notes.txt", "?"), "--candidate", "x")


def test_drafts_are_made_without_the_command(table: Path, nnd_home: Path) -> None:
    draft = draft_set("mine", str(table), {"context": "q", "candidate": "a", "label": "l", "better": ["good"]})
    assert not nnd_home.exists()
    assert [task.name for task in write_draft(draft)] == ["nnd_mine"]
    assert load("mine").num_rows == 4
    other = draft_set("mine", str(table), {"context": "q", "candidate": "a", "label": "l", "better": ["bad"]})
    with pytest.raises(NNDError, match="replace"):
        write_draft(other)
