"""Lines that are printed, on standard output or standard error.

Colours and drawn tables are for a terminal; a pipe or a file gets Markdown. FORCE_COLOR asks for a terminal's form in a pipe,
NO_COLOR for tables without colours; COLUMNS is the width.
"""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from nnd_tasks.errors import visible


def open_console(*, stderr: bool = False) -> Console:
    """Open the console for output, or for errors and notes; it reads the environment each time."""
    return Console(stderr=stderr, emoji=False, markup=False, highlight=False)


def on_terminal() -> bool:
    """Tell whether output goes to a terminal that can draw, or FORCE_COLOR is set."""
    console = open_console()
    return console.is_terminal and not console.is_dumb_terminal


def say(*lines: str, stderr: bool = False) -> None:
    """Print lines as they are, without what a terminal would obey; none prints an empty one."""
    console = open_console(stderr=stderr)
    for line in lines or [""]:
        console.print(Text(visible(line)), soft_wrap=True)


def warn(line: str) -> None:
    """Print one line on standard error."""
    say(line, stderr=True)


def say_lines(text: str) -> None:
    """Print a text of several lines."""
    say(*text.rstrip("\n").split("\n"))
