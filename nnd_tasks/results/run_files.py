"""Which files are of one run: lm-eval names them by task and date, and where a name was changed, their contents tell.

Results say a digest of the answers that their samples and token scores hold (`nnd_tasks.task.signature.answers_digest`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nnd_tasks.errors import NNDError
from nnd_tasks.files import read_bytes
from nnd_tasks.results.samples import read_lines
from nnd_tasks.task.signature import answers_digest
from nnd_tasks.task.token_table import ANSWERS

#: Bytes that a results file may have; with hundreds of tasks one has a few million.
MOST_BYTES = 500_000_000


def date_of_run(file: Path, content: Mapping[str, Any]) -> str:
    """Return when a run was saved, as the name of its results file says, or else when it began, as its content says."""
    in_name = re.search(r"\d{4}-\d\d-\d\dT[\d.-]+$", file.stem)
    if in_name:
        return in_name[0]
    began = content.get("date")
    if isinstance(began, (int, float)) and not isinstance(began, bool):
        with suppress(ValueError, OverflowError, OSError):
            return datetime.fromtimestamp(began).isoformat().replace(":", "-")
    return file.stem.removeprefix("results_")


def holds_results(file: Path, answers: str = "") -> bool:
    """Tell whether a file of any name holds results of NND tasks, and among them those with some answers."""
    try:
        content = read_bytes(file, limit=MOST_BYTES)
    except NNDError:
        return False
    return all(f'"{word}"'.encode() in content for word in ("configs", "versions", "nnd", "signature", answers) if word)


def find_results(path: Path) -> Path:
    """Return the results file beside a samples file; any other file itself."""
    if path.suffix != ".jsonl":
        return path
    named = path.with_name(f"results_{path.stem.rpartition('_')[2]}.json")
    answers = "" if named.is_file() else answers_of(path)
    others = path.parent.glob("*.json") if answers else ()
    return next((file for file in sorted(others) if holds_results(file, answers)), named)


def find_samples(results: Path, task: str, date: str, answers: str) -> Path:
    """Return the samples file of a task of a results file: that of lm-eval's name, or else one with the same answers."""
    named = results.with_name(f"samples_{task}_{date}.jsonl")
    return named if named.is_file() else find_answers(results.parent, answers) or named


def find_answers(folder: Path, answers: str) -> Path | None:
    """Return the samples file of a folder that holds some answers, whatever its name is."""
    files = sorted(folder.glob("*.jsonl")) if answers else []
    return next((file for file in files if answers_of(file) == answers), None)


def find_tokens(results: Path, task: str, date: str, answers: str) -> Path:
    """Return where the token scores of a task of a results file lie; there is no such file if the run kept none."""
    named = results.with_name(f"tokens_{task}_{date}.parquet")
    if named.is_file() or not answers:
        return named
    for file in sorted(results.parent.glob("*.parquet")):
        with suppress(OSError, pa.ArrowException):
            if (pq.read_schema(file).metadata or {}).get(ANSWERS) == answers.encode():
                return file
    return named


def answers_of(file: Path) -> str:
    """Return the digest of the answers in a samples file; an empty text where it is none of an NND task."""
    try:
        return _answers_of(file, file.stat().st_mtime_ns)
    except (OSError, NNDError, KeyError, TypeError, AttributeError):
        return ""


@lru_cache(maxsize=1000)
def _answers_of(file: Path, changed: int) -> str:
    """Return the digest for a file that was changed at that time (nanoseconds)."""
    return answers_digest(score for _, sample in read_lines(file) if sample["tests"] for score in sample["candidates"])
