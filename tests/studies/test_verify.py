"""Raters and rates of metrics are verified: known answers on the real files, scipy, slow definitions."""

import json
from collections import defaultdict
from itertools import combinations, permutations, product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau, pearsonr

from nnd_tasks.errors import NNDError
from nnd_tasks.studies import verify
from nnd_tasks.studies.text_metrics import METRICS, load_metrics
from nnd_tasks.studies.verify import (
    ATTRIBUTES,
    AVERAGE,
    ERRORS,
    STATISTICS,
    add_up,
    correlate,
    gaps,
    read_summeval,
    verify_rates,
    verify_scores,
    verify_set,
    verify_sets,
)
from tests.sets.tables import write_rows

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


def lines_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


# ---------------------------------------------------------------- statistics


@given(st.lists(st.tuples(st.integers(-4, 4), st.integers(-4, 4)), min_size=3, max_size=8))
def test_correlations_are_scipys_and_the_papers_definitions_ties_among_them(scores):
    x, y = np.transpose(scores) / 8
    tau, r, in_order = map(float, correlate(x, y))
    if len(set(x)) == 1 or len(set(y)) == 1:
        assert np.isnan([tau, r, in_order]).all()
        return
    assert tau == pytest.approx(kendalltau(x, y).statistic, abs=1e-9)
    for value, pairs in ((r, permutations(range(len(x)), 2)), (in_order, combinations(range(len(x)), 2))):
        gaps_of_both = zip(*((x[i] - x[j], y[i] - y[j]) for i, j in pairs), strict=True)
        assert value == pytest.approx(pearsonr(*gaps_of_both)[0], abs=1e-9)


def test_rounding_makes_no_order_among_equal_scores():
    assert gaps([0.1 + 0.2, 0.3, 0.4])[0] == 0
    assert gaps([1e-9, 2e-9, 3e-9]).all(), "small scores are no ties"


# ---------------------------------------------------------------- rates of one's own


RATES = {"a": {"x": 0.1, "y": 0.5}, "b": {"x": 0.2, "y": 0.5}, "c": {"x": 0.4, "y": 0.9}}
HUMAN = {"a": {"x": 0.3, "y": 0.5}, "b": {"x": 0.2, "y": 0.7}, "c": {"x": 0.8, "y": 0.6}, "d": {"x": 0.0}}


def by_category(table):
    """Return the values of `verify_scores` as a row per category and a column per statistic."""
    return table.pivot(index="category", columns="statistic", values="value")


def test_rates_that_a_user_measured():
    found = verify_rates(RATES, HUMAN)
    assert "low" not in found, "rates alone have no prompts"
    values = by_category(found)
    assert values.loc["x", "tau"] == pytest.approx(1 / 3)
    assert values.loc[AVERAGE].to_numpy() == pytest.approx(values.loc[["x", "y"]].mean().to_numpy())


@pytest.mark.parametrize(
    ("rates", "message"),
    [
        ({"a": RATES["a"], "b": RATES["b"]}, r"2 models \(a, b\): .* needs at least 3, of two it is 1 or -1"),
        ({**RATES, "c": {"x": 0.1}}, "model 'c' has no rate or no human score for category 'y'"),
    ],
)
def test_wrong_rates_are_named(rates, message):
    with pytest.raises(NNDError, match=message):
        verify_rates(rates, HUMAN)


# ---------------------------------------------------------------- resampling


def test_intervals_are_those_of_a_slow_loop(monkeypatch):
    rng, models, prompts, resamples = np.random.default_rng(2), list("abcde"), 12, 8
    outputs = pd.DataFrame(product(range(prompts), models), columns=["prompt", "model"])
    outputs = outputs.loc[outputs.index.repeat(rng.integers(1, 4, len(outputs)))]
    outputs[["x", "y", "metric"]] = rng.random((len(outputs), 3))
    human, metric = add_up(outputs, models, ["x", "y"]), add_up(outputs, models, ["metric"])
    monkeypatch.setattr(verify, "RESAMPLES", resamples)
    ends = verify_scores(models, ["x", "y"], metric, human)[["low", "high"]].to_numpy()
    drawn = []
    for weights in np.random.default_rng(0).multinomial(prompts, np.full(prompts, 1 / prompts), size=resamples):
        rows = np.repeat(np.arange(len(outputs)), weights[outputs["prompt"]])
        means = outputs.iloc[rows].groupby("model")[["x", "y", "metric"]].mean()
        both = [correlate(means["metric"], means[category]) for category in "xy"]
        drawn.append([*both, np.mean(both, axis=0)])
    np.testing.assert_allclose(ends.T, np.quantile(drawn, [0.025, 0.975], axis=0).reshape(2, -1))


# ---------------------------------------------------------------- known answers


def tables_of(report):
    return {table.name: table.data for table in report.tables}


def test_quiz_design_by_another_way(data):
    """Recount from the raw file, and what the paper prints."""
    path = data / "quiz_design" / QUIZ_FILE
    reasons = defaultdict(list)
    for group in lines_of(path):
        for question in group["questions"]:
            for model in question["model_name"].split("|"):
                reasons[model].append(question["reason"])
    assert sum(map(len, reasons.values())) == 3164, "what the paper counts"
    accepted = {model: f"{100 * reasons[model].count('No error') / len(reasons[model]):.1f}" for model in ACCEPTED}
    assert accepted == ACCEPTED
    report = verify_set("quiz_design", path, {})
    found = tables_of(report)
    values = by_category(found["agreement"])
    for error in ERRORS:
        pairs = found["scores"].query("category == @error")
        y = [1 - reasons[model].count(error) / len(reasons[model]) for model in ACCEPTED]
        assert pairs["human"].to_list() == pytest.approx(y)
        assert values.loc[error, [*STATISTICS]].tolist() == pytest.approx(correlate(pairs["score"], y))
    assert " ".join(f"{value:.2f}" for value in values.loc[AVERAGE, [*STATISTICS]]) == "0.79 0.82 0.79"
    assert found["agreement"].set_index("statistic")["paper"].dropna().to_dict() == {"tau": 0.78, "r": 0.80}
    assert "1 of 2 cells" in report.findings[0]
    assert "nnd r (+0.02)" in report.findings[1]


def test_summeval_reproduces_rouge(data):
    path = data / "summeval" / SUMMEVAL_FILE
    report = verify_set("summeval", path, load_metrics("rouge1,rouge2,rougel"))
    found = tables_of(report)
    averages = found["agreement"].query("category == @AVERAGE").pivot(index="scorer", columns="statistic")["value"]
    # What this file gives; the paper prints 0.84, 0.86 and 0.85 for r.
    assert [f"{value:.2f}" for value in averages["tau"]] == ["0.55"] * 3
    assert [f"{value:.2f}" for value in averages["r"]] == ["0.78", "0.80", "0.85"]
    paper = found["agreement"].dropna(subset="paper").set_index(["scorer", "statistic"])["paper"]
    assert (len(paper), paper["rouge2", "tau"], paper["rouge1", "r"]) == (6, 0.55, 0.84)
    ratings = defaultdict(list)
    for row in lines_of(path):
        for expert in row["expert_annotations"]:
            for attribute in ATTRIBUTES:
                ratings[row["model_id"], attribute].append(expert[attribute])
    for (_, attribute), part in found["scores"].groupby(["scorer", "category"]):
        assert part["model"].to_list() == SYSTEMS
        assert part["human"].to_list() == pytest.approx([np.mean(ratings[system, attribute]) for system in SYSTEMS])


# ---------------------------------------------------------------- SummEval, cut short


@pytest.fixture
def short(data, tmp_path):
    """Return a folder with eight articles of SummEval and all of Quiz Design."""
    rows = lines_of(data / "summeval" / SUMMEVAL_FILE)
    kept = list(dict.fromkeys(row["id"] for row in rows))[:8]
    (tmp_path / "quiz_design").symlink_to(data / "quiz_design")
    write_rows(tmp_path / "summeval" / SUMMEVAL_FILE, [row for row in rows if row["id"] in kept])
    return tmp_path


def test_a_metric_gets_a_systems_summaries_their_articles_and_first_references(short, monkeypatch):
    rows = [row for row in lines_of(short / "summeval" / SUMMEVAL_FILE) if row["model_id"] in SYSTEMS]

    def length(*texts):
        assert [*zip(*texts, strict=True)] == [(row["decoded"], row["text"], row["references"][:1]) for row in rows]
        return list(map(len, texts[0]))

    monkeypatch.setitem(METRICS, "bleu", length)
    assert verify_sets("summeval", short, "bleu")


def test_what_a_file_lacks_is_named(short):
    path = short / "summeval" / SUMMEVAL_FILE
    rows = lines_of(path)
    with pytest.raises(NNDError, match="nothing of M98, M99 is in it; is it the publisher's whole file"):
        read_summeval(path, ["M98", "M99"])
    write_rows(path, [{key: value for key, value in row.items() if key != "text"} for row in rows])
    verify_set("summeval", path, load_metrics("rouge1"))  # it needs no articles
    with pytest.raises(NNDError, match="bartscore needs the articles"):
        verify_set("summeval", path, {"bartscore": METRICS["bleu"]})
    del rows[5]["references"]
    with pytest.raises(NNDError, match=r"line 6.*no field 'references'"):
        read_summeval(write_rows(path, rows), SYSTEMS)


def test_the_command_prints_and_writes(short, tmp_path, nnd):
    done = nnd("verify", "--source", short, "--metrics", "rouge1, bleu", "--out", tmp_path / "out")
    assert done.status == 0
    assert "| nnd | average | 0.79 [" in done.out
    assert "| mixqg | 0.903 | 0.942 | 0.838 | 0.669 | 0.809 | 0.653 |" in done.out
    assert "Out of reach of public data" in done.out
    stored = json.loads((tmp_path / "out" / "verify_summeval.json").read_text(encoding="utf-8"))
    assert {row["scorer"] for row in stored["tables"]["agreement"]} == {"rouge1", "bleu"}
