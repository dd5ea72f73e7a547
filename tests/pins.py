"""Numbers that analyses gave, kept in a JSON file: a change of the code must not move them."""

from __future__ import annotations

import dataclasses
import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from nnd_tasks.show.report import Report

#: Key (such as ``set/model/category/quantity``) -> number, or a text such as a verdict.
Pins = dict[str, float | int | str]
#: Takes an empty folder, where it makes the results that it looks at.
Collect = Callable[[Path], Pins]


def flat(value: Any, *names: object) -> Pins:
    """Return the numbers of dataclasses, mappings and lists within each other, keyed by names joined with ``/``."""
    if dataclasses.is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        parts = list(value.items())
    elif isinstance(value, list | tuple):
        parts = list(enumerate(value))
    elif isinstance(value, int | float):
        return {"/".join(map(str, names)): value}
    else:
        return {}
    return {key: number for name, part in parts for key, number in flat(part, *names, name).items()}


def tables_of(report: Report) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each table of a report."""
    return {table.name: table.data.to_dict("records") for table in report.tables}


def check_pins(collect: Collect, name: str, file: Path, scratch: Path) -> None:
    """Raise AssertionError where an analysis gives other numbers than ``file`` holds under ``name``."""
    pinned = _joined(json.loads(file.read_text(encoding="utf-8"))[name])
    found = collect(scratch)
    assert found.keys() == pinned.keys()
    moved = {key: (value, found[key]) for key, value in pinned.items() if not _same(found[key], value)}
    assert not moved, "(pinned, found)"


def _same(found: float | int | str, pinned: float | int | str) -> bool:
    return bool(found == (pinned if isinstance(pinned, str) else pytest.approx(pinned, rel=1e-9, nan_ok=True)))


def write_pins(collectors: Mapping[str, Collect], file: Path) -> None:
    """Write what all analyses give today, to ten digits; with no ``--write`` among the arguments, say how to."""
    if sys.argv[1:] != ["--write"]:
        sys.exit(f"--write replaces {file.name} by the numbers of today; review the change")
    pins = {}
    for name, collect in collectors.items():
        with tempfile.TemporaryDirectory() as scratch:
            pins[name] = _split(collect(Path(scratch)))
    file.write_text(json.dumps(pins, indent=0, ensure_ascii=False) + "\n", encoding="utf-8")


def _split(pins: Pins) -> dict[str, Any]:
    """Return mappings within each other, a level for each ``/`` of a key."""
    split: dict[str, Any] = {}
    for key, value in pins.items():
        *names, last = key.split("/")
        level = split
        for name in names:
            level = level.setdefault(name, {})
        level[last] = _ten_digits(value)
    return split


def _joined(split: Mapping[str, Any], start: str = "") -> Pins:
    """Undo `_split`."""
    pins: Pins = {}
    for name, value in split.items():
        pins |= _joined(value, f"{start}{name}/") if isinstance(value, dict) else {start + name: value}
    return pins


def _ten_digits(value: float | int | str) -> float | int | str:
    return float(f"{value:.10g}") if isinstance(value, float) else value
