"""The file of pass rates that `NNDCallback` writes and `nnd trend` reads: one JSON object per evaluation and task."""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from nnd_tasks.baselines import ALL
from nnd_tasks.errors import NNDError
from nnd_tasks.files import changing, read_text, write_text
from nnd_tasks.schema import category_slugs

logger = logging.getLogger("lm_eval.nnd")

#: Default name of the file, in the Trainer's ``output_dir``.
LOG_NAME = "nnd.jsonl"

#: Most bytes of the file; a line has about 1,000.
_MOST = 500_000_000

#: One evaluation of one task: ``step``, ``epoch``, ``task``, ``rates``, ``signature``.
Line = dict[str, Any]


def check_writable(path: Path) -> None:
    """Create the folder of a file and try to write there.

    Raises:
        NNDError: that is not possible, or ``path`` exists and is not a file.
    """
    with changing(f"log_path {path}"):
        if path.exists() and not path.is_file():
            raise NNDError(f"log_path {path}: is not a file; name one")
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass


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


def _write_log(path: Path, lines: Sequence[Line]) -> None:
    """Write the whole file; if this is interrupted, the old file stays."""
    try:
        write_text(path, "".join(f"{json.dumps(line)}\n" for line in lines))
    except NNDError as error:
        raise NNDError(f"log_path {error}") from error


def add_lines(path: Path, lines: Sequence[Line]) -> None:
    """Add lines at the end of the file.

    Raises:
        NNDError: the file cannot be read or written.
    """
    _write_log(path, [*read_log(path), *lines])


def remove_later(path: Path, step: int) -> list[Line]:
    """Remove the lines of steps after ``step`` with a warning, and return the others.

    Raises:
        NNDError: the file cannot be read or written.
    """
    lines = read_log(path)
    kept = [line for line in lines if line["step"] <= step]
    if len(kept) < len(lines):
        _write_log(path, kept)
        logger.warning(
            "%s: removed %d lines of steps after %d, left by an earlier run", path, len(lines) - len(kept), step
        )
    return kept


# ---------------------------------------------------------------- from results to rates


def rates_line(task: str, results: Mapping[str, Any]) -> Line:
    """Return ``task``, ``rates`` and ``signature`` of one task.

    Args:
        task: its name.
        results: what `nnd_tasks.evaluate` returned.

    Raises:
        NNDError: the task is not an NND task.
    """
    about = (results["configs"][task].get("metadata") or {}).get("nnd")
    if about is None:
        raise NNDError(f"NNDCallback: {task} is not an NND task, so it has no pass rate; leave it out of tasks")
    metrics = results["results"][task]
    filter_name = next(name for name in metrics if name.startswith("pass_rate,")).partition(",")[2]

    def number(metric: str) -> Any:
        value = metrics[f"{metric},{filter_name}"]
        return None if value == "N/A" else value

    rates = {ALL: _rate(number, "pass_rate", {"tests": number("tests"), "clusters": number("clusters")})}
    for category, slug in category_slugs(about["categories"]).items():
        rates.setdefault(category, _rate(number, f"pass_rate_{slug}", about["categories"][category]))
    rates = {name: rate for name, rate in rates.items() if rate["rate"] is not None}
    return {"task": task, "rates": rates, "signature": (about.get("signature") or {}).get("line")}


def _rate(number: Callable[[str], Any], metric: str, sizes: Mapping[str, int]) -> dict[str, Any]:
    return {"rate": number(metric), "stderr": number(f"{metric}_stderr"), **sizes}


def scalars(line: Line) -> Iterator[tuple[str, float]]:
    """Yield the rates of a line under the names that loggers get: ``nnd/<task>`` and ``nnd/<task>/<category>``."""
    for name, rate in line["rates"].items():
        yield f"nnd/{line['task']}" + ("" if name == ALL else f"/{name}"), rate["rate"]
