"""`around_errors`: surprise around marked errors, against loops over the file of token scores, and on the page.

Also covers add_adjusted_rates.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from pathlib import Path
from statistics import mean

import numpy as np
import pyarrow.parquet as pq
import pytest
from lxml import html
from scipy import stats

from nnd_tasks.page.page import PLACES, around_errors, render_report
from nnd_tasks.results.read_runs import read_results
from tests.results.token_runs import documents, write_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
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


def test_means_are_those_of_a_loop_over_the_tokens(folder):
    [run] = read_results([folder])
    documents = {document["cluster_id"]: document for document in run.documents}
    table, counts = [], Counter()
    for row in pq.read_table(run.tokens).to_pylist():
        tokens = zip(*(row[name] for name in ("starts", "ends", "token_ids", "logprobs")), strict=True)
        own = [token for token in tokens if token[0] < token[1]]
        counts.update(kind for _, _, kind, _ in own)
        table.append((row["cluster_id"], documents[row["cluster_id"]]["error_spans"][row["candidate"]], own))
    total = counts.total() + max(counts) + 2
    values = defaultdict(lambda: defaultdict(list))  # (value, place) -> prompt -> numbers
    for prompt, errors, own in table:
        surprise = [-logprob for *_, logprob in own]
        excess = [nats - np.log(total / (counts[token[2]] + 1)) for nats, token in zip(surprise, own, strict=True)]
        inside = [[j for j, one in enumerate(own) if one[0] < e["end"] and one[1] > e["start"]] for e in errors]
        every = {j for one in inside for j in one}
        for one in inside:
            places = {"first": one[:1], "middle": one[1:-1], "last": one[1:][-1:]}
            for n in range(1, 6):
                around = {f"-{n}": one[0] - n, f"+{n}": one[-1] + n}
                places |= {place: [j] if 0 <= j < len(own) and j not in every else [] for place, j in around.items()}
            for place, tokens in places.items():
                for value, nats in (("surprise", surprise), ("excess", excess)):
                    if tokens:
                        values[value, place][prompt].append(mean(nats[j] for j in tokens))
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


def test_runs_on_other_spans_compare_by_their_pass_rates_only(tmp_path, nnd):
    made = documents(3)
    for model, spans in (("m-a", "s1"), ("m-b", "s2")):
        write_run(tmp_path / "both" / model, model, made, spans=spans)
    assert around_errors(read_results([tmp_path / "both"])).empty
    assert nnd("compare", tmp_path / "both").status == 0
    assert "Surprise around marked errors" not in render_report(read_results([tmp_path / "both"]))[1]
    write_run(tmp_path / "both" / "plain", "m-c", made, tokens=False, spans=None)
    alone = around_errors(read_results([tmp_path / "both" / "m-a", tmp_path / "both" / "plain"]))
    assert set(alone["model"]) == {"m-a"}, "a run without span metrics rests on no spans"


def test_runs_without_token_scores_or_marks_have_no_rows(tmp_path):
    made = documents(3)
    write_run(tmp_path, "m-a", made, tokens=False)
    for document in made:
        del document["error_spans"]
    write_run(tmp_path, "m-a", made, task="nnd_plain")
    assert around_errors(read_results([tmp_path])).empty


def test_the_page_draws_the_same_numbers(folder):
    runs = read_results([folder])
    page, found = html.fromstring(render_report(runs)[1]), around_errors(runs)
    drawings = page.xpath("//figure[@class='around']//svg[@role='img']")
    for drawing, value in zip(drawings, ("surprise", "excess"), strict=True):
        own = found[found["value"] == value]
        heights = np.array([float(circle.get("cy")) for circle in drawing.xpath(".//circle")])
        assert np.corrcoef(heights, own["mean"])[0, 1] == pytest.approx(-1)
        bars = [float(line.get("y1")) - float(line.get("y2")) for line in drawing.xpath(".//g/line")]
        scale = np.ptp(heights) / np.ptp(own["mean"])
        assert np.abs(bars) == pytest.approx((scale * (own["high"] - own["low"])).to_numpy())
