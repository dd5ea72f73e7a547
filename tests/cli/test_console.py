"""Tables and colours on a terminal, plain Markdown everywhere else."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from nnd_tasks import markdown as md
from nnd_tasks.cli import console
from nnd_tasks.sets.build import build_set

#: What draws boxes and lines.
BOXES = re.compile(r"[\u2500-\u257f]")
ESCAPE = "\x1b"
TABLE = console.table(["set", "tests"], [["a_b", "1,234"], ["[bold]c|d", "5"]], right=["tests"])


def in_terminal(*arguments: str, **environment: str) -> str:
    """Return what the command prints on a terminal 100 columns wide."""
    unset = ("NO_COLOR", "FORCE_COLOR", "TERM", "COLUMNS")
    env = {name: value for name, value in os.environ.items() if name not in unset}
    env |= {"TERM": "xterm-256color", "COLUMNS": "100", **environment}
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


def is_markdown_table(text: str) -> bool:
    """Tell whether a text holds a table that a reader of Markdown sees as one, and nothing that draws."""
    tokens = [token.type for token in MarkdownIt("commonmark").enable("table").parse(text)]
    return "table_open" in tokens and ESCAPE not in text and not BOXES.search(text)


@pytest.fixture
def demo(nnd_home: Path) -> Path:
    build_set("demo")
    return nnd_home


def test_a_terminal_gets_a_drawn_table_within_its_width(demo: Path) -> None:
    shown = in_terminal("list")
    assert ESCAPE in shown
    assert BOXES.search(shown)
    plain = re.sub(r"\x1b\[[\d;]*m", "", shown)
    assert "|---" not in plain
    assert {len(line) for line in plain.splitlines()} <= set(range(101))
    assert "…" not in plain, "a path is broken into lines, not cut off"


@pytest.mark.parametrize(("variable", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_a_terminal_that_wants_no_colours_gets_none(variable: str, value: str, demo: Path) -> None:
    shown = in_terminal("list", "--brief", **{variable: value})
    assert ESCAPE not in shown
    assert bool(BOXES.search(shown)) == (variable == "NO_COLOR"), (
        "without colour tables are still drawn; not on a dumb one"
    )


@pytest.mark.parametrize(
    ("arguments", "tables"),
    [
        (["list"], True),
        (["list", "--brief"], True),
        (["show", "demo"], False),
        (["build", "demo"], True),
        (["check", "demo"], True),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_pipe_gets_plain_markdown(
    arguments: list[str], tables: bool, demo: Path, printed: Callable[..., str]
) -> None:
    output = printed(*arguments)
    assert ESCAPE not in output
    assert not BOXES.search(output)
    assert is_markdown_table(output) == tables


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Return what runs a command in this process and returns what it prints."""
    from nnd_tasks import cli

    for name in ("FORCE_COLOR", "NO_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["nnd", *arguments])
        capsys.readouterr()
        status: object = 0
        try:
            cli.main()
        except SystemExit as stop:  # `nnd check` ends with 2 where a set has errors
            status = stop.code
        assert status in (0, 2, None)
        return capsys.readouterr().out

    return run


# ---------------------------------------------------------------- the module


@pytest.mark.parametrize(
    ("environment", "tty", "expected"),
    [
        ({}, False, False),
        ({}, True, True),
        ({"TERM": "dumb"}, True, False),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"FORCE_COLOR": "0"}, False, False),
        ({"NO_COLOR": "1"}, True, True),
    ],
)
def test_what_is_a_terminal(
    environment: dict[str, str], tty: bool, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: tty, raising=False)
    assert console.on_terminal() == expected


def test_forced_colours_draw_in_a_pipe_too(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    console.show(TABLE)
    shown = capsys.readouterr().out
    assert ESCAPE in shown
    assert "[bold]c|d" in shown, "names mean themselves"


def test_a_table_in_a_pipe_is_markdown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    console.show(TABLE)
    shown = capsys.readouterr().out
    assert "[bold]c\\|d" in shown, "names mean themselves; | would end the cell"
    assert is_markdown_table(shown)
    assert shown.splitlines()[1] == "|---|---:|"


@pytest.mark.parametrize(
    "text", ["&#155;2J", "&#x9b;2J", "&#27;[2J", "&#8238;abc", "\x1b[2J", "&#1114112;", "&#x200b;x"]
)
def test_no_number_of_a_character_steers_a_terminal(
    text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    console.show(f"a {text} b")
    shown = capsys.readouterr().out
    assert all(character.isprintable() or character == "\n" for character in shown), repr(shown)


def test_errors_and_notes_have_a_style_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    console.warn("note: a [b] c")
    assert capsys.readouterr().err == "note: a [b] c\n"
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    console.warn("note: a [b] c")
    shown = capsys.readouterr().err
    assert ESCAPE in shown
    assert re.sub(r"\x1b\[[\d;]*m", "", shown) == "note: a [b] c\n"


def test_texts_in_a_pipe_have_their_own_characters(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    text = r"`No error` <b> a & b, *x* _y_ $z$ [1] ~ # @c \n 1|2 https://a.example &lt;"
    console.show(f"- high: {md.unlinked(text)}\n\n{md.code('&#96; stays')}")
    assert capsys.readouterr().out == f"- high: {text}\n\n`&#96; stays`\n"
    console.show(console.table(["name"], [[text]]))
    assert capsys.readouterr().out.splitlines()[2] == f"| {text} |".replace("1|2", r"1\|2")
    console.show(r"a &#27;[2J &#8238; &#10;")
    assert "\x1b" not in (shown := capsys.readouterr().out)
    assert shown.count("\n") == 1
