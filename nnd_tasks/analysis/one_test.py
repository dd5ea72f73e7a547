"""One test of some runs: its texts, people's marks, and what each model made of it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import pandas as pd

from nnd_tasks.analysis.browsing import WHOLE, name_outcome, pack, read_prompt
from nnd_tasks.analysis.page import PAGE_LIMIT, frame_tests
from nnd_tasks.analysis.results import Run
from nnd_tasks.analysis.side_by_side import Paired, pair
from nnd_tasks.analysis.token_files import run_tokens
from nnd_tasks.errors import NNDError
from nnd_tasks.show.forms import render
from nnd_tasks.show.report import Report, Table
from nnd_tasks.wording import did_you_mean, some_of

#: How many of the most surprising tokens of a candidate are shown.
_TOKENS = 5


def find_test(test_id: str, runs: Sequence[Run], allow: Sequence[str] = ()) -> list[Paired]:
    """Return the runs that have a test, those that were asked the same side by side.

    Raises:
        NNDError: no run has it (the nearest ids are named), or runs cannot be compared.
    """
    known = dict.fromkeys(name for run in runs for name in run.tests["test_id"])
    if test_id not in known:
        meant = did_you_mean(test_id, known, at_most=3, cutoff=0.5)
        raise NNDError(
            f"--test {test_id}: no run has this test; {meant or f'they have {some_of(list(known), 2)}'}; samples and "
            "nnd report show the ids"
        )
    return pair([run for run in runs if test_id in set(run.tests["test_id"])], allow)


def render_test(test_id: str, pairs: Sequence[Paired]) -> str:
    """Return a page about one test, with its whole texts."""
    packed = pack(pairs, PAGE_LIMIT, only=test_id)
    return render("test.html.j2", **frame_tests(f"Test {test_id}", pairs, packed, alone=True))


def report_test(test_id: str, paired: Paired) -> Report:
    """Return texts, marks, outcomes and the most surprising tokens of a test."""
    runs = paired.runs
    tests = [run.tests.set_index("test_id").loc[test_id] for run in runs]
    first = tests[0]
    prompt = read_prompt(
        runs[0].documents[first["document"]],
        [{document["cluster_id"]: document for document in run.documents} for run in runs],
        [run_tokens(run) or {} for run in runs],
        WHOLE,
    )
    texts = [{"what": name, "text": text} for name, text, _ in prompt["fields"]]
    outcomes = [
        {
            "model": run.model,
            "outcome": name_outcome(test["passed"], test["tie"]),
            **test[["margin", "margin_sum", "margin_bytes"]],
        }
        for run, test in zip(runs, tests, strict=True)
    ]
    tokens = []
    for name, place in (("better", first["high"]), ("worse", first["low"])):
        text, _ = prompt["texts"][place]
        texts.append({"what": name, "text": text})
        texts += [
            {"what": f"marked in it: {kind or 'an error'}", "text": text[start:end]}
            for start, end, kind in prompt["marks"][place]
        ]
        for row, scores, kept in zip(outcomes, prompt["scores"], prompt["tokens"], strict=True):
            score = scores[place] or dict.fromkeys(("sum", "mean", "tokens"))
            row |= {f"{name}_{key}": score[key] for key in ("sum", "mean", "tokens")}
            if kept[place]:
                ends = accumulate(kept[place][0])
                parts = [
                    (tenths / 10, repr(text[end - length : end]) if length else "(around the text)")
                    for length, tenths, end in zip(*kept[place], ends, strict=True)
                ]
                tokens += [
                    {"model": row["model"], "text": name, "token": token, "nats": nats}
                    for nats, token in sorted(parts, reverse=True)[:_TOKENS]
                ]
    score = "{%s_mean:.3f}, {%s_sum:.2f} ({%s_tokens:,.0f} tokens)"
    shown = {
        "model": "{model}",
        "outcome": "{outcome}",
        "margin per token": "{margin:+.3f}",
        "in all": "{margin_sum:+.2f}",
        "per byte": "{margin_bytes:+.4f}",
        **{f"{name}: mean, sum": score.replace("%s", name) for name in ("better", "worse")},
    }
    tables = [
        Table("texts", pd.DataFrame(texts), {"what": "{what}", "text": "{text}"}),
        Table("outcomes", pd.DataFrame(outcomes), shown),
    ]
    if tokens:
        columns = {"model": "{model}", "text": "{text}", "token": "{token}", "-log p, nats": "{nats:.1f}"}
        tables.append(Table("tokens", pd.DataFrame(tokens), columns, "Most surprising tokens."))
    kinds = ", ".join(first[key] for key in ("category", "subcategory", "severity") if first[key])
    return Report(f"test {test_id}", f"{paired.title}, test {test_id}", [f"Category: {kinds}."], tables)
