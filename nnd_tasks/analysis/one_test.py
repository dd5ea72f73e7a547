"""One test of some runs: its texts, people's marks, and what each model made of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from nnd_tasks.analysis.browsing import pack, prompt_fields, segments
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
_SIDES = {"better": "high", "worse": "low"}


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
    test = _find_row(paired.runs[0], test_id)
    texts = pd.DataFrame(_list_texts(paired.runs[0].documents[test["document"]], test))
    outcomes = pd.DataFrame([_describe_outcome(run, test_id) for run in paired.runs])
    tokens = pd.DataFrame([row for run in paired.runs for row in _list_tokens(run, _find_row(run, test_id))])
    score = "{%s_mean:.3f}, {%s_sum:.2f} ({%s_tokens:,.0f} tokens)"
    tables = [
        Table("texts", texts, {"what": "{what}", "text": "{text}"}),
        Table(
            "outcomes",
            outcomes,
            {
                "model": "{model}",
                "outcome": "{outcome}",
                "margin per token": "{margin:+.3f}",
                "in all": "{margin_sum:+.2f}",
                "per byte": "{margin_bytes:+.4f}",
                **{f"{name}: mean, sum": score.replace("%s", side) for name, side in _SIDES.items()},
            },
        ),
    ]
    if len(tokens):
        shown = {"model": "{model}", "text": "{text}", "token": "{token}", "-log p, nats": "{surprise:.1f}"}
        tables.append(Table("tokens", tokens, shown, "Most surprising tokens."))
    kinds = ", ".join(test[key] for key in ("category", "subcategory", "severity") if test[key])
    return Report(f"test {test_id}", f"{paired.title}, test {test_id}", [f"Category: {kinds}."], tables)


def _find_row(run: Run, test_id: str) -> Mapping[str, Any]:
    return dict(run.tests[run.tests["test_id"] == test_id].to_dict("records")[0])


def _list_texts(document: Mapping[str, Any], test: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    for name, text in prompt_fields(document):
        yield {"what": name, "text": text}
    marks = document.get("error_spans") or {}
    for name, side in _SIDES.items():
        text = document["candidates"][test[side]]
        yield {"what": name, "text": text}
        for error in marks[test[side]] if marks else ():
            kind = error["category"] or "an error"
            yield {"what": f"marked in it: {kind}", "text": text[error["start"] : error["end"]]}


def _describe_outcome(run: Run, test_id: str) -> dict[str, Any]:
    """Return outcome, margins, and the scores of both candidates."""
    test = _find_row(run, test_id)
    outcome = {True: "passed", False: "failed"}.get(test["passed"], "not scored")
    row: dict[str, Any] = {"model": run.model, "outcome": f"{outcome}, equal" if test["tie"] else outcome}
    row |= {name: test[name] for name in ("margin", "margin_sum", "margin_bytes")}
    for side in _SIDES.values():
        score = run.documents[test["document"]]["scores"][test[side]] or {}
        row |= {f"{side}_{key}": score.get(key) for key in ("mean", "sum", "tokens")}
    return row


def _list_tokens(run: Run, test: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the most surprising tokens of both candidates; none where the run kept none."""
    kept = run_tokens(run) or {}
    document = run.documents[test["document"]]
    for name, side in _SIDES.items():
        tokens = kept.get((document["cluster_id"], test[side], True))
        if tokens is None:
            continue
        text, parts, end = document["candidates"][test[side]], [], 0
        for length, tenths in zip(*segments(tokens, len(text)), strict=True):
            parts.append((tenths / 10, text[end : end + length] if length else "(around the text)"))
            end += length
        for surprise, token in sorted(parts, key=lambda part: -part[0])[:_TOKENS]:
            yield {"model": run.model, "text": name, "token": repr(token), "surprise": surprise}
