"""Sets with a `prepare.py`: rows in pandas, errors that name the file and its place, and code of others only with trust."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from nnd_tasks.cli import app
from nnd_tasks.datasets import read_table
from nnd_tasks.errors import NNDError
from nnd_tasks.sets.build import build_set, make_set
from nnd_tasks.sets.shelf import find_recipe
from tests.sets.small_files import FRANK_FILE, MQM_COLUMNS, MQM_FILE, QUIZ_FILE, SMALL, mqm_rows, small_source, tsv
from tests.sets.tables import pick, write_rows

HEAD = """from pathlib import Path
import pandas as pd
from nnd_tasks.sets.read import read_records


def rows(folder):
"""
GOOD = """    return pd.DataFrame(
        {"context": doc["q"], "candidate": text, "label": label, "where": doc.where}
        for doc in read_records(folder / "docs.jsonl") for text, label in doc["answers"].items()
    )
"""
DOCS = [{"q": "Q1", "answers": {"a": "good", "b": "bad"}}, {"q": "Q2", "answers": {"c": "bad", "d": "good"}}]


def write_set(folder: Path, body: str = GOOD, more: str = "", docs: Any = DOCS) -> Path:
    """Write a recipe, a prepare.py and the file that it reads."""
    write_rows(folder / "docs.jsonl", docs)
    (folder / "prepare.py").write_text(HEAD + body, encoding="utf-8")
    (folder / "_recipe").write_text("files: {docs.jsonl: {}}\nbetter: good\n" + more, encoding="utf-8")
    return folder


def refusal(folder: Path, **more: Any) -> str:
    with pytest.raises(NNDError) as caught:
        make_set(find_recipe(str(folder)), trust=True, **more)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_rows_are_judged_by_the_recipe_and_may_name_their_config(tmp_path: Path) -> None:
    folder = write_set(tmp_path / "sent", GOOD.replace('"where"', '"config": doc["q"].lower(), "where"'))
    made = make_set(find_recipe(str(folder)), trust=True)
    assert {name: pick(table.to_pylist(), "high", "low") for name, table in made.tables.items()} == {
        "q1": [("a", "b")],
        "q2": [("d", "c")],
    }
    folder = write_set(tmp_path / "less", more="leave_out: {candidate: b}\nfield: []\n")
    made = make_set(find_recipe(str(folder)), trust=True)
    assert made.tables["default"].num_rows == 1
    assert made.report["default"]["dropped_rows"]["by_recipe"] == ["docs.jsonl, line 1"]


def test_mended_rows_are_those_of_the_clean_config(tmp_path: Path) -> None:
    mended = "\n\ndef mended(rows):\n    return rows[rows['context'] != 'Q1']\n"
    folder = write_set(tmp_path / "sent", GOOD + mended, "candidates: rows\nconfig: authors\n")
    made = make_set(find_recipe(str(folder)), trust=True)
    assert {name: table.num_rows for name, table in made.tables.items()} == {"authors": 2, "clean": 1}
    assert made.report["authors"]["cleaning"]["mended"]["left_out"] == 2


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (GOOD.replace('doc["q"]', 'doc["prompt"]'), ["docs.jsonl, line 1: no field 'prompt'", "prepare.py, line 8)"]),
        (GOOD.replace("label,", "label[9],"), ["docs.jsonl, line 1: IndexError", "prepare.py, line 8)"]),
        ("    return pd.DataFrame({", ["prepare.py", "SyntaxError", "line 7)"]),
        ("    return 7\n", ["prepare.py: rows(folder) returns a DataFrame, not a number"]),
        ("    return pd.DataFrame()\n", ["prepare.py: rows(folder) returns no row"]),
        (GOOD.replace('"label"', '"mark"'), ["prepare.py: rows(folder) has no column 'label'; there are context"]),
        (GOOD.replace('"where"', '"place"'), ["prepare.py: rows(folder) has a column 'place'; the roles are context"]),
        (GOOD.replace("text, ", "None, ", 1), ["docs.jsonl, line 1, column 'candidate': expected text, found nothing"]),
        (GOOD.replace("docs.jsonl", "gone.jsonl"), ["gone.jsonl: cannot be read (No such file"]),
    ],
)
def test_an_exception_and_wrong_rows_are_one_line_with_place(body: str, words: list[str], tmp_path: Path) -> None:
    message = refusal(write_set(tmp_path / "sent", body))
    assert str(tmp_path / "sent") in message
    assert [word for word in words if word not in message] == [], message


def test_a_prepare_without_rows_is_refused(tmp_path: Path) -> None:
    folder = write_set(tmp_path / "sent")
    (folder / "prepare.py").write_text("def row(folder): ...\n", encoding="utf-8")
    assert refusal(folder).startswith(f"{folder / 'prepare.py'}: it has no function rows(folder)")


# ---------------------------------------------------------------- publishers' files that are not whole


def cut(text: str) -> str:
    return text[: int(len(text) * 0.6)]


BROKEN: dict[str, tuple[str, str, Callable[[str], str], str]] = {
    "quiz_design, cut": ("quiz_design", QUIZ_FILE, cut, "line 2: is not valid JSON"),
    "quiz_design, other file": (
        "quiz_design",
        QUIZ_FILE,
        lambda _: '{"prompt": "x"}\n',
        "line 1: no field 'questions'",
    ),
    "mqm, cut": ("mqm", MQM_FILE, lambda text: cut(text).rpartition("\t")[0], "row 5: 8 cells, the header has 9"),
    "mqm, other file": ("mqm", MQM_FILE, lambda _: "id\tquestion\n1\tWho?\n", "no field 'doc_id'"),
    "frank, cut": ("frank", FRANK_FILE, cut, "is not valid JSON"),
    "frank, other file": ("frank", FRANK_FILE, lambda _: '[{"hash": 7}]', "item 1: "),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_truncated_or_wrong_file_of_ours_names_file_and_place(case: str, tmp_path: Path) -> None:
    name, file, damage, message = BROKEN[case]
    folder = small_source(tmp_path / "in", name)
    assert make_set(find_recipe(name), folder).tables, "it builds as it is"
    (folder / file).write_text(damage((folder / file).read_text("utf-8")), encoding="utf-8")
    with pytest.raises(NNDError) as caught:
        make_set(find_recipe(name), folder)
    assert str(caught.value).startswith(
        f"{folder / file}{', ' if message[:4] in ('line', 'row ', 'item') else ': '}{message}"
    )


@pytest.mark.parametrize("name", SMALL)
def test_a_damaged_file_is_built_or_refused_in_one_line_that_names_it(name: str, tmp_path: Path) -> None:
    folder = small_source(tmp_path, name)
    file = folder / next(iter(SMALL[name]()))
    whole, refused = file.read_bytes(), 0
    for seed in range(40):
        dice, data = random.Random(seed), bytearray(whole)
        for _ in range(dice.choice([1, 2, 5])):
            at = dice.randrange(len(data))
            more = dice.choice([b'"', b"\t", b"\n", b"null", b"]", b"7,", b"\\ud800", b"\xff", data[at : at + 60]])
            data[at : at + dice.choice([0, 0, 1, 60])] = more
        file.write_bytes(data)
        try:
            make_set(find_recipe(name), folder)
        except NNDError as error:
            refused += 1
            assert "\n" not in str(error)  # noqa: PT017
            assert file.name in str(error) or "no test comes out" in str(error) or "reported as" in str(error)  # noqa: PT017
    assert refused


@pytest.mark.parametrize("name", SMALL)
def test_small_files_of_each_publisher_give_their_tests(name: str, tmp_path: Path) -> None:
    made = make_set(find_recipe(name), small_source(tmp_path, name))
    first = next(iter(made.tables.values()))
    wanted = {"quiz_design": 5, "challenge300": 8, "summeval": 2, "frank": 3, "mqm": 4, "news_gpt3": 3}
    assert first.num_rows == wanted[name]


def test_mqm_takes_marks_out_of_sources_for_the_clean_config_only(tmp_path: Path) -> None:
    rows = mqm_rows()
    rows[1][5] = rows[2][5] = "The <v>mill</v> stands still."
    rows[0][-1] = rows[0][-2] = "no-ERROR"
    (tmp_path / MQM_FILE).write_text(tsv(MQM_COLUMNS, rows), encoding="utf-8")
    made = make_set(find_recipe("mqm"), tmp_path)
    tests = {name: table.to_pylist() for name, table in made.tables.items()}
    assert pick(tests["newstest2021_ende"], "low") == [("Still steht sie.",), ("Schon wieder.",)]
    assert len(tests["newstest2021_ende_clean"]) == 4
    assert not any("<v>" in row["context"] for row in tests["newstest2021_ende_clean"])


# ---------------------------------------------------------------- sets of others


def test_a_set_from_elsewhere_runs_code_only_with_trust_and_is_then_ones_own(tmp_path: Path, nnd_home: Path) -> None:
    folder = write_set(tmp_path / "sent", f"    Path({str(tmp_path / 'ran')!r}).touch()\n{GOOD}")
    refused = CliRunner().invoke(app, ["build", str(folder)])
    assert str(folder / "prepare.py") in str(refused.exception)
    assert "--trust" in str(refused.exception)
    assert not (tmp_path / "ran").exists()
    assert not (nnd_home / "nnd").exists()
    done = CliRunner().invoke(app, ["build", str(folder), "--trust"], catch_exceptions=False)
    assert "default: 2 tests" in done.output
    kept = nnd_home / "task_yamls" / "sent"
    assert (kept / "prepare.py").read_text("utf-8") == (folder / "prepare.py").read_text("utf-8")
    assert (kept / "nnd_sent.yaml").is_file()
    shutil.move(folder, tmp_path / "gone")
    again = build_set("sent", tmp_path / "gone" / "docs.jsonl")
    assert read_table(again.folder).num_rows == 2


def test_another_recipe_of_that_name_replaces_nothing_unasked(tmp_path: Path, nnd_home: Path) -> None:
    build_set(str(write_set(tmp_path / "a" / "sent")), trust=True)
    other = write_set(tmp_path / "b" / "sent", more="min_gap: null\nprompt: 'Q: {{context}}'\n")
    with pytest.raises(NNDError, match="holds a set that another recipe made"):
        build_set(str(other), trust=True)
    assert "Q:" not in (nnd_home / "task_yamls" / "sent" / "_recipe").read_text("utf-8")
    build_set(str(other), trust=True, replace=True)
    assert "Q:" in (nnd_home / "task_yamls" / "sent" / "_recipe").read_text("utf-8")


def test_with_out_nothing_but_the_folder_is_written(tmp_path: Path, nnd_home: Path) -> None:
    build_set(str(write_set(tmp_path / "sent")), out=tmp_path / "out", trust=True)
    assert read_table(tmp_path / "out").num_rows == 2
    assert not nnd_home.exists()


@pytest.mark.parametrize("name", ["frank", "no-name", "nnd_x"])
def test_a_recipe_cannot_pass_for_another_set(name: str, tmp_path: Path) -> None:
    with pytest.raises(NNDError, match="rename"):
        find_recipe(str(write_set(tmp_path / name)))
