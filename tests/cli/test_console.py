"""Tables and colours on a terminal, plain Markdown everywhere else."""

import os
import pty
import re
import subprocess
import sys

import pytest
from markdown_it import MarkdownIt

from nnd_tasks.show import console

#: What draws boxes and lines.
BOXES = re.compile(r"[\u2500-\u257f]")
ESCAPE = "\x1b"


def in_terminal(*arguments, **environment):
    """Read the output of the command on a terminal 100 columns wide."""
    env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", **environment}
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "nnd_tasks.cli", *arguments]
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, stdin=theirs, env=env) as process:
        os.close(theirs)
        output = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            output += piece
        assert process.wait(60) == 0, output.decode()
    os.close(ours)
    return output.decode()


def test_a_terminal_gets_a_drawn_table_within_its_width(home):
    shown = in_terminal("list")
    assert ESCAPE in shown
    assert BOXES.search(shown)
    plain = re.sub(r"\x1b\[[\d;]*m", "", shown)
    assert "|---" not in plain
    assert {len(line) for line in plain.splitlines()} <= set(range(101))
    assert "…" not in plain, "a path is broken into lines, not cut off"


@pytest.mark.parametrize(("variable", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_a_terminal_that_wants_no_colours_gets_none(variable, value, home):
    shown = in_terminal("list", "--brief", **{variable: value})
    assert not re.search(r"\x1b\[(?:\d+;)*[349]\d", shown), "headings may be bold"
    assert bool(BOXES.search(shown)) == (variable == "NO_COLOR"), (
        "without colour tables are still drawn; not on a dumb one"
    )


@pytest.mark.parametrize("command", ["list", "list --brief", "show demo", "check demo"])
def test_a_pipe_gets_plain_markdown(command, home, nnd):
    output = nnd(*command.split()).out
    assert ESCAPE not in output
    assert not BOXES.search(output)
    assert "table_open" in [token.type for token in MarkdownIt("commonmark").enable("table").parse(output)]


def test_a_note_steers_no_terminal(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    console.warn("note: a [b] \x1b[2J c")
    assert capsys.readouterr().err == "note: a [b] \\x1b[2J c\n"
