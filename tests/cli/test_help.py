"""`--help`: panels, and examples that can be typed as they stand."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

import pytest
from rich.text import Text
from typer.main import get_command
from typer.testing import CliRunner

from nnd_tasks.cli import app
from tests.test_docs import parse

WIDE = {"COLUMNS": "200", "TERM": "dumb"}


def commands(group: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every command and group with the words that lead to it."""
    group = group or get_command(app)
    yield path, group
    for name, command in getattr(group, "commands", {}).items():
        yield from commands(command, (*path, name))


COMMANDS = dict(commands())


def examples_of(command: Any) -> list[str]:
    text = Text.from_markup(command.epilog or "").plain
    return [line for line in text.splitlines() if line.startswith("nnd ")]


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_has_examples_that_can_be_typed(path: tuple[str, ...]) -> None:
    lines = examples_of(COMMANDS[path])
    assert 1 <= len(lines) <= 4
    for line in lines:
        if path and not hasattr(COMMANDS[path], "commands"):
            assert shlex.split(line)[1 : len(path) + 1] == list(path), "an example of a command is one of this command"
        parse(shlex.split(line)[1:])


@pytest.mark.parametrize("line", ["nnd lst", "nnd build demo --sauce x", "nnd stress paint", "nnd run --taks nnd_demo"])
def test_an_example_that_nobody_can_type_would_be_seen(line: str) -> None:
    with pytest.raises((Exception, SystemExit)):
        parse(shlex.split(line)[1:])


@pytest.mark.parametrize("path", [path for path in COMMANDS if path != ("run",)], ids=" ".join)
def test_help_shows_the_examples_whole_and_as_they_are(path: tuple[str, ...]) -> None:
    shown = CliRunner(env=WIDE).invoke(app, [*path, "--help"]).output
    squeezed = " ".join(shown.split())
    for line in examples_of(COMMANDS[path]):
        assert line in squeezed


def test_commands_stand_in_panels_in_the_order_of_work() -> None:
    shown = CliRunner(env=WIDE).invoke(app, ["--help"]).output
    places = [shown.index(f"─ {title} ") for title in ("Sets", "Run", "Conclusions", "Contribute")]
    assert places == sorted(places)
    assert "─ Commands " not in shown, "every command has a panel"
    for option in ("--install-completion", "--show-completion"):
        assert option in shown


def test_brief_has_one_name_and_one_text() -> None:
    texts = {
        path: option.help
        for path, command in COMMANDS.items()
        for option in command.params
        if "--brief" in getattr(option, "opts", ())
    }
    assert len(set(texts.values())) == 1
    expected = {
        "list",
        "show",
        "build",
        "compare",
        "scaling",
        "curve",
        "signal",
        "familiarity",
        "verify",
        "reproduce",
        "check",
        "publish",
    }
    assert {path[0] for path in texts if len(path) == 1} == expected
    assert {path[1] for path in texts if len(path) == 2} == {"build", "report", "metrics", "errors"}


def test_help_of_run_has_ours_first_and_then_that_of_lm_eval(capsys: pytest.CaptureFixture[str]) -> None:
    done = CliRunner(env=WIDE).invoke(app, ["run", "--help"])
    shown = done.output
    assert done.exit_code == 0
    places = [
        shown.index(part) for part in ("--no-shared-prefix", "Examples", "nnd run ls tasks", "The options of lm_eval:")
    ]
    assert places == sorted(places)
    assert shown.index("--use_cache", places[-1]) > places[-1]


def test_paragraphs_of_a_help_are_not_broken_where_our_editor_broke_them() -> None:
    shown = CliRunner(env=WIDE).invoke(app, ["list", "--help"]).output
    assert "percentage points, if they decide 30%" in shown
