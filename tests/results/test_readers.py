"""`compare_readers`, `pair_readers`, `reader_tables`: readers side by side, against a slow definition, and as users see them.

Also covers check_writers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from nnd_tasks.errors import NNDError
from nnd_tasks.results.compare import compare_readers, compare_runs
from nnd_tasks.results.comparison_report import report_comparison
from nnd_tasks.results.readers import CELLS, pair_readers
from nnd_tasks.results.runs import Run
from nnd_tasks.show.forms import to_markdown
from tests.results.runs import PROTOCOL, make_run
from tests.task.tasks import write_yaml

CLUSTERS = [f"p{i // 3}" for i in range(60)]
CATEGORIES = ["x" if i % 3 else "y" for i in range(60)]


def read_by(reader: str, passed: Sequence[bool], model: str = "m", **changes: object) -> Run:
    """Return a run of a reader; of others than the writer, every candidate has a score with swapped answers, and a mass."""
    known = {} if reader == "writer" else {"reader": reader, "questions": reader}
    task = "nnd_demo" if reader in ("writer", "reward") else f"nnd_demo_{reader}"
    run = make_run(model, passed, CLUSTERS, CATEGORIES, protocol=PROTOCOL | known, task=task, **changes)
    rng = np.random.default_rng(len(reader))
    keys = ("sum",) if reader == "writer" else ("sum", "swapped", "mass")
    documents = [
        {**doc, "scores": [dict(zip(keys, (*rng.normal(size=2), 0.25), strict=False)) for _ in doc["candidates"]]}
        for doc in run.documents
    ]
    margin = rng.normal(size=60)
    tests = run.tests.assign(margin_no_context=margin, high_no_context=margin, low_no_context=0.0)
    return replace(run, documents=documents, tests=tests)


def outcomes(seed: int, rate: float) -> list[bool]:
    return (np.random.default_rng(seed).random(60) < rate).tolist()


def tables(runs: Sequence[Run]) -> dict[str, pd.DataFrame]:
    [comparison] = compare_readers(runs)
    return {table.name: table.data for table in report_comparison(comparison).tables}


def test_the_four_cells_are_shares_of_all_tests():
    wrote, said, chose = outcomes(1, 0.6), outcomes(2, 0.4), outcomes(3, 0.5)
    found = tables([read_by("validator", said), read_by("choice", chose), read_by("writer", wrote)])
    assert list(dict.fromkeys(found["rates"]["model"])) == ["writer", "validator", "choice"]
    cells = found["cells"].set_index(["category", "asked", "cell"])["mean"].sort_index()
    assert len(cells) == 3 * 2 * 4
    for category in ("all", "x", "y"):
        chosen = [i for i in range(60) if category in ("all", CATEGORIES[i])]
        for name, asked in (("validator", said), ("choice", chose)):
            for (notices, well), cell in CELLS.items():
                share = np.mean([asked[i] == notices and wrote[i] == well for i in chosen])
                assert cells[category, name, cell] == pytest.approx(share)
            assert cells[category, name].sum() == pytest.approx(1)
    differences = found["differences"].set_index(["category", "second", "first"])["difference"]
    assert differences["all", "validator", "writer"] == pytest.approx(np.mean(said) - np.mean(wrote))


def test_checks_say_whether_a_reader_reads():
    said, chose = [True] * 55 + [False] * 5, outcomes(3, 0.5)
    choice = read_by("choice", chose)
    found = tables([read_by("writer", outcomes(1, 0.1)), read_by("validator", said), choice])["checks"]
    checks = found.set_index(["category", "reader"])
    verdicts = checks["verdict"]["all"]
    assert verdicts.to_dict() == {"writer": "below chance", "validator": "above chance", "choice": "at chance"}
    places = [
        (choice.documents[row.document]["scores"][row.high], choice.documents[row.document]["scores"][row.low])
        for row in choice.tests.itertuples()
    ]
    assert checks["flips"]["all", "choice"] == pytest.approx(
        np.mean([(h["sum"] > 0) == (w["sum"] > 0) for h, w in places])
    )
    assert checks["swapped"]["all", "choice"] == pytest.approx(
        np.mean([h["swapped"] > w["swapped"] for h, w in places])
    )
    alone = (choice.tests["margin_no_context"] > 0).mean()
    assert checks["without_context"]["all", "choice"] == pytest.approx(alone)
    assert checks["gain_mean"]["all", "choice"] == pytest.approx(np.mean(chose) - alone)
    assert np.isnan(checks["flips"]["all", "validator"])
    assert checks["mass"]["all"].drop("writer").eq(0.25).all()
    assert np.isnan(checks["mass"]["all", "writer"])


def test_ties_of_what_is_judged_in_writing_count_half_where_readers_are_compared():
    rng = np.random.default_rng(7)
    said = rng.choice(
        [1.0, 0.0, -1.0, np.nan], size=(60, 2)
    )  # the verdict where the better text comes first, and second
    means = said[:, 0] - said[:, 1]
    judge = read_by("judge", (means > 0).tolist())
    tests = judge.tests.assign(tie=means == 0)
    documents = [{**doc, "scores": [*doc["scores"]]} for doc in judge.documents]
    for row, (high, low) in zip(tests.itertuples(), said, strict=True):
        documents[row.document]["scores"][row.high] = {"sum": None if np.isnan(high) else high / 2}
        documents[row.document]["scores"][row.low] = {"sum": None if np.isnan(low) else low / 2}
    wrote = outcomes(1, 0.6)
    found = tables([read_by("writer", wrote), replace(judge, documents=documents, tests=tests)])
    credit = np.where(means > 0, 1, np.where(means == 0, 0.5, 0))
    assert 0 < np.mean(means > 0) < credit.mean()
    rates = found["rates"].set_index(["category", "model"])["rate"]
    assert rates["all", "judge"] == pytest.approx(credit.mean())
    assert rates["all", "writer"] == pytest.approx(np.mean(wrote))
    differences = found["differences"].set_index("category")["difference"]
    assert differences["all"] == pytest.approx(credit.mean() - np.mean(wrote))
    checks = found["checks"].set_index(["category", "reader"])
    assert checks["mean"]["all", "judge"] == pytest.approx(credit.mean())
    assert checks["flips"]["all", "judge"] == pytest.approx(np.mean(said[:, 0] * said[:, 1] == 1))
    assert checks["unread"]["all", "judge"] == pytest.approx(np.isnan(said).any(axis=1).mean())
    assert np.isnan(checks["unread"]["all", "writer"])


def test_runs_without_the_context_scored_have_no_gain():
    runs = [read_by("writer", outcomes(1, 0.5)), read_by("validator", outcomes(2, 0.5))]
    columns = dict.fromkeys(("margin_no_context", "high_no_context", "low_no_context"), np.nan)
    runs = [replace(run, tests=run.tests.assign(**columns)) for run in runs]
    [comparison] = compare_readers(runs)
    shown = to_markdown(report_comparison(comparison))
    assert "answers swapped" in shown
    assert "context adds |" not in shown


def test_readers_of_other_models_and_chats_stand_apart():
    chat = PROTOCOL | {"chat_template": True, "reader": "validator", "questions": "q"}
    runs = [
        read_by("writer", outcomes(1, 0.5)),
        read_by("validator", outcomes(2, 0.5)),
        replace(read_by("validator", outcomes(3, 0.5)), protocol=chat),
        read_by("writer", outcomes(4, 0.5), model="n"),
        read_by("reward", outcomes(5, 0.5), model="r"),
    ]
    groups = pair_readers(runs)
    assert [(paired.task, paired.models) for paired in groups] == [
        ("nnd_demo as read by m", ["writer", "validator", "reward (r)"]),
        ("nnd_demo as read by n", ["writer", "reward (r)"]),
    ]
    [models] = compare_runs([run for run in runs if run.protocol.get("reader") is None])
    assert models.paired.models == ["m", "n"]


def test_two_wordings_of_a_reader_are_named_by_their_tasks():
    other = replace(read_by("validator", outcomes(3, 0.5)), task="mine")
    [paired] = pair_readers([read_by("writer", outcomes(1, 0.5)), read_by("validator", outcomes(2, 0.5)), other])
    assert paired.models == ["writer", "validator (nnd_demo_validator)", "validator (mine)"]


def test_one_reader_alone_is_an_error_that_says_what_to_run():
    with pytest.raises(NNDError, match="run nnd_SET, nnd_SET_validator and nnd_SET_choice alike"):
        compare_readers([read_by("writer", outcomes(1, 0.5))])


@pytest.mark.slow
def test_a_user_runs_three_readers_and_sees_them_side_by_side(few_tasks, gpt2, home, tmp_path, nnd):
    yamls = tmp_path / "yaml"
    write_yaml(yamls, "validator", reader="validator", answers=["the", "a"])
    write_yaml(yamls, "choice", reader="choice")
    options = ["--model", "hf", "--model_args", f"pretrained={gpt2},dtype=float32", "--device", "cpu"]
    options += ["--metadata", '{"context_reliance": true}', "--log_samples", "--output_path", tmp_path / "results"]
    tasks = "nnd_demo,validator,choice"
    assert nnd("run", *options, "--tasks", tasks, "--include_path", yamls, "--limit", 8).status == 0
    shown = nnd("compare", tmp_path / "results", "--readers")
    assert "nnd_demo as read by gpt2" in shown.out
    for text in (*CELLS.values(), "at chance", "answers swapped", "context adds", "one letter"):
        assert text in shown.out
    found = json.loads(nnd("compare", tmp_path / "results", "--readers", "--format", "json").out)
    assert {"cells", "checks", "differences"} <= found["tables"].keys()
    assert nnd("report", tmp_path / "results", "-o", tmp_path / "page.html").status == 0
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "nnd_demo as read by gpt2" in page
    assert "does not notice, yet would not write it" in page
    alone = nnd("compare", tmp_path / "results", "--adjust", "--select", "task=validator")
    assert alone.status == 1
    assert re.search(r"--adjust takes likelihoods .* of a validator; add --select\s+reader=writer", alone.err, re.S)
    assert nnd("compare", tmp_path / "results", "--adjust", "--select", "reader=writer").status == 0
