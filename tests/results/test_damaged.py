"""`read_results` on results that are damaged or of several runs: refused in one line, never a traceback.

NND_FUZZ is the number of mutations, 9 if it is not set.
"""

import json
import math
import os
import random
import re
import shutil
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nnd_tasks.errors import NNDError
from nnd_tasks.files import write_text
from nnd_tasks.likelihood.rules_report import report_rules
from nnd_tasks.measures import weigh_measures
from nnd_tasks.page.browsing import look_up_test
from nnd_tasks.page.page import render_report
from nnd_tasks.prompted.readers import add_reader_tables, compare_readers
from nnd_tasks.results.compare import compare_runs
from nnd_tasks.results.comparison_report import report_comparison
from nnd_tasks.results.read_runs import read_results
from nnd_tasks.results.samples import recompute_metrics
from nnd_tasks.show.forms import to_json, to_markdown
from nnd_tasks.training.trend import read_trend, report_trend
from tests.results import token_runs
from tests.results.fake_runs import make_document, score, write_run


def read_json_lines(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


def write_json_lines(file, lines):
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda own, other: own.__setitem__(slice(5, 10), other[5:]),
            r"tests give \S+ [\d.]+, results_.*: they are not of",
        ),
        (lambda own, _: own.extend(own), r"jsonl: test \S+ is there twice"),
        (lambda own, _: own[0]["candidates"].pop(), r"line 1: .*damaged \(4 scores of 5 candidates\)"),
        (lambda own, _: own[0].pop("tests"), r"line 1: is not a sample of an NND task.* \(tests: it is missing\)"),
        (lambda own, _: own[1]["doc"]["candidates"].append("\ud800"), r"line 2: .*surrogates not allowed"),
        (lambda own, _: own[1]["tests"][0].update(test_id="x"), r"line 2: .* \(test x is not that of the document"),
        (lambda own, _: own[1]["tests"][0].update(low=9), r"line 2: .* \(test \S+ has a candidate that is not there"),
    ],
)
def test_what_is_damaged_or_of_two_runs_is_refused(change, message, results):
    files = [next((results / name).rglob("samples_*.jsonl")) for name in ("gpt2", "llama")]
    own, other = map(read_json_lines, files)
    change(own, other)
    write_json_lines(files[0], own)
    with pytest.raises(NNDError) as caught:
        read_results([results])
    assert re.search(message, str(caught.value)), caught.value
    assert "\n" not in str(caught.value)


# ---------------------------------------------------------------- what is not of one run


def swap_configs(one, other):
    contents = [json.loads(next(folder.rglob("results_*")).read_text()) for folder in (one, other)]
    for folder, own, others in zip((one, other), contents, contents[::-1], strict=True):
        next(folder.rglob("results_*")).write_text(json.dumps({**own, "configs": others["configs"]}))


def scale_sums(one, _):
    next(one.rglob("tokens_*")).unlink()
    samples = next(one.rglob("samples_*"))
    lines = read_json_lines(samples)
    for own in (own for line in lines for own in line["candidates"]):
        own |= {"sum": 1.5 * own["sum"], "mean": 1.5 * own["mean"]}
    write_json_lines(samples, lines)


def copy_of(pattern):
    return lambda one, other: shutil.copy(next(other.rglob(pattern)), next(one.rglob(pattern)))


def edit(pattern, change):
    def make(one, _):
        path = next(one.rglob(pattern))
        content = json.loads(path.read_text())
        change(content)
        path.write_text(json.dumps(content))

    return make


def signature_of(content):
    return content["configs"]["nnd_made_up"]["metadata"]["nnd"]["signature"]


@pytest.mark.parametrize(
    ("forge", "left", "message"),
    [
        (swap_configs, ["choice"], r"tests give|\(digest\)"),
        (scale_sums, ["m-2m", "choice"], r"tests give|\(digest\)"),
        (copy_of("samples_*"), ["m-2m", "choice"], r"tests give|\(digest\)"),
        (copy_of("results_*"), ["m-2m", "choice"], r"tests give|\(digest\)"),
        (copy_of("tokens_*"), ["m-2m", "choice"], r"tokens_.*\(digest\)"),
        *(
            (edit("results_*", change), ["m-2m", "choice"], message)
            for change, message in (
                (lambda c: c["results"]["nnd_made_up"].update({"margin_stderr,none": 0.5}), "give margin_stderr "),
                (lambda c: c["results"]["nnd_made_up"].update({"pass_rate_sum,none": "N/A"}), "give pass_rate_sum "),
                (lambda c: signature_of(c)["protocol"].update(shots=5), "line of its signature contradicts"),
                (lambda c: signature_of(c)["model"].update(window=8), "line of its signature contradicts"),
            )
        ),
    ],
)
def test_a_run_whose_parts_are_not_of_one_run_is_named_and_left_out(forge, left, message, tmp_path, nnd):
    write_stored(tmp_path / "r")
    forge(*(tmp_path / "r" / "org" / f"m-{size}m" for size in (1, 2)))
    skipped = []
    runs = read_results(tmp_path / "r", skipped=skipped, tokens=True)
    found = [run.model.partition(" ")[0] if run.reader == "writer" else run.reader for run in runs]
    assert sorted(found) == sorted(left), skipped
    assert len(skipped) == 3 - len(left)
    assert all(re.search(message, line) for line in skipped), skipped
    assert f"left out: {skipped[0][:40]}" in nnd("report", tmp_path / "r", "-o", tmp_path / "r.html").err


# ---------------------------------------------------------------- outcomes

_NO_NUMBER = {"sum": None, "mean": None, "tokens": 5, "bytes": 20}  # as a sum of minus infinity, or nan, is written


@pytest.mark.parametrize(
    ("high", "low", "passed", "right"),
    [
        (score(-1), score(-2), True, True),
        (score(-1), score(-2), False, False),
        (score(-1), score(-2), None, False),
        (score(-1), _NO_NUMBER, True, True),
        (score(-1), _NO_NUMBER, None, True),
        (score(-1), _NO_NUMBER, False, False),
        (_NO_NUMBER, score(-1), True, False),
        (score(-1), None, None, True),
        (score(-1), None, True, False),
        (score(-1), {**score(-2), "mean": -3.0}, True, False),
    ],
)
def test_outcomes_are_those_of_sums_and_tokens(high, low, passed, right, tmp_path):
    doc = make_document("p", ["good", "bad"], ["c"])
    tests = [{**doc["tests"][0], "passed": passed, "tie": False}]
    write_run(tmp_path, "m", samples=[{"doc": doc, "candidates": [high, low], "tests": tests}])
    if right:
        assert read_results([tmp_path])[0].tests["passed"].count() == (passed is not None)
    else:
        with pytest.raises(NNDError, match=r"contradicts the sums and tokens|its mean is"):
            read_results([tmp_path])


# ---------------------------------------------------------------- one changed value, anywhere

#: What takes the place of a value.
VALUES = [
    *(None, True, 0, -1, 1.5, 2**63, 10**400, -(10**30), math.nan, math.inf, -math.inf, 1e308, -1e308),
    *("", "x", "NaN", "\ud800", "../../x", "<script>", "x" * 5000),
    *([], {}, [None], [[]], {"x": 1}, {"\ud800": "\udc00"}),
]


def write_stored(folder):
    """Write runs of two models, one of them also as a reader with a choice, with all that a run can have."""
    made = token_runs.documents(3, words=8, context=8)
    for seed, name in enumerate(("org/m-1m", "org/m-2m")):
        about = {"seed": seed, "parameters": (1 + seed) * 1_000_000, "about": {"arguments": {"revision": "main"}}}
        token_runs.write_run(folder / name, name, made, without_context=True, task="nnd_made_up", **about)
    [samples] = (folder / name).rglob("samples_*")
    lines = read_json_lines(samples)
    for line in lines:
        line["candidates"] = [{**own, "swapped": -own["sum"], "mass": 0.5} for own in line["candidates"]]
    asked = {"set": "nnd/made_up", "reader": "choice"}
    write_run(folder / "choice", name, samples=lines, task="nnd_made_up_choice", protocol=asked, tokens=False)
    for path in folder.rglob("results_*.json"):
        content = json.loads(path.read_text())
        [run] = read_results(path)
        weighed = weigh_measures(run.tests) if run.reader == "writer" else None
        values = recompute_metrics(run, run.tests, weighed).items()
        metrics = {f"{name},none": "N/A" if math.isnan(value) else value for name, value in values}
        content["results"] = {run.task: {"alias": run.task, **metrics}}
        path.write_text(json.dumps(content))
    return folder


def list_places(value):
    """Return (container, key) of every value in a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [pair for key, one in inner for pair in [(value, key), *list_places(one)]]


def mutate_json(value, rng):
    """Change one value, or delete it; return what was done."""
    container, key = rng.choice(list_places(value))
    if rng.random() < 0.15:
        del container[key]
        return f"{key} deleted"
    container[key] = rng.choice([value for value in VALUES if value != container[key]])
    return f"{key}: {container[key]!r:.50}"


def mutate_table(table, rng):
    """Change one value of a table, or take a column away."""
    rows, name = table.to_pylist(), rng.choice(table.column_names)
    if rng.random() < 0.25:
        return table.drop_columns([name]), f"{name} deleted"
    row = rng.choice(rows)
    value = row[name]
    if isinstance(value, list):
        others = [value[:-1], *([*value[:-1], number] for number in (None, -1, 2**24))]
    else:
        others = [value[:-1], "99"] if isinstance(value, str) else [-1, 99]
    row[name] = rng.choice([None, *others])
    return pa.Table.from_pylist(rows, schema=table.schema), f"{name}: {row[name]!r:.50}"


def mutate_file(path, rng):
    """Change one value of a file of a run."""
    if path.suffix == ".parquet":
        table, done = mutate_table(pq.read_table(path), rng)
        pq.write_table(table, path)
        return done
    lines = read_json_lines(path) if path.suffix == ".jsonl" else [json.loads(path.read_text())]
    done = mutate_json(rng.choice(lines), rng)
    write_json_lines(path, lines)
    return done


def count_passes(path):
    """Return passed and scored tests of a samples file, from its sums and tokens alone."""
    passed = []
    for line in read_json_lines(path):
        means = [own and own["sum"] is not None and own["sum"] / own["tokens"] for own in line["candidates"]]
        pairs = [(means[test["high"]], means[test["low"]]) for test in line["tests"]]
        passed += [high > low for high, low in pairs if isinstance(high, float) and isinstance(low, float)]
    return sum(passed), len(passed)


def use_all(folder, out):
    """Make all that is made of results; an `NNDError` is no fault, every other error is."""
    skipped = []
    runs = read_results([folder], (), skipped, tokens=True)
    assert len(runs) > 1, "one file took others with it"
    assert all(line.isprintable() and len(line) < 1000 for line in skipped)
    if skipped:
        if "tokens_" not in skipped[0]:  # these are not read by every command
            with pytest.raises(NNDError):
                read_results([folder])
        return  # the other files are as they were
    for compared in (compare_runs, compare_readers):
        with suppress(NNDError):
            for comparison in compared(runs):
                report = add_reader_tables(report_comparison(comparison), comparison.paired)
                assert to_json(report).encode() + to_markdown(report).encode()
    with suppress(NNDError):
        assert to_json(report_trend(read_trend([folder]))).encode()
    with suppress(NNDError):
        write_text(out / "report.html", render_report(runs)[1])
    with suppress(NNDError):
        write_text(out / "test.html", look_up_test("00000-0", runs)[1])
    for run in runs:
        with suppress(NNDError):
            assert to_json(report_rules(run)).encode()
        assert (run.tests["passed"].sum(), run.tests["passed"].count()) == count_passes(run.path)


@pytest.mark.slow
def test_one_changed_value_is_refused_in_one_line_or_changes_what_it_says(tmp_path):
    stored = write_stored(tmp_path / "stored")
    for seed in range(int(os.environ.get("NND_FUZZ", "9"))):
        rng = random.Random(seed)
        folder = Path(shutil.copytree(stored, tmp_path / "changed"))
        path = rng.choice(sorted(path for path in folder.rglob("*") if path.is_file()))
        done = f"seed {seed}, {path.name}: {mutate_file(path, rng)}"
        try:
            use_all(folder, tmp_path / "out")
        except Exception as error:
            raise AssertionError(done) from error
        shutil.rmtree(folder)
