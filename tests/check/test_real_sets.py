"""The paper's sets: no error is found in them, and what is counted agrees with what their builds counted."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from nnd_tasks.cleaning import clean_name

from nnd_tasks.check.checking import CheckReport, check_set
from nnd_tasks.check.findings import Severity
from nnd_tasks.datasets import read_report
from tests.conftest import needs_data, once

SETS = ("quiz_design", "challenge300", "summeval", "frank", "mqm", "news_gpt3")
#: Of large sets one config and its clean one; the others are made by the same code.
CONFIGS = {"mqm": ["newstest2021_ende", "newstest2021_ende_clean"], "summeval": ["authors", "clean"]}

pytestmark = [pytest.mark.slow, needs_data]


@pytest.fixture(scope="module")
def folders(built_home: Path) -> dict[str, Path]:
    return {name: built_home / "nnd" / name for name in SETS}


@pytest.fixture(scope="module")
def report_of(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], CheckReport]:
    """Return set -> its report; each set is checked once for all processes of a run."""

    @cache
    def report(name: str) -> CheckReport:
        def make(folder: Path) -> None:
            checked = check_set(str(folders[name]), configs=CONFIGS.get(name, ()), run=False)
            folder.mkdir()
            (folder / "report").write_bytes(pickle.dumps(checked))

        found: CheckReport = pickle.loads((once(tmp_path_factory, f"checked_{name}", make) / "report").read_bytes())
        return found

    return report


def counts(report: CheckReport, config: str) -> dict[str, int]:
    return {one.code: one.count for one in report.findings if one.config == config and one.code != "trivial_rule_often"}


@pytest.mark.parametrize("name", SETS)
def test_nothing_is_wrong_with_the_published_sets(name: str, report_of: Callable[[str], CheckReport]) -> None:
    assert [one for one in report_of(name).findings if one.severity is Severity.ERROR] == []
    assert report_of(name).exit_code() == 0


@pytest.mark.parametrize("name", SETS)
def test_counts_are_those_of_the_cleaning(
    name: str, folders: dict[str, Path], report_of: Callable[[str], CheckReport]
) -> None:
    """The cleaning reads the annotations; the check sees the tests only."""
    checked = 0
    for config, built in read_report(folders[name]).items():
        found = counts(report_of(name), config)
        if "cleaning" not in built or config not in report_of(name).sizes:
            continue
        checked += 1
        reasons = {reason: part["tests"] for reason, part in built["cleaning"]["reasons"].items()}
        for reason in ("repeated", "empty"):
            assert found.get(reason, 0) == reasons[reason]
        # Two empty candidates are equal texts for the one, empty for the other.
        assert (
            found.get("equal_texts", 0) <= reasons["equal_texts"] <= found.get("equal_texts", 0) + found.get("empty", 0)
        )
        # Labels that no test has on both sides are not in the tests.
        assert (found.get("contradictory", 0) > 0) <= (reasons["contradictory"] > 0)
        assert found.get("contradictory", 0) <= reasons["contradictory"]
        cleaned = counts(report_of(name), clean_name(config))
        assert not {"repeated", "empty", "equal_texts", "contradictory"} & set(cleaned)
    assert checked


def test_what_is_known_of_them_is_found(report_of: Callable[[str], CheckReport]) -> None:
    few = {one.config: one.message for one in report_of("challenge300").findings if one.code == "few_contexts"}
    assert few["authors"] == "fewer than 10 prompts: Comparison (4), Creativity (7), Entity (9)"
    assert counts(report_of("quiz_design"), "authors")["repeated"] == 113
    assert counts(report_of("mqm"), "newstest2021_ende")["equal_texts"] == 1_211
    [rule] = [
        one for one in report_of("news_gpt3").findings if one.code == "trivial_rule_often" and one.config == "cnn"
    ]
    assert rule.message.startswith("preference: a baseline passes 82.0% of 205 tests: the longer candidate wins")


def test_a_run_of_every_task(folders: dict[str, Path]) -> None:
    report = check_set(str(folders["quiz_design"]))
    assert len(report.ran) == 7
    assert not {"run_failed", "run_unscored"} & {one.code for one in report.findings}
    assert report.ran == report.tasks
