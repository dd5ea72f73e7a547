"""One test of some runs: its texts, people's marks, and what each model made of it."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from nnd_tasks.errors import NNDError
from nnd_tasks.page.browsing import name_outcome, pack, read_prompt
from nnd_tasks.page.page import PAGE_LIMIT, frame_tests
from nnd_tasks.results.paired import Paired, pair
from nnd_tasks.results.runs import Run
from nnd_tasks.show.forms import render
from nnd_tasks.show.report import Report, Table
from nnd_tasks.text import did_you_mean, some_of


def find_test(test_id: str, runs: Sequence[Run], allow: Sequence[str] = ()) -> list[Paired]:
    """Return the runs that have a test, those that were asked the same side by side.

    Raises:
        NNDError: no run has it (the nearest ids are named), or runs cannot be compared.
    """
    known = dict.fromkeys(name for run in runs for name in run.tests["test_id"])
    if test_id not in known:
        meant = did_you_mean(test_id, known, at_most=3, cutoff=0.5) or f"they have {some_of(list(known), 2)}"
        raise NNDError(f"--test {test_id}: no run has this test; {meant}; samples and nnd report show the ids")
    return pair([run for run in runs if test_id in set(run.tests["test_id"])], allow)


def render_test(test_id: str, pairs: Sequence[Paired]) -> str:
    """Return a page about one test, with its whole texts."""
    packed = pack(pairs, PAGE_LIMIT, only=test_id)
    return render("test.html.j2", **frame_tests(f"Test {test_id}", pairs, packed, alone=True))


def report_test(test_id: str, paired: Paired) -> Report:
    """Return texts, marks and outcomes of a test."""
    tests = pd.DataFrame([run.tests.set_index("test_id").loc[test_id] for run in paired.runs])
    first = tests.iloc[0]
    prompt = read_prompt([paired.runs[0].documents[first["document"]]], [{}])
    texts = list(prompt["fields"])
    for name, place in (("better", first["high"]), ("worse", first["low"])):
        text = prompt["texts"][place]
        texts.append([name, text])
        texts += [[f"marked in it: {kind}", text[start:end]] for start, end, kind in prompt["marks"][place]]
    outcomes = tests[["margin", "margin_sum", "margin_bytes"]].assign(
        model=paired.models, outcome=list(map(name_outcome, tests["passed"], tests["tie"]))
    )
    columns = {
        "model": "{model}",
        "outcome": "{outcome}",
        "margin per token": "{margin:+.3f}",
        "in all": "{margin_sum:+.2f}",
        "per byte": "{margin_bytes:+.4f}",
    }
    tables = [
        Table("texts", pd.DataFrame(texts, columns=["what", "text"]), {"what": "{what}", "text": "{text}"}),
        Table("outcomes", outcomes, columns),
    ]
    kinds = ", ".join(filter(None, first[["category", "subcategory", "severity"]]))
    return Report(f"test {test_id}", f"{paired.title}, test {test_id}", [f"Category: {kinds}."], tables)
