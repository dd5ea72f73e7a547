"""What all commands share: the terminal, and lists between commas."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from nnd_tasks.errors import NNDError, visible

out = Console(emoji=False)
err = Console(stderr=True, emoji=False)


def lines_of(text: str) -> str:
    """Return ``text`` with its line breaks, and all else that a terminal would obey or hide written out."""
    return "\n".join(visible(line) for line in text.split("\n"))


def say(line: str = "") -> None:
    """Print one line: names from outside are no markup, no terminal escapes and no further lines; nothing is wrapped."""
    out.print(visible(line), markup=False, highlight=False, soft_wrap=True)


def show(text: str) -> None:
    """Print a text of several lines, such as a report, in which names from outside have no line breaks any more."""
    out.print(lines_of(text), markup=False, highlight=False, soft_wrap=True)


def warn(line: str) -> None:
    """Print one line on standard error, as `say` does."""
    err.print(visible(line), markup=False, highlight=False, soft_wrap=True)


def parts_of(names: str) -> list[str]:
    """Return what stands between commas."""
    return [part.strip() for part in names.split(",") if part.strip()]


def check_folder(option: str, folder: Path | None) -> None:
    """Raise NNDError for an output folder that is a file: before the work, not after it."""
    if folder is not None and folder.expanduser().is_file():
        raise NNDError(f"{option} {folder}: is a file; name a folder")
