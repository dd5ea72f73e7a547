"""Readers side by side, against a slow definition, and as users see them."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from nnd_tasks.errors import NNDError
from nnd_tasks.prompted.readers import CELLS, add_reader_tables, compare_readers, pair_readers
from nnd_tasks.results.comparison_report import report_comparison
from nnd_tasks.results.runs import SIDES, take_values
from nnd_tasks.show.forms import to_markdown
from tests.commands import refused
from tests.results.runs import PROTOCOL, make_run
from tests.task.tasks import write_yaml

CLUSTERS = [f"p{i // 3}" for i in range(60)]
CATEGORIES = ["x" if i % 3 else "y" for i in range(60)]


def read_by(reader, passed=(), model="m", **changes):
    """Return a run of a reader; of others than the writer, every candidate has a score with swapped answers, and a mass."""
    about = {} if reader == "writer" else {"reader": reader, "questions": reader}
    task = "nnd_demo" if reader in ("writer", "reward") else f"nnd_demo_{reader}"
    asked = {"protocol": PROTOCOL | about, "task": task, **changes}
    run = make_run(model, passed or outcomes(len(reader), 0.5), CLUSTERS, CATEGORIES, **asked)
    rng = np.random.default_rng(len(reader))
    keys = ("sum",) if reader == "writer" else ("sum", "swapped", "mass")
    for document in run.documents:
        document["scores"] = [
            dict(zip(keys, (*rng.normal(size=2), 0.25), strict=False)) for _ in document["candidates"]
        ]
    return replace(run, tests=run.tests.assign(high_no_context=rng.normal(size=60), low_no_context=0.0))


def outcomes(seed, rate):
    return (np.random.default_rng(seed).random(60) < rate).tolist()


def _report(comparison):
    return add_reader_tables(report_comparison(comparison), comparison.paired)


def tables(*runs):
    """Return the tables of a comparison; checks by reader, of all tests."""
    [comparison] = compare_readers(runs)
    found = {table.name: table.data for table in _report(comparison).tables}
    return found | {"checks": found["checks"].query("category == 'all'").set_index("reader")}


def test_the_four_cells_are_shares_of_all_tests():
    wrote, said, chose = outcomes(1, 0.6), outcomes(2, 0.4), outcomes(3, 0.5)
    found = tables(read_by("validator", said), read_by("choice", chose), read_by("writer", wrote))
    assert list(dict.fromkeys(found["rates"]["model"])) == ["writer", "validator", "choice"]
    cells = found["cells"].set_index(["category", "asked", "cell"])["mean"].sort_index()
    assert len(cells) == 3 * 2 * 4
    for category in ("all", "x", "y"):
        chosen = [i for i in range(60) if category in ("all", CATEGORIES[i])]
        for name, asked in (("validator", said), ("choice", chose)):
            for (notices, well), cell in CELLS.items():
                share = np.mean([asked[i] == notices and wrote[i] == well for i in chosen])
                assert cells[category, name, cell] == pytest.approx(share)


def test_checks_say_whether_a_reader_reads():
    said, chose = [True] * 55 + [False] * 5, outcomes(3, 0.5)
    choice = read_by("choice", chose)
    checks = tables(read_by("writer", outcomes(1, 0.1)), read_by("validator", said), choice)["checks"]
    verdicts = {"writer": "below chance", "validator": "above chance", "choice": "at chance"}
    assert checks["verdict"].to_dict() == verdicts
    high, low = (pd.DataFrame(take_values(choice.documents, choice.tests, side, "scores")) for side in SIDES)
    alone = (choice.tests["high_no_context"] > 0).mean()
    expected = {
        "flips": ((high["sum"] > 0) == (low["sum"] > 0)).mean(),
        "swapped": (high["swapped"] > low["swapped"]).mean(),
        "without_context": alone,
        "gain_mean": np.mean(chose) - alone,
        "mass": 0.25,
    }
    assert checks.loc["choice", [*expected]].to_dict() == pytest.approx(expected)
    assert np.isnan([checks["flips"]["validator"], checks["mass"]["writer"]]).all()


def test_ties_of_what_is_judged_in_writing_count_half_where_readers_are_compared():
    """A judge says a verdict where the better text comes first, and where it comes second; some cannot be read."""
    said = np.random.default_rng(7).choice([1.0, 0.0, -1.0, np.nan], size=(60, 2))
    means = said[:, 0] - said[:, 1]
    judge = read_by("judge", (means > 0).tolist())
    for row, scores in zip(judge.tests.itertuples(), said / 2, strict=True):
        for candidate, score in zip((row.high, row.low), scores, strict=True):
            judge.documents[row.document]["scores"][candidate] = {"sum": None if np.isnan(score) else score}
    wrote = outcomes(1, 0.6)
    found = tables(read_by("writer", wrote), replace(judge, tests=judge.tests.assign(tie=means == 0)))
    credit = np.where(means > 0, 1, np.where(means == 0, 0.5, 0)).mean()
    assert found["rates"].query("category == 'all'")["rate"].tolist() == pytest.approx([np.mean(wrote), credit])
    assert found["differences"]["difference"][0] == pytest.approx(credit - np.mean(wrote))
    expected = {
        "mean": credit,
        "flips": np.mean(said[:, 0] * said[:, 1] == 1),
        "tests_unread": np.isnan(said).any(axis=1).mean(),
    }
    assert found["checks"].loc["judge", [*expected]].to_dict() == pytest.approx(expected)
    assert np.isnan(found["checks"]["tests_unread"]["writer"])
    for document in judge.documents:
        document["scores"] = [{}] * len(document["scores"])
    assert tables(read_by("writer"), judge)["checks"]["verdict"]["judge"] == "mostly unread"


def test_runs_without_the_context_scored_have_no_gain():
    runs = [
        replace(run, tests=run.tests.assign(high_no_context=np.nan)) for run in map(read_by, ("writer", "validator"))
    ]
    [comparison] = compare_readers(runs)
    shown = to_markdown(_report(comparison))
    assert "answers swapped" in shown
    assert "context adds |" not in shown


def test_readers_of_other_models_and_chats_stand_apart():
    chat = PROTOCOL | {"chat_template": True, "reader": "validator", "questions": "q"}
    mine = [read_by("writer"), read_by("validator"), read_by("validator", protocol=chat)]
    others = [read_by("writer", model="n"), read_by("reward", model="r")]
    assert [(paired.task, paired.models) for paired in pair_readers([*mine, *others])] == [
        ("nnd_demo as read by m", ["writer", "validator", "reward (r)"]),
        ("nnd_demo as read by n", ["writer", "reward (r)"]),
    ]


def test_two_wordings_of_a_reader_are_named_by_their_tasks():
    [paired] = pair_readers([read_by("writer"), read_by("validator"), read_by("validator", task="mine")])
    assert paired.models == ["writer", "validator (nnd_demo_validator)", "validator (mine)"]


def test_one_reader_alone_is_an_error_that_says_what_to_run():
    with pytest.raises(NNDError, match="run nnd_SET, nnd_SET_validator and nnd_SET_choice alike"):
        compare_readers([read_by("writer")])
    alone = replace(read_by("writer", model="n"), path=None)
    [comparison] = compare_readers([read_by("writer"), read_by("validator"), alone])
    assert "the run of n on nnd_demo is in no comparison: no other reader" in comparison.not_compared[0]


@pytest.mark.slow
def test_a_user_runs_three_readers_and_sees_them_side_by_side(few_tasks, gpt2, home, tmp_path, nnd):
    yamls, results, page = (tmp_path / name for name in ("yaml", "results", "page.html"))
    write_yaml(yamls, "validator", reader="validator", answers=["the", "a"])
    write_yaml(yamls, "choice", reader="choice")
    options = ["--model", "hf", "--model_args", f"pretrained={gpt2},dtype=float32", "--device", "cpu", "--limit", 4]
    options += ["--metadata", '{"context_reliance": true}', "--log_samples", "--output_path", results]
    assert nnd("run", *options, "--tasks", "nnd_demo,validator,choice", "--include_path", yamls).status == 0
    shown = nnd("compare", results, "--readers").out
    assert nnd("report", results, "-o", page).status == 0
    for text in ("nnd_demo as read by gpt2", *CELLS.values()):
        assert text in shown
        assert text in page.read_text("utf-8")
    for text in ("at chance", "answers swapped", "context adds", "one letter"):
        assert text in shown
    message = refused(nnd("rules", results, "--select", "task=validator"))
    assert re.search(r"nnd rules takes likelihoods .* of a validator; add --select reader=writer", message)
