"""The guide to contributing is true: its files, its edits and its commands, in their order."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nnd_tasks.cli import app
from nnd_tasks.publishers.wanted import File
from nnd_tasks.sets.recipe import Facts, Recipe
from nnd_tasks.store import read_table
from nnd_tasks.tables.columns import Spans

REPO = Path(__file__).resolve().parents[2]
PAGE = (REPO / "docs" / "contribute.md").read_text("utf-8")
#: A block of the page, after the last name of a file before it.
BLOCK = re.compile(r"```(\w+)\n(.*?)```|`([\w./$]+)`", re.DOTALL)


def steps():
    """Return file, language and text of every block of the page."""
    found, name = [], ""
    for language, text, named in BLOCK.findall(PAGE):
        if language:
            found.append((name, language, text))
        elif re.search(r"\.(csv|json|py)$|/_recipe$", named):
            name = named
    return found


def commands(text):
    """Return the words and the comment of each command of a block."""
    lines = text.replace("\\\n", " ").splitlines()
    return [(shlex.split(line, comments=True), line.partition("  # ")[2]) for line in lines]


@pytest.mark.slow
def test_every_command_of_the_guide_does_what_it_says(tiny_models, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    home = tmp_path / "my_sets"
    monkeypatch.setenv("NND_HOME", str(home))
    for folder in ("examples", "nnd_tasks/contribute/exports/samples"):
        shutil.copytree(REPO / folder, tmp_path / folder)
    (tmp_path / "task_yamls").mkdir()
    shutil.copytree(tiny_models["gpt2"], tmp_path / "MODEL")
    ran = []
    for name, language, text in steps():
        path = Path(name.replace("$NND_HOME", str(home)))
        if language == "sh":
            for words, comment in commands(text):
                if words[0] == "cp":
                    subprocess.run(["cp", *(word.replace("$NND_HOME", str(home)) for word in words[1:])], check=True)
                elif words[0] != "export":
                    assert words[0] == "nnd"
                    done = CliRunner().invoke(app, words[1:])
                    assert done.exit_code == 0, f"{shlex.join(words)}\n{done.output}\n{done.exception!r}"
                    assert comment in done.output
                    ran.append(words[1])
        elif name.startswith("examples/"):
            assert path.read_text("utf-8").startswith(text)
        elif language == "yaml" and "files" not in text:  # lines to add
            path.write_text(path.read_text("utf-8") + text, encoding="utf-8")
        else:
            path.write_text(text, encoding="cp1252" if language == "csv" else "utf-8")
    assert set(ran) == {"new", "build", "check", "run", "report", "publish"}
    assert (tmp_path / "task_yamls" / "answers" / "nnd_answers.yaml").is_file()
    assert next((tmp_path / "results").rglob("samples_nnd_answers_*.jsonl"))
    assert "Question: {{context}}" in (home / "task_yamls" / "answers" / "nnd_answers.yaml").read_text("utf-8")
    [fluent, other] = read_table(home / "nnd" / "times").to_pylist()
    assert {fluent["high"], other["high"]} == {"Es ist drei Uhr.", "Es ist blau."}
    assert fluent["low"] == other["low"] == "Drei Uhr es ist."
    better = {row["context"]: row["high"] for row in read_table(home / "nnd" / "authors").to_pylist()}
    assert better == {"Who wrote Faust?": "Goethe.", "Who wrote Emma?": "Jane Austen."}
    assert read_table(home / "nnd" / "sent").equals(read_table(home / "nnd" / "quotes"))


@pytest.mark.parametrize("model", [Recipe, File, Spans, Facts])
def test_nnd_new_shows_every_key(model):
    said = CliRunner().invoke(app, ["new", "--keys"]).output
    assert [key for key in model.model_fields if f"- `{key}`: " not in said] == []
