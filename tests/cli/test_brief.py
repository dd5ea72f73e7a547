"""``--brief``: the numbers that decide, one row for each decision."""

from __future__ import annotations

import contextlib
import math
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
DIFFERENCE = Difference("small", "large", 0.1, 0.05, 0.15, 0.001, 0.002, 0.001, 0.04)


def comparison(difference: Difference, prompts: int = 200) -> Comparison:
    """Return models that differ so on all tests, and not at all in one category."""
    none = replace(difference, difference=0.0, low=-0.1, high=0.1, p=1.0, p_holm=1.0)
    results = [
        CategoryResult("all", 900, prompts, {"small": RATE, "large": RATE}, [difference]),
        CategoryResult("disfluent", 90, prompts, {"small": RATE, "large": RATE}, [none]),
    ]
    paired: Any = SimpleNamespace(title="nnd_demo")
    return Comparison(paired, results, [], 100, 0)


def verdict_of(difference: Difference, prompts: int = 200) -> str:
    rows = brief.brief_comparisons([comparison(difference, prompts)]).splitlines()
    assert len(rows) == 3, "one row per pair, whatever the categories"
    return rows[2]


def test_one_row_per_pair_has_difference_interval_p_and_verdict() -> None:
    assert (
        verdict_of(DIFFERENCE) == "| nnd_demo | large - small | +0.100 | +0.050 to +0.150 | 0.002 | large is better |"
    )


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"difference": -0.1, "low": -0.15, "high": -0.05}, "small is better"),
        ({"p_holm": 0.06}, "no difference shown"),
        ({"p": 0.2, "p_holm": 0.2, "low": -0.01}, "no difference shown"),
        ({"p": 0.06, "p_holm": 0.06}, "no difference shown"),
        ({"p": 0.01, "p_holm": 0.01, "low": -0.01}, "no difference shown"),  # interval and p do not agree
        ({"p": 1.0, "p_holm": 1.0, "low": -0.1, "detectable": math.inf}, "too few prompts to tell"),
    ],
)
def test_a_verdict_is_what_the_whole_report_says(changes: dict[str, Any], expected: str) -> None:
    assert verdict_of(replace(DIFFERENCE, **changes)).endswith(f"| {expected} |")


def test_few_prompts_are_marked() -> None:
    assert "†" in verdict_of(DIFFERENCE, prompts=7)


def test_a_chart_has_a_row_per_model_of_all_tests() -> None:
    point: Any = SimpleNamespace(task="nnd_demo", model="m", x=1e9, rate=0.6, low=0.55, high=0.65, category="all")
    other = SimpleNamespace(**{**vars(point), "category": "disfluent"})
    chart: Any = SimpleNamespace(points=[point, other], x="parameters")
    assert set(vars(point)) <= set(Point.__dataclass_fields__)
    assert brief.brief_chart(chart).splitlines()[2:] == ["| nnd_demo | m | 1e+09 | 0.600 | 0.550 to 0.650 |"]


def test_a_verification_has_a_row_per_score() -> None:
    average = SimpleNamespace(tau=SimpleNamespace(value=0.5), r=SimpleNamespace(value=math.nan))
    report: Any = SimpleNamespace(name="summeval", verifications=[SimpleNamespace(scorer="bleu", average=average)])
    assert brief.brief_verification([report]).splitlines()[2:] == ["| summeval | bleu | 0.50 | - |"]


def test_a_stress_report_of_one_model_has_its_verdicts_in_brief() -> None:
    verdict = Verdict("truncation", 0.0, (Level("0.5", 0.5, -1.0, 0.0, -0.1, 0.9, 10),), falls=True)
    report = StressReport("nnd_mine", "score", [verdict], [], model="m")
    assert summary([report]) == ""
    assert summary([report], least=1).splitlines()[-1] == "| `truncation` | pass 0.900 |"


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
