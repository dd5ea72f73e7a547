"""What the manual shows of commands is what they print: docs/outputs.py runs them all, without a model."""

import re

import pytest

from tests.cli.test_help import VERBS
from tests.conftest import REPO, import_script

FOLDER = REPO / "docs" / "outputs"


@pytest.fixture(scope="module")
def outputs():
    return import_script("outputs")


def test_every_verb_is_shown_or_says_why_not(outputs):
    shown = {re.match(r"nnd ((?:stress )?\w+)", one.command)[1] for one in outputs.COMMANDS if one.name}
    assert shown.isdisjoint(outputs.NOT_SHOWN)
    assert shown | {*outputs.NOT_SHOWN} == {*map(" ".join, VERBS)}


def test_every_file_is_linked_once_beside_the_verb_that_printed_it(outputs):
    linked = [
        (name, words)
        for page in (REPO / "docs").glob("*.md")
        for words, name in re.findall(r"^\[`(nnd .*)` prints\]\(outputs/(\w+)\.txt\)$", page.read_text("utf-8"), re.M)
    ]
    commands = {one.name: one.command.split() for one in outputs.COMMANDS if one.name}
    assert sorted(name for name, _ in linked) == sorted(commands) == sorted(path.stem for path in FOLDER.glob("*.txt"))
    for name, words in linked:
        assert set(words.split()) <= {*commands[name]}, name


@pytest.mark.slow
def test_every_file_is_what_its_command_prints(outputs, tmp_path):
    made = outputs.make_outputs(tmp_path / "sample")
    assert len(made) >= 13
    assert {name: (FOLDER / f"{name}.txt").read_text("utf-8") for name in made} == made, (
        "python docs/outputs.py --write"
    )
