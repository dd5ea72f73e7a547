"""The file of pass rates during a training, which `NNDCallback` writes and `nnd trend` reads.

It has one JSON object per evaluation and task.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nnd_tasks.errors import NNDError
from nnd_tasks.files import read_text, write_text

#: Default name of the file, in the Trainer's ``output_dir``.
LOG_NAME = "nnd.jsonl"
#: Most bytes of the file; a line has about 1,000.
_MOST_LOG_BYTES = 500_000_000
#: One evaluation of one task: ``step``, ``epoch``, ``task``, ``rates``, ``signature``.
Line = dict[str, Any]


def read_log(path: Path) -> list[Line]:
    """Return the lines of a file that `NNDCallback` wrote; an empty list if there is no file.

    Raises:
        NNDError: the file cannot be read, or was not written by `NNDCallback`.
    """
    try:
        text = read_text(path, limit=_MOST_LOG_BYTES)
    except NNDError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return []
        raise NNDError(f"log_path {error}; name another file") from error
    lines = []
    for number, row in enumerate(text.splitlines(), start=1):
        try:
            line = json.loads(row)
            good = type(line["step"]) is int and isinstance(line["task"], str)
        except (ValueError, KeyError, TypeError):
            good = False
        if not good:
            raise NNDError(
                f"log_path {path}, line {number}: is cut off, or not written by NNDCallback; name another file"
            )
        lines.append(line)
    return lines


def write_log(path: Path, lines: Sequence[Line]) -> None:
    """Write the whole file; if this is interrupted, the old file stays.

    Raises:
        NNDError: it cannot be written.
    """
    try:
        write_text(path, "".join(f"{json.dumps(line)}\n" for line in lines))
    except NNDError as error:
        raise NNDError(f"log_path {error}") from error
