"""Results that are damaged or of several runs: refused in one line. Forgery is not looked for."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nnd_tasks.analysis.results import read_results
from nnd_tasks.errors import NNDError

Lines = list[dict[str, Any]]


def damage(results: Path, change: Callable[[Lines, Lines], object]) -> None:
    """Change the samples of gpt2; those of llama are there to be mixed with them."""
    files = [next((results / name).rglob("samples_*.jsonl")) for name in ("gpt2", "llama")]
    own, other = ([json.loads(line) for line in file.read_text().splitlines()] for file in files)
    change(own, other)
    files[0].write_text("".join(json.dumps(line) + "\n" for line in own))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda own, other: own.__setitem__(slice(5, 10), other[5:]),
            r"its tests give \S+ [\d.]+, results_.*: they are not of one run",
        ),
        (lambda own, _: own.extend(own), r"jsonl: test \S+ is there twice"),
        (lambda own, _: own[0]["candidates"].pop(), r"line 1: .*damaged \(4 scores of 5 candidates\)"),
        (lambda own, _: own[0].pop("tests"), r"line 1: is not a sample of an NND task \(it has no 'tests'\)"),
        (lambda own, _: own[1]["doc"]["candidates"].append("\ud800"), r"line 2: .*surrogates not allowed"),
        (lambda own, _: own[1]["tests"][0].update(low=9), r"line 2: is not a sample of an NND task, or damaged"),
    ],
)
def test_what_is_damaged_or_of_two_runs_is_refused(change: Any, message: str, results: Path) -> None:
    damage(results, change)
    with pytest.raises(NNDError) as caught:
        read_results([results])
    assert re.search(message, str(caught.value)), caught.value
    assert "\n" not in str(caught.value)


def test_scores_that_are_infinite_or_missing_are_no_contradiction(results: Path) -> None:
    def blank(own: Lines, _: Lines) -> None:
        own[0]["candidates"][own[0]["tests"][0]["low"]] |= {"sum": None, "mean": None}

    damage(results, blank)  # as a sum of -inf is written: the test passed
    assert len(read_results([results])) == 3
