"""Two models on the same tests: pass rates by category, and how sure their difference is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from nnd_tasks.analysis.compare.output import between
from nnd_tasks.errors import NNDError
from nnd_tasks.statistics import PairedDifference, paired_difference

ALL = "all"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One test in a samples file of lm_eval.

    Attributes:
        cluster: the document that the test belongs to.
        category: of the test.
        passed: whether the better candidate was likelier.
    """

    cluster: str
    category: str
    passed: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two models on the tests of one category.

    Attributes:
        category: or `ALL`.
        tests: how many.
        before: pass rate of the first model.
        after: pass rate of the second.
        paired: the difference, with its interval.
    """

    category: str
    tests: int
    before: float
    after: float
    paired: PairedDifference


def read_outcomes(samples: Path) -> dict[str, Outcome]:
    """Return the outcomes in a ``samples_*.jsonl`` of lm_eval: test id -> outcome; tests without a score are left out.

    Raises:
        NNDError: the file cannot be read, or is not one of an NND task.
    """
    outcomes: dict[str, Outcome] = {}
    try:
        for line in samples.read_text(encoding="utf-8").splitlines():
            sample = json.loads(line)
            for test in sample["tests"]:
                if test["passed"] is not None:
                    cluster = sample["doc"]["cluster_id"]
                    outcomes[test["test_id"]] = Outcome(cluster, test["category"], bool(test["passed"]))
    except OSError as error:
        raise NNDError(f"cannot read {samples}: {error}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise NNDError(f"{samples} holds no samples of an NND task") from error
    return outcomes


def compare(before: Mapping[str, Outcome], after: Mapping[str, Outcome]) -> list[Comparison]:
    """Compare two models test by test: each category in the order of the alphabet, then all of them together.

    Args:
        before: test id -> outcome of the first model.
        after: the same tests with the second model.

    Raises:
        NNDError: the tests are not the same, or there is none.
    """
    if before.keys() != after.keys():
        only = len(before.keys() ^ after.keys())
        raise NNDError(
            f"the two runs are not of the same tests: {only} of {len(before.keys() | after.keys())} are in one only"
        )
    if not before:
        raise NNDError("the two runs have no test")
    comparisons = []
    for category in [*sorted({outcome.category for outcome in before.values()}), ALL]:
        counts: dict[str, list[int]] = {}
        for test_id, outcome in before.items():
            if category in (outcome.category, ALL):
                cluster = counts.setdefault(outcome.cluster, [0, 0, 0])
                cluster[0] += outcome.passed
                cluster[1] += after[test_id].passed
                cluster[2] += 1
        first, second, tests = (list(column) for column in zip(*counts.values(), strict=True))
        total = sum(tests)
        paired = paired_difference(first, second, tests)
        comparisons.append(Comparison(category, total, sum(first) / total, sum(second) / total, paired))
    return comparisons


def comparison_table(comparisons: list[Comparison], before: str, after: str) -> Table:
    """Return what is printed: a row per category, the last one set off.

    Args:
        comparisons: as `compare` returns them.
        before: what to call the first model.
        after: what to call the second.
    """
    table = Table(title="Share of tests passed", title_justify="left")
    table.add_column("category")
    for name in ("tests", before, after, "difference", "95% interval"):
        table.add_column(name, justify="right")
    for row in comparisons:
        if row.category == ALL:
            table.add_section()
        paired = row.paired
        cells = (f"{row.before:.3f}", f"{row.after:.3f}", f"{paired.difference:+.3f}")
        table.add_row(row.category, str(row.tests), *cells, between(paired.low, paired.high))
    return table
