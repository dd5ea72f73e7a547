"""From a table of tests to the documents of the harness."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import datasets

from nnd_tasks.errors import NNDError, first_line
from nnd_tasks.schema import DOCUMENT_COLUMNS, RESERVED_COLUMNS
from nnd_tasks.tables import check_table

_TEST_KEYS = ("test_id", "category", "subcategory", "severity", "high_first")


def cluster_documents(tests: datasets.Dataset, where: str) -> datasets.Dataset:
    """Turn a table with one test per row into one document per cluster, in the order of first appearance.

    Args:
        tests: rows of the dataset schema.
        where: what to name in an error.

    Returns:
        A dataset with ``cluster_id``, ``context``, the prompt fields (all further columns that are constant within every
        cluster), ``candidates`` (distinct texts, in the order of the source) and ``tests`` (``high`` and ``low`` are
        indices into ``candidates``).

    Raises:
        NNDError: tests of one cluster have different contexts, or a prompt field has a reserved name.
    """
    extra = [name for name in tests.column_names if name not in RESERVED_COLUMNS]
    clash = DOCUMENT_COLUMNS & set(extra)
    if clash:
        raise NNDError(f"{where}: a column cannot be called {min(clash)!r}, documents use that name; rename it")
    documents: dict[str, dict[str, Any]] = {}
    positions: dict[str, dict[str, int]] = {}
    varying: set[str] = set()
    for row in tests.to_list():
        key = row["cluster_id"]
        if key not in documents:
            documents[key] = {
                "cluster_id": key,
                **{name: row[name] for name in ("context", *extra)},
                "candidates": [],
                "tests": [],
            }
            positions[key] = {}
        document, position = documents[key], positions[key]
        if document["context"] != row["context"]:
            raise NNDError(f"{where}: test {row['test_id']} has another context than the rest of its cluster {key}")
        varying.update(name for name in extra if document[name] != row[name])
        for text in (row["high"], row["low"]) if row["high_first"] else (row["low"], row["high"]):
            if text not in position:
                position[text] = len(position)
                document["candidates"].append(text)
        test = {name: row.get(name) if row.get(name) is not None else "" for name in _TEST_KEYS}
        document["tests"].append({**test, "high": position[row["high"]], "low": position[row["low"]]})
    for document in documents.values():
        for name in varying:
            del document[name]
    return datasets.Dataset.from_list(list(documents.values()))


def from_hub(path: str, name: str | None, split: str, kwargs: Mapping[str, Any]) -> datasets.Dataset:
    """Load a set that is not built here with `datasets.load_dataset`.

    Raises:
        NNDError: it is not there either, or is no NND dataset.
    """
    set_name = path.removeprefix("nnd/")
    try:
        tests = datasets.load_dataset(path, name, split=split, **kwargs)
    except Exception as error:  # datasets and the hub raise many kinds; the user's way out is one
        raise NNDError(
            f"the set {path!r} is not built here, and could not be loaded from the hub ({first_line(error)}); "
            f"run: nnd build {set_name}"
        ) from error
    return datasets.Dataset(check_table(tests.data.table, f"{path} on the hub"))
