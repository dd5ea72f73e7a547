"""Where the results of lm-eval lie: ``results_DATE.json`` and, beside it, ``samples_TASK_DATE.jsonl`` of each task."""

from __future__ import annotations

import os
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path

from nnd_tasks.analysis.samples import read_lines
from nnd_tasks.errors import NNDError, noting, reason_of
from nnd_tasks.files import expand

#: Ends errors about missing files: how lm-eval comes to write them.
HOW = "run the task with --log_samples --output_path FOLDER"


def find_results(places: Iterable[str | Path], skipped: list[str] | None = None) -> dict[Path, set[Path]]:
    """Return results file -> the samples files of it to read; an empty set stands for all.

    Args:
        places: folders, results files or samples files.
        skipped: takes a line for each place, folder and file that would be an error, and the rest is returned; None raises.

    Raises:
        NNDError: a place does not exist, cannot be read or has no results, or samples lack their results.
    """
    chosen: dict[Path, set[Path]] = {}
    for place in places:
        with noting(skipped):
            path = expand(place)
            if not path.exists():
                raise NNDError(f"{path}: there is no such file or folder")
            files = _results_at(path, skipped)
            if not files:
                raise NNDError(f"{path}: no results_*.json is there; {HOW}")
            for file in map(Path.resolve, files):
                if file.exists() and not file.is_file():  # to open a pipe is to wait
                    with noting(skipped):
                        raise NNDError(f"{file}: is a pipe or a device, and no file; move it away")
                elif path.suffix == ".jsonl" and chosen.get(file, {path}):  # not yet named as a whole
                    chosen.setdefault(file, set()).add(path.resolve())
                else:
                    chosen[file] = set()
    return chosen


def samples_of(results: Path, task: str) -> Path:
    """Return where lm-eval writes the samples of a task."""
    return results.with_name(f"samples_{task}_{date_of(results)}.jsonl")


def tokens_of(results: Path, task: str) -> Path:
    """Return where `nnd run` writes the token scores of a task; the file is there only for runs with ``tokens``."""
    return results.with_name(f"tokens_{task}_{date_of(results)}.parquet")


def date_of(results: Path) -> str:
    """Return when a run was, as lm-eval writes it into the name of its results file."""
    return results.stem.removeprefix("results_")


def _results_of(samples: Path) -> Path:
    return samples.with_name(f"results_{samples.stem.rpartition('_')[2]}.json")


def _results_at(path: Path, skipped: list[str] | None) -> list[Path]:
    """Return the results files below a folder, or the one that a file is or belongs to."""
    if path.is_dir():
        files = _files_below(path, skipped)
        results = [file for file in files if fnmatch(file.name, "results_*.json")]
        known = set(results)
        for file in files:
            if fnmatch(file.name, "samples_*.jsonl") and file.is_file() and _results_of(file) not in known:
                with noting(skipped):
                    _refuse_samples_alone(file)
        return results
    if path.name.startswith("samples_") and path.is_file():
        return [_results_of(path)]
    return [path] if path.is_file() else []


def _files_below(folder: Path, skipped: list[str] | None) -> list[Path]:
    """Return all files below a folder, sorted.

    Raises:
        NNDError: a folder cannot be read (`Path.rglob` would leave it out without a word).
    """

    def refuse(error: OSError) -> None:
        with noting(skipped):
            raise NNDError(f"{error.filename}: cannot be read ({reason_of(error)})") from error

    return sorted(Path(where) / name for where, _, names in os.walk(folder, onerror=refuse) for name in names)


def _refuse_samples_alone(samples: Path) -> None:
    """Raise NNDError for samples of an NND task without their results: a model would be missing without a word."""
    _, first = next(read_lines(samples), (0, {}))
    if {"candidates", "tests"} <= first.keys():
        raise NNDError(
            f"{samples}: its results {_results_of(samples).name} are missing; put them there, or move the samples away"
        )
