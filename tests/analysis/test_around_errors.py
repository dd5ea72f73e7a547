"""Surprise around marked errors, against loops over the file of token scores, and as files and on the page."""

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

from nnd_tasks.analysis.curves.around_errors import PLACES, around_errors
from nnd_tasks.analysis.report.html_report import write_report
from nnd_tasks.analysis.results import read_results
from tests.analysis.token_runs import documents, write_run
from tests.commands import Outcome, refused


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
    found = {(one.value, one.place): one for one in around_errors([run])}
    assert found.keys() == values.keys()
    assert {place for _, place in found} == set(PLACES)
    for key, one in found.items():
        numbers = [number for of_prompt in values[key].values() for number in of_prompt]
        assert one.errors == len(numbers)
        assert one.mean == pytest.approx(mean(numbers), abs=1e-5)
        if {len(of_prompt) for of_prompt in values[key].values()} == {1}:  # then it is Student's interval of a mean
            low, high = stats.t.interval(0.95, len(numbers) - 1, one.mean, stats.sem(numbers))
            assert (one.low, one.high) == pytest.approx((low, high), abs=1e-4)
        assert one.low < one.mean < one.high
    assert found["surprise", "first"].low > found["surprise", "-1"].mean, "wrong words were made more surprising"


def test_the_command_writes_table_and_figure(folder: Path, tmp_path: Path, nnd: Callable[..., Outcome]) -> None:
    done = nnd("surprise", folder, "--out", tmp_path)
    assert done.status == 0, done.err
    one = next(one for one in around_errors(read_results([folder])) if (one.value, one.place) == ("surprise", "first"))
    assert f"| first | {one.mean:.2f} [{one.low:.2f}, {one.high:.2f}] |" in done.out
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"around_errors.{e}" for e in ("csv", "json", "md", "png", "svg")
    ]
    assert (tmp_path / "around_errors.md").read_text().startswith("# Surprise around marked errors")
    labels = re.findall("<!-- (.*) -->", (tmp_path / "around_errors.svg").read_text())
    assert {*PLACES[5:8], "nats", "m-a"} <= set(labels)
    assert "chance (0.5)" not in labels


def test_runs_on_other_spans_compare_by_their_pass_rates_only(tmp_path: Path, nnd: Callable[..., Outcome]) -> None:
    made = documents(3)
    for model, spans in (("m-a", "s1"), ("m-b", "s2")):
        write_run(tmp_path / "both" / model, model, made, spans_digest=spans)
    assert "error spans (s1 and s2)" in refused(nnd("surprise", tmp_path / "both"))
    assert nnd("compare", tmp_path / "both").status == 0
    page = write_report([tmp_path / "both"], tmp_path / "r.html").read_text()
    assert '<td class="text">s1</td>' in page
    assert "Surprise around marked errors" not in page
    write_run(tmp_path / "both" / "plain", "m-c", made, tokens=False)
    alone = nnd("surprise", tmp_path / "both" / "m-a", tmp_path / "both" / "plain")
    assert alone.status == 0, "a run without span metrics rests on no spans"


def test_it_says_what_is_missing(tmp_path: Path, nnd: Callable[..., Outcome]) -> None:
    made = documents(3)
    write_run(tmp_path / "a", "m-a", made, tokens=False)
    assert "run the task again with --metadata" in nnd("surprise", tmp_path / "a").err
    for document in made:
        del document["error_spans"]
    write_run(tmp_path / "b", "m-a", made)
    refused = nnd("surprise", tmp_path / "b").err
    assert "no set of these runs says which part of a text is wrong" in refused
    assert str(tmp_path) not in refused, "it concerns all runs"
    page = html.fromstring(write_report([tmp_path / "b"], tmp_path / "r.html").read_bytes().decode())
    assert not page.xpath("//figure[@class='around']")


def test_the_page_draws_the_same_numbers(folder: Path, tmp_path: Path) -> None:
    page = html.fromstring(write_report([folder], tmp_path / "r.html").read_bytes().decode())
    found = around_errors(read_results([folder]))
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
