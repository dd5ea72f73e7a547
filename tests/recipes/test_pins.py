"""The data of every config are what they were: tests, their order, and every cell.

``pins.json`` holds what the real files give. A change of it changes numbers of users, so it is made on purpose and told in
CHANGELOG.md. To write it anew: ``NND_WRITE_PINS=1 pytest tests/recipes/test_pins.py``.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nnd_tasks.datasets import list_configs, read_table
from nnd_tasks.tables import summarize
from tests.conftest import TODAY, needs_data

PINS = Path(__file__).with_name("pins.json")
SETS = ("quiz_design", "challenge300", "summeval", "frank", "mqm", "news_gpt3", "demo", "webnlg", "hanna")


def pinned(folder: Path) -> dict[str, Any]:
    """Return config -> what its data are known by."""
    pins: dict[str, Any] = {}
    for config in list_configs(folder)[0]:
        table = read_table(folder, config)
        summary = summarize(config, table)
        ids = hashlib.sha256("\n".join(table.column("test_id").to_pylist()).encode()).hexdigest()
        pins[config] = {
            "tests": summary.tests,
            "categories": summary.categories,
            "test_ids_sha256": ids,
            "fingerprint": summary.fingerprint,
        }
    return pins


@pytest.fixture
def folder_of(request: pytest.FixtureRequest, real_sets: Callable[[str], Path]) -> Callable[[str], Path]:
    """Return what gives the folder of a set."""
    return lambda name: real_sets(name) if name in TODAY else request.getfixturevalue("built_home") / "nnd" / name


@needs_data
@pytest.mark.skipif("NND_WRITE_PINS" not in os.environ, reason="pins are not to be written; set NND_WRITE_PINS")
def test_pins_are_written(folder_of: Callable[[str], Path]) -> None:
    found = {name: pinned(folder_of(name)) for name in (*SETS, *TODAY)}
    PINS.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


@needs_data
@pytest.mark.parametrize("name", [*SETS, *TODAY])
def test_every_config_is_what_it_was(name: str, folder_of: Callable[[str], Path]) -> None:
    assert pinned(folder_of(name)) == json.loads(PINS.read_text("utf-8"))[name]
