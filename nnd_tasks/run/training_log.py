"""The file of pass rates that `NNDCallback` writes and `nnd trend` reads: one JSON object per evaluation and task."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from nnd_tasks.errors import NNDError
from nnd_tasks.files import read_text

logger = logging.getLogger("lm_eval.nnd")

#: Default name of the file, in the Trainer's ``output_dir``.
LOG_NAME = "nnd.jsonl"

#: Most bytes of the file; a line has about 1,000.
_MOST = 500_000_000

#: One evaluation of one task: ``step``, ``epoch``, ``task``, ``rates``, ``signature``.
Line = dict[str, Any]


def read_log(path: Path) -> list[Line]:
    """Return the lines of a file that `NNDCallback` wrote; an empty list if there is no file.

    Raises:
        NNDError: the file cannot be read, or was not written by `NNDCallback`.
    """
    try:
        text = read_text(path, limit=_MOST)
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
            raise NNDError(f"log_path {path}, line {number}: not written by NNDCallback; name another file")
        lines.append(line)
    return lines
