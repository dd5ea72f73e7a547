"""Loading a set, and grouping its tests into documents, one for each prompt."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import datasets
import pyarrow as pa
from huggingface_hub import HfApi
from huggingface_hub.errors import OfflineModeIsEnabled, RepositoryNotFoundError

from nnd_tasks.errors import NNDError, reason_of
from nnd_tasks.languages import check_languages
from nnd_tasks.schema import (
    DOCUMENT_COLUMNS,
    RESERVED_COLUMNS,
    SPANS_COLUMN,
    Breakdown,
    break_down,
    check_table,
    fingerprint,
    is_text,
    list_texts,
)
from nnd_tasks.sets.first_use import provide_set
from nnd_tasks.splits import sources_of, split_of
from nnd_tasks.store import find_dataset, list_configs, read_table
from nnd_tasks.task.settings import Settings

logger = logging.getLogger("lm_eval.nnd")

_OURS = "nnd/"
_PATIENCE = 10.0  # seconds to wait for the hub's answer
_TEST_KEYS = ("test_id", "category", "subcategory", "severity", "high_first")
_STRESS_KEYS = ("noise_ratio", "seed")  # columns that only sets of synthetic errors have


def load_documents(
    task: Any, settings: Settings, kwargs: Mapping[str, Any]
) -> tuple[Documents, dict[str, Any], Breakdown]:
    """Load the set of a task, see `cluster_documents`.

    Args:
        task: lm-eval's `TaskConfig`.
        settings: of the task.
        kwargs: further arguments of `datasets.load_dataset`, for the hub.

    Returns:
        The documents; what identifies the data: ``dataset``, ``config``, ``local``, ``fingerprint``; and the rates of parts.

    Raises:
        NNDError: the set is not built, cannot be loaded, or is not the one that the YAML declares.
    """
    if not task.dataset_path or not task.test_split:
        raise NNDError(f"task {task.task}: its YAML must set dataset_path and test_split (include _base)")
    tests, origin, where = load_tests(task.dataset_path, task.dataset_name, task.test_split, kwargs)
    config, fingerprint = str(origin["config"]), origin["fingerprint"]
    logger.info("%s: %d tests from %s (config %s, fingerprint %s)", task.task, len(tests), where, config, fingerprint)
    check_languages(task.doc_to_text, config, task.task, where)
    declared, present = settings.categories, {*tests["category"].unique().to_pylist()}
    if declared is not None and present != {*declared}:
        undeclared, absent = sorted(present - {*declared}), sorted({*declared} - present)
        raise NNDError(
            f"{where} has the undeclared categories {undeclared} and lacks the declared {absent}; task {task.task} is made for "
            "other data. Set `metadata: {version: 1-A}` in a YAML of your own to accept the categories of the data"
        )
    tests = take_split(tests, settings.split, where)
    severities = tests["severity"].unique().to_pylist() if "severity" in tests.column_names else ()
    breakdown = break_down(tests["category"].unique().to_pylist(), severities)
    return cluster_documents(tests, where), origin, breakdown


def load_tests(
    path: str, name: str | None, split: str, kwargs: Mapping[str, Any]
) -> tuple[pa.Table, dict[str, Any], str]:
    """Load a set from its local build, which is made if it can be (`provide_set`), else from the hub.

    Args:
        path: what the YAML calls ``dataset_path``.
        name: the config; None takes the default one.
        split: the split, for the hub.
        kwargs: further arguments of `datasets.load_dataset`, for the hub.

    Returns:
        The tests, one per row; what identifies them (``dataset``, ``config``, ``local``, ``fingerprint``); and where they
        come from, for errors.

    Raises:
        NNDError: the set cannot be built or loaded, or is not an NND dataset.
    """
    folder, missing = find_dataset(path), f"dataset {path!r} is not a local folder"
    if folder is None and path.startswith(_OURS):
        try:
            folder = provide_set(path)
        except NNDError as error:
            missing = str(error)
    if folder is not None:
        tests, where, default = read_table(folder, name), str(folder), list_configs(folder)[1]
    else:
        tests, default = _from_hub(path, name, split, kwargs, missing)
        where = f"{path} on the hub"
    origin = {
        "dataset": path,
        "config": name or default,
        "local": folder is not None,
        "fingerprint": fingerprint(tests),
    }
    return tests, origin, where


def _from_hub(path: str, name: str | None, split: str, kwargs: Mapping[str, Any], missing: str) -> tuple[pa.Table, str]:
    """Load a set from the hub, or from the cache of `datasets`, with its config; an error begins with why it is ``missing``."""
    try:
        if path.startswith(_OURS):  # `datasets` alone would try for a minute; offline it looks into its cache
            with suppress(OfflineModeIsEnabled):
                HfApi(token=kwargs.get("token")).dataset_info(path, revision=kwargs.get("revision"), timeout=_PATIENCE)
        tests = datasets.load_dataset(path, name, split=split, **kwargs)
    except RepositoryNotFoundError:
        raise NNDError(missing) from None
    except Exception as error:  # datasets and the hub raise many kinds
        raise NNDError(f"{missing} (and the hub could not be read: {reason_of(error)})") from error
    if "high" not in tests.column_names and "high_sha256" in tests.column_names:
        raise NNDError(f"{missing} (the hub has its ids, and no texts)")
    return check_table(tests.data.table, f"{path} on the hub"), tests.config_name


def take_split(tests: pa.Table, split: str | None, where: str) -> pa.Table:
    """Return the tests whose source is in a split, or all for None; raise NNDError, naming ``where``, if there are none."""
    if split is None:
        return tests
    chosen = [i for i, source in enumerate(sources_of(tests)) if split_of(source) == split]
    if not chosen:
        raise NNDError(f"{where}: none of its tests is in the split {split}")
    return tests.take(chosen)


class Documents(list[dict[str, Any]]):
    """Documents, at least one, with what lm-eval asks a dataset for.

    Attributes:
        features: the fields of every document.
    """

    def __init__(self, documents: Iterable[dict[str, Any]]) -> None:
        super().__init__(documents)
        self.features: Mapping[str, Any] = self[0]


def cluster_documents(tests: pa.Table, where: str) -> Documents:
    """Turn a table with one test per row into one document per prompt, in the order of first appearance.

    Args:
        tests: rows of the dataset schema; those with one ``cluster_id`` have one prompt.
        where: what to name in an error.

    Returns:
        Documents with ``cluster_id``, ``context``, the prompt fields (all further columns that are constant within every
        prompt), ``candidates`` (distinct texts, in the order of the source) and ``tests`` (``high`` and ``low`` are
        indices into ``candidates``). Where the set has error spans, ``error_spans`` has those of each candidate, each once.

    Raises:
        NNDError: tests of one prompt have different contexts, or a prompt field has a reserved name.
    """
    extra = [name for name in tests.column_names if name not in RESERVED_COLUMNS]
    clash = DOCUMENT_COLUMNS & set(extra)
    if clash:
        raise NNDError(f"{where}: a column cannot be called {min(clash)!r}, documents use that name; rename it")
    columns = {
        name: list_texts(tests[name]) if is_text(tests[name]) else tests[name].to_pylist()
        for name in tests.column_names
    }
    documents: dict[str, dict[str, Any]] = {}
    indices: dict[str, dict[str, int]] = {}  # of each document: candidate -> its index
    absent = [None] * len(tests)
    filled = {name: ["" if value is None else value for value in columns.get(name, absent)] for name in _TEST_KEYS}
    of_tests = filled | {name: columns[name] for name in _STRESS_KEYS if name in columns}
    fields = {name: columns[name] for name in ("cluster_id", "context", *extra)}
    varying: set[str] = set()
    spans = columns.get(SPANS_COLUMN, absent)
    texts = zip(columns["cluster_id"], columns["context"], columns["high"], columns["low"], strict=True)
    for i, ((cluster, context, high, low), values) in enumerate(
        zip(texts, zip(*of_tests.values(), strict=True), strict=True)
    ):
        if cluster not in documents:
            first = {name: column[i] for name, column in fields.items()}
            documents[cluster] = {**first, "candidates": [], "tests": [], "error_spans": []}
            indices[cluster] = {}
        document, known, test = documents[cluster], indices[cluster], dict(zip(of_tests, values, strict=True))
        if document["context"] != context:
            raise NNDError(
                f"{where}: test {test['test_id']} has another context than the other tests of its prompt ({cluster})"
            )
        varying.update([name for name in extra if document[name] != columns[name][i]])
        for text in (high, low) if test["high_first"] else (low, high):
            if text not in known:
                known[text] = len(known)
                document["candidates"].append(text)
                document["error_spans"].append([])
        document["tests"].append(test | {"high": known[high], "low": known[low]})
        for error in spans[i] or []:  # of marks in a text, only the test says what kind of error they are
            named = {**error, **{name: error[name] or test[name] for name in ("category", "severity")}}
            if named not in document["error_spans"][known[low]]:
                document["error_spans"][known[low]].append(named)
    left_out = varying if SPANS_COLUMN in columns else {*varying, "error_spans"}
    return Documents(
        {name: value for name, value in document.items() if name not in left_out} for document in documents.values()
    )
