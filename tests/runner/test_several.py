"""Runs in several processes: everything is as with one, and is written and shown once."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.runner.several import NND, cached, run, written


def close(one: Any, two: Any) -> bool:
    """Tell whether two values are equal, numbers within 1e-6 of their size; lm-eval writes some of them as texts."""
    if isinstance(one, str) and isinstance(two, str) and one != two:
        with suppress(ValueError):
            one, two = float(one), float(two)
    if isinstance(one, float) and isinstance(two, float):
        return one == pytest.approx(two, rel=1e-6, abs=1e-6)
    if isinstance(one, dict) and isinstance(two, dict):
        return list(one) == list(two) and all(close(one[key], two[key]) for key in one)
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(close(a, b) for a, b in zip(one, two, strict=True))
    return type(one) is type(two) and one == two


def test_several_processes_give_what_one_gives(tiny_models: dict[str, Path], home: Path, tmp_path: Path) -> None:
    model = f"pretrained={tiny_models['llama']},dtype=float32"
    command = [*NND, "--model", "hf", "--model_args", model, "--tasks", "nnd_demo", "--device", "cpu", "--log_samples"]
    command += ["--num_fewshot", "2", "--seed", "1", "--output_path", "out", "--use_cache", "cache/answers"]
    found = {}
    for count in (1, 2, 3):
        folder = tmp_path / str(count)
        folder.mkdir()
        first, *others = run(count, command, folder)
        assert first.status == 0, first.err[-3000:]
        assert others == [(0, "", "")] * (count - 1)
        found[count] = *written(folder / "out"), cached(folder / "cache")
    assert len(found[1][2]) == 305
    for count in (2, 3):
        for ours, one in zip(found[count], found[1], strict=True):
            assert close(ours, one)
