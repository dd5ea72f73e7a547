"""The paper's rule on made-up scores, and reports from samples files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnd_tasks.errors import NNDError
from nnd_tasks.stress.report import markdown, read_report, read_reports, write_reports
from nnd_tasks.stress.verdict import Scored, judge, rep_4gram


def one(error: str, level: str, score: float, *, noise: float = 0.1, seed: int = 0, text: str = "a") -> Scored:
    return Scored(text, error, level, seed, noise, score)


def test_scores_must_fall_with_every_level() -> None:
    gold = {"a": -1.0}
    falling = [one("token_drop", "0.1", -2, noise=0.1), one("token_drop", "0.5", -3, noise=0.5)]
    [verdict] = judge(gold, falling)
    assert verdict.falls
    assert [level.level for level in verdict.levels] == ["0.1", "0.5"]
    assert verdict.levels[1].change == pytest.approx(-2.0)
    [verdict] = judge(gold, [falling[0], one("token_drop", "0.5", -1.5, noise=0.5)])
    assert verdict.failed, "it rises again"
    [verdict] = judge(gold, [one("token_drop", "0.1", -1.0)])
    assert verdict.failed, "equal to gold is not lower"


def test_kinds_that_are_no_grades_must_each_be_below_gold() -> None:
    scored = [one("injection", "specific", -3), one("injection", "general", -2)]
    assert judge({"a": -1.0}, scored)[0].falls
    assert judge({"a": -2.5}, scored)[0].failed


def test_levels_are_ordered_by_noise_not_by_name() -> None:
    scored = [
        one("repetition", "30", -4, noise=3),
        one("repetition", "10", -2, noise=1),
        one("repetition", "20", -3, noise=2),
    ]
    [verdict] = judge({"a": -1.0}, scored)
    assert [level.level for level in verdict.levels] == ["10", "20", "30"]
    assert verdict.falls


def test_texts_that_were_left_as_they_were_keep_their_score_and_count() -> None:
    gold = {"a": -1.0, "b": -3.0}
    [verdict] = judge(gold, [one("negation", "1", -2.0, noise=0.4)])
    [level] = verdict.levels
    assert verdict.gold == -2.0
    assert level.score == pytest.approx(-2.5)
    assert level.noise == pytest.approx(0.2)
    assert (level.passed, level.texts) == (1.0, 1)


def test_mean_and_deviation_are_over_seeds() -> None:
    scored = [one("token_drop", "0.1", score, seed=seed) for seed, score in enumerate((-2.0, -3.0, -4.0))]
    [verdict] = judge({"a": -1.0}, scored)
    assert verdict.levels[0].score == pytest.approx(-3.0)
    assert verdict.levels[0].deviation == pytest.approx(1.0)
    assert verdict.levels[0].texts == 3


def test_errors_come_in_the_order_of_the_paper() -> None:
    scored = [one(name, "1", -2.0) for name in ("zzz", "negation", "truncation")]
    assert [verdict.error for verdict in judge({"a": -1.0}, scored)] == ["truncation", "negation", "zzz"]


@given(st.lists(st.sampled_from("abc"), max_size=30))
def test_rep_4gram_counts_repeats(words: list[str]) -> None:
    grams = [tuple(words[i : i + 4]) for i in range(len(words) - 3)]
    expected = sum(gram in grams[:i] for i, gram in enumerate(grams)) / len(grams) if grams else 0.0
    assert rep_4gram(" ".join(words)) == pytest.approx(expected)


# ---------------------------------------------------------------- files


def sample(key: str, low: float, **changes: Any) -> dict[str, Any]:
    test = {"category": "truncation", "subcategory": "0.5", "seed": 0, "noise_ratio": 0.5, "high": 0, "low": 1}
    return {
        "doc": {"cluster_id": key, "candidates": ["a b c d a b c d", "a b c d."]},
        "candidates": [{"mean": -1.0}, {"mean": low}],
        "tests": [{**test, **changes}],
    }


def write(path: Path, samples: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(item) + "\n" for item in samples))
    return path


def test_a_report_has_tables_and_the_figure(tmp_path: Path) -> None:
    path = write(
        tmp_path / "run" / "samples_nnd_blindspot_wikitext_2026-01-01T00.jsonl", [sample("a", -2), sample("b", -0.5)]
    )
    write(tmp_path / "run" / "samples_nnd_frank_2026-01-01T00.jsonl", [{"tests": [{"category": "x"}], "doc": {}}])
    [report] = read_reports(tmp_path)
    assert report == read_report(path)
    assert report.task == "nnd_blindspot_wikitext"
    [verdict] = report.verdicts
    assert (verdict.gold, verdict.levels[0].score, verdict.levels[0].passed) == (-1.0, -1.25, 0.5)
    assert report.diversity[0].gold == pytest.approx(-0.2)
    assert report.diversity[0].levels[0].score == 0
    text = markdown(report)
    assert "| `truncation` | pass | 0.5 | 0.500 | -1.2500 | 0.0000 | -25.0% | 0.0000 | 0.500 | 2 |" in text
    written = write_reports([report], tmp_path / "out")
    assert sorted(path.suffix for path in written) == [".json", ".md", ".png", ".svg"]
    assert all(path.stat().st_size > 100 for path in written)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {path.name for path in written}
    assert "truncation" in (tmp_path / "out" / "nnd_blindspot_wikitext.svg").read_text() or written


def test_failing_curves_are_bold() -> None:
    from nnd_tasks.stress.report import Report, draw

    scored = [one("truncation", "0.1", -0.5), one("token_drop", "0.1", -2.0)]
    verdicts = judge({"a": -1.0}, scored)
    figure = draw(Report("x", "score", verdicts, verdicts))
    widths = {line.get_label(): line.get_linewidth() for line in figure.axes[0].get_lines()}
    assert widths["truncation (fails)"] > widths["token_drop"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"tests": [{"noise_ratio": 1}]}\n', "line 1: is no sample of a stress test"),
        ('{"tests": [\n', "line 1: no JSON; the file is damaged"),
        ('{"tests": [{"category": "x"}]}\n', "holds no stress tests"),
        ("", "holds no stress tests"),
    ],
)
def test_wrong_samples_are_named(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "samples_x_1.jsonl").write_text(content)
    with pytest.raises(NNDError, match=message):
        read_reports(tmp_path)


def test_a_folder_without_samples_says_how_to_get_them(tmp_path: Path) -> None:
    with pytest.raises(NNDError, match="--log_samples --output_path"):
        read_reports(tmp_path)
    with pytest.raises(NNDError, match=r"no samples_\*\.jsonl"):
        read_reports(tmp_path / "nowhere")
