"""The paper's rule on made-up scores, and reports from samples files."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd
import pytest

from nnd_tasks.errors import NNDError
from nnd_tasks.show.forms import to_markdown
from nnd_tasks.show.terminal import write_reports
from nnd_tasks.stress.stress_report import draw_levels, report_results
from nnd_tasks.stress.verdict import judge


def one(error: str, level: str, score: float, *, noise: float = 0.1, seed: int = 0, text: str = "a") -> dict[str, Any]:
    return {"text": text, "error": error, "level": level, "seed": seed, "noise": noise, "score": score}


def judged(gold: Mapping[str, float], scored: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Judge tests; a gold text that no error changed is made known by an error of its own, which is left out."""
    rows = [*scored, *(one("unchanged elsewhere", "1", -9.0, text=text) for text in gold)]
    tests = pd.DataFrame(rows)
    found = judge(tests.assign(gold=tests["text"].map(gold)))
    return found[found["error"] != "unchanged elsewhere"]


def outcome(error: str, gold: float, levels: dict[str, float], texts: int = 20) -> str:
    """Return the verdict where all texts score alike."""
    scored = [one(error, level, score, text=str(i)) for level, score in levels.items() for i in range(texts)]
    return str(judged({str(i): gold for i in range(texts)}, scored)["outcome"].iloc[0])


def test_scores_must_fall_with_every_level() -> None:
    assert outcome("token_drop", -1, {"0.1": -2, "0.5": -3}) == "pass"
    assert outcome("token_drop", -1, {"0.1": -2, "0.5": -1.5}) == "fail", "it rises again"
    assert outcome("token_drop", -1, {"0.1": -1}) == "fail", "equal to gold is not lower"
    assert outcome("token_drop", -1, {"0.1": -2}, texts=1) == "undecided"
    verdict = judged({"a": -1.0}, [one("token_drop", "0.5", -3), one("token_drop", "0.1", -2)])
    assert verdict["level"].tolist() == ["0.1", "0.5"]
    assert verdict["change"].iloc[1] == pytest.approx(-2.0)


def test_kinds_that_are_no_grades_must_each_be_below_gold() -> None:
    levels = {"specific": -3.0, "general": -2.0}
    assert outcome("injection", -1, levels) == "pass"
    assert outcome("injection", -2.5, levels) == "fail"


def test_a_fall_of_the_mean_that_half_of_the_texts_do_not_share_is_no_pass() -> None:
    """A few texts that fall far make the mean fall surely; or the mean falls by less than its texts scatter."""
    gold = {str(i): -1.0 for i in range(100)}
    far = [one("injection", "general", -3.0 if i % 2 else -0.9, text=text) for i, text in enumerate(gold)]
    verdict = judged(gold, far)
    assert verdict["step_high"].iloc[0] < 0
    assert verdict["passed"].iloc[0] == 0.5
    assert verdict["outcome"].iloc[0] == "undecided"
    little = [one("injection", "general", -1.9 if i % 3 else 0.7, text=text) for i, text in enumerate(gold)]
    verdict = judged(gold, little)
    assert verdict["rate_low"].iloc[0] > 0.5
    assert verdict["change"].iloc[0] < 0 < verdict["step_high"].iloc[0]
    assert verdict["outcome"].iloc[0] == "undecided"


@pytest.mark.parametrize("graded", [True, False])
def test_intervals_hold_the_truth_and_no_outcome_is_wrong_more_often_than_they_promise(graded: bool) -> None:
    """Made-up scores of 60 texts at two seeds and two levels: the first falls for 70% of them, the second adds nothing."""
    rng = np.random.default_rng(0)
    first, later = ("0.1", "0.5") if graded else ("specific", "general")
    error = "token_drop" if graded else "injection"
    runs, held, wrong = 400, 0, Counter[str]()
    drop = NormalDist().inv_cdf(0.7)
    for _ in range(runs):
        golds = rng.normal(-4, 1, 60)
        shift = rng.normal(0, 1, 60)  # of a text, in both seeds
        scored = []
        for seed in range(2):
            low = golds - drop * math.sqrt(1.25) + shift + rng.normal(0, 0.5, 60)
            high = (low if graded else golds) + rng.normal(0, 1, 60)  # the mean step is 0
            for name, scores in ((first, low), (later, high)):
                scored += [one(error, name, score, seed=seed, text=str(i)) for i, score in enumerate(scores)]
        verdict = judged({str(i): score for i, score in enumerate(golds)}, scored)
        low_level, high_level = verdict.itertuples()
        held += (
            low_level.step_low <= -drop * math.sqrt(1.25) <= low_level.step_high
            and high_level.step_low <= 0 <= high_level.step_high
            and low_level.rate_low <= 0.7 <= low_level.rate_high
        )
        wrong[verdict["outcome"].iloc[0]] += 1
    assert held / runs > 0.93
    assert wrong["pass"] / runs < 0.04, "the later level does not fall"
    assert wrong["fail"] / runs < 0.06


def test_levels_are_ordered_by_amount_not_by_name() -> None:
    scored = [one("truncation", level, score) for level, score in (("30", -4.0), ("5", -2.0), ("10", -3.0))]
    verdict = judged({"a": -1.0}, scored)
    assert verdict["level"].tolist() == ["5", "10", "30"]


def test_repetition_need_only_stay_below_gold() -> None:
    levels = {"10": -3.0, "20": -2.6, "30": -2.5}
    assert outcome("repetition", -2, levels) == "pass", "appendix E compares with gold, not levels with each other"
    assert outcome("repetition", -2.55, levels) == "fail"


def test_what_a_level_adds_nothing_to_keeps_what_the_level_below_gave() -> None:
    gold = {"a": -1.0, "b": -1.0, "c": -1.0}
    low = [one("middle_swap", "1", -2.0, text="a"), one("middle_swap", "1", -2.0, text="b")]
    verdict = judged(gold, [*low, one("middle_swap", "2", -4.0, text="b", noise=0.3)])
    assert verdict["score"].tolist() == pytest.approx([-5 / 3, -7 / 3])
    assert verdict["noise"].tolist() == pytest.approx([0.2 / 3, 0.4 / 3])
    assert verdict["texts"].tolist() == [2, 1]
    # Kinds do not build on each other: what one left as it was is gold.
    verdict = judged({"a": -1.0}, [one("injection", "specific", -2), one("injection", "general", -3)])
    assert verdict["score"].iloc[1] == -3


def test_what_a_seed_repeats_counts_for_it_too() -> None:
    gold = {"a": -1.0, "b": -1.0}
    scored = [one("token_drop", "0.1", score, seed=seed, text="a") for seed, score in enumerate((-2.0, -4.0))]
    verdict = judged(gold, [*scored, one("token_drop", "0.1", -3.0, seed=0, text="b")])
    [level] = verdict.itertuples()
    assert level.score == pytest.approx((-2.5 + -3.5) / 2)


def test_texts_without_a_score_take_no_part() -> None:
    gold = {"a": -1.0, "b": -9.0}
    verdict = judged(gold, [one("truncation", "0.5", -2.0), one("truncation", "0.5", math.nan, text="b")])
    assert (verdict["gold"].iloc[0], verdict["score"].iloc[0]) == (-1.0, -2.0)


def test_texts_that_were_left_as_they_were_keep_their_score_and_count() -> None:
    gold = {"a": -1.0, "b": -3.0}
    verdict = judged(gold, [one("negation", "1", -2.0, noise=0.4)])
    [level] = verdict.itertuples()
    assert verdict["gold"].iloc[0] == -2.0
    assert level.score == pytest.approx(-2.5)
    assert level.noise == pytest.approx(0.2)
    assert (level.passed, level.texts) == (1.0, 1)


def test_means_are_over_seeds() -> None:
    scored = [one("token_drop", "0.1", score, seed=seed) for seed, score in enumerate((-2.0, -3.0, -4.0))]
    verdict = judged({"a": -1.0}, scored)
    assert verdict["score"].iloc[0] == pytest.approx(-3.0)
    assert verdict["texts"].iloc[0] == 3


def test_errors_come_in_the_order_of_the_paper() -> None:
    scored = [one(name, "1", -2.0) for name in ("zzz", "negation", "truncation")]
    assert judged({"a": -1.0}, scored)["error"].tolist() == ["truncation", "negation", "zzz"]


# ---------------------------------------------------------------- files


def sample(key: str, low: float | None, **changes: Any) -> dict[str, Any]:
    test = {"test_id": f"t{key}", "category": "truncation", "subcategory": "0.5", "seed": 0, "noise_ratio": 0.5}
    scores = [
        {"sum": 4 * score, "mean": score, "tokens": 4, "bytes": 9} if score is not None else None
        for score in (-1.0, low)
    ]
    outcome = {"high": 0, "low": 1, "passed": None if low is None else low < -1.0, "tie": False}
    return {
        "doc": {"cluster_id": key, "context": "", "candidates": ["a b c d a b c d", "a b c d."]},
        "candidates": scores,
        "tests": [{**test, **outcome, **changes}],
    }


def write(folder: Path, samples: list[dict[str, Any]], model: str = "m", task: str = "nnd_blindspot_wikitext") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    signature = {
        "line": "x",
        "protocol": {"set": "nnd/x", "config": "stress"},
        "model": {"name": model},
        "environment": {},
    }
    results = {
        "config": {"model": "hf"},
        "versions": {task: 1},
        "configs": {task: {"metadata": {"nnd": {"signature": signature}}}},
        "n-samples": {task: {"effective": len(samples)}},
    }
    (folder / "results_2026-01-01T00.json").write_text(json.dumps(results))
    path = folder / f"samples_{task}_2026-01-01T00.jsonl"
    path.write_text("".join(json.dumps(item) + "\n" for item in samples))
    return path


def test_a_report_has_tables_and_the_figure(tmp_path: Path) -> None:
    write(tmp_path / "run", [sample("a", -2), sample("b", -0.5)])
    plain = sample("a", -2)
    plain["tests"] = [{key: value for key, value in plain["tests"][0].items() if key not in ("noise_ratio", "seed")}]
    write(tmp_path / "other", [plain], task="nnd_frank")
    [report] = report_results(tmp_path)
    assert (report.facts["task"], report.facts["model"]) == ("nnd_blindspot_wikitext", "m")
    [level] = report.tables[0].data.to_dict("records")
    assert (level["gold"], level["score"], level["passed"]) == (-1.0, -1.25, 0.5)
    text = to_markdown(report)
    assert text.startswith("# Blind spots: nnd_blindspot_wikitext, m\n")
    row = next(line for line in text.splitlines() if line.startswith("| truncation"))
    assert row.startswith("| truncation | undecided | 0.5 | 0.500 | -1.2500 | -25.0% | ")
    assert row.endswith(" | 2 |")
    written = write_reports([report], tmp_path / "out")
    assert {path.suffix for path in written} == {".json", ".md", ".tex", ".html", ".csv", ".png", ".svg"}
    assert all(path.stat().st_size > 100 for path in written)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {path.name for path in written}


def test_each_model_has_a_report_of_its_own(tmp_path: Path) -> None:
    write(tmp_path / "one", [sample("a", -2)], model="org/one")
    write(tmp_path / "two", [sample("a", -3)], model="org/two")
    reports = report_results(tmp_path)
    assert [(report.facts["model"], report.tables[0].data["score"].iloc[0]) for report in reports] == [
        ("one", -2),
        ("two", -3),
    ]
    assert len({path.name for path in write_reports(reports, tmp_path / "out")}) == 2 * 7


def test_unscored_texts_are_counted_and_change_no_mean(tmp_path: Path) -> None:
    write(tmp_path, [sample("a", -2), sample("b", None)])
    [report] = report_results(tmp_path)
    assert report.facts["unscored"] == {"truncation": 1}
    assert report.tables[0].data["score"].iloc[0] == -2
    assert "Texts that take no part because a score is missing: truncation 1." in to_markdown(report)


def test_every_error_is_in_the_figure_from_its_gold_score_on() -> None:
    found = [one(error, "1", -2.0) for error in ("injection", "of one's own", "token_drop")]
    figure = draw_levels(judged({"a": -1.0}, found), "score", "x")
    assert [panel.get_title() for panel in figure.axes] == ["fluency", "targeted", "other"]
    for panel in figure.axes:
        assert panel.get_lines()[0].get_xydata().tolist() == [[0.0, -1.0], [0.1, -2.0]]
    labels = [label.get_text() for label in figure.legends[0].get_texts()]
    assert labels == [f"{error} (undecided)" for error in ("token_drop", "injection", "of one's own")], "of one text"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"doc": {}, "candidates": [], "tests": [{"noise_ratio": 1}]}\n', "line 1: is not a sample of an NND task"),
        ('{"tests": [\n', r"line 1: is not valid JSON \(.*\); the file is cut off or damaged"),
        (json.dumps({**sample("a", -2), "tests": []}) + "\n", "holds no stress tests"),
        ("", "0 of 1 prompts"),
    ],
)
def test_wrong_samples_are_named(content: str, message: str, tmp_path: Path) -> None:
    write(tmp_path, [sample("a", -2)]).write_text(content)
    with pytest.raises(NNDError, match=message):
        report_results(tmp_path)


def test_nothing_scored_is_named(tmp_path: Path) -> None:
    write(tmp_path, [sample("a", None)])
    with pytest.raises(NNDError, match="holds no scored stress test"):
        report_results(tmp_path)


def test_a_folder_without_samples_says_how_to_get_them(tmp_path: Path) -> None:
    with pytest.raises(NNDError, match="--log_samples --output_path"):
        report_results(tmp_path)
    with pytest.raises(NNDError, match="there is no such file or folder"):
        report_results(tmp_path / "nowhere")


def test_names_in_the_figure_are_no_formulas(tmp_path: Path) -> None:
    verdicts = judged({"a": -1.0}, [one("truncation", "0.1", -0.5), one("$^{$", "0.1", -0.5)])
    figure = draw_levels(verdicts, "score", "x, $^{$")
    figure.savefig(tmp_path / "x.png")
    title = figure.get_suptitle()
    assert figure.texts[0]._preprocess_math(title) == ("x, $^{$", False)
