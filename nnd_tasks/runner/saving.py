"""The files of a run: token scores beside lm-eval's results, and all of them removed where one could not be written."""

from __future__ import annotations

from collections.abc import Mapping
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


def remove_results(tracker: Any) -> None:
    """Remove the files that lm-eval's `EvaluationTracker` has written."""
    for path in _folder(tracker).glob(f"*_{tracker.date_id}.json*"):
        with suppress(OSError):
            path.unlink()


def write_tokens(tracker: Any) -> None:
    """Write the token scores of each task, which `nnd_tasks.runner.run` left with the tracker, beside the results.

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
