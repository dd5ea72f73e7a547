"""Which runs can be compared, on which tests, and what is said of the others."""

from dataclasses import replace

import pandas as pd
import pytest

from nnd_tasks.errors import NNDError
from nnd_tasks.page.page import render_report
from nnd_tasks.results.compare import compare_runs
from nnd_tasks.results.comparison_report import report_comparison
from nnd_tasks.results.paired import not_compared, pair
from tests.page.pages import parse, text_of
from tests.results.runs import PROTOCOL, make_run

WHOLE = {**PROTOCOL, "selection": "all"}


def make_long(name, rule="shorten", outcomes=(True, False), **changes):
    return make_run(name, outcomes, ["k", "l"], protocol={**PROTOCOL, "overlong": rule}, **changes)


def test_windows_matter_where_contexts_were_shortened():
    first, shortened, other = make_long("a"), make_long("b", truncated=1), make_long("c", model_info={"window": 128})
    for runs, window in (
        ([first, shortened, replace(shortened, model_info={})], "fewer"),  # its window is not known
        ([first, other, shortened], 64),
    ):
        groups = pair(runs)
        assert groups[0].runs == [first, shortened]  # both have a window of 64
        [line] = not_compared(runs, groups)
        assert f"cannot be compared: 1 prompt was cut to {window} tokens for b; rerun both with max_length=64 " in line
    assert len(pair(runs, ["window"])) == 1


def test_runs_of_other_tests_are_refused():
    first, changed = (make_run(name, [True, True], ["k", "l"]) for name in "ab")
    changed.documents[1]["candidates"][0] = "another text"
    others = {
        "test t1 is in one of them only": make_run("b", [True], ["k"]),
        r"a: several runs of it on .*samples_a.jsonl; name the results file of one": replace(first),
        "test t1 .* has another prompt, category or text": replace(changed),
    }
    for message, other in others.items():
        with pytest.raises(NNDError, match=message):
            pair([first, other])


def _cut(run, *prompts):
    """Return a run of some of the prompts, in this order, as `--sample` would have given it."""
    documents = {document["cluster_id"]: document for document in run.documents}
    tests = pd.concat([run.tests[run.tests["cluster_id"] == name].assign(document=i) for i, name in enumerate(prompts)])
    return replace(
        run,
        protocol={**run.protocol, "selection": f"{len(prompts)} of {len(documents)} ({''.join(prompts)})"},
        documents=[documents[name] for name in prompts],
        tests=tests.reset_index(drop=True),
    )


def test_a_sample_and_a_whole_run_are_compared_on_the_prompts_of_both():
    outcomes = {"a": [1, 0, 1, 1, 0, 0, 1], "b": [0, 0, 1, 1, 1, 1, 1], "c": [1, 1, 0, 0, 1, 0, 0]}
    a, b, c = (make_run(name, passed, list("kkllmmn"), protocol=WHOLE) for name, passed in outcomes.items())
    [found] = compare_runs([a, _cut(b, "m", "k", "l")], ["selection"])
    assert found.paired.models == ["a", "b"]
    # Of k, l and m, a passes 3 of 6 and b 4.
    assert found.rates["rate"][:2].tolist() == pytest.approx([3 / 6, 4 / 6])
    report = report_comparison(found)
    assert report.title.startswith("nnd_demo (3 of 4 prompts) on ")
    assert report.tables[0].caption.endswith("Of a sample: 3 of the set's 4 prompts.")
    sampled, note = report.findings[:2]
    assert sampled.startswith("A sample: 3 of 4 prompts. Its rates over all tests can be far from those of the whole")
    assert "on the 6 tests of 3 prompts that all of them have; left out: 1 test of other" in note
    for run in found.paired.runs:  # what is read beside the rates is of these tests too
        assert [run.documents[i]["cluster_id"] for i in run.tests["document"]] == run.tests["cluster_id"].tolist()
    # Other selections are apart, also a part of the whole, until they are allowed to differ.
    assert [group.models for group in pair([a, b, _cut(c, "k", "m")])] == [["a", "b"], ["c"]]
    for runs in ([a, _cut(b, "l", "m")], [_cut(a, "k", "l"), _cut(b, "l", "m")]):
        assert [len(group.runs) for group in pair(runs)] == [1, 1]
        assert all("--allow selection" in line for line in not_compared(runs, pair(runs)))
    [both] = pair(runs, ["selection"])
    assert (set(both.tests["cluster_id"]), both.unshared_tests) == ({"l"}, 4)
    with pytest.raises(NNDError, match="no prompt is in all of their runs"):
        pair([_cut(a, "k"), _cut(b, "l")], ["selection"])


def test_what_is_done_with_long_texts_makes_no_difference_where_none_was_too_long():
    fits = make_long("a")
    assert [one.models for one in pair([fits, make_long("b", "leave_out")])] == [["a", "b"]]
    for other in (make_long("b", "leave_out", [True, None]), make_long("b", "whole", truncated=1)):
        assert [one.models for one in pair([fits, other])] == [["a"], ["b"]]
    # Both runs of two models: those of one setting stay together.
    four = [make_long(name, rule) for rule in ("shorten", "leave_out") for name in "ab"]
    assert [one.title for one in pair(four)] == ["nnd_demo (overlong shorten)", "nnd_demo (overlong leave_out)"]


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        ({}, {"clusters": ["x", "l"]}, "has another prompt, category or text"),
        ({"passed": [True, None]}, {"passed": [None, False]}, "no test was scored by all of a, b"),
    ],
)
def test_a_page_shows_runs_apart_that_cannot_be_compared(first, second, reason):
    usual = {"passed": [True, False], "clusters": ["k", "l"]}
    runs = [make_run(model, **usual | changes) for model, changes in (("a", first), ("b", second))]
    page = text_of(parse(render_report(runs)[1]))
    for model in "ab":
        assert f"the run of {model} on nnd_demo ({model}) is in no comparison: " in page
    assert reason in page
