"""Surprise around marked errors, against loops over the file of token scores, and on the page."""

import re
from collections import Counter, defaultdict
from itertools import chain
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
def folder(tmp_path_factory):
    """Return the results of a model on twelve prompts, whose last candidate has two marks, one of several tokens."""
    out = tmp_path_factory.mktemp("marked")
    made = documents(12)
    for document in made:
        text, [first] = document["candidates"][3], document["error_spans"][3]
        four_words = [match.span() for match in re.finditer(r"[!-~]+( [!-~]+){3}", text)]
        free = [(start, end) for start, end in four_words if end < first["start"] or start > first["end"]]
        document["error_spans"][3] += [{**first, "start": start, "end": end} for start, end in free[:1]]
    return write_run(out / "m", "m-a", made)


def test_means_are_those_of_a_loop_over_the_tokens(folder):
    [run] = read_results([folder])
    documents = {document["cluster_id"]: document for document in run.documents}
    texts, counts = [], Counter()
    for row in pq.read_table(run.tokens).to_pylist():
        tokens = zip(*(row[name] for name in ("starts", "ends", "token_ids", "logprobs")), strict=True)
        in_text = [token for token in tokens if token[0] < token[1]]
        counts.update(token_id for _, _, token_id, _ in in_text)
        texts.append((row["cluster_id"], documents[row["cluster_id"]]["error_spans"][row["candidate"]], in_text))
    total = counts.total() + max(counts) + 2
    values = defaultdict(lambda: defaultdict(list))  # (value, place) -> prompt -> numbers
    for prompt, errors, tokens in texts:
        surprise = [-logprob for *_, logprob in tokens]
        excess = [nats - np.log(total / (counts[token[2]] + 1)) for nats, token in zip(surprise, tokens, strict=True)]
        inside = [
            [j for j, token in enumerate(tokens) if token[0] < e["end"] and token[1] > e["start"]] for e in errors
        ]
        for error in inside:
            places = {"first": error[:1], "middle": error[1:-1], "last": error[1:][-1:]}
            for n in range(1, 6):
                for place, j in ((f"-{n}", error[0] - n), (f"+{n}", error[-1] + n)):
                    places[place] = [j] if 0 <= j < len(tokens) and j not in chain(*inside) else []
            for place, chosen in places.items():
                for value, nats in (("surprise", surprise), ("excess", excess)):
                    if chosen:
                        values[value, place][prompt].append(mean(nats[j] for j in chosen))
    around = around_errors([run])
    assert tuple(around["place"].unique()) == PLACES
    rows = {(row.value, row.place): row for row in around.itertuples()}
    assert rows.keys() == values.keys()
    for key, row in rows.items():
        numbers = [number for of_prompt in values[key].values() for number in of_prompt]
        assert row.errors == len(numbers)
        assert row.mean == pytest.approx(mean(numbers), abs=1e-5)
        assert row.low < row.mean < row.high
        if {len(of_prompt) for of_prompt in values[key].values()} == {1}:  # then it is Student's interval of a mean
            interval = stats.t.interval(0.95, len(numbers) - 1, row.mean, stats.sem(numbers))
            assert (row.low, row.high) == pytest.approx(interval, abs=1e-4)
    assert rows["surprise", "first"].low > rows["surprise", "-1"].mean, "wrong words were made more surprising"


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
