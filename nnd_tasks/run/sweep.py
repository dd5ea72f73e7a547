"""``nnd run --models``: the same command for many models, without those that have its results already."""

from __future__ import annotations

import glob
import re
from collections.abc import Callable
from pathlib import Path

from nnd_tasks.errors import NNDError
from nnd_tasks.files import expand, read_text
from nnd_tasks.show.console import say, warn
from nnd_tasks.text import counted


def list_models(models: str) -> list[str]:
    """List what ``--models`` names.

    Args:
        models: a file with a model on each line, as after ``pretrained=``; or a pattern of folders that hold models.

    Returns:
        The models, those of a pattern with their numbers in order: ``step-2`` before ``step-10``.

    Raises:
        NNDError: it names none.
    """
    path = expand(models)
    if path.is_file():
        lines = [line.strip() for line in read_text(path).splitlines()]
        names = [line for line in lines if line and not line.startswith("#")]
    else:
        folders = [name for name in glob.glob(str(path)) if Path(name, "config.json").is_file()]  # noqa: PTH207
        names = sorted(folders, key=lambda name: [part.zfill(20) for part in re.split(r"(\d+)", name)])
    if not names:
        raise NNDError(
            f"--models {models}: no model; name a file with a model on each line, or a pattern of folders such as 'runs/step-*'"
        )
    return names


def run_sweep(models: str, run: Callable[[list[str]], None]) -> None:
    """Run the same command for many models.

    Args:
        models: see `list_models`.
        run: runs it with further words, which name a model.

    Raises:
        NNDError: no model is named, or some of them fail. What the first one raises ends the sweep, because a mistake in the
            command is that of all.
    """
    names, failed = list_models(models), 0
    for number, name in enumerate(names, start=1):
        say(f"model {number} of {len(names)}: {name}")
        try:
            run(["--model_args", f"pretrained={name}"])
        except NNDError as error:
            if number == 1:
                raise
            failed += 1
            warn(f"{name}: {error}")
    if failed:
        raise NNDError(f"{counted(failed, 'model')} of {len(names)} failed; the same command tries them again")
