"""Verification: the paper's known answers on the real files, statistics against scipy and slow definitions, wrong inputs."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau, pearsonr

from nnd_tasks.analysis.verify.correlation import gap_correlation, gap_correlation_in_order, gaps, rank_correlation
from nnd_tasks.analysis.verify.human_scores import ATTRIBUTES, add_up, read_quiz_design, read_summeval
from nnd_tasks.analysis.verify.verification import (
    AVERAGE,
    _draw_models,
    _resample,
    published,
    verify_rates,
    verify_scores,
)
from nnd_tasks.analysis.verify.verify_report import cells, markdown, paper_value, to_csv, to_json, write_reports
from nnd_tasks.analysis.verify.verify_sets import (
    Metrics,
    SetReport,
    TextMetrics,
    verify_quiz_design,
    verify_sets,
)
from nnd_tasks.errors import NNDError
from nnd_tasks.sets.fetch import Source
from nnd_tasks.sets.shelf import SetRecipe
from tests.commands import nnd_process

QUIZ_FILE = "quiz_design_groups.jsonl"
SUMMEVAL_FILE = "model_annotations.aligned.paired.jsonl"
#: Paper, Table 2: model and the share of its questions that teachers accepted, in the order of the table.
ACCEPTED = {
    "dgpt2_sup": "33.4",
    "gpt2b_sup": "40.9",
    "gpt2m_sup": "51.3",
    "bartb_sup": "52.0",
    "prophetnet": "53.5",
    "bartl_sup": "58.4",
    "mixqg": "68.4",
}
SYSTEMS = ["M9", "M17", "M20", "M22", "M23"]
ERRORS = ("disfluent", "off_target", "wrong_context")
QUIZ_TESTS = {"disfluent": 711, "off_target": 890, "wrong_context": 1085}


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write_lines(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


# ---------------------------------------------------------------- statistics


def slow_tau(x: Sequence[float], y: Sequence[float]) -> float:
    """Count concordant, discordant and tied pairs."""
    agree = x_untied = y_untied = 0
    for i, j in combinations(range(len(x)), 2):
        a, b = (x[i] > x[j]) - (x[i] < x[j]), (y[i] > y[j]) - (y[i] < y[j])
        agree += a * b
        x_untied += a != 0
        y_untied += b != 0
    return agree / math.sqrt(x_untied * y_untied) if x_untied and y_untied else math.nan


vectors = st.integers(3, 8).flatmap(
    lambda n: st.tuples(*[st.lists(st.integers(-4, 4), min_size=n, max_size=n) for _ in range(2)])
)


@given(vectors)
def test_correlations_are_scipys_and_the_papers_definitions_ties_among_them(pair: tuple[list[int], list[int]]) -> None:
    x, y = ([value / 8 for value in side] for side in pair)
    tau, r, in_order = (
        float(rank_correlation(x, y)),
        float(gap_correlation(x, y)),
        float(gap_correlation_in_order(x, y)),
    )
    if len(set(x)) == 1 or len(set(y)) == 1:
        assert math.isnan(tau)
        assert math.isnan(r)
        assert math.isnan(in_order)
        return
    assert tau == pytest.approx(kendalltau(x, y).statistic, abs=1e-9)
    assert tau == pytest.approx(slow_tau(x, y), abs=1e-9)
    both = list(permutations(range(len(x)), 2))
    assert r == pytest.approx(pearsonr([x[i] - x[j] for i, j in both], [y[i] - y[j] for i, j in both])[0], abs=1e-9)
    assert r == pytest.approx(pearsonr(x, y)[0], abs=1e-9), "the same as over the models themselves"
    once = list(combinations(range(len(x)), 2))
    assert in_order == pytest.approx(
        pearsonr([x[i] - x[j] for i, j in once], [y[i] - y[j] for i, j in once])[0], abs=1e-9
    )


def test_only_the_gap_correlation_in_order_depends_on_the_order() -> None:
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(2, 6))
    orders = [rng.permutation(6) for _ in range(20)]
    assert np.ptp([rank_correlation(x[o], y[o]) for o in orders]) < 1e-9
    assert np.ptp([gap_correlation(x[o], y[o]) for o in orders]) < 1e-9
    assert np.ptp([gap_correlation_in_order(x[o], y[o]) for o in orders]) > 0.01


def test_rounding_makes_no_order_among_equal_scores() -> None:
    assert gaps([0.1 + 0.2, 0.3, 0.4])[0] == 0
    assert rank_correlation([0.1 + 0.2, 0.3, 0.4], [1, 2, 3]) == pytest.approx(kendalltau([1, 1, 2], [1, 2, 3])[0])
    assert gaps([1e-9, 2e-9, 3e-9]).all(), "small scores are no ties"


def test_many_vectors_at_once_are_as_one_by_one() -> None:
    x, y = np.random.default_rng(0).integers(0, 4, size=(2, 5, 3, 6)).astype(float)
    for statistic in (rank_correlation, gap_correlation, gap_correlation_in_order):
        slow = [[float(statistic(a, b)) for a, b in zip(p, q, strict=True)] for p, q in zip(x, y, strict=True)]
        np.testing.assert_allclose(statistic(x, y), slow)


# ---------------------------------------------------------------- rates of one's own


RATES = {"a": {"x": 0.1, "y": 0.5}, "b": {"x": 0.2, "y": 0.5}, "c": {"x": 0.4, "y": 0.9}}
HUMAN = {"a": {"x": 0.3, "y": 0.5}, "b": {"x": 0.2, "y": 0.7}, "c": {"x": 0.8, "y": 0.6}, "d": {"x": 0.0}}


def test_rates_that_a_user_measured() -> None:
    found = verify_rates(RATES, HUMAN)
    assert [row.category for row in found.rows] == ["x", "y", AVERAGE]
    x, y, average = found.rows
    assert x.tau.value == pytest.approx(1 / 3)
    assert y.tau.value == pytest.approx(kendalltau([0.5, 0.5, 0.9], [0.5, 0.7, 0.6])[0])
    assert average.tau.value == pytest.approx((x.tau.value + y.tau.value) / 2)
    assert average.r.value == pytest.approx((x.r.value + y.r.value) / 2)
    assert x.tau.intervals == {}, "three models cannot be resampled"
    assert [line["category"] for line in found.table()] == ["x", "y", AVERAGE]


def test_with_five_models_there_is_an_interval_over_models() -> None:
    rates = {str(i): {"x": value} for i, value in enumerate((0.1, 0.3, 0.2, 0.6, 0.9))}
    human = {str(i): {"x": value} for i, value in enumerate((0.2, 0.1, 0.4, 0.5, 0.7))}
    [x, average] = verify_rates(rates, human, resamples=500).rows
    low, high = x.tau.intervals["models"]
    assert -1 <= low < x.tau.value < high <= 1
    assert list(x.tau.intervals) == ["models"], "rates alone have no contexts"
    assert average.tau == x.tau
    assert verify_rates(rates, human, resamples=500).rows == (x, average), "the same seed"
    line = verify_rates(rates, human, resamples=500).table()[0]
    assert (line["tau_models_low"], line["tau_models_high"]) == (low, high)


def test_all_tied_is_undefined_and_so_is_the_average() -> None:
    flat = {model: {"x": 0.5, "y": RATES[model]["y"]} for model in RATES}
    x, y, average = verify_rates(flat, HUMAN).rows
    assert math.isnan(x.tau.value)
    assert not math.isnan(y.tau.value)
    assert math.isnan(average.r.value)


@pytest.mark.parametrize(
    ("rates", "message"),
    [
        ({"a": RATES["a"], "b": RATES["b"]}, r"2 models \(a, b\): .* needs at least 3, of two it is 1 or -1"),
        ({}, "0 models"),
        ({**RATES, "gpt5": {"x": 1, "y": 1}}, "model 'gpt5' has no human score; there are: a, b, c, d"),
        ({**RATES, "d": {"x": 0.1, "y": 0.2}}, "model 'd' has no human score for category 'y'"),
        ({**RATES, "c": {"x": 0.1}}, "model 'c' has no rate for category 'y'"),
        ({**RATES, "c": {"x": math.nan, "y": 0.1}}, "model 'c', category 'x': the rate is not a number, found nan"),
        ({**RATES, "c": {"x": "high", "y": 0.1}}, "the rate is not a number, found 'high'"),
        ({"a": {}, "b": {}, "c": {}}, "there is no category"),
    ],
)
def test_wrong_rates_are_named(rates: dict[str, Any], message: str) -> None:
    with pytest.raises(NNDError, match=message):
        verify_rates(rates, HUMAN)


# ---------------------------------------------------------------- resampling


def test_weights_count_contexts_as_if_they_were_repeated() -> None:
    rng = np.random.default_rng(1)
    rows = [(str(rng.integers(6)), "ab"[rng.integers(2)], [float(v) for v in rng.random(3)]) for _ in range(40)]
    judged = add_up(rows, ["a", "b"], ["x", "y", "z"])
    order = list(dict.fromkeys(context for context, _, _ in rows))
    weights = rng.integers(0, 4, size=(5, len(order))).astype(float)
    found = judged.means(weights)
    for w, means in zip(weights, found, strict=True):
        for i, model in enumerate("ab"):
            own = [v for c, m, v in rows if m == model for _ in range(int(w[order.index(c)]))]
            np.testing.assert_allclose(means[i], np.mean(own, axis=0))
    np.testing.assert_allclose(judged.means(), judged.means(np.ones((1, len(order))))[0])


@pytest.mark.parametrize(("by_context", "by_model"), [(True, False), (False, True), (True, True)])
def test_resamples_are_those_of_a_slow_loop(by_context: bool, by_model: bool) -> None:
    rng = np.random.default_rng(2)
    models, contexts = list("abcdefg"), 12
    outputs = [(str(i), model, [float(v) for v in rng.random(2)]) for i in range(contexts) for model in models]
    human = add_up(outputs, models, ["x", "y"])
    metric = add_up([(c, m, [sum(v) + float(rng.normal())]) for c, m, v in outputs], models, ["metric"])
    found = _resample(metric, human, by_context, by_model, resamples=8, seed=5)
    draws = np.random.default_rng(5)
    weights = (
        draws.multinomial(contexts, np.full(contexts, 1 / contexts), size=8) if by_context else [[1] * contexts] * 8
    )
    chosen = _draw_models(draws, 7, 8) if by_model else [list(range(7))] * 8
    for i in range(8):
        kept = [c for c in range(contexts) for _ in range(weights[i][c])]
        x = [np.mean([metric.sums[c, m, 0] for c in kept]) for m in chosen[i]]
        for k in range(2):
            y = [np.mean([human.sums[c, m, k] for c in kept]) for m in chosen[i]]
            assert found["tau"][i, k] == pytest.approx(kendalltau(x, y)[0])
            assert found["r"][i, k] == pytest.approx(pearsonr(x, y)[0])
        assert found["tau"][i, 2] == pytest.approx((found["tau"][i, 0] + found["tau"][i, 1]) / 2)


@pytest.mark.parametrize("models", [5, 7, 20])
def test_drawn_models_are_three_different_ones_in_order(models: int) -> None:
    draws = _draw_models(np.random.default_rng(0), models, 1000)
    assert draws.shape == (1000, models)
    assert all(len(set(row)) >= 3 and list(row) == sorted(row) for row in draws.tolist())


def test_scores_over_other_contexts_are_refused() -> None:
    rows = [(str(i), model, [0.5]) for i in range(4) for model in "abc"]
    with pytest.raises(ValueError, match="different prompts"):
        verify_scores("x", "abc", ["y"], add_up(rows, "abc", ["x"]), add_up(rows[:6], "abc", ["y"]))


# ---------------------------------------------------------------- known answers


def test_published_rates_are_whole_numbers_of_tests_and_pool_to_the_overall_rate() -> None:
    for model in published()["quiz_design"]["models"]:
        passed = {category: model["pass_rates"][category] * count for category, count in QUIZ_TESTS.items()}
        assert all(abs(count - round(count)) < 0.001 for count in passed.values()), model["name"]
        assert sum(map(round, passed.values())) / 2686 == pytest.approx(model["overall"], abs=1e-6)
    table = published()["table_1"]
    assert all(len(row) == len(table["columns"]) == 6 for row in table["rows"].values())
    assert (paper_value("quiz_design", "nnd", "tau"), paper_value("quiz_design", "nnd", "r")) == (0.78, 0.80)
    assert paper_value("summeval", "rougel", "r") == 0.85
    assert paper_value("summeval", "chrf", "r") is None
    assert paper_value("summeval", "bleu", "r_in_order") is None


def test_quiz_design_reproduces_the_paper(data: Path) -> None:
    report = verify_quiz_design(data / "quiz_design" / QUIZ_FILE, resamples=500)
    assert {model: f"{100 * share:.1f}" for model, share in report.acceptance.items()} == ACCEPTED
    [found] = report.verifications
    assert found.models == tuple(ACCEPTED), "Table 2's order"
    average = found.average
    assert f"{average.tau.value:.2f} {average.r.value:.2f} {average.r_in_order.value:.2f}" == "0.79 0.82 0.79"
    tau, r = cells([report])
    assert (tau.name, tau.paper, tau.agrees) == ("QGen NND", 0.78, True)
    assert (r.paper, r.agrees, f"{r.in_order:.2f}") == (0.80, False, "0.79")
    for cell in (tau, r):
        low, high = cell.ours.intervals["contexts"]
        assert low < cell.ours.value < high <= 1
        wide = cell.ours.intervals["both"]
        assert wide[1] - wide[0] > high - low, "models drawn anew as well"


def test_quiz_design_by_another_way(data: Path) -> None:
    """Recount from the raw file, with scipy for the correlations."""
    path = data / "quiz_design" / QUIZ_FILE
    reasons: dict[str, list[str]] = defaultdict(list)
    for group in lines_of(path):
        for question in group["questions"]:
            for model in question["model_name"].split("|"):
                reasons[model].append(question["reason"])
    assert sum(map(len, reasons.values())) == 3164, "what the paper counts"
    [found] = verify_quiz_design(path, resamples=0).verifications
    rates = {model["name"]: model["pass_rates"] for model in published()["quiz_design"]["models"]}
    for row, error in zip(found.rows, ERRORS, strict=False):
        y = [1 - reasons[model].count(error) / len(reasons[model]) for model in ACCEPTED]
        x = [rates[model][error] for model in ACCEPTED]
        assert [found.human[model][error] for model in ACCEPTED] == pytest.approx(y)
        assert row.category == error
        assert row.tau.value == pytest.approx(kendalltau(x, y)[0])
        assert row.r.value == pytest.approx(pearsonr(x, y)[0])
    # The human table of the file serves rates of one's own.
    again = verify_rates({model: rates[model] for model in ACCEPTED}, found.human, resamples=0)
    assert again.average.tau.value == pytest.approx(found.average.tau.value)


def test_summeval_reproduces_rouge(data: Path) -> None:
    path = data / "summeval" / SUMMEVAL_FILE
    [report] = verify_sets("summeval", path, Metrics(["rouge1", "rouge2", "rougel"]), resamples=200)
    found = {one.scorer: one.average for one in report.verifications}
    assert [f"{row.tau.value:.2f}" for row in found.values()] == ["0.55"] * 3
    # What this file gives; the paper prints 0.84, 0.86 and 0.85.
    assert [f"{row.r.value:.2f}" for row in found.values()] == ["0.78", "0.80", "0.85"]
    assert report.contexts == (100, "articles")
    ratings: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in lines_of(path):
        for expert in row["expert_annotations"]:
            for attribute in ATTRIBUTES:
                ratings[row["model_id"], attribute].append(expert[attribute])
    for one in report.verifications:
        x = [one.scores[system][one.scorer] for system in SYSTEMS]
        for line in one.rows[:-1]:
            y = [float(np.mean(ratings[system, line.category])) for system in SYSTEMS]
            assert [one.human[system][line.category] for system in SYSTEMS] == pytest.approx(y)
            assert line.tau.value == pytest.approx(kendalltau(x, y)[0])
            assert line.r.value == pytest.approx(pearsonr(x, y)[0])


# ---------------------------------------------------------------- SummEval, cut short


@pytest.fixture
def short(data: Path, tmp_path: Path) -> Path:
    """Return a folder with eight articles of SummEval and all of Quiz Design."""
    rows = lines_of(data / "summeval" / SUMMEVAL_FILE)
    kept = list(dict.fromkeys(row["id"] for row in rows))[:8]
    folder = tmp_path / "sources"
    write_lines(folder / "summeval" / SUMMEVAL_FILE, [row for row in rows if row["id"] in kept])
    write_lines(folder / "quiz_design" / QUIZ_FILE, lines_of(data / "quiz_design" / QUIZ_FILE))
    return folder


def change(path: Path, number: int, **fields: Any) -> Path:
    """Replace fields of a line; None removes one."""
    rows = lines_of(path)
    rows[number] = {key: value for key, value in {**rows[number], **fields}.items() if value is not None}
    return write_lines(path, rows)


def first_of(path: Path, system: str) -> int:
    return next(i for i, row in enumerate(lines_of(path)) if row["model_id"] == system)


def test_a_metric_is_the_mean_over_a_systems_summaries_with_the_first_reference(short: Path) -> None:
    path = short / "summeval" / SUMMEVAL_FILE
    summaries = read_summeval(path, SYSTEMS)
    seen: list[tuple[str, str]] = []

    def length(texts: Sequence[str], sources: Sequence[str], references: Sequence[Sequence[str]]) -> list[float]:
        seen.extend((source, one) for source, [one] in zip(sources, references, strict=True))
        return [float(len(text)) for text in texts]

    judged = summaries.judge({"length": summaries.score(length)})
    rows = [row for row in lines_of(path) if row["model_id"] in SYSTEMS]
    assert seen == [(row["text"], row["references"][0]) for row in rows]
    assert judged.prompts == summaries.human.prompts == 8
    for system, means in judged.table().items():
        assert means == {"length": np.mean([len(row["decoded"]) for row in rows if row["model_id"] == system])}


def test_bertscore_and_bartscore_run_with_a_model(
    short: Path,
    tiny_models: dict[str, Path],
    masked_model: Path,
) -> None:
    chosen = Metrics(model=str(tiny_models["t5"]), encoder=str(masked_model))
    [report] = verify_sets("summeval", short, chosen, resamples=50)
    bart = {f"bartscore_{variant}" for variant in ("p", "r", "f", "faithful")}
    scorers = {one.scorer for one in report.verifications}
    assert scorers >= {"bertscore", *bart}
    assert not set(report.not_run) & {"bertscore", "bartscore"}
    names = {(cell.name, cell.scorer) for cell in cells([report])}
    assert names >= {("Summ BERT", "bertscore"), *(("Summ BARTScore", one) for one in bart)}
    assert all(one.scores["M22"]["bartscore_f"] < 0 for one in report.verifications if one.scorer == "bartscore_f")


def test_what_cannot_run_is_listed_unless_it_was_asked_for(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    [report] = verify_sets("summeval", short, resamples=50)
    assert report.not_run["bleu"].startswith("metric bleu needs sacrebleu: pip install sacrebleu")
    assert report.not_run["bertscore"] == "it needs an encoder: --encoder FOLDER"
    assert report.not_run["bartscore"] == "it needs an encoder-decoder: --model FOLDER"
    assert {one.scorer for one in report.verifications} >= {"rouge1", "rouge2", "rougel"}
    assert "- bertscore: it needs an encoder: --encoder FOLDER" in markdown([report])
    with pytest.raises(NNDError, match="metric bleu needs sacrebleu"):
        verify_sets("summeval", short, Metrics(["bleu"]), resamples=50)


def test_a_release_without_articles_lacks_only_what_reads_them(short: Path) -> None:
    path = short / "summeval" / SUMMEVAL_FILE
    write_lines(path, [{key: value for key, value in row.items() if key != "text"} for row in lines_of(path)])
    summaries = read_summeval(path, SYSTEMS)
    constant = {name: lambda texts, *_: [1.0] * len(texts) for name in ("bartscore_faithful", "bartscore_p")}
    scores, not_run = TextMetrics(constant, {}, strict=False).score(summaries)
    assert list(scores) == ["bartscore_p"]
    assert "needs the articles" in not_run["bartscore_faithful"]
    with pytest.raises(NNDError, match="bartscore_faithful needs the articles"):
        TextMetrics(constant, {}, strict=True).score(summaries)


# ---------------------------------------------------------------- tables


@pytest.fixture
def reports(short: Path) -> list[SetReport]:
    return verify_sets("all", short, Metrics(["bleu", "chrf", "rouge1"]), resamples=50)


def test_tables_say_the_same_in_markdown_json_and_csv(reports: list[SetReport], tmp_path: Path) -> None:
    written = write_reports(reports, tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["verify.csv", "verify.json", "verify.md"]
    text, data, table = ((tmp_path / "out" / f"verify.{kind}").read_text() for kind in ("md", "json", "csv"))
    assert {path.name for path in written} == {"verify.md", "verify.json", "verify.csv"}
    found = json.loads(data)
    rows = list(csv.DictReader(io.StringIO(table)))
    # Quiz Design: 3 categories and the average; SummEval: 4 and the average for three metrics; three statistics each.
    assert len(rows) == len(found["correlations"]) == 3 * (4 + 3 * 5)
    for row, line in zip(rows, found["correlations"], strict=True):
        assert {key: "" if value is None else str(value) for key, value in line.items()} == row
    [nnd] = [r for r in rows if (r["scorer"], r["category"], r["statistic"]) == ("nnd", AVERAGE, "tau")]
    assert (nnd["paper"], nnd["models"], nnd["contexts"]) == ("0.78", "7", "377")
    assert f"{float(nnd['value']):.2f}" == "0.79"
    assert found["sets"]["quiz_design"]["acceptance"]["mixqg"] == pytest.approx(309 / 452)
    assert found["sets"]["quiz_design"]["resamples"] == 50
    assert "| mixqg (MixQG-L) | 68.4% | 68.4% | 0.709 | 0.903 | 0.669 | 0.942 | 0.809 | 0.838 | 0.653 |" in text
    assert "Apart: QGen NND r (nnd, +0.02)" in text
    [line] = [line for line in text.splitlines() if line.startswith("| QGen NND | nnd | r |")]
    assert line.startswith("| QGen NND | nnd | r | 0.80 | 0.82 | ")
    assert line.endswith(" | +0.02 | 0.79 |")


def test_cells_out_of_reach_are_named_with_why(reports: list[SetReport]) -> None:
    text = markdown(reports)
    for line in (
        "- QGen, all text metrics: Quiz Design has no reference questions",
        "- GenQA, NND: NND rates of the 11B answerers that people judged were not published",
        "- Summ, NND: NND rates of the five summarizers were not published",
        "- Summ, QuestEval: ",
    ):
        assert line in text
    assert {row["column"] for row in json.loads(to_json(reports))["unreachable"]} == {"QGen", "GenQA", "Summ"}
    assert "- Summ" not in markdown(reports[:1])


def test_what_is_undefined_is_said_so() -> None:
    flat = {model: {"x": 0.5} for model in "abc"}
    found = verify_rates(flat, {model: {"x": i} for i, model in enumerate("abc")}, resamples=0)
    report = SetReport("summeval", "made up", (3, "articles"), [found])
    assert "| nnd | x | undefined | - | - | undefined |" in markdown([report])
    assert json.loads(to_json([report]))["correlations"][0]["value"] is None
    assert to_csv([report]).splitlines()[1].startswith("summeval,nnd,x,tau,,")


# ---------------------------------------------------------------- files, downloads, wrong inputs


def test_a_question_of_several_models_counts_for_each(tmp_path: Path) -> None:
    questions = [
        {"question": "Why?", "reason": "No error", "model_name": "a|b"},
        {"question": "Who?", "reason": "disfluent", "model_name": "b"},
        {"question": "How?", "reason": "off_target", "model_name": "c|other"},
    ]
    group = {"group_id": 1, "doc_id": 1, "context": "Text.", "answer_span": "Text", "questions": questions}
    path = write_lines(tmp_path / QUIZ_FILE, [group])
    human, accepted = read_quiz_design(path, ["a", "b", "c"])
    assert accepted == {"a": 1.0, "b": 0.5, "c": 0.0}
    assert human.table()["b"] == {"disfluent": 0.5, "off_target": 1.0, "wrong_context": 1.0}
    with pytest.raises(NNDError, match=r"no question of d; is it the publisher's whole file\?"):
        read_quiz_design(path, ["a", "d"])
    questions[1]["reason"] = "dull"
    with pytest.raises(NNDError, match=r"line 1: unknown label 'dull'; the labels are No error, disfluent"):
        read_quiz_design(write_lines(path, [group]), ["a"])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"references": []}, r"field 'references': its first reference is missing"),
        ({"references": ["  ", "x"]}, r"field 'references': its first reference is missing or empty"),
        ({"references": None}, "no field 'references'"),
        ({"expert_annotations": []}, "no expert rated the summary"),
        ({"expert_annotations": [dict.fromkeys(ATTRIBUTES, 6)]}, "ratings lie in 1 to 5, these do not"),
        ({"expert_annotations": [{"fluency": 1}]}, "no field 'consistency'"),
        ({"decoded": 3}, "field 'decoded': expected text, found a number"),
    ],
)
def test_wrong_rows_of_summeval_are_named(fields: dict[str, Any], message: str, short: Path) -> None:
    path = short / "summeval" / SUMMEVAL_FILE
    number = first_of(path, "M17")
    with pytest.raises(NNDError, match=f"line {number + 1}.*{message}"):
        read_summeval(change(path, number, **fields), SYSTEMS)


def test_a_missing_system_is_named(short: Path) -> None:
    path = short / "summeval" / SUMMEVAL_FILE
    write_lines(path, [row for row in lines_of(path) if row["model_id"] not in ("M20", "M23")])
    with pytest.raises(NNDError, match="no summary of M20, M23; is it the publisher's whole file"):
        read_summeval(path, SYSTEMS)


def test_without_a_source_the_publishers_files_are_taken(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def download(set_recipe: SetRecipe, *, progress: bool) -> Source:
        name = next(iter(set_recipe.recipe.files))
        (short / set_recipe.name / "hashes.json").write_text("{}")
        return Source(short / set_recipe.name, {name: short / set_recipe.name / name}, [], [name])

    monkeypatch.setattr("nnd_tasks.sets.fetch.download", download)
    found = verify_sets("all", None, Metrics(["rouge1"]), resamples=0)
    assert [report.name for report in found] == ["quiz_design", "summeval"]
    (short / "quiz_design" / QUIZ_FILE).write_text("<html>quota</html>")
    with pytest.raises(NNDError, match="is not valid JSON"):
        verify_sets("quiz_design")
    assert not (short / "quiz_design" / QUIZ_FILE).exists(), "a page in place of the file must not be kept"


def test_no_network_says_how_to_pass_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    def download(set_recipe: SetRecipe, *, progress: bool) -> Source:
        raise NNDError(f"download it by hand and pass it with: nnd build {set_recipe.name} --source FILE_OR_DIR")

    monkeypatch.setattr("nnd_tasks.sets.fetch.download", download)
    with pytest.raises(NNDError, match="nnd verify quiz_design --source FILE_OR_DIR"):
        verify_sets("quiz_design")


@pytest.mark.parametrize(
    ("name", "metrics", "message"),
    [
        ("summeval", Metrics(["rogue"]), "there is no metric 'rogue'; there are: bleu, "),
        ("summeval", Metrics([]), "--metrics: names no metric"),
        ("summeval", Metrics(["mauve"]), "mauve scores a set of texts as a whole"),
        ("summeval", Metrics(["bartscore_p"]), "metric bartscore_p needs an encoder-decoder: --model FOLDER"),
        (
            "summeval",
            Metrics(["bartscore_p"], model="/nowhere"),
            "--model /nowhere: no encoder-decoder could be loaded",
        ),
        ("quiz_design", Metrics(["bleu"]), "Quiz Design has no references; text metrics go with summeval"),
        ("quizdesign", None, r"there is nothing to verify 'quizdesign' with; did you mean 'quiz_design'\? expected"),
        ("frank", None, "there is nothing to verify 'frank' with; expected quiz_design, summeval or all"),
    ],
)
def test_wrong_arguments_are_named(name: str, metrics: Metrics | None, message: str, tmp_path: Path) -> None:
    (tmp_path / SUMMEVAL_FILE).touch()
    with pytest.raises(NNDError, match=message):
        verify_sets(name, tmp_path, metrics)


# ---------------------------------------------------------------- command line


def nnd(*arguments: str) -> tuple[int, str, str]:
    return nnd_process("verify", *arguments)


def test_the_command_prints_and_writes(short: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ("--source", str(short), "--metrics", "rouge1, bleu", "--out", str(out))
    status, printed, errors = nnd("all", *arguments)
    assert (status, errors) == (0, "")
    assert (out / "verify.md").read_text() in printed
    assert "| nnd | **average** | 0.79 | " in printed
    scorers = {line["scorer"] for line in json.loads((out / "verify.json").read_text())["correlations"]}
    assert scorers == {"nnd", "rouge1", "bleu"}
    status, printed, _ = nnd("quiz_design", "--source", str(short / "quiz_design" / QUIZ_FILE))
    assert status == 0
    assert "## summeval" not in printed


def test_the_commands_mistakes_end_in_one_line_and_write_nothing(short: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (short / "summeval" / SUMMEVAL_FILE).rename(tmp_path / SUMMEVAL_FILE)
    (tmp_path / "file").write_text("")
    quiz = short / "quiz_design" / QUIZ_FILE
    for arguments, message in (
        (["--source", str(tmp_path / "nowhere")], "nowhere: no such file or folder"),
        (["--source", str(short)], f"set summeval needs {SUMMEVAL_FILE} there"),
        (["--source", str(quiz)], "is the file of one set; name the set (quiz_design or summeval), or give a folder"),
        (["summeval", "--source", str(tmp_path), "--metrics", "rogue"], "there is no metric 'rogue'"),
        (["quiz_design", "--encoder", "x"], "Quiz Design has no references"),
        (["quiz_design", "--source", str(short), "--out", str(tmp_path / "file")], "is a file; name a folder"),
    ):
        status, _, errors = nnd(*arguments, *([] if "--out" in arguments else ["--out", str(out)]))
        assert status == 1, arguments
        assert errors.startswith("nnd: error: ")
        assert message in errors
        assert errors.count("\n") == 1
    assert not out.exists()
    assert (tmp_path / "file").read_text() == ""
