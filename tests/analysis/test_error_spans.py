"""Surprise around marked errors, against loops over the file of token scores, and as a report and on the page."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from statistics import mean

import numpy as np
import pyarrow.parquet as pq
import pytest
from lxml import html
from scipy import stats

from nnd_tasks.analysis.error_spans import PLACES, around_errors, report_spans
from nnd_tasks.analysis.page import render_report
from nnd_tasks.analysis.results import read_results
from tests.analysis.token_runs import documents, write_run
from tests.commands import Outcome


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the results of a model on twelve prompts, whose last candidate has two marks, one of several tokens."""
    out = tmp_path_factory.mktemp("marked")
    made = documents(12)
    for document in made:
        text = document["candidates"][3]
        [first] = document["error_spans"][3]
        places = [match.span() for match in re.finditer(r"[\x21-\x7e]+ [\x21-\x7e]+ [\x21-\x7e]+ [\x21-\x7e]+", text)]
        free = [span for span in places if span[1] < first["start"] or span[0] > first["end"]]
        document["error_spans"][3] += [{**first, "start": start, "end": end} for start, end in free[:1]]
    write_run(out / "m", "m-a", made)
    return out


def test_means_are_those_of_a_loop_over_the_tokens(folder: Path) -> None:
    [run] = read_results([folder])
    rows = pq.read_table(next(folder.rglob("tokens_*"))).to_pylist()
    own = [[i for i in range(len(row["starts"])) if row["starts"][i] < row["ends"][i]] for row in rows]
    counts = Counter(row["token_ids"][i] for row, kept in zip(rows, own, strict=True) for i in kept)
    size = max(counts) + 1
    values = defaultdict(lambda: defaultdict(list))  # (value, place) -> prompt -> numbers
    for row, kept in zip(rows, own, strict=True):
        document = next(one for one in run.documents if one["cluster_id"] == row["cluster_id"])
        errors = document["error_spans"][row["candidate"]]
        surprise = [-row["logprobs"][i] for i in kept]
        common = [np.log((sum(counts.values()) + size + 1) / (counts[row["token_ids"][i]] + 1)) for i in kept]
        inside = [
            [j for j, i in enumerate(kept) if row["starts"][i] < e["end"] and row["ends"][i] > e["start"]]
            for e in errors
        ]
        every = {j for one in inside for j in one}
        for one in inside:
            places = {"first": one[:1], "middle": one[1:-1], "last": one[-1:] if len(one) > 1 else []}
            for n in range(1, 6):
                places |= {f"-{n}": [one[0] - n], f"+{n}": [one[-1] + n]}
            for place, tokens in places.items():
                tokens = [j for j in tokens if 0 <= j < len(kept) and (j not in every or not place[-1].isdigit())]
                if tokens:
                    values["surprise", place][row["cluster_id"]].append(mean(surprise[j] for j in tokens))
                    excess = mean(surprise[j] - common[j] for j in tokens)
                    values["excess", place][row["cluster_id"]].append(excess)
    around = around_errors([run])
    assert tuple(around["place"].unique()) == PLACES
    found = {(one.value, one.place): one for one in around.itertuples()}
    assert found.keys() == values.keys()
    for key, one in found.items():
        numbers = [number for of_prompt in values[key].values() for number in of_prompt]
        assert one.errors == len(numbers)
        assert one.mean == pytest.approx(mean(numbers), abs=1e-5)
        if {len(of_prompt) for of_prompt in values[key].values()} == {1}:  # then it is Student's interval of a mean
            low, high = stats.t.interval(0.95, len(numbers) - 1, one.mean, stats.sem(numbers))
            assert (one.low, one.high) == pytest.approx((low, high), abs=1e-4)
        assert one.low < one.mean < one.high
    assert found["surprise", "first"].low > found["surprise", "-1"].mean, "wrong words were made more surprising"


def test_the_report_has_a_table_for_each_task(folder: Path, tmp_path: Path) -> None:
    write_run(tmp_path / "other", "m-b", documents(3), task="nnd_other")
    around = around_errors(read_results([folder, tmp_path / "other"]))
    report = report_spans(around)
    assert [table.name for table in report.tables] == ["nnd_marked", "nnd_other"]
    first = around[(around["task"] == "nnd_marked") & (around["place"] == "first")].set_index("value")
    cells = report.tables[0].cells().set_index("token").loc["first"]
    expected = ["{mean:.2f} [{low:.2f}, {high:.2f}]".format(**first.loc[value]) for value in ("surprise", "excess")]
    assert cells[["m-a: surprise", "m-a: excess"]].tolist() == expected


def test_runs_on_other_spans_compare_by_their_pass_rates_only(tmp_path: Path, nnd: Callable[..., Outcome]) -> None:
    made = documents(3)
    for model, spans in (("m-a", "s1"), ("m-b", "s2")):
        write_run(tmp_path / "both" / model, model, made, spans_digest=spans)
    assert around_errors(read_results([tmp_path / "both"])).empty
    assert nnd("compare", tmp_path / "both").status == 0
    page = render_report(read_results([tmp_path / "both"]))
    assert "Surprise around marked errors" not in page
    write_run(tmp_path / "both" / "plain", "m-c", made, tokens=False)
    alone = around_errors(read_results([tmp_path / "both" / "m-a", tmp_path / "both" / "plain"]))
    assert set(alone["model"]) == {"m-a"}, "a run without span metrics rests on no spans"


def test_runs_without_token_scores_or_marks_have_no_rows(tmp_path: Path) -> None:
    made = documents(3)
    write_run(tmp_path / "a", "m-a", made, tokens=False)
    for document in made:
        del document["error_spans"]
    write_run(tmp_path / "b", "m-a", made, task="nnd_plain")
    assert around_errors(read_results([tmp_path])).empty
    page = html.fromstring(render_report(read_results([tmp_path / "b"])))
    assert not page.xpath("//figure[@class='around']")


def test_the_page_draws_the_same_numbers(folder: Path, tmp_path: Path) -> None:
    page = html.fromstring(render_report(read_results([folder])))
    found = list(around_errors(read_results([folder])).itertuples())
    drawings = page.xpath("//figure[@class='around']//svg[@role='img']")
    for drawing, value in zip(drawings, ("surprise", "excess"), strict=True):
        own = [one for one in found if one.value == value]
        heights = np.array([float(circle.get("cy")) for circle in drawing.xpath(".//circle")])
        means = np.array([one.mean for one in own])
        assert np.corrcoef(heights, means)[0, 1] == pytest.approx(-1)
        bars = [(float(line.get("y1")), float(line.get("y2"))) for line in drawing.xpath(".//g/line")]
        scale = (heights.max() - heights.min()) / (means.max() - means.min())
        assert [low - high for low, high in bars] == pytest.approx([scale * (one.high - one.low) for one in own])
    cells = page.xpath("//div[starts-with(@aria-label, 'Surprise around')]//tbody/tr[1]/td[position() > 1]/text()")
    assert cells == [f"{one.mean:.2f}" for one in found if one.value == "surprise"]
