"""The verdict of `nnd stress`: the paper's rule against slow definitions."""

import math
from statistics import fmean

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from nnd_tasks.errors import NNDError
from nnd_tasks.show.forms import to_markdown
from nnd_tasks.show.terminal import write_reports
from nnd_tasks.statistics import summarize_rate
from nnd_tasks.studies.stress.stress_report import decide, draw_levels, judge, report_results
from tests.results.fake_runs import make_document, make_sample, score, write_run


def one(error, level, score, gold=-1.0, **more):
    return {"text": "a", "error": error, "level": level, "seed": 0, "noise": 0.1, "gold": gold, "score": score, **more}


def slow_levels(rows, error):
    """Compute what `judge` documents of an error, text by text."""
    scored = [row for row in rows if not math.isnan(row["score"])]
    of_error = [row for row in scored if row["error"] == error]
    lacking = {row["text"] for row in rows if row["error"] == error and row not in scored}
    golds = {row["text"]: row["gold"] for row in scored if row["text"] not in lacking}
    graded = error != "injection"
    names = list(dict.fromkeys(row["level"] for row in of_error))
    sure = 1 - 0.05 / (2 * len(names))
    below = unchanged = {text: (gold, 0.0) for text, gold in golds.items()}
    levels = []
    for level in sorted(names, key=float) if graded else names:
        here, wins = dict(below), []
        for text in golds:
            if own := [row for row in of_error if (row["text"], row["level"]) == (text, level)]:
                here[text] = fmean(row["score"] for row in own), fmean(row["noise"] for row in own)
                wins.append([row["gold"] > row["score"] for row in own])
        step = stats.ttest_1samp([here[text][0] - below[text][0] for text in golds], 0).confidence_interval(sure)
        rate = summarize_rate(list(map(sum, wins)), list(map(len, wins)), sure)[2:]
        score, noise = np.mean([*here.values()], axis=0)
        numbers = zip(("step_low", "step_high", "rate_low", "rate_high"), (*step, *rate), strict=True)
        texts = sum(map(len, wins))
        levels.append({"error": error, "level": level, "score": score, "noise": noise, "texts": texts, **dict(numbers)})
        below = here if graded else unchanged
    return levels


@pytest.mark.parametrize("seed", range(4))
def test_means_levels_and_intervals_are_those_of_the_definition(seed):
    """Texts, levels and seeds are missing at random, and some were not scored."""
    rng = np.random.default_rng(seed)
    golds = dict(zip("abcdefgh", rng.normal(-3, 1, 8), strict=True))
    levels = {"zzz": ["1"], "injection": ["specific", "general"], "truncation": ["5", "30", "10"]}
    rows = [
        one(error, level, score, golds[text], text=text, seed=draw, noise=rng.random())
        for error, names in levels.items()
        for level in names
        for text in golds
        for draw, score in enumerate(rng.normal(-4, 1, 2))
        if rng.random() < 0.7
    ]
    for row in rng.choice(rows, 2, replace=False):
        row["score"] = math.nan
    found = judge(pd.DataFrame(rows))
    expected = pd.DataFrame([row for error in ("truncation", "injection", "zzz") for row in slow_levels(rows, error)])
    pd.testing.assert_frame_equal(found[[*expected]], expected)


@pytest.mark.parametrize(
    ("error", "gold", "levels", "outcome"),
    [
        ("token_drop", -1, {"0.1": -2, "0.5": -3}, "pass"),
        ("token_drop", -1, {"0.1": -2, "0.5": -1.5}, "fail"),  # it rises again
        ("token_drop", -1, {"0.1": -1}, "fail"),  # equal to gold is not lower
        ("injection", -1, {"specific": -3, "general": -2}, "pass"),  # kinds are no grades
        ("injection", -2.5, {"specific": -3, "general": -2}, "fail"),
        ("repetition", -2, {"10": -3, "20": -2.6, "30": -2.5}, "pass"),  # appendix E compares with gold
    ],
)
def test_all_levels_must_be_below_the_one_before_or_below_gold(error, gold, levels, outcome):
    rows = [one(error, level, score, gold, text=str(i)) for level, score in levels.items() for i in range(20)]
    assert set(judge(pd.DataFrame(rows))["outcome"]) == {outcome}
    assert outcome == "fail" or set(judge(pd.DataFrame(rows[::20]))["outcome"]) == {"undecided"}, "of one text"


@pytest.mark.parametrize(
    ("steps", "rates", "outcome"),
    [
        ((-2, -1), (0.5, 0.9), "undecided"),  # a few texts that fall far make the mean fall surely
        ((-2, 0), (0.6, 0.9), "undecided"),  # the mean falls by less than its texts scatter
        ((0, 2), (0.6, 0.9), "fail"),
        ((-2, 1), (0.1, 0.5), "fail"),
    ],
)
def test_an_error_is_seen_if_both_intervals_of_each_level_say_so(steps, rates, outcome):
    names = ["step_low", "step_high", "rate_low", "rate_high"]
    assert decide(pd.DataFrame([(-2, -1, 0.6, 0.9), (*steps, *rates)], columns=names)) == outcome


# ---------------------------------------------------------------- files


def write(folder, name, **scores):
    samples = []
    for key, low in scores.items():
        document = make_document(key, ["a b c d a b c d", "a b c d."], ["truncation"])
        document["tests"][0] |= {"subcategory": "0.5", "seed": 0, "noise_ratio": 0.5}
        samples.append(make_sample(document, [score(-1.0), low and score(low)]))
    write_run(folder, name, task="nnd_blindspot_x", samples=samples)


def test_each_model_has_a_report_with_tables_and_the_figure(tmp_path):
    write(tmp_path / "runs", "org/one", a=-2, b=-0.5, c=None)
    write(tmp_path / "runs", "org/two", a=-3)
    write_run(tmp_path / "runs", "org/three")  # of a set without synthetic errors
    reports = report_results(tmp_path / "runs")
    assert [report.facts["model"] for report in reports] == ["one", "two"]
    text = to_markdown(reports[0])
    assert text.startswith("# Blind spots: nnd_blindspot_x, one\n")
    assert "\n| truncation | undecided | 0.5 | 0.500 | -1.2500 | -25.0% | " in text
    assert "Texts that take no part because a score is missing: truncation 1." in text
    write_reports(reports, tmp_path / "out")
    assert len([*(tmp_path / "out").glob("*.png")]) == 2


def test_every_error_is_in_the_figure_from_its_gold_score_on():
    errors = ("injection", "mine", "token_drop")
    figure = draw_levels(judge(pd.DataFrame([one(error, "1", -2.0) for error in errors])), "x")
    assert [panel.get_title() for panel in figure.axes] == ["fluency", "targeted", "other"]
    for panel in figure.axes:
        assert panel.get_lines()[0].get_xydata().tolist() == [[0.0, -1.0], [0.1, -2.0]]
    labels = {label.get_text() for label in figure.legends[0].get_texts()}
    assert labels == {f"{error} (undecided)" for error in errors}, "of one text"


def test_results_without_a_scored_stress_test_are_refused(tmp_path):
    write_run(tmp_path / "other", "one")
    with pytest.raises(NNDError, match="holds no stress tests"):
        report_results(tmp_path / "other")
    write(tmp_path / "unscored", "one", a=None)
    with pytest.raises(NNDError, match="holds no scored stress test"):
        report_results(tmp_path / "unscored")
