"""One test of some runs, the models side by side: as Markdown for a terminal, and as a page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from nnd_tasks.analysis.report.browsing import pack, segments
from nnd_tasks.analysis.report.html_examples import CONTEXT_LIMIT, prompt_fields
from nnd_tasks.analysis.report.html_report import PAGE_LIMIT, environment, frame
from nnd_tasks.analysis.results import Run, read_results
from nnd_tasks.analysis.side_by_side import Paired, pair
from nnd_tasks.analysis.token_files import run_tokens
from nnd_tasks.errors import NNDError
from nnd_tasks.files import expand, writing
from nnd_tasks.formats import TextTable, number
from nnd_tasks.markdown import plain
from nnd_tasks.wording import counted, did_you_mean, some_of

#: How many of the most surprising tokens of a candidate a terminal shows.
_TOKENS = 5


def find_test(test_id: str, places: Sequence[str | Path], select: Sequence[str] = ()) -> list[Paired]:
    """Return the runs that have a test, those that were asked the same side by side.

    Args:
        test_id: of the test.
        places: as `nnd_tasks.analysis.results.read_results` takes them.
        select: as for `read_results`.

    Raises:
        NNDError: no run has it (the nearest ids are named), or the runs cannot be read or compared.
    """
    runs = read_results(places, select)
    known = dict.fromkeys(name for run in runs for name in run.tests["test_id"])
    if test_id not in known:
        meant = did_you_mean(test_id, known, at_most=3, cutoff=0.5)
        where = ", ".join(map(str, places))
        raise NNDError(
            f"{test_id}: no run in {where} has this test; {meant or f'they have {some_of(list(known), 2)}'}; samples and "
            "nnd report show the ids"
        )
    return pair([run for run in runs if test_id in set(run.tests["test_id"])])


def page_of(test_id: str, pairs: Sequence[Paired]) -> bytes:
    """Return a page about one test, with its whole texts.

    Args:
        test_id: of the test.
        pairs: as `find_test` returns them.
    """
    packed = pack(pairs, PAGE_LIMIT, only=test_id)
    template = environment().get_template("test.html.j2")
    return template.render(frame(f"Test {test_id}", pairs, packed, alone=True)).encode("utf-8", "replace")


def write_page(test_id: str, pairs: Sequence[Paired], output: str | Path) -> Path:
    """Write `page_of` to a file and return it.

    Raises:
        NNDError: the file cannot be written.
    """
    path = expand(output)
    if path.is_dir():
        raise NNDError(f"{path}: is a folder; name a file, such as {path / 'test.html'}")
    page = page_of(test_id, pairs)
    with writing(path) as new:
        new.write_bytes(page)
    return path


def describe_test(test_id: str, pairs: Sequence[Paired]) -> Iterator[str]:
    """Yield lines of Markdown about one test: its texts, people's marks, and what each model made of it.

    Args:
        test_id: of the test.
        pairs: as `find_test` returns them.
    """
    for paired in pairs:
        test = _test(paired.runs[0], test_id)
        document = paired.runs[0].documents[test["document"]]
        yield f"# {plain(f'{paired.title}, test {test_id}')}"
        yield ""
        kinds = [test[key] for key in ("category", "subcategory", "severity") if test[key]]
        yield f"- category: {plain(', '.join(kinds))}"
        for name, text in prompt_fields(document):
            yield f"- {plain(name)}: {plain(_line(text))}"
        for name, side in (("better", "high"), ("worse", "low")):
            yield f"- {name}: {plain(_line(document['candidates'][test[side]]))}"
            for error in (document.get("error_spans") or {test[side]: ()})[test[side]]:
                text = document["candidates"][test[side]][error["start"] : error["end"]]
                yield f"- marked in it: {plain(_line(repr(text)))} ({plain(error['category'] or 'an error')})"
        yield ""
        yield from _outcomes(paired, test_id).markdown()
        rows = [row for run in paired.runs if (row := _surprising(run, _test(run, test_id)))]
        if rows:
            yield "Most surprising tokens (-log p in nats):"
            yield ""
            yield from TextTable(["model", "better", "worse"], rows, names=3).markdown()


def _test(run: Run, test_id: str) -> Mapping[str, Any]:
    return dict(run.tests[run.tests["test_id"] == test_id].to_dict("records")[0])


def _line(text: str) -> str:
    """Return a text on one line, cut where it is long."""
    text = " ".join(text.split())
    cut = f" [… {counted(len(text) - CONTEXT_LIMIT, 'more character')}]" if len(text) > CONTEXT_LIMIT else ""
    return text[:CONTEXT_LIMIT] + cut


def _outcomes(paired: Paired, test_id: str) -> TextTable:
    """Return a row for each model: outcome, margins, and the scores of both candidates."""
    rows = []
    for run in paired.runs:
        test = _test(run, test_id)
        scores = [run.documents[test["document"]]["scores"][test[side]] for side in ("high", "low")]
        outcome = {True: "passed", False: "failed"}.get(test["passed"], "not scored")
        margins = [(test["margin"], 3), (test["margin_sum"], 2), (test["margin_bytes"], 4)]
        row = [run.model, f"{outcome}, equal" if test["tie"] else outcome]
        row += [number(math.nan if margin is None else margin, digits, signed=True) for margin, digits in margins]
        rows.append([*row, *("-" if s is None or s["mean"] is None else _score(s) for s in scores)])
    head = ["model", "outcome", "margin per token", "in all", "per byte", "better: mean, sum", "worse: mean, sum"]
    return TextTable(head, rows, names=2)


def _score(score: Mapping[str, Any]) -> str:
    return f"{score['mean']:.3f}, {score['sum']:.2f} ({counted(score['tokens'], 'token')})"


def _surprising(run: Run, test: Mapping[str, Any]) -> list[str]:
    """Return the model and the most surprising tokens of both candidates; empty where the run kept none."""
    kept = run_tokens(run)
    document = run.documents[test["document"]]
    row = [run.model]
    for side in ("high", "low"):
        tokens = (kept or {}).get((document["cluster_id"], test[side], True))
        if tokens is None:
            return []
        text, parts, end = document["candidates"][test[side]], [], 0
        for length, tenths in zip(*segments(tokens, len(text)), strict=True):
            parts.append((tenths, repr(text[end : end + length]) if length else "(around the text)"))
            end += length
        worst = sorted(parts, key=lambda part: -part[0])[:_TOKENS]
        row.append(", ".join(f"{shown} {tenths / 10:.1f}" for tenths, shown in worst))
    return row
