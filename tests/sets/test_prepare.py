"""Sets with a `prepare.py`: rows in pandas, errors that name the file and its place, and code of others only with trust."""

import shutil
from pathlib import Path

import pytest

from nnd_tasks.errors import NNDError
from nnd_tasks.sets.build import build_set, make_set
from nnd_tasks.sets.catalogue import find_recipe
from nnd_tasks.store import read_table
from tests.commands import refused
from tests.sets.small_files import MQM_FILE, SMALL, small_source, small_text, write_files
from tests.sets.tables import pick, refusal, write_rows

HEAD = """from pathlib import Path
import pandas as pd
from nnd_tasks.tables.read import read_records


def rows(folder):
"""
GOOD = """    return pd.DataFrame(
        {"context": doc["q"], "candidate": text, "label": label, "where": doc.where}
        for doc in read_records(folder / "docs.jsonl") for text, label in doc["answers"].items()
    )
"""
DOCS = [{"q": "Q1", "answers": {"a": "good", "b": "bad"}}, {"q": "Q2", "answers": {"c": "bad", "d": "good"}}]


def write_set(folder, body=GOOD, more=""):
    """Write a recipe, a prepare.py and the file that it reads."""
    write_rows(folder / "docs.jsonl", DOCS)
    (folder / "prepare.py").write_text(HEAD + body, encoding="utf-8")
    (folder / "_recipe").write_text("files: {docs.jsonl: {}}\nbetter: good\n" + more, encoding="utf-8")
    return folder


def make_sent(folder, source=None):
    return make_set(find_recipe(str(folder)), source, trust=True)


def test_rows_are_judged_by_the_recipe_and_may_name_their_config(tmp_path):
    made = make_sent(write_set(tmp_path / "sent", GOOD.replace('"where"', '"config": doc["q"].lower(), "where"')))
    assert {name: pick(table.to_pylist(), "high", "low") for name, table in made.tables.items()} == {
        "q1": [("a", "b")],
        "q2": [("d", "c")],
    }
    made = make_sent(write_set(tmp_path / "less", more="leave_out: {candidate: b}\nfield: []\n"))
    assert made.tables["default"].num_rows == 1
    assert made.report["default"]["accounts"]["rows"]["examples"] == {
        "by_recipe: candidate = 'b'": ["docs.jsonl, line 1"]
    }


def test_a_file_that_prepare_reads_and_the_user_did_not_name_is_asked_for(tmp_path):
    folder = write_set(tmp_path / "sent", GOOD.replace("docs.jsonl", "other.jsonl"))
    (folder / "_recipe").write_text("files: {docs.jsonl: {}, other.jsonl: {}}\nbetter: good\n", encoding="utf-8")
    with pytest.raises(
        NNDError, match=r"other.jsonl is missing; --source names a folder .* with docs.jsonl, other.jsonl"
    ):
        make_sent(folder, folder / "docs.jsonl")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (GOOD.replace('doc["q"]', 'doc["prompt"]'), ["docs.jsonl, line 1: no field 'prompt'", "prepare.py, line 8)"]),
        (GOOD.replace("label,", "label[9],"), ["docs.jsonl, line 1: IndexError", "prepare.py, line 8)"]),
        ("    return pd.DataFrame({", ["prepare.py", "SyntaxError", "line 7)"]),
        ("    return 7\n", ["prepare.py: rows(folder) returns a DataFrame, not a number"]),
        ("    return pd.DataFrame()\n", ["prepare.py: rows(folder) returns no row"]),
        (f"{GOOD}\n\ndel rows\n", ["prepare.py: it has no function rows(folder)"]),
        (GOOD.replace('"label"', '"mark"'), ["prepare.py: rows(folder) has no column 'label'; there are context"]),
        (GOOD.replace('"where"', '"place"'), ["prepare.py: rows(folder) has a column 'place'; the roles are context"]),
        (GOOD.replace("text, ", "{}, ", 1), ["docs.jsonl, line 1, column 'candidate': expected text, found an object"]),
        (GOOD.replace("docs.jsonl", "gone.jsonl"), ["gone.jsonl: cannot be read (No such file"]),
    ],
)
def test_an_exception_and_wrong_rows_are_one_line_with_place(body, words, tmp_path):
    message = refusal(make_sent, write_set(tmp_path / "sent", body))
    assert str(tmp_path / "sent") in message
    assert [word for word in words if word not in message] == [], message


# ---------------------------------------------------------------- what a user names


@pytest.mark.parametrize("form", ["file", "pattern", "folder", "zip", "gztar", "tar"])
def test_an_error_of_prepare_names_what_the_user_named(form, tmp_path):
    sent, given = write_set(tmp_path / "sent"), tmp_path / "given"
    file = write_rows(given / "docs.jsonl", [*DOCS, {"q": "Q3"}])
    named = {"file": file, "pattern": given / "d*", "folder": given}
    source = named.get(form) or Path(shutil.make_archive(str(given), form, given))
    place = given if form in named else source
    message = f"{place / 'docs.jsonl'}, line 3: no field 'answers' ({sent / 'prepare.py'}, line 9)"
    assert refusal(make_sent, sent, source).startswith(message)


def test_a_file_of_another_year_makes_a_config_of_its_own(tmp_path):
    source = write_files(tmp_path / "given", {"mqm_ted_zhen.tsv": small_text("mqm"), "README": "no table"})
    made = make_set(find_recipe("mqm"), source)
    assert {name: table.num_rows for name, table in made.tables.items()} == {"ted_zhen": 4, "ted_zhen_clean": 4}
    (source / "mqm_ted_zhen.tsv").rename(source / "mqm.txt")
    assert refusal(make_set, find_recipe("mqm"), source) == f"{source}: has no .tsv file of ratings"


# ---------------------------------------------------------------- publishers' files


@pytest.mark.parametrize("name", SMALL)
def test_small_files_of_each_publisher_give_their_tests(name, tmp_path):
    made = make_set(find_recipe(name), small_source(tmp_path, name))
    assert next(iter(made.tables.values())).num_rows == SMALL[name]


def test_rows_that_are_mended_are_those_of_the_clean_config(tmp_path):
    """Of mqm, marks are taken out of sources, and ratings that blame the source are left out."""
    text = small_text("mqm").replace("rater2\tThe mill", "rater2\tThe <v>mill</v>").replace("No-error", "no-ERROR")
    write_files(tmp_path, {MQM_FILE: text.replace("Accuracy/Mistranslation", "Source error")})
    made = make_set(find_recipe("mqm"), tmp_path)
    full, clean = (made.tables[f"newstest2021_ende{end}"].to_pylist() for end in ("", "_clean"))
    assert pick(full, "low") == [("Still steht sie.",), ("Schon wieder.",)]
    assert len(clean) == 4
    assert not any("<v>" in row["context"] for row in clean)
    assert made.report["newstest2021_ende"]["cleaning"]["mended"]["left_out"] == 1


# ---------------------------------------------------------------- sets of others


def test_a_set_from_elsewhere_runs_code_only_with_trust_and_is_then_ones_own(nnd, tmp_path, nnd_home):
    folder = write_set(tmp_path / "sent", f"    Path({str(tmp_path / 'ran')!r}).touch()\n{GOOD}")
    message = refused(nnd("build", folder))
    assert message.startswith(str(folder / "prepare.py"))
    assert "--trust" in message
    assert not (tmp_path / "ran").exists()
    assert "default: 2 tests" in nnd("build", folder, "--trust", "--out", tmp_path / "out").out
    assert not nnd_home.exists(), "nothing but the folder is written"
    nnd("build", folder, "--trust")
    kept = nnd_home / "task_yamls" / "sent"
    assert (kept / "prepare.py").read_text("utf-8") == (folder / "prepare.py").read_text("utf-8")
    assert (kept / "nnd_sent.yaml").is_file()
    shutil.move(folder, tmp_path / "gone")
    again = build_set("sent", tmp_path / "gone" / "docs.jsonl")
    assert read_table(again.folder).equals(read_table(tmp_path / "out"))


def test_another_recipe_of_that_name_replaces_nothing_unasked(tmp_path, nnd_home):
    build_set(str(write_set(tmp_path / "a" / "sent")), trust=True)
    other = write_set(tmp_path / "b" / "sent", more="min_gap: null\nprompt: 'Q: {{context}}'\n")
    with pytest.raises(NNDError, match="holds a set that another recipe made"):
        build_set(str(other), trust=True)
    assert "Q:" not in (nnd_home / "task_yamls" / "sent" / "_recipe").read_text("utf-8")
    build_set(str(other), trust=True, replace=True)
    assert "Q:" in (nnd_home / "task_yamls" / "sent" / "_recipe").read_text("utf-8")


@pytest.mark.parametrize("name", ["frank", "no-name", "nnd_x"])
def test_a_recipe_cannot_pass_for_another_set(name, tmp_path):
    with pytest.raises(NNDError, match="rename"):
        find_recipe(str(write_set(tmp_path / name)))
