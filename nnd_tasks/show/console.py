"""Lines that are printed, on standard output or standard error.

Colours and drawn tables are for a terminal; a pipe or a file gets Markdown. FORCE_COLOR asks for a terminal's form in a pipe,
NO_COLOR for tables without colours; COLUMNS is the width.
"""

from __future__ import annotations

import os
from typing import Literal

from rich.console import Console
from rich.text import Text

from nnd_tasks.errors import visible

#: What a line begins with -> its style on a terminal.
_STYLES = {"^(nnd: )?error:": "bold red", "^(warning|left out):": "yellow", "^note:": "cyan"}


def open_console(*, stderr: bool = False) -> Console:
    """Return the console for output, or for errors and notes; it reads the environment each time."""
    colours: Literal["auto"] | None = None if os.environ.get("NO_COLOR") else "auto"
    return Console(stderr=stderr, emoji=False, markup=False, highlight=False, color_system=colours)


def on_terminal() -> bool:
    """Tell whether output goes to a terminal that can draw, or FORCE_COLOR is set."""
    console = open_console()
    return console.is_terminal and not console.is_dumb_terminal


def say(*lines: str, stderr: bool = False) -> None:
    """Print lines as they are, without what a terminal would obey; none prints an empty one."""
    console = open_console(stderr=stderr)
    for line in lines or [""]:
        text = Text(visible(line))
        for begin, style in _STYLES.items():
            text.highlight_regex(begin, style)
        console.print(text, soft_wrap=True)


def warn(line: str) -> None:
    """Print one line on standard error."""
    say(line, stderr=True)


def say_lines(text: str) -> None:
    """Print a text of several lines."""
    say(*text.rstrip("\n").split("\n"))
