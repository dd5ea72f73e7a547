"""Loading a set, and grouping its tests into documents, one for each prompt."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import datasets

from nnd_tasks.datasets import find_dataset, list_configs, no_set, read_table
from nnd_tasks.errors import NNDError, reason_of
from nnd_tasks.harness.sample_order import sample_order
from nnd_tasks.schema import DOCUMENT_COLUMNS, RESERVED_COLUMNS, SPANS_COLUMN
from nnd_tasks.tables import check_table, fingerprint

_OURS = "nnd/"
_PATIENCE = 10.0  # seconds to wait for the hub's answer
_TEST_KEYS = ("test_id", "category", "subcategory", "severity", "high_first")
_STRESS_KEYS = ("noise_ratio", "seed")  # columns that only sets of synthetic errors have


def cluster_documents(tests: datasets.Dataset, where: str) -> datasets.Dataset:
    """Turn a table with one test per row into one document per prompt, in the order of first appearance.

    Args:
        tests: rows of the dataset schema; those with one ``cluster_id`` have one prompt.
        where: what to name in an error.

    Returns:
        A dataset with ``cluster_id``, ``context``, the prompt fields (all further columns that are constant within every
        prompt), ``candidates`` (distinct texts, in the order of the source) and ``tests`` (``high`` and ``low`` are
        indices into ``candidates``). Where the set has error spans, ``error_spans`` has those of each candidate, each once.

    Raises:
        NNDError: tests of one prompt have different contexts, or a prompt field has a reserved name.
    """
    extra = [name for name in tests.column_names if name not in RESERVED_COLUMNS]
    clash = DOCUMENT_COLUMNS & set(extra)
    if clash:
        raise NNDError(f"{where}: a column cannot be called {min(clash)!r}, documents use that name; rename it")
    documents: dict[str, dict[str, Any]] = {}
    positions: dict[str, dict[str, int]] = {}
    stress = [name for name in _STRESS_KEYS if name in tests.column_names]
    varying: set[str] = set()
    marked = SPANS_COLUMN in tests.column_names
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
            raise NNDError(
                f"{where}: test {row['test_id']} has another context than the other tests of its prompt ({key})"
            )
        varying.update(name for name in extra if document[name] != row[name])
        for text in (row["high"], row["low"]) if row["high_first"] else (row["low"], row["high"]):
            if text not in position:
                position[text] = len(position)
                document["candidates"].append(text)
        test = {name: row.get(name) if row.get(name) is not None else "" for name in _TEST_KEYS}
        test |= {name: row[name] for name in stress}
        document["tests"].append({**test, "high": position[row["high"]], "low": position[row["low"]]})
        if marked:
            errors = document.setdefault("error_spans", [])
            errors += [[] for _ in document["candidates"][len(errors) :]]
            own = errors[position[row["low"]]]
            for error in row[SPANS_COLUMN] or []:  # of marks in a text, only the test says what kind of error they are
                named = {**error, **{name: error[name] or test[name] for name in ("category", "severity")}}
                if named not in own:
                    own.append(named)
    for document in documents.values():
        for name in varying:
            del document[name]
    return datasets.Dataset.from_list(list(documents.values()))


def sample_of(documents: datasets.Dataset, count: int) -> list[int]:
    """Return the places of ``count`` prompts in ascending order, the first of `sample_order`; all if there are fewer."""
    categories = [{test["category"] for test in tests} for tests in documents["tests"]]
    return sorted(islice(sample_order(documents["cluster_id"], categories), count))


def load_tests(
    path: str, name: str | None, split: str, kwargs: Mapping[str, Any]
) -> tuple[datasets.Dataset, dict[str, Any], str]:
    """Load a set from its local build or, if there is none, from the hub.

    Args:
        path: what the YAML calls ``dataset_path``.
        name: the config; None takes the default one.
        split: the split, for the hub.
        kwargs: further arguments of `datasets.load_dataset`, for the hub.

    Returns:
        The tests, one per row; what identifies them (``dataset``, ``config``, ``local``, ``fingerprint``); and where they
        come from, for errors.

    Raises:
        NNDError: the set is not built, cannot be loaded, or is not an NND dataset.
    """
    folder = find_dataset(path)
    if folder is not None:
        tests, where = datasets.Dataset(read_table(folder, name)), str(folder)
        name = name or list_configs(folder)[1]
    else:
        if path.startswith(_OURS):
            _check_published(path, kwargs)
        tests, where = _from_hub(path, name, split, kwargs), f"{path} on the hub"
        name = name or tests.config_name
    origin = {
        "dataset": path,
        "config": name,
        "local": folder is not None,
        "fingerprint": fingerprint(tests.data.table),
    }
    return tests, origin, where


def _check_published(path: str, kwargs: Mapping[str, Any]) -> None:
    """Ask the hub whether it has a set of the namespace ``nnd``; `datasets` would retry for a minute.

    Raises:
        NNDError: the hub does not have the set, or cannot be asked.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import OfflineModeIsEnabled, RepositoryNotFoundError

    why = ""
    try:
        HfApi().dataset_info(path, revision=kwargs.get("revision"), token=kwargs.get("token"), timeout=_PATIENCE)
        return
    except (OfflineModeIsEnabled, RepositoryNotFoundError) as error:
        if isinstance(error, OfflineModeIsEnabled) and _cached(path):
            return
    except Exception as error:  # the network and the hub raise many kinds
        why = f" (and the hub could not be asked for it: {reason_of(error)})"
    raise NNDError(f"{_not_built(path)}{why}")


def _cached(path: str) -> bool:
    """Tell whether `datasets` has a dataset of the hub in its cache."""
    return (Path(datasets.config.HF_DATASETS_CACHE) / path.replace("/", "___")).is_dir()


def _not_built(path: str) -> str:
    name = path.removeprefix(_OURS)
    why = no_set(name)
    return f"the {why}" if why.startswith("set ") else why


def _from_hub(path: str, name: str | None, split: str, kwargs: Mapping[str, Any]) -> datasets.Dataset:
    try:
        tests = datasets.load_dataset(path, name, split=split, **kwargs)
    except Exception as error:  # datasets and the hub raise many kinds
        raise NNDError(
            f"the dataset {path!r} is not a local folder, and could not be loaded from the hub ({reason_of(error)})"
        ) from error
    if "high" not in tests.column_names and "high_sha256" in tests.column_names:
        raise NNDError(f"{_not_built(path)} (the hub has its ids, and no texts)")
    table = check_table(tests.data.table, f"{path} on the hub")
    return datasets.Dataset(table, info=datasets.DatasetInfo(config_name=tests.config_name))
