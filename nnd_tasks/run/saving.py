"""The files of a run: their names, token scores beside lm-eval's results, and all removed where one could not be written."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nnd_tasks.errors import NNDError
from nnd_tasks.files import writing_all
from nnd_tasks.redact import bare_urls
from nnd_tasks.task.signature import digest

#: Bytes that the name of a folder may have; file systems allow 255.
_MOST_BYTES = 200
#: Stands for the time in the names of files.
_SOME_TIME = "2000-01-01T00-00-00.000000"


def folder_name(arguments: Mapping[str, Any]) -> str | None:
    """Return the name of the folder that a model's results go to: that of lm-eval, shortened, without secrets.

    Args:
        arguments: of the model.

    Returns:
        The name; None where the arguments name no model, so that lm-eval takes a random one.
    """
    keys = ("peft", "delta", "pretrained", "model", "path", "engine")  # as `GeneralConfigTracker` of lm-eval 0.4.13
    name = next((bare_urls(str(arguments[key])) for key in keys if key in arguments), None)
    if name is None:
        return None
    folder = re.sub(r"[\"<>:/|\\?*\[\]]+", "__", name)  # as `lm_eval.utils.sanitize_model_name`
    if len(os.fsencode(folder)) <= _MOST_BYTES:
        return folder
    end = os.fsencode(folder)[-_MOST_BYTES + 14 :].decode("utf-8", "ignore")
    return f"{digest(name)}__{end}"


def results_folder(output_path: str | None, folder: str | None) -> Path | None:
    """Return where lm-eval puts the files of a run; None if it writes none.

    Args:
        output_path: the option; one that ends in ``.json`` names files in its folder.
        folder: see `folder_name`.
    """
    if not output_path:
        return None
    path = Path(output_path)
    return path.parent if path.suffix == ".json" else path / (folder or "model")


def file_names(output_path: str, tasks: Iterable[str]) -> list[str]:
    """Return names as long as those of the files that a run writes."""
    path = Path(output_path)
    results = path.stem if path.suffix == ".json" else "results"
    samples = [
        name for task in tasks for name in (f"samples_{task}_{_SOME_TIME}.jsonl", f"tokens_{task}_{_SOME_TIME}.parquet")
    ]
    return [f"{results}_{_SOME_TIME}.json", *samples]


def _folder(tracker: Any) -> Path:
    folder = results_folder(tracker.output_path, tracker.general_config_tracker.model_name_sanitized)
    assert folder is not None
    return folder


def remove_results(tracker: Any) -> None:
    """Remove the files that lm-eval's `EvaluationTracker` has written."""
    for path in _folder(tracker).glob(f"*_{tracker.date_id}.json*"):
        with suppress(OSError):
            path.unlink()


def write_tokens(tracker: Any) -> None:
    """Write the token scores of each task, which `nnd_tasks.run.run` left with the tracker, beside the results.

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
