"""What all commands share: the terminal, and lists between commas."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from nnd_tasks.errors import NNDError

out = Console(emoji=False)
err = Console(stderr=True, emoji=False)


def say(text: str) -> None:
    """Print a line as it is: names from outside are no markup, and paths must not be wrapped."""
    out.print(text, markup=False, highlight=False, soft_wrap=True)


def warn(text: str) -> None:
    """Print a line on standard error as it is."""
    err.print(text, markup=False, highlight=False, soft_wrap=True)


def parts_of(names: str) -> list[str]:
    """Return what stands between commas."""
    return [part.strip() for part in names.split(",") if part.strip()]


def check_folder(option: str, folder: Path | None) -> None:
    """Raise NNDError for an output folder that is a file: before the work, not after it."""
    if folder is not None and folder.expanduser().is_file():
        raise NNDError(f"{option} {folder}: is a file; name a folder")
