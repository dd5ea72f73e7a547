"""`nnd list` and `nnd show`: every set, built or not, of the package and of the user, broken ones included."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from nnd_tasks.cli import app
from nnd_tasks.cli.catalogue import catalogue, describe
from nnd_tasks.errors import NNDError
from nnd_tasks.sets.build import build_set
from tests.conftest import REPO, SOURCES

BASE = "context: c\ncandidate: t\nlabel: l\nbetter: [good]\nfacts: {kind: judging, license: mit}\n"
ROWS = "c,t,l\nq,a,good\nq,b,bad\n"
BROKEN = {
    "yaml": b"{",
    "list": b"- a\n",
    "key": b"lable: x\n",
    "step": b"step: frank\n",
    "bytes": b"\xff\xfe\x00",
    "empty": b"",
    "tag": b"title: !!python/name:os.system\n",
}


@pytest.fixture
def own(nnd_home: Path) -> Path:
    """Return the recipe of a set of the user's own."""
    path = nnd_home / "task_yamls" / "mine" / "_recipe"
    path.parent.mkdir(parents=True)
    path.write_text(BASE, encoding="utf-8")
    return path


@pytest.fixture
def built(own: Path, tmp_path: Path) -> Path:
    """Return the recipe of a set of the user's own that is built."""
    table = tmp_path / "d.csv"
    table.write_text(ROWS, encoding="utf-8")
    build_set("mine", table)
    return own


def entries() -> dict[str, dict[str, Any]]:
    done = CliRunner().invoke(app, ["list", "--json"])
    assert done.exit_code == 0
    return {entry["name"]: entry for entry in json.loads(done.output)}


def test_every_recipe_is_listed_built_or_not(own: Path) -> None:
    found = entries()
    assert set(found) == {*SOURCES, "mine"}
    assert all(not entry["built"] and "nnd build" in entry["state"] for entry in found.values())
    assert all(entry["shipped"] == (name != "mine") for name, entry in found.items())
    assert all(entry["license"] and Path(entry["recipe"]).is_file() for entry in found.values())
    assert [entry.name for entry in catalogue()] == list(found)


@pytest.mark.parametrize("name", list(SOURCES))
def test_every_set_of_ours_can_be_shown_before_it_is_built(name: str) -> None:
    lines = list(describe(name))
    assert f"({name})" in lines[0]
    assert any(line.startswith("- rule: ") and len(line) > 20 for line in lines)
    assert lines[-1] == f"- not built; run: `nnd build {name}`"


def test_a_set_of_ones_own_is_listed_and_shown_with_its_tests(built: Path) -> None:
    entry = entries()["mine"]
    assert entry["built"]
    assert [(config["name"], config["tests"]) for config in entry["configs"]] == [("default", 1)]
    lines = list(describe("mine"))
    assert any("1 test of 1 of config default" in line for line in lines)


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_a_broken_recipe_hides_neither_the_others_nor_its_data(content: bytes, built: Path) -> None:
    built.write_bytes(content)
    found = entries()
    assert set(found) == {*SOURCES, "mine"}
    assert "recipe unreadable" in found["mine"]["state"]
    assert found["mine"]["built"]
    done = CliRunner().invoke(app, ["list"])
    assert (done.exit_code, "recipe unreadable" in done.output) == (0, True)
    lines = list(describe("mine"))
    assert any("recipe unreadable" in line for line in lines)
    assert any("1 test of 1" in line for line in lines)


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_a_broken_recipe_of_a_set_that_is_not_built_is_one_line(content: bytes, own: Path) -> None:
    own.write_bytes(content)
    assert "recipe unreadable" in entries()["mine"]["state"]
    with pytest.raises(NNDError, match="_recipe"):
        list(describe("mine"))


def test_a_recipe_that_somebody_sent_can_be_shown(tmp_path: Path) -> None:
    path = tmp_path / "sent" / "_recipe"
    path.parent.mkdir()
    path.write_text(BASE, encoding="utf-8")
    assert "not built" in list(describe(str(path)))[-1]


@pytest.mark.parametrize("template", ["{{ nothing }}", "{{"])
def test_a_prompt_that_cannot_be_rendered_is_shown_as_it_is(template: str, built: Path) -> None:
    (built.parent / "nnd_mine.yaml").write_text(
        f"task: nnd_mine\ndoc_to_text: {json.dumps(template)}\n", encoding="utf-8"
    )
    lines = list(describe("mine"))
    assert lines[lines.index("```") : lines.index("```") + 3] == ["```", template, "```"]


def test_a_prompt_is_shown_as_a_model_reads_it(built: Path) -> None:
    (built.parent / "nnd_a.yaml").write_text("{", encoding="utf-8")
    (built.parent / "nnd_mine.yaml").write_text('task: nnd_mine\ndoc_to_text: "{{context}}?"\n', encoding="utf-8")
    lines = list(describe("mine"))
    assert lines[lines.index("```") : lines.index("```") + 3] == ["```", "q?", "```"]


def test_what_names_say_is_no_markup_and_no_escape(nnd_home: Path) -> None:
    path = nnd_home / "task_yamls" / "[bold]x\x1b[2J" / "_recipe"
    path.parent.mkdir(parents=True)
    path.write_text(BASE, encoding="utf-8")
    done = CliRunner().invoke(app, ["list"])
    assert (done.exit_code, "\x1b" in done.output, "[bold]x\\x1b[2J" in done.output) == (0, False, True)


def test_the_errors_of_a_set_that_nobody_judged_are_made(nnd_home: Path) -> None:
    page = (REPO / "docs" / "sets.md").read_text("utf-8")
    unjudged = re.findall(r"^\| `(\w+)` \| nobody:", page, re.MULTILINE)
    assert "demo" in unjudged
    assert {entry.name: entry.errors for entry in catalogue() if entry.name in unjudged} == dict.fromkeys(
        unjudged, "made"
    )
