"""``--brief``: the numbers that decide, one row for each decision."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from nnd_tasks.analysis.compare.paired import CategoryResult, Comparison, Difference, Rate
from nnd_tasks.analysis.curves.charts import Point
from nnd_tasks.cli import brief, main
from nnd_tasks.sets.build import build_set
from nnd_tasks.stress.stress_report import StressReport, summary
from nnd_tasks.stress.verdict import Level, Verdict

RATE = Rate(0.5, 0.01, 0.48, 0.52)
DIFFERENCE = Difference("small", "large", 0.1, 0.05, 0.15, 0.001, 0.002, 0.001, 0.04, 0.014)


def rows_of(difference: Difference, prompts: int = 200) -> list[str]:
    """Return the lines about two models that differ so on all tests, and not at all in one category."""
    none = replace(difference, difference=0.0, low=-0.1, high=0.1, p=1.0, p_holm=1.0)
    results = [
        CategoryResult("all", 900, prompts, {"small": RATE, "large": RATE}, [difference]),
        CategoryResult("disfluent", 90, prompts, {"small": RATE, "large": RATE}, [none]),
    ]
    paired: Any = SimpleNamespace(title="nnd_demo", notes=["Left out: 3 tests."])
    return brief.brief_comparisons([Comparison(paired, results, [], 100, 0)]).splitlines()


def test_one_row_per_pair_has_difference_interval_and_p_below_what_they_say() -> None:
    note, said, empty, *head, row = rows_of(DIFFERENCE)
    assert (note, empty, len(head)) == ("- nnd_demo: Left out: 3 tests.", "", 2)
    assert said.startswith("- nnd_demo: large passes more tests than small")
    assert row == "| nnd_demo | large - small | +0.100 | +0.050 to +0.150 | 0.002 | 0.040 |"


def test_few_prompts_are_marked() -> None:
    assert "†" in rows_of(DIFFERENCE, prompts=7)[-1]


def test_a_chart_has_a_row_per_model_of_all_tests() -> None:
    point: Any = SimpleNamespace(
        task="nnd_demo", model="m", x=1e9, rate=0.6, low=0.55, high=0.65, category="all", clusters=60
    )
    other = SimpleNamespace(**{**vars(point), "category": "disfluent"})
    small = SimpleNamespace(**{**vars(point), "clusters": 9})
    chart: Any = SimpleNamespace(points=[point, other, small], x="parameters")
    assert set(vars(point)) <= set(Point.__dataclass_fields__)
    row = "| nnd_demo | m | 1e+09 | 0.600 | 0.550 to 0.650"
    assert brief.brief_chart(chart).splitlines()[2:] == [f"{row} |", f"{row}† |"]


def test_a_stress_report_of_one_model_has_its_verdicts_in_brief() -> None:
    verdict = Verdict("truncation", 0.0, (Level("0.5", 0.5, -1.0, 0.0, -0.1, 0.9, 10, (-2, -1), (0.8, 0.95)),), "pass")
    report = StressReport("nnd_mine", "score", [verdict], [], model="m")
    assert summary([report]) == ""
    assert summary([report], least=1).splitlines()[-1] == "| `truncation` | pass 0.900 (0.800 to 0.950) |"


@pytest.fixture
def lines_of(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], nnd_home: object
) -> Callable[..., int]:
    build_set("demo")

    def run(*arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["nnd", *arguments])
        capsys.readouterr()
        with contextlib.suppress(SystemExit):
            main()
        return len(capsys.readouterr().out.splitlines())

    return run


@pytest.mark.parametrize("command", ["list", "show demo", "build demo", "stress errors"])
def test_brief_is_shorter(command: str, lines_of: Callable[..., int]) -> None:
    words = command.split()
    whole, short = lines_of(*words), lines_of(*words, "--brief")
    assert 0 < short <= whole
    if command in ("show demo", "build demo"):
        assert short <= 6 < whole
