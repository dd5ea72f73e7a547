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


def say(text: str) -> None:
    """Print text: names from outside are no markup and no terminal escapes, and paths must not be wrapped.

    Line breaks in ``text`` are printed: names that may hold some go through `nnd_tasks.errors.visible` first.
    """
    out.print(lines_of(text), markup=False, highlight=False, soft_wrap=True)


def warn(text: str) -> None:
    """Print text on standard error, as `say` does."""
    err.print(lines_of(text), markup=False, highlight=False, soft_wrap=True)


def parts_of(names: str) -> list[str]:
    """Return what stands between commas."""
    return [part.strip() for part in names.split(",") if part.strip()]


def check_folder(option: str, folder: Path | None) -> None:
    """Raise NNDError for an output folder that is a file: before the work, not after it."""
    if folder is not None and folder.expanduser().is_file():
        raise NNDError(f"{option} {folder}: is a file; name a folder")
