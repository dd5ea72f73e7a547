"""A published set is loaded by `datasets`, and scored by a user who has only the hub."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import datasets
import pytest
from hub_upload.plan import make_plan
from huggingface_hub import HfApi

from nnd_tasks.errors import NNDError
from nnd_tasks.schema import fingerprint
from nnd_tasks.task.documents import load_tests
from tests.hub_upload.conftest import OwnSet, some_tests


def test_what_is_loaded_from_the_hub_is_what_was_built(
    own_set: Callable[..., OwnSet], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = {"all": some_tests(), "part": some_tests(12)}
    folder = own_set(tables=tables).folder
    for place, ids_only in ((tmp_path / "open", False), (tmp_path / "ids", True)):
        for path, content in make_plan("mine", "nnd/mine", ids_only=ids_only).files.items():
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            (place / path).write_bytes(content)
    shutil.rmtree(folder)
    place, load = tmp_path / "open", datasets.load_dataset

    def from_hub(path: str, *arguments: Any, **options: Any) -> Any:
        assert path == "nnd/mine"
        return load(str(place), *arguments, cache_dir=str(tmp_path / "cache" / place.name), **options)

    monkeypatch.setattr(datasets, "load_dataset", from_hub)
    monkeypatch.setattr(HfApi, "dataset_info", Mock())
    for config, table in ((None, tables["all"]), ("part", tables["part"])):
        loaded, origin, _ = load_tests("nnd/mine", config, "test", {})
        assert (origin["config"], origin["local"]) == (config or "all", False)
        assert origin["fingerprint"] == fingerprint(loaded.data.table) == fingerprint(table)
    place = tmp_path / "ids"
    with pytest.raises(NNDError, match=r"\(the hub has its ids, and no texts\)"):
        load_tests("nnd/mine", None, "test", {})

    monkeypatch.setattr(HfApi, "dataset_info", Mock(side_effect=OSError("no route")))
    with pytest.raises(NNDError, match=r"is not built here; run: nnd build frank \(and the hub could not be"):
        load_tests("nnd/frank", None, "test", {})
