"""All tests of a report as data, in a browser, and one of them alone."""

import base64
import json
import re
import zlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nnd_tasks.errors import NNDError
from nnd_tasks.likelihood.token_scores import read_tokens
from nnd_tasks.page import browsing
from nnd_tasks.page import page as page_module
from nnd_tasks.page.browsing import PAGE_LIMIT, look_up_test, pack
from nnd_tasks.page.page import render_report
from nnd_tasks.results.paired import pair
from nnd_tasks.results.read_runs import read_results
from nnd_tasks.text import counted
from tests.commands import refused
from tests.page.pages import open_page, parse, read_page, text_of
from tests.results.runs import PROTOCOL, make_run
from tests.results.token_runs import documents, write_run

HOSTILE = "<img src=x onerror=\"document.title='owned'\"></script><script>document.title='owned'</script>&amp;"
MODELS = ("m-a", "m-b", "m-<i>c")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return the results of three models on 36 tests; the last has no token scores, and a few texts are hostile."""
    out = tmp_path_factory.mktemp("marked")
    made = documents(12)
    made[0]["context"] = HOSTILE
    made[0]["candidates"] = [f"{text} {HOSTILE}" for text in made[0]["candidates"]]
    for i, model in enumerate(MODELS):
        write_run(out / str(i), model, made, seed=i, tokens=i < 2)
    return out


@pytest.fixture(scope="module")
def paired(folder):
    [found] = pair(read_results([folder]))
    return found


def unpacked(piece):
    return json.loads(zlib.decompress(base64.b64decode(piece)))


# ---------------------------------------------------------------- the data


def test_the_data_are_those_of_the_runs(paired, monkeypatch):
    monkeypatch.setattr(browsing, "_EACH", 5)  # so that there are several pieces
    packed = pack([paired], PAGE_LIMIT)
    [section], *pieces = map(unpacked, packed.pieces)
    assert packed.tests == packed.of == len(section["id"]) == 36
    assert section["models"] == list(MODELS)
    assert [len(prompts) for prompts in pieces] == [5, 5, 2]
    for k, run in enumerate(paired.runs):
        tests, scores = run.tests.set_index("test_id"), read_tokens(run)
        for i, test_id in enumerate(section["id"]):
            test = tests.loc[test_id]
            document = run.documents[test["document"]]
            assert section["category"][i] == test["category"]
            assert section["outcome"][k][i] == ("passed" if test["passed"] else "failed")
            assert section["margin"][k][i] == pytest.approx(test["margin"], abs=1e-8)
            prompt, high, low = (
                pieces[section["piece"][i] - 1][section["place"][i]],
                section["high"][i],
                section["low"][i],
            )
            text, total = document["candidates"][test["low"]], document["scores"][test["low"]]
            assert (prompt["texts"][high], prompt["texts"][low]) == (document["candidates"][test["high"]], text)
            assert prompt["scores"][k][low] == total
            [mark] = document["error_spans"][test["low"]]
            assert prompt["marks"][low] == [[mark["start"], mark["end"], f"{mark['category']}, major"]]
            assert prompt["fields"] == [[name, document[name]] for name in ("context", "question")]
            if not scores:
                assert prompt["tokens"][k][low] is None
                continue
            lengths, tenths = prompt["tokens"][k][low]
            assert sum(lengths) == len(text)
            ends = scores[document["cluster_id"], test["low"], True].ends
            assert {*np.cumsum(lengths)} <= {0, *ends}, "no token is divided"
            assert sum(tenths) / 10 == pytest.approx(-total["sum"], abs=0.05 * len(tenths) + 1e-6)


def test_a_tie_and_a_test_without_outcome_are_no_failures_like_others():
    run = make_run("m", [True, False, None, False], ["a"] * 4, margins=[1.0, -1.0, float("nan"), 0.0])
    run.tests.loc[3, "tie"] = True
    [section] = unpacked(pack(pair([run]), PAGE_LIMIT).pieces[0])
    assert section["outcome"] == [["passed", "failed", "not scored", "failed, equal"]]
    assert section["margin"] == [[1.0, -1.0, None, 0.0]]


def test_what_does_not_fit_is_left_out_and_it_says_so(folder, paired, monkeypatch):
    def size(packed):
        return sum(map(len, packed.pieces))

    whole = pack([paired], PAGE_LIMIT)
    assert (whole.models, whole.cut) == (["m-a", "m-b"], False)
    without = pack([paired], size(whole) - 1)
    assert (without.tests, without.models, without.cut) == (36, [], True)
    worst = np.min([run.tests["margin"] for run in paired.runs], axis=0)
    smallest_first = paired.runs[0].tests["test_id"][np.argsort(worst, kind="stable")]
    for most_bytes in (size(without) - 1, 2_000):
        packed = pack([paired], most_bytes)
        assert size(packed) <= most_bytes
        assert 0 < packed.tests < packed.of == 36
        assert set(unpacked(packed.pieces[0])[0]["id"]) == set(smallest_first[: packed.tests])
    monkeypatch.setattr(page_module, "PAGE_LIMIT", 3_000)
    said = text_of(parse(render_report(read_results([folder]))[1]).xpath("//div[@id='browse']")[0])
    assert re.search(r"\b\d+ of 36 tests are here, those with the smallest margins", said)
    assert "Token scores, where runs have them, are left out" in said


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"logprobs": [float("nan")] * 31}, r"row 2: 31 tokens with a sum of nan are not those of the samples"),
        ({}, "cannot be read"),
        ({"cluster_id": "elsewhere"}, r"has no tokens of candidate 1 of prompt c00000; run the task again"),
        ({"text": "another"}, r"row 2: \d+ tokens with .* not those of the samples for candidate 1 of prompt c00000"),
    ],
)
def test_token_scores_that_cannot_be_are_one_error(damage, message, tmp_path):
    [run] = read_results([write_run(tmp_path / "a", "m", documents(1))])
    table = pq.read_table(run.tokens)
    rows = table.to_pylist()
    rows[1] |= damage
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), run.tokens)
    if not damage:
        run.tokens.write_bytes(run.tokens.read_bytes()[:100])
    with pytest.raises(NNDError, match=rf"{run.tokens.name}.*{message}"):
        pack(pair([run]), PAGE_LIMIT)


# ---------------------------------------------------------------- one test


def test_one_test_is_shown_with_what_each_model_made_of_it(paired):
    [report], _ = look_up_test("00005-1", paired.runs)
    texts, outcomes = (table.cells.to_numpy().tolist() for table in report.tables)
    document = paired.runs[0].documents[5]
    for row in (["context", document["context"]], ["better", document["candidates"][0]]):
        assert row in texts
    assert ["marked in it: meaning, major", "Wr0ng1"] in texts
    for run, row in zip(paired.runs, outcomes, strict=True):
        test = run.tests.set_index("test_id").loc["00005-1"]
        margins = [f"{test['margin']:+.3f}", f"{test['margin_sum']:+.2f}", f"{test['margin_bytes']:+.4f}"]
        assert row == [run.model, "passed" if test["passed"] else "failed", *margins]


def test_what_a_judge_wrote_about_a_test_stands_beside_the_other_readers():
    def read_by(reader, *scores):
        run = make_run(reader, [True, reader == "writer"], ["a", "a"], protocol={**PROTOCOL, "reader": reader})
        run.documents[0] |= {"scores": scores, "reader_views": [{"rival": ""}] * 4}
        return run

    def wrote(reader, *answers):
        return read_by(reader, *({"sum": 0.5, "tokens": 1, "answers": [answer]} for answer in answers))

    likelihoods = [{"sum": -1.0, "tokens": 2}] * 4
    runs = [read_by("writer", *likelihoods), wrote("judge", *"ABCD"), wrote("rating", *"9245")]
    [paired] = pair(runs, ["reader"])
    [section], [prompt] = map(unpacked, pack([paired], PAGE_LIMIT).pieces)
    assert section["outcome"] == [["passed", "passed"], ["passed", "failed"], ["passed", "failed"]]
    assert prompt["words"]["t1"] == [
        ["judge, the better text first", "C"],
        ["judge, the worse text first", "D"],
        ["rating, about the better text", "4"],
        ["rating, about the worse text", "5"],
    ]
    assert [words for _, words in prompt["words"]["t0"]] == [*"AB92"]
    assert prompt["scores"] == [likelihoods, [None] * 4, [None] * 4]
    assert [name for name, _ in prompt["fields"]] == ["context"]
    [report], _ = look_up_test("t1", runs, ["reader"])
    assert report.tables[0].cells.to_numpy().tolist()[-4:] == prompt["words"]["t1"]


def test_the_command_line_prints_a_test_and_writes_its_page(folder, tmp_path, nnd):
    done = nnd("report", folder, "--test", "00005-1", "-o", tmp_path / "t.html")
    assert done.out.startswith("# nnd_marked, test 00005-1\n")
    page = read_page(tmp_path / "t.html")
    [section], _ = map(unpacked, page.xpath("//script[@class='data']/text()"))
    assert section["id"] == ["00005-1"]
    messages = {
        "00005-9": r"--test 00005-9: no run has this test; did you mean '00005-\d'",
        "zzzzzzz": "'00000-0', '00000-1' and 34 more",
    }
    for test_id, message in messages.items():
        assert re.search(message, refused(nnd("report", folder, "--test", test_id, "-o", tmp_path / "x.html")))
    assert not (tmp_path / "x.html").exists()


# ---------------------------------------------------------------- in a browser


def shown(page):
    page.locator("#browse output").filter(has_not_text="searching").wait_for()
    return page.locator(".tests .example")


def ids(page):
    return [text.rpartition(" ")[2] for text in shown(page).locator("h3 small").all_inner_texts()]


def total(page):
    shown(page)
    said = page.locator("#browse output").inner_text()
    return int(re.search(r"of ([\d,]+)", said)[1].replace(",", "")) if " of " in said else 0


@pytest.mark.complete
def test_tests_are_searched_and_filtered_in_a_browser(browser, folder, tmp_path):
    runs, path = read_results([folder]), tmp_path / "r.html"
    path.write_text(render_report(runs)[1], "utf-8")
    page, complaints = open_page(browser, path, viewport={"width": 1280, "height": 900})
    page.wait_for_selector("#browse:not([hidden])")
    passed, margins = (runs.tests.pivot(index="test_id", columns="model", values=name) for name in ("passed", "margin"))
    assert ids(page) == margins.min(axis=1).sort_values().index[:20].tolist(), "largest negative margins first"
    assert total(page) == (~passed.all(axis=1)).sum()

    def choose(**values):
        for name in ("outcome", "model", "against", "category"):
            page.locator(f"select[name={name}]").select_option(values.get(name, ""))
        return total(page)

    for outcome in ("passed", "failed"):
        chosen = passed["m-b"] == (outcome == "passed")
        assert choose(outcome=outcome, model="m-b") == chosen.sum()
        apart = chosen & (passed["m-b"] != passed["m-<i>c"])
        assert choose(outcome=outcome, model="m-b", against="m-<i>c") == apart.sum()
    assert choose(against="*") == (passed.nunique(axis=1) > 1).sum()
    assert choose(category="meaning") == 12
    assert choose() == 36
    page.get_by_role("button", name="Next").click()
    page.get_by_text("21 to 36 of 36 tests").wait_for()
    assert len(ids(page)) == 16
    for words, expected in (("00005-1", ["00005-1"]), ("ONERROR <IMG", ["00000-0", "00000-1", "00000-2"])):
        page.locator("input[name=search]").fill(words)
        page.get_by_text(f"1 to {len(expected)} of {counted(len(expected), 'test')}").wait_for()
        assert sorted(ids(page)) == expected
    page.locator("input[name=search]").fill("nowhere to be found")
    page.get_by_text("No test is like this.").wait_for()
    assert page.title() == "NND report", "a text ran as a script"
    assert complaints == []


@pytest.mark.complete
def test_tokens_marks_and_differences_are_where_they_belong(browser, folder, tmp_path):
    runs = read_results([folder])
    path = tmp_path / "t.html"
    path.write_text(look_up_test("00005-1", runs)[1], "utf-8")
    page, complaints = open_page(browser, path)
    page.wait_for_selector("#browse:not([hidden])")
    run = pair(runs)[0].runs[1]
    scores = read_tokens(run)
    good, bad = run.documents[5]["candidates"][0], run.documents[5]["candidates"][2]
    assert page.locator(".view h4:first-child").all_inner_texts()[::3] == ["Tokens of m-a", "Tokens of m-b"]
    low = page.locator(".view").nth(1).locator(".candidate.low p")
    text = low.evaluate("p => p.textContent")
    assert text.replace("⟦", "").replace("⟧", "") == f"{bad}∎"
    assert low.locator(".error").all_inner_texts() == ["Wr0ng1"]
    assert "marked: meaning, major" in str(low.locator(".error").get_attribute("title"))
    before, inside, after = re.split("[⟦⟧]", text.removesuffix("∎"))
    assert inside.startswith("Wr0ng1")
    assert good.startswith(before)
    assert good.endswith(after)
    tokens = scores["c00005", 2, True]
    nats = -float(tokens.logprobs[tokens.starts.tolist().index(bad.index(" Wr0ng1"))])
    assert low.locator(".error").get_attribute("data-nats") == f"{nats:.1f}"
    assert complaints == []
