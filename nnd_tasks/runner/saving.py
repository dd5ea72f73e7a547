"""Checking whether the files of a run are complete, and removing them; used by `nnd_tasks.runner.adapter.whole_results`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nnd_tasks.errors import NNDError
from nnd_tasks.files import writing_all


def _folder(tracker: Any) -> Path:
    """Return where lm-eval puts the files of a run."""
    path = Path(tracker.output_path)
    return path.parent if path.suffix == ".json" else path / str(tracker.general_config_tracker.model_name_sanitized)


def results_are_whole(tracker: Any, **_: Any) -> bool:
    """Tell whether the results file exists and can be read."""
    path = Path(tracker.output_path)
    name = path.stem if path.suffix == ".json" else "results"
    with suppress(OSError, ValueError, AttributeError):  # AttributeError: it failed before date_id was set
        json.loads((_folder(tracker) / f"{name}_{tracker.date_id}.json").read_text(encoding="utf-8"))
        return True
    return False


def samples_are_whole(tracker: Any, *, task_name: str, samples: Sequence[Any]) -> bool:
    """Tell whether the samples file of a task has a line for each sample."""
    with (
        suppress(OSError, AttributeError),
        (_folder(tracker) / f"samples_{task_name}_{tracker.date_id}.jsonl").open("rb") as file,
    ):
        return sum(line.endswith(b"\n") for line in file) == len(samples)
    return False


def remove_results(tracker: Any) -> None:
    """Remove the files of a run."""
    if date := getattr(tracker, "date_id", None):
        for path in (*_folder(tracker).glob(f"*_{date}.json*"), *_folder(tracker).glob(f"tokens_*_{date}.parquet")):
            with suppress(OSError):
                path.unlink()


def write_tokens(tracker: Any) -> None:
    """Write the token scores of each task, which `nnd_tasks.runner.run.guarded` left with the tracker, beside the results.

    Raises:
        NNDError: a file cannot be written; then no file of the run is kept.
    """
    tables: Mapping[str, pa.Table] = getattr(tracker, "nnd_tokens", {})
    if not tables:
        return
    files = {_folder(tracker) / f"tokens_{task}_{tracker.date_id}.parquet": table for task, table in tables.items()}
    try:
        with writing_all(files, hint="no file of this run was kept") as new:
            for path, table in zip(new, files.values(), strict=True):
                pq.write_table(table, path, compression="zstd")
    except NNDError:
        remove_results(tracker)
        raise
