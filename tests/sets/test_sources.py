"""Files that users name: which config they make, and what errors and reports call them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nnd_tasks.cli import app


@pytest.mark.parametrize("form", ["file", "folder", "archive"])
def test_a_file_of_another_year_makes_a_config_of_its_own(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NND_HOME", str(tmp_path / "home"))
    folder = tmp_path / "given"
    folder.mkdir()
    head = "system doc seg_id rater source target category severity"
    rows = ["A d 1 r x good No-error No-error", "B d 1 r x <v>bad</v> Style Minor"]
    (folder / "mqm_ted_zhen.tsv").write_text("\n".join([head, *rows]).replace(" ", "\t") + "\n", "utf-8")
    shutil.make_archive(str(folder), "gztar", folder)
    source = {"file": folder / "mqm_ted_zhen.tsv", "folder": folder, "archive": tmp_path / "given.tar.gz"}[form]
    done = CliRunner().invoke(app, ["build", "mqm", "--source", str(source)])
    assert done.exit_code == 0, f"{done.output} {done.exception!r}"
    assert {path.name for path in (tmp_path / "home" / "nnd" / "mqm").iterdir() if path.is_dir()} == {
        "ted_zhen",
        "ted_zhen_clean",
    }


@pytest.mark.parametrize("form", ["file", "folder", "archive", "pattern"])
def test_an_error_of_prepare_names_what_the_user_named(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "_recipe").write_text("files: {a.json: {}}\nbetter: [good]\n", "utf-8")
    (folder / "prepare.py").write_text(
        "import pandas as pd\nfrom nnd_tasks.sets.read import read_records\n\n\ndef rows(folder):\n"
        "    return pd.DataFrame({'context': r['c']} for r in read_records(folder / 'a.json'))\n",
        "utf-8",
    )
    source = tmp_path / "given"
    source.mkdir()
    (source / "a.json").write_text('[{"c": "x"}, {"d": "x"}]', "utf-8")
    place = {
        "file": source / "a.json",
        "folder": source,
        "archive": tmp_path / "given.zip",
        "pattern": source / "*.json",
    }[form]
    shutil.make_archive(str(source), "zip", source)
    monkeypatch.setenv("NND_HOME", str(tmp_path / "home"))
    done = CliRunner().invoke(app, ["build", str(folder), "--source", str(place), "--trust"])
    named = place / "a.json" if form == "archive" else source / "a.json"
    assert str(done.exception).startswith(f"{named}, item 2: no field 'c' ({folder / 'prepare.py'}, line 6)")


def test_a_report_does_not_say_where_a_file_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NND_HOME", str(tmp_path / "home"))
    table = tmp_path / "t.csv"
    table.write_text("context,candidate,label\nx,a,good\nx,b,bad\nx,,bad\n", "utf-8")
    done = CliRunner().invoke(app, ["new", "mine", "--from", str(table), "--better", "good"])
    assert done.exit_code == 0, done.output
    report = (tmp_path / "home" / "nnd" / "mine" / "build_report.json").read_text("utf-8")
    assert '"t.csv, row 4"' in report
    assert str(tmp_path) not in report


def test_a_json_file_that_was_cut_off_is_no_file_for_pandas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NND_HOME", str(tmp_path / "home"))
    (tmp_path / "cut.json").write_text('[{"context": "x", "candidate"', "utf-8")
    done = CliRunner().invoke(app, ["new", "mine", "--from", str(tmp_path / "cut.json")])
    assert "cut.json: is not valid JSON" in str(done.exception)
    assert not (tmp_path / "home").exists()


def test_lists_ask_for_pandas_only_where_columns_are_lacking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NND_HOME", str(tmp_path / "home"))
    known, lists = tmp_path / "known.jsonl", tmp_path / "lists.jsonl"
    row = '{"question": "x", "answer": "%s", "label": "%s", "errors": [{"start": 0, "end": 1}]}\n'
    known.write_text(row % ("a", "good") + row % ("b", "bad"), "utf-8")
    lists.write_text('{"question": "x", "right": ["a"], "wrong": ["b", "c"]}\n', "utf-8")
    done = CliRunner().invoke(app, ["new", "one", "--from", str(known), "--better", "good", "--spans", "errors"])
    assert (done.exit_code, (tmp_path / "home" / "nnd" / "one").is_dir()) == (0, True), done.output
    done = CliRunner().invoke(app, ["new", "two", "--from", str(lists)])
    assert done.exit_code == 0, done.output
    prepare = tmp_path / "home" / "task_yamls" / "two" / "prepare.py"
    assert "question, right, wrong" in prepare.read_text("utf-8")
