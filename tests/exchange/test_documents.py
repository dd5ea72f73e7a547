"""Results of any lm-eval task: read, compared as scipy does, and refused in one line."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest, permutation_test

from nnd_tasks.errors import NNDError
from nnd_tasks.exchange.any_task import label_documents
from nnd_tasks.exchange.document_report import report_documents
from nnd_tasks.results.compare import compare_runs
from nnd_tasks.results.read_runs import read_results
from nnd_tasks.significance import holm
from nnd_tasks.statistics import clustered_mean

pytestmark = pytest.mark.slow
LABELS = {
    *(
        f"{task} ({metric})"
        for task in ("mc", "mc_equal", "mc_a", "mc_b", "mc_c", "mc_d")
        for metric in ("acc", "acc_norm")
    ),
    *("gen (exact_match, strict)", "gen (exact_match, flexible)", "overlap (overlap)"),
}


@pytest.fixture(scope="module")
def runs(stock):
    left_out = []
    found = read_results(stock, skipped=left_out)
    kinds = re.findall(r"(\w+) of a document is a (\w+)", "\n".join(left_out))
    assert sorted(kinds) == sorted([("lengths", "list"), ("said", "text")] * 2)
    assert len(left_out) == 4
    return found


def values_of(stock, model, task, metric, choice="none"):
    """Read the values of a metric from the samples as they are."""
    [path] = (stock / model).rglob(f"samples_{task}_*.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return np.array([float(line[metric]) for line in lines if line["filter"] == choice])


def test_every_metric_and_filter_is_a_run_with_the_mean_that_lm_eval_reports(runs):
    assert {run.set for run in runs} == LABELS
    for comparison in compare_runs(runs):
        for run, rate in zip(comparison.paired.runs, comparison.rates["rate"], strict=False):
            key = f"{run.protocol['metric']},{run.protocol['filter']}"
            assert rate == pytest.approx(run.reported[key], abs=1e-12), run.set


@pytest.mark.parametrize(
    ("task", "metric", "choice"),
    [
        ("mc_a", "acc", "none"),
        ("mc_a", "acc_norm", "none"),
        ("gen", "exact_match", "flexible"),
        ("overlap", "overlap", "none"),
    ],
)
def test_p_and_interval_are_those_of_scipy(runs, stock, task, metric, choice):
    chosen = [run for run in runs if run.task == task and run.protocol["filter"] == choice]
    [one] = compare_runs([run for run in chosen if run.protocol["metric"] == metric])
    row = one.differences.iloc[0]
    first, second = (values_of(stock, name, task, metric, choice) for name in (row["first"], row["second"]))
    paired = second - first
    assert row["difference"] == pytest.approx(paired.mean())
    assert row["standard_error"] == pytest.approx(paired.std(ddof=1) / len(paired) ** 0.5)
    better, worse = int((paired > 0).sum()), int((paired < 0).sum())
    assert better + worse > 0
    if set(np.abs(paired)) <= {0, 1}:
        mcnemar = binomtest(better, better + worse).pvalue
        assert row["p"] == pytest.approx(mcnemar, rel=1e-9 if better + worse <= 13 else 0.15)
    of_scipy = permutation_test(
        (paired,),
        np.sum,
        permutation_type="samples",
        n_resamples=10_000,
        alternative="two-sided",
        rng=np.random.default_rng(1),
    )
    assert row["p"] == pytest.approx(of_scipy.pvalue, abs=0.02)


def test_p_values_are_corrected_over_tasks_and_over_the_parts_of_groups(runs):
    comparisons = compare_runs(runs)
    parts = [one.paired.runs[0].task.startswith("mc_") and one.paired.runs[0].task != "mc_equal" for one in comparisons]
    for of_group in (False, True):
        rows = [one.differences.iloc[0] for one, part in zip(comparisons, parts, strict=True) if part == of_group]
        assert [row["p_holm"] for row in rows] == pytest.approx(holm([row["p"] for row in rows]).tolist())
        assert {row["hypotheses"] for row in rows} == {len(rows)}


def test_a_group_counts_documents_or_tasks_as_lm_eval_does(runs, stock):
    for comparison in compare_runs(runs):
        run = comparison.paired.runs[0]
        if run.set == "mc_equal (acc)":
            c, d = (values_of(stock, run.model, task, "acc") for task in ("mc_c", "mc_d"))
            assert comparison.rates["rate"][0] == pytest.approx((c.mean() + d.mean()) / 2)
            assert comparison.rates["tests"][0] == len(c) + len(d)
            weights = np.repeat([14 / 20, 14 / 8], [20, 8])  # 28 documents, half of the weight on each task
            of_hand = clustered_mean(np.concatenate([c, d]) * weights, weights)
            assert comparison.rates["standard_error"][0] == pytest.approx(of_hand.standard_error)
    [table] = [table for table in report_documents(compare_runs(runs)).tables if table.name == "groups"]
    assert set(table.cells["weights"]) == {"documents", "equal"}
    assert table.cells["error of lm-eval"].str.endswith(" (0.4.13)").all()


def test_clusters_and_categories_are_fields_of_documents(runs, capsys):
    [one] = compare_runs(label_documents([run for run in runs if run.set == "mc_a (acc)"], "passage", "kind"))
    assert one.paired.categories == ["all", "a", "b"]
    assert one.rates["prompts"].tolist()[:2] == [10, 10]
    values = one.paired.passed[:, 1] - one.paired.passed[:, 0]
    of_hand = clustered_mean(values.reshape(10, 3).sum(axis=1), [3] * 10)
    assert one.differences["standard_error"][0] == pytest.approx(of_hand.standard_error)
    label_documents(runs, "passage", None)
    assert (
        "documents of gen have no passage; they have text, answer, kind; it stays as it is" in capsys.readouterr().err
    )
    for cluster, message in {
        "passag": "documents of mc_a have no passag",
        "choices": "must be a text or a number",
    }.items():
        with pytest.raises(NNDError, match=message):
            label_documents([run for run in runs if run.task == "mc_a"], cluster, None)


def edit_lines(path, change):
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(line) + "\n" for line in change(lines)))


def damage(results, model, task, change):
    [path] = (results / model).rglob(f"samples_{task}_*.jsonl")
    edit_lines(path, change)
    [file] = (results / model).rglob("results_*.json")
    content = json.loads(file.read_text())
    del content["task_hashes"][task]
    file.write_text(json.dumps(content))


CHANGES = {
    "cut": (lambda lines: lines[:-5], "25 of 30 documents: the file is cut off"),
    "of two runs": (lambda lines: lines * 2, "60 of 30 documents, some twice: are they of two runs?"),
    "of another model": (lambda lines: [{**line, "acc": 1 - line["acc"]} for line in lines], "the mean of acc is"),
    "a list": (lambda lines: [{**line, "acc": [line["acc"], 1]} for line in lines], "acc of a document is a list"),
    "a text": (lambda lines: [{**line, "acc": "yes"} for line in lines], "acc of a document is a text"),
    "without hashes": (
        lambda lines: [{key: line[key] for key in line if key != "doc_hash"} for line in lines],
        r"line 1: is not a sample of lm-eval 0.4.13 or 0.5 \('doc_hash'\)",
    ),
    "other prompt": (
        lambda lines: [{**line, "prompt_hash": "0"} for line in lines],
        "cannot be compared: prompt .* --allow prompt",
    ),
    "one other prompt": (
        lambda lines: [*lines[:9], {**lines[9], "prompt_hash": "0"}, *lines[10:]],
        "document mc_a/9/[0-9a-f]* is in one of them only, or has another prompt",
    ),
    "other document": (lambda lines: [*lines[:9], {**lines[9], "doc_hash": "0"}, *lines[10:]], "document mc_a/9/"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_cannot_be_compared_is_refused_in_one_line(results, name):
    change, message = CHANGES[name]
    damage(results, "tiny-lm-m", "mc_a", change)
    with pytest.raises(NNDError, match=message) as found:
        compare_runs(read_results(results, "task=mc_a,metric=acc"))
    assert "\n" not in str(found.value)
    if name == "other prompt":
        assert len(compare_runs(read_results(results, "task=mc_a,metric=acc"), "prompt")) == 1


def test_equal_documents_count_as_one(results):
    for model in results.iterdir():
        damage(results, model, "mc_a", lambda lines: [{**line, "doc_hash": line["doc_hash"][:1]} for line in lines])
    report = report_documents(compare_runs(read_results(results, "task=mc_a,metric=acc")))
    assert "15 distinct documents can detect" in report.findings[0]
    assert report.tables[0].cells.loc[0, ["documents", "clusters"]].tolist() == ["30", "15"]


def test_samples_that_are_not_there_are_named(results, nnd):
    for path in (results / "tiny-lm-m").rglob("samples_*"):
        path.unlink()
    done = nnd("compare", results, "--brief")
    assert done.status == 1
    assert "the samples of gen, mc_a, mc_b and 3 more are missing; run the task with --log_samples" in done.err
    assert "needs two models or checkpoints on one task" in done.err


def test_report_trend_and_runs_take_them_in_their_words(stock, tmp_path, nnd):
    page = tmp_path / "page.html"
    assert nnd("report", stock, "--select", "task=mc_a", "-o", page).status == 0
    text = page.read_text()
    assert all(
        words in text
        for words in ("30 documents", "are not listed on this page", "<span>lm_eval</span>", "<h1>Report on tasks of")
    )
    assert not re.search(
        "pass rate|all tests|chart chance|[0-9] points<", text.lower().partition("how to read this</h2>")[0]
    )
    assert text.count('<p class="caption">Means over') == 1  # the other of two tables has it folded
    done = nnd("trend", stock, "--select", "task=overlap,metric=overlap")
    assert "| task | category | family | model | parameters | mean | 95% interval | documents |" in done.out
    done = nnd("trend", stock, "--select", "task=mc_a,metric=acc", "--category", "kind", "--cluster", "passage")
    assert done.out.count("| mc_a (acc) | a |") == 2
    done = nnd("compare", stock, "--brief", "--select", "task=mc_a,metric=acc")
    assert "| mc_a | acc | all | tiny-lm-xs - tiny-lm-m |" in done.out
    assert not re.search("pass|prompt", done.out.replace("too few prompts", ""))
    done = nnd("runs", stock / "tiny-lm-m")
    assert done.out.count("| mc_a |") == 1
    for verb in (["rules"], ["report", "--hub", tmp_path / "x"], ["trend", "--decide"]):
        assert nnd(verb[0], stock / "tiny-lm-m", *verb[1:]).status == 1


def test_results_of_lm_eval_0_5_are_read(tmp_path):
    """Written by 0.5.0.dev1 (tasks of `stock_tasks`, fewer documents); names of files, paths and settings are shortened."""
    written = json.loads((Path(__file__).parent / "lm_eval_0_5.json").read_text())
    for name, lines in written.items():
        (tmp_path / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    runs = read_results(tmp_path)
    assert {run.set for run in runs} == {name for name in LABELS if re.match("mc_[ecd]|gen", name)}
    [mean] = [run for run in runs if run.set == "mc_equal (acc)"]
    assert (mean.protocol["weights"], mean.protocol["lm_eval"], len(mean.tests)) == ("equal", "0.5", 9)
    assert mean.reported["acc,none"] == pytest.approx((4 / 6 + 1 / 3) / 2)
