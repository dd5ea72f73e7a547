"""What a run leaves on disk: results and token scores, whole or not at all; cached answers by model; a training's rates."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nnd_tasks.errors import NNDError
from nnd_tasks.files import changing, read_text, writing_all
from nnd_tasks.redact import bare_urls
from nnd_tasks.task.settings import plain_metadata
from nnd_tasks.task.signature import digest, engine_packages, environment, model_files, name_server

#: Bytes that the name of a folder may have; file systems allow 255.
_MOST_BYTES = 200
#: Stands for the time in the names of files.
_SOME_TIME = "2000-01-01T00-00-00.000000"


# ---------------------------------------------------------------- where results go


def check_output(output_path: str | None, model: Any, arguments: Mapping[str, Any], tasks: Iterable[str]) -> str | None:
    """Write and remove a file of each name that the run will write, as lm-eval would only log an error, after the run.

    Args:
        output_path: the option.
        model: what ``--model`` names, or a ready-made model.
        arguments: of the model.
        tasks: names of the tasks.

    Returns:
        Name of the folder that the model's results go to; None where lm-eval takes a random one.

    Raises:
        NNDError: a file cannot be written.
    """
    folder = _folder_name(model, arguments)
    if not output_path:
        return folder
    place = results_folder(output_path, folder)
    with changing(f"--output_path {output_path}"):
        missing = [path for path in (place, *place.parents) if not path.exists()]
        place.mkdir(parents=True, exist_ok=True)
        try:
            for name in _file_names(output_path, tasks):
                with tempfile.TemporaryDirectory(dir=place) as beside:
                    Path(beside, name).touch()
        finally:
            for path in missing:  # a run that ends with an error leaves no empty folders
                with suppress(OSError):
                    path.rmdir()
    return folder


def _folder_name(model: Any, arguments: Mapping[str, Any]) -> str | None:
    """Name the folder that a model's results go to: that of lm-eval, shortened, without secrets.

    Args:
        model: what ``--model`` names, or a ready-made model; the file of scores of ``nnd_file`` names the model.
        arguments: of the model.

    Returns:
        The name; None where the arguments name no model, so that lm-eval takes a random one.

    Raises:
        NNDError: the file of scores cannot be read.
    """
    from nnd_tasks.models.score_file import FILE  # imports torch
    from nnd_tasks.task.lengths import name_engine

    if model == FILE:
        arguments = {"model": name_engine(arguments)[1]}
    keys = ("peft", "delta", "pretrained", "model", "path", "engine")  # as `GeneralConfigTracker` of lm-eval 0.4.13
    name = next((bare_urls(str(arguments[key])) for key in keys if key in arguments), None)
    if name is None:
        return None
    folder = re.sub(r"[\"<>:/|\\?*\[\]]+", "__", name)  # as `lm_eval.utils.sanitize_model_name`
    if len(os.fsencode(folder)) <= _MOST_BYTES:
        return folder
    end = os.fsencode(folder)[-_MOST_BYTES + 14 :].decode("utf-8", "ignore")
    return f"{digest(name)}__{end}"


def results_folder(output_path: str, folder: str | None) -> Path:
    """Find the folder where lm-eval puts the files of a run.

    Args:
        output_path: the option; one that ends in ``.json`` names files in its folder.
        folder: see `check_output`.
    """
    path = Path(output_path)
    return path.parent if path.suffix == ".json" else path / (folder or "model")


def _file_names(output_path: str, tasks: Iterable[str]) -> list[str]:
    """Make up names as long as those of the files that a run writes."""
    path = Path(output_path)
    results = path.stem if path.suffix == ".json" else "results"
    samples = [
        name for task in tasks for name in (f"samples_{task}_{_SOME_TIME}.jsonl", f"tokens_{task}_{_SOME_TIME}.parquet")
    ]
    return [f"{results}_{_SOME_TIME}.json", *samples]


# ---------------------------------------------------------------- files that lm-eval wrote


def saved_folder(tracker: Any) -> Path:
    """Find the folder in which lm-eval's `EvaluationTracker` has saved the results of a run."""
    return results_folder(tracker.output_path, tracker.general_config_tracker.model_name_sanitized)


def are_saved(tracker: Any, samples: Mapping[str, int]) -> bool:
    """Tell whether the files of lm-eval's `EvaluationTracker` are whole.

    Args:
        tracker: it has saved the results of a run.
        samples: task -> number of documents in its file of samples.
    """
    folder, date = saved_folder(tracker), tracker.date_id
    try:
        [results] = folder.glob(f"*_{date}.json")
        json.loads(results.read_bytes())
        for task, count in samples.items():
            with (folder / f"samples_{task}_{date}.jsonl").open("rb") as lines:
                if sum(line.endswith(b"\n") for line in lines) != count:
                    return False
    except (OSError, ValueError):
        return False
    return True


def remove_results(tracker: Any) -> None:
    """Remove the files that lm-eval's `EvaluationTracker` has written."""
    for path in saved_folder(tracker).glob(f"*_{tracker.date_id}.json*"):
        with suppress(OSError):
            path.unlink()


def write_tokens(tracker: Any) -> None:
    """Write the token scores of each task, which `nnd_tasks.run.run` left with the tracker, beside the results.

    Raises:
        NNDError: a file cannot be written; then no file of the run is kept.
    """
    tables: Mapping[str, pa.Table] = tracker.nnd_tokens
    files = {
        saved_folder(tracker) / f"tokens_{task}_{tracker.date_id}.parquet": table for task, table in tables.items()
    }
    try:
        with writing_all(files, hint="no file of this run was kept") as new:
            for path, table in zip(new, files.values(), strict=True):
                pq.write_table(table, path, compression="zstd")
    except NNDError:
        remove_results(tracker)
        raise


# ---------------------------------------------------------------- cached answers

#: Arguments that do not change what a model answers, except for how the hardware rounds.
_INDIFFERENT = {
    "batch_size",
    "max_batch_size",
    "device",
    "num_concurrent",
    "max_retries",
    "timeout",
    "auth_token",
    "header",
    "verify_certificate",
    "ca_cert_path",
}
#: Arguments that name a model, an adapter or a tokenizer.
_NAMES = ("pretrained", "model", "peft", "delta", "tokenizer")


def cache_key(model: Any, arguments: Mapping[str, Any], *, chat: bool = False) -> str:
    """Hash what can change the answers of a model: 12 hex digits, which end the name of its file of ``--use_cache``.

    lm-eval keys an answer by the text of its request alone, so that a second model silently gets the scores of the first.

    Args:
        model: what ``--model`` names.
        arguments: the parsed ``--model_args``.
        chat: whether prompts go through the chat template, whose line feed at the end is not scored.

    Raises:
        NNDError: the model, or one of its arguments, is a Python object, whose weights have no name to key answers by.
    """
    if not isinstance(model, str):
        raise NNDError(
            "use_cache: a ready-made model has no name to key its answers by; name it with model and model_args"
        )
    given = {key: value for key, value in name_server(arguments).items() if key not in _INDIFFERENT}
    for key, value in given.items():
        if not isinstance(value, (str, int, float, bool, list, tuple, dict, type(None))):
            raise NNDError(f"use_cache: model argument {key} is a Python object, by which answers cannot be keyed")
    texts = {key: value for key, value in given.items() if isinstance(value, str)}
    scoring = ("lm_eval", "torch", "transformers", "tokenizers", "vllm")
    return digest(
        {
            "model": model,
            "arguments": given,
            "chat": chat,
            "files": {key: _describe_files(value, given) for key, value in texts.items()},
            "commits": {key: _find_commit(texts[key], given) for key in _NAMES if key in texts},
            "packages": [item for item in environment(*engine_packages(model)) if item[0] in scoring],
        }
    )


def run_key(answers: str, tasks: Iterable[Any], options: Mapping[str, Any]) -> str:
    """Hash what can change the results of a run: 12 hex digits.

    Args:
        answers: the `cache_key` of the model.
        tasks: those that are loaded.
        options: of lm-eval's `simple_evaluate`.
    """
    # Settings of ours are taken out of the metadata, in which the arguments of the model are too.
    configs = [plain_metadata({**vars(task.config), "metadata": None}) for task in tasks]
    ours = [[task.loaded.origin, task.settings.model_dump()] for task in tasks if hasattr(task, "settings")]
    others = {key: value for key, value in options.items() if key not in {*_INDIFFERENT, "metadata", "verbosity"}}
    return digest([answers, configs, ours, plain_metadata(others)])


def _describe_files(name: str, arguments: Mapping[str, Any]) -> list[Any]:
    """List name, size and time of each file of a local model, which change when the model is trained further."""
    files = model_files(name, str(arguments.get("subfolder") or ""))
    return [[str(path), path.stat().st_size, path.stat().st_mtime_ns] for path in files]


def _find_commit(name: str, arguments: Mapping[str, Any]) -> str | None:
    """Find the commit of a model, adapter or tokenizer on the hub; None if it is local, or the commit is not known."""
    from transformers.utils import cached_file

    if model_files(name):
        return None
    for file in ("config.json", "adapter_config.json", "tokenizer_config.json"):
        try:
            path = cached_file(name, file, revision=str(arguments.get("revision") or "main"))
        except Exception:  # no such file, no such model, no network: loading the model will report it  # noqa: S112
            continue
        if path and "snapshots" in (parts := Path(path).parts):
            return parts[parts.index("snapshots") + 1]
    return None


# ---------------------------------------------------------------- pass rates during a training

# The file that `NNDCallback` writes and `nnd trend` reads: one JSON object per evaluation and task.

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
            raise NNDError(f"log_path {path}, line {number}: not written by NNDCallback; name another file")
        lines.append(line)
    return lines
