"""Words that people read: names from outside, counts, lists and suggestions."""

import json
import re

from typer.testing import CliRunner

from nnd_tasks.cli import app
from nnd_tasks.markdown import escape_markdown
from nnd_tasks.sets.build import build_set
from nnd_tasks.text import did_you_mean, some_of

#: A name that would clear the screen and add a line of its own to what is printed.
FAKED = "[bold]evil\x1b[2J\nwritten: all is well"


def printed(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments)]).output


def test_no_name_adds_a_line_or_reaches_the_terminal(nnd_home):
    folder = nnd_home / "nnd" / FAKED
    for command in (["build", "demo", "--out", folder], ["list"], ["check", folder, "--format", "text"]):
        output = printed(*command)
        assert re.search(r"\[bold\]evil\\x1b\\?\[2J(\\n| )written: all is well", output)
        assert "\x1b" not in output
        assert not [line for line in output.splitlines() if line.startswith("written: all")]


def test_json_for_programs_stays_json_on_the_terminal(nnd_home):
    folder = nnd_home / "nnd" / "evil\x9b2J\U000e0001"
    build_set("demo", out=folder)
    output = printed("check", folder, "--format", "json")
    assert json.loads(output)["folder"] == str(folder)
    assert "\x9b" not in output


def test_the_nearest_names_are_offered_whatever_their_case():
    known = ["Question", "answer", "frank", "franks"]
    assert did_you_mean("quesion", known) == "did you mean 'Question'?"
    assert did_you_mean("FRNK", known, at_most=2, end=" ") == "did you mean 'frank' or 'franks'? "
    assert did_you_mean("frnk", known, cutoff=0.95) == did_you_mean("x" * 10_000, known) == ""


def test_of_many_names_the_first_are_shown():
    names = list("abc")
    assert some_of(names) == "'a', 'b', 'c'"
    assert some_of(names, 2, str) == "a, b and 1 more"
    assert some_of([]) == ""


def test_numbers_stay_readable_in_markdown_and_markup_does_not():
    for plain in ("[0.1, 0.2] points", "-0.3", "< 0 & > 5", "pass_rate", "a\\x1b", "a - b #2"):
        assert escape_markdown(plain) == plain
    assert escape_markdown("[a](b)  |\n*c* <d> &lt;") == r"[a\](b) \| \*c\* &lt;d> &amp;lt;"
    for start in ("- a", "# a", "> a", "1. a", "==="):
        assert escape_markdown(start) != start
