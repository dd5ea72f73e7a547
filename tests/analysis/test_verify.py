"""Verification: the paper's known answers on the real files, statistics against scipy and slow definitions, wrong inputs."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import Result
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau, pearsonr
from typer.testing import CliRunner

from nnd_tasks.analysis import correlation
from nnd_tasks.analysis.correlation import (
    AVERAGE,
    STATISTICS,
    correlate,
    gaps,
    mean_scores,
    verify_rates,
    verify_scores,
)
from nnd_tasks.analysis.human_scores import ATTRIBUTES, add_up, read_quiz_design, read_summeval
from nnd_tasks.analysis.text_metrics import METRICS, load_metrics
from nnd_tasks.analysis.verify import verify_set, verify_sets
from nnd_tasks.cli import app
from nnd_tasks.errors import NNDError
from nnd_tasks.sets.fetch import Source
from nnd_tasks.sets.shelf import SetRecipe
from nnd_tasks.show.report import Report

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
    tau, r, in_order = map(float, correlate(x, y))
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
    tau, r, in_order = np.ptp([correlate(x[o], y[o]) for o in orders], axis=0)
    assert tau < 1e-9
    assert r < 1e-9
    assert in_order > 0.01


def test_rounding_makes_no_order_among_equal_scores() -> None:
    assert gaps([0.1 + 0.2, 0.3, 0.4])[0] == 0
    assert correlate([0.1 + 0.2, 0.3, 0.4], [1, 2, 3])[0] == pytest.approx(kendalltau([1, 1, 2], [1, 2, 3])[0])
    assert gaps([1e-9, 2e-9, 3e-9]).all(), "small scores are no ties"


def test_many_vectors_at_once_are_as_one_by_one() -> None:
    x, y = np.random.default_rng(0).integers(0, 4, size=(2, 5, 3, 6)).astype(float)
    slow = [[correlate(a, b) for a, b in zip(p, q, strict=True)] for p, q in zip(x, y, strict=True)]
    np.testing.assert_allclose(correlate(x, y), slow)


# ---------------------------------------------------------------- rates of one's own


RATES = {"a": {"x": 0.1, "y": 0.5}, "b": {"x": 0.2, "y": 0.5}, "c": {"x": 0.4, "y": 0.9}}
HUMAN = {"a": {"x": 0.3, "y": 0.5}, "b": {"x": 0.2, "y": 0.7}, "c": {"x": 0.8, "y": 0.6}, "d": {"x": 0.0}}


def by_category(table: pd.DataFrame, column: str = "value") -> pd.DataFrame:
    """Return a column of `verify_scores` as a row per category and a column per statistic."""
    return table.pivot(index="category", columns="statistic", values=column)


def test_rates_that_a_user_measured() -> None:
    found = verify_rates(RATES, HUMAN)
    assert [*found["category"].unique()] == ["x", "y", AVERAGE]
    values = by_category(found)
    assert values.loc["x", "tau"] == pytest.approx(1 / 3)
    assert values.loc["y", "tau"] == pytest.approx(kendalltau([0.5, 0.5, 0.9], [0.5, 0.7, 0.6])[0])
    for statistic in STATISTICS:
        assert values.loc[AVERAGE, statistic] == pytest.approx(values.loc[["x", "y"], statistic].mean())
    assert "low" not in found, "rates alone have no prompts"


def test_all_tied_is_undefined_and_so_is_the_average() -> None:
    flat = {model: {"x": 0.5, "y": RATES[model]["y"]} for model in RATES}
    undefined = by_category(verify_rates(flat, HUMAN)).isna()
    assert undefined.loc["x"].all()
    assert not undefined.loc["y", "tau"]
    assert undefined.loc[AVERAGE].all()


@pytest.mark.parametrize(
    ("rates", "message"),
    [
        ({"a": RATES["a"], "b": RATES["b"]}, r"2 models \(a, b\): .* needs at least 3, of two it is 1 or -1"),
        ({}, "0 models"),
        ({**RATES, "gpt5": {"x": 1, "y": 1}}, "model 'gpt5' has no rate or no human score for category 'x'"),
        ({**RATES, "d": {"x": 0.1, "y": 0.2}}, "model 'd' has no rate or no human score for category 'y'"),
        ({**RATES, "c": {"x": 0.1}}, "model 'c' has no rate or no human score for category 'y'"),
    ],
)
def test_wrong_rates_are_named(rates: dict[str, Any], message: str) -> None:
    with pytest.raises(NNDError, match=message):
        verify_rates(rates, HUMAN)


# ---------------------------------------------------------------- resampling


def test_weights_count_contexts_as_if_they_were_repeated() -> None:
    rng = np.random.default_rng(1)
    rows = [(str(rng.integers(6)), "ab"[rng.integers(2)], *map(float, rng.random(3))) for _ in range(40)]
    outputs = pd.DataFrame(rows, columns=["prompt", "model", "x", "y", "z"])
    judged = add_up(outputs, ["a", "b"], ["x", "y", "z"])
    order = list(dict.fromkeys(outputs["prompt"]))
    weights = rng.integers(0, 4, size=(5, len(order))).astype(float)
    for w, means in zip(weights, mean_scores(judged, weights), strict=True):
        for i, model in enumerate("ab"):
            own = [scores for c, m, *scores in rows if m == model for _ in range(int(w[order.index(c)]))]
            np.testing.assert_allclose(means[i], np.mean(own, axis=0))
    np.testing.assert_allclose(mean_scores(judged), mean_scores(judged, np.ones((1, len(order))))[0])


def test_intervals_are_those_of_a_slow_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    models, prompts, resamples = list("abcdefg"), 12, 8
    outputs = pd.DataFrame([(str(i), model) for i in range(prompts) for model in models], columns=["prompt", "model"])
    outputs = outputs.assign(x=rng.random(len(outputs)), y=rng.random(len(outputs)))
    outputs["metric"] = outputs["x"] + outputs["y"] + rng.normal(size=len(outputs))
    human, metric = add_up(outputs, models, ["x", "y"]), add_up(outputs, models, ["metric"])
    monkeypatch.setattr(correlation, "RESAMPLES", resamples)
    found = verify_scores(models, ["x", "y"], metric, human).set_index(["category", "statistic"])
    weights = np.random.default_rng(0).multinomial(prompts, np.full(prompts, 1 / prompts), size=resamples)
    drawn = defaultdict(list)
    for row in weights:
        kept = [c for c in range(prompts) for _ in range(row[c])]
        x = [np.mean([metric[c, m, 0] for c in kept]) for m in range(7)]
        for k, category in enumerate("xy"):
            y = [np.mean([human[c, m, k] for c in kept]) for m in range(7)]
            drawn[category, "tau"].append(kendalltau(x, y)[0])
            drawn[category, "r"].append(pearsonr(x, y)[0])
    for statistic in ("tau", "r"):
        drawn[AVERAGE, statistic] = np.mean([drawn["x", statistic], drawn["y", statistic]], axis=0)
    for key, values in drawn.items():
        assert found.loc[key, ["low", "high"]].tolist() == pytest.approx(np.quantile(values, [0.025, 0.975]).tolist())


def test_scores_over_other_contexts_are_refused() -> None:
    rows = pd.DataFrame([(str(i), model, 0.5) for i in range(4) for model in "abc"], columns=["prompt", "model", "y"])
    with pytest.raises(ValueError, match="too many values"):
        verify_scores([*"abc"], ["y"], add_up(rows, [*"abc"], ["y"]), add_up(rows[:6], [*"abc"], ["y"]))


# ---------------------------------------------------------------- known answers


def tables_of(report: Report) -> dict[str, pd.DataFrame]:
    return {table.name: table.data for table in report.tables}


def test_quiz_design_reproduces_the_paper(data: Path) -> None:
    report = verify_set("quiz_design", data / "quiz_design" / QUIZ_FILE, {})
    found = tables_of(report)
    average = by_category(found["agreement"]).loc[AVERAGE, [*STATISTICS]]
    assert " ".join(f"{value:.2f}" for value in average) == "0.79 0.82 0.79"
    tau, r = found["agreement"].dropna(subset="paper").to_dict("records")
    assert (tau["statistic"], tau["paper"], r["statistic"], r["paper"]) == ("tau", 0.78, "r", 0.80)
    for cell in (tau, r):
        assert cell["low"] < cell["value"] < cell["high"] <= 1
    assert "1 of 2 cells" in report.findings[0]
    assert "nnd r (+0.02)" in report.findings[1]


def test_teachers_accepted_as_many_questions_as_in_the_papers_table_2(data: Path) -> None:
    outputs = read_quiz_design(data / "quiz_design" / QUIZ_FILE, [*ACCEPTED])
    accepted = outputs[[*ERRORS]].all(axis=1).groupby(outputs["model"]).mean()
    assert {model: f"{100 * share:.1f}" for model, share in accepted.items()} == ACCEPTED


def test_quiz_design_by_another_way(data: Path) -> None:
    """Recount from the raw file, with scipy for the correlations."""
    path = data / "quiz_design" / QUIZ_FILE
    reasons: dict[str, list[str]] = defaultdict(list)
    for group in lines_of(path):
        for question in group["questions"]:
            for model in question["model_name"].split("|"):
                reasons[model].append(question["reason"])
    assert sum(map(len, reasons.values())) == 3164, "what the paper counts"
    found = tables_of(verify_set("quiz_design", path, {}))
    values = by_category(found["agreement"])
    for error in ERRORS:
        pairs = found["scores"].query("category == @error")
        y = [1 - reasons[model].count(error) / len(reasons[model]) for model in ACCEPTED]
        assert pairs["human"].to_list() == pytest.approx(y)
        assert values.loc[error, "tau"] == pytest.approx(kendalltau(pairs["score"], y)[0])
        assert values.loc[error, "r"] == pytest.approx(pearsonr(pairs["score"], y)[0])


def test_summeval_reproduces_rouge(data: Path) -> None:
    path = data / "summeval" / SUMMEVAL_FILE
    report = verify_set("summeval", path, load_metrics("rouge1,rouge2,rougel"))
    found = tables_of(report)
    averages = (
        found["agreement"].query("category == @AVERAGE").pivot(index="scorer", columns="statistic", values="value")
    )
    paper = found["agreement"].dropna(subset="paper").set_index(["scorer", "statistic"])["paper"]
    assert (len(paper), paper["rouge2", "tau"], paper["rouge1", "r"]) == (6, 0.55, 0.84)
    assert [f"{value:.2f}" for value in averages["tau"]] == ["0.55"] * 3
    # What this file gives; the paper prints 0.84, 0.86 and 0.85.
    assert [f"{value:.2f}" for value in averages["r"]] == ["0.78", "0.80", "0.85"]
    assert report.facts["prompts"] == 100
    ratings: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in lines_of(path):
        for expert in row["expert_annotations"]:
            for attribute in ATTRIBUTES:
                ratings[row["model_id"], attribute].append(expert[attribute])
    for names, part in found["scores"].groupby(["scorer", "category"]):
        scorer, attribute = names
        y = [float(np.mean(ratings[system, attribute])) for system in SYSTEMS]
        assert part["model"].to_list() == SYSTEMS
        assert part["human"].to_list() == pytest.approx(y)
        line = by_category(found["agreement"].loc[found["agreement"]["scorer"] == scorer]).loc[attribute]
        assert line["tau"] == pytest.approx(kendalltau(part["score"], y)[0])
        assert line["r"] == pytest.approx(pearsonr(part["score"], y)[0])


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


def test_a_metric_is_the_mean_over_a_systems_summaries_with_the_first_reference(
    short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = short / "summeval" / SUMMEVAL_FILE
    seen: list[tuple[str, str]] = []

    def length(texts: Sequence[str], sources: Sequence[str], references: Sequence[Sequence[str]]) -> list[float]:
        seen.extend((source, one) for source, [one] in zip(sources, references, strict=True))
        return [float(len(text)) for text in texts]

    monkeypatch.setitem(METRICS, "bleu", length)
    report = verify_set("summeval", path, load_metrics("bleu"))
    rows = [row for row in lines_of(path) if row["model_id"] in SYSTEMS]
    assert seen == [(row["text"], row["references"][0]) for row in rows]
    assert report.facts["prompts"] == 8
    for row in tables_of(report)["scores"].itertuples():
        assert row.score == np.mean([len(one["decoded"]) for one in rows if one["model_id"] == row.model])


def test_bertscore_and_bartscore_run_with_a_model(
    short: Path,
    tiny_models: dict[str, Path],
    masked_model: Path,
) -> None:
    chosen = f"bertscore={masked_model},bartscore={tiny_models['t5']}"
    [report] = verify_sets("summeval", short, chosen)
    found = tables_of(report)
    assert set(found["agreement"]["scorer"]) == {"bertscore", "bartscore"}
    assert (found["scores"].query("scorer == 'bartscore'")["score"] < 0).all()


def test_a_release_without_articles_lacks_only_what_reads_them(short: Path) -> None:
    path = short / "summeval" / SUMMEVAL_FILE
    write_lines(path, [{key: value for key, value in row.items() if key != "text"} for row in lines_of(path)])
    assert set(read_summeval(path, SYSTEMS)["source"]) == {""}
    verify_set("summeval", path, load_metrics("rouge1"))
    with pytest.raises(NNDError, match="bartscore needs the articles"):
        verify_set("summeval", path, {"bartscore": METRICS["bleu"]})


# ---------------------------------------------------------------- files, downloads, wrong inputs


def test_a_question_of_several_models_counts_for_each(tmp_path: Path) -> None:
    questions = [
        {"question": "Why?", "reason": "No error", "model_name": "a|b"},
        {"question": "Who?", "reason": "disfluent", "model_name": "b"},
        {"question": "How?", "reason": "off_target", "model_name": "c|other"},
    ]
    group = {"group_id": 1, "doc_id": 1, "context": "Text.", "answer_span": "Text", "questions": questions}
    path = write_lines(tmp_path / QUIZ_FILE, [group])
    means = read_quiz_design(path, ["a", "b", "c"]).groupby("model")[[*ERRORS]].mean()
    assert means.to_numpy().tolist() == [[1.0, 1.0, 1.0], [0.5, 1.0, 1.0], [1.0, 0.0, 1.0]]
    with pytest.raises(NNDError, match=r"nothing of d is in it; is it the publisher's whole file\?"):
        read_quiz_design(path, ["a", "d"])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"references": None}, "no field 'references'"),
        ({"references": []}, "IndexError"),
        ({"expert_annotations": [{"fluency": 1}]}, "no field 'consistency'"),
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
    with pytest.raises(NNDError, match="nothing of M20, M23 is in it; is it the publisher's whole file"):
        read_summeval(path, SYSTEMS)


def test_without_a_source_the_publishers_files_are_taken(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def download(set_recipe: SetRecipe, *, progress: bool) -> Source:
        name = next(iter(set_recipe.recipe.files))
        (short / set_recipe.name / "hashes.json").write_text("{}")
        return Source(short / set_recipe.name, {name: short / set_recipe.name / name}, [], [name])

    monkeypatch.setattr("nnd_tasks.sets.fetch.download", download)
    found = verify_sets("all", None, "rouge1")
    assert [report.name for report in found] == ["verify_quiz_design", "verify_summeval"]
    (short / "quiz_design" / QUIZ_FILE).write_text("<html>quota</html>")
    with pytest.raises(NNDError, match="is not valid JSON"):
        verify_sets("quiz_design", None, "")
    assert not (short / "quiz_design" / QUIZ_FILE).exists(), "a page in place of the file must not be kept"


@pytest.mark.parametrize(
    ("name", "metrics", "message"),
    [
        ("summeval", "rogue", "there is no metric 'rogue'; there are: bleu, "),
        ("summeval", "bartscore", "metric bartscore needs a model: --metrics bartscore=FOLDER"),
        ("summeval", "bartscore=/nowhere", "metric bartscore: /nowhere cannot be used"),
        ("quizdesign", "", r"there is no set to verify on 'quizdesign'; did you mean 'quiz_design'\?"),
        ("frank", "", "there is no set to verify on 'frank'; known: quiz_design, summeval"),
    ],
)
def test_wrong_arguments_are_named(name: str, metrics: str, message: str, short: Path) -> None:
    with pytest.raises(NNDError, match=message):
        verify_sets(name, short, metrics)


# ---------------------------------------------------------------- command line


def nnd(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["verify", *map(str, arguments)])


def test_the_command_prints_and_writes(short: Path, tmp_path: Path) -> None:
    done = nnd("--source", short, "--metrics", "rouge1, bleu", "--out", tmp_path / "out")
    assert done.exit_code == 0
    assert "| nnd | average | 0.79 [" in done.stdout
    written = {path.name for path in (tmp_path / "out").iterdir()}
    parts = [".md", ".json", ".tex", ".html", "_scores.csv", "_agreement.csv"]
    assert written == {f"verify_{name}{part}" for name in ("quiz_design", "summeval") for part in parts}
    text = (tmp_path / "out" / "verify_quiz_design.md").read_text(encoding="utf-8")
    assert "| mixqg | 0.903 | 0.942 | 0.838 | 0.669 | 0.809 | 0.653 |" in text
    assert "Out of reach of public data" in text
    stored = json.loads((tmp_path / "out" / "verify_summeval.json").read_text(encoding="utf-8"))
    assert {row["scorer"] for row in stored["tables"]["agreement"]} == {"rouge1", "bleu"}
    done = nnd("quiz_design", "--source", short / "quiz_design" / QUIZ_FILE, "--format", "json")
    tau = next(row for row in json.loads(done.stdout)["tables"]["agreement"] if row["paper"])
    assert (tau["scorer"], tau["statistic"], tau["paper"], f"{tau['value']:.2f}") == ("nnd", "tau", 0.78, "0.79")


def test_the_commands_mistakes_end_in_one_line_and_write_nothing(short: Path, tmp_path: Path) -> None:
    (short / "summeval" / SUMMEVAL_FILE).rename(tmp_path / SUMMEVAL_FILE)
    out = tmp_path / "out"
    for arguments, message in (
        (["--source", tmp_path / "nowhere"], "nowhere: no such file or folder"),
        (["--source", short], f"set summeval needs {SUMMEVAL_FILE} there"),
        (["summeval", "--source", tmp_path, "--metrics", "rogue"], "there is no metric 'rogue'"),
    ):
        error = nnd("--out", out, *arguments).exception
        assert isinstance(error, NNDError), arguments
        assert message in str(error)
    assert not out.exists()
