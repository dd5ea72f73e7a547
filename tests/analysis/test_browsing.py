"""All tests of a report: as data of the page, in a browser, and one of them alone (``nnd report --test``)."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nnd_tasks.analysis import browsing
from nnd_tasks.analysis import page as page_module
from nnd_tasks.analysis.browsing import Packed, pack, segments
from nnd_tasks.analysis.one_test import find_test, render_test, report_test
from nnd_tasks.analysis.page import PAGE_LIMIT, render_report
from nnd_tasks.analysis.results import read_results
from nnd_tasks.analysis.side_by_side import Paired, pair
from nnd_tasks.analysis.token_files import CandidateTokens, run_tokens
from nnd_tasks.errors import NNDError
from nnd_tasks.wording import counted
from tests.analysis.pages import open_page, parse, text_of
from tests.analysis.runs import make_run
from tests.analysis.token_runs import documents, write_run
from tests.commands import Outcome

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

HOSTILE = "<img src=x onerror=\"document.title='owned'\"></script><script>document.title='owned'</script>&amp;"
MODELS = ("m-a", "m-b", "m-<i>c")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the results of three models on 36 tests; the last has no token scores, and a few texts are hostile."""
    out = tmp_path_factory.mktemp("marked")
    made = documents(12)
    made[0]["context"] = HOSTILE
    made[0]["candidates"] = [f"{text} {HOSTILE}" for text in made[0]["candidates"]]
    for i, model in enumerate(MODELS):
        write_run(out / str(i), model, made, seed=i, tokens=i < 2)
    return out


@pytest.fixture(scope="module")
def paired(folder: Path) -> Paired:
    [found] = pair(read_results([folder]))
    return found


def size(packed: Packed) -> int:
    return sum(map(len, packed.pieces))


def unpacked(piece: str) -> Any:
    return json.loads(zlib.decompress(base64.b64decode(piece)))


# ---------------------------------------------------------------- the data


def test_the_data_are_those_of_the_runs(paired: Paired, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browsing, "_EACH", 5)  # so that there are several pieces
    packed = pack([paired], PAGE_LIMIT)
    [section], pieces = unpacked(packed.pieces[0]), [unpacked(piece) for piece in packed.pieces[1:]]
    assert packed.tests == packed.of == len(section["id"]) == 36
    assert section["models"] == list(MODELS)
    assert [len(prompts) for prompts in pieces] == [5, 5, 2]
    scores = [run_tokens(run) for run in paired.runs]
    columns = zip(*(section[name] for name in ("id", "piece", "place", "high", "low")), strict=True)
    for i, (test_id, number, place, high, low) in enumerate(columns):
        kept = pieces[number - 1][place]
        for k, run in enumerate(paired.runs):
            [test] = run.tests[run.tests["test_id"] == test_id].to_dict("records")
            document = run.documents[test["document"]]
            assert [kept["texts"][one] for one in (high, low)] == [
                document["candidates"][test[side]] for side in ("high", "low")
            ]
            assert section["category"][i] == test["category"]
            assert section["outcome"][k][i] == ("passed" if test["passed"] else "failed")
            assert section["margin"][k][i] == pytest.approx(test["margin"], abs=1e-8)
            assert kept["scores"][k][low] == document["scores"][test["low"]]
            [mark] = document["error_spans"][test["low"]]
            assert kept["marks"][low] == [[mark["start"], mark["end"], f"{mark['category']}, major"]]
            assert kept["fields"] == [[name, document[name]] for name in ("context", "question")]
            if scores[k] is None:
                assert kept["tokens"][k][low] is None
            else:
                lengths, tenths = kept["tokens"][k][low]
                assert sum(lengths) == len(document["candidates"][test["low"]])
                total = -document["scores"][test["low"]]["sum"]
                assert sum(tenths) / 10 == pytest.approx(total, abs=0.05 * len(tenths) + 1e-6)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.floats(-50, 0, width=32)), min_size=1))
def test_stretches_of_tokens_follow_each_other(steps: list[tuple[int, int, float]]) -> None:
    """Tokens as tokenizers give them: each begins where the one before ends, or within its last character."""
    starts, ends, reach = [], [], 0
    for back, length, _ in steps:
        start = max(reach - back, starts[-1] if starts else 0)
        reach = max(reach, start + length)
        starts.append(start)
        ends.append(reach)
    values = np.array([value for *_, value in steps], dtype=np.float32)
    tokens = CandidateTokens(np.zeros(len(steps), np.int32), np.array(starts), np.array(ends), values)
    lengths, tenths = segments(tokens)
    assert lengths.sum() == reach
    assert abs(tenths.sum() / 10 + values.sum(dtype=np.float64)) <= 0.05 * len(tenths) + 1e-4
    borders = np.cumsum(lengths)
    for start, end in zip(starts, ends, strict=True):  # no token is divided
        assert not any(start < border < end for border in borders)


def test_a_tie_and_a_test_without_outcome_are_no_failures_like_others() -> None:
    run = make_run("m", [True, False, None, False], ["a"] * 4, margins=[1.0, -1.0, float("nan"), 0.0])
    run.tests.loc[3, "tie"] = True
    for document in run.documents:
        document["scores"] = [None] * len(document["candidates"])
    [section] = unpacked(pack(pair([run]), PAGE_LIMIT).pieces[0])
    assert section["outcome"] == [["passed", "failed", "not scored", "failed, equal"]]
    assert section["margin"] == [[1.0, -1.0, None, 0.0]]


def test_what_does_not_fit_is_left_out_and_it_says_so(
    folder: Path, paired: Paired, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = pack([paired], PAGE_LIMIT)
    assert (whole.models, whole.cut) == (["m-a", "m-b"], False)
    without = pack([paired], size(whole) - 1)
    assert (without.tests, without.models, without.cut) == (36, [], True)
    for room in (size(without) - 1, 3_000, 2_000):
        packed = pack([paired], room)
        assert size(packed) <= room
        [section], kept = unpacked(packed.pieces[0]), packed.tests
        assert kept == len(section["id"])
        worst = np.min([run.tests["margin"] for run in paired.runs], axis=0)
        ids = paired.runs[0].tests["test_id"].to_numpy()[np.argsort(worst, kind="stable")[:kept]]
        assert set(section["id"]) == set(ids), "the tests with the smallest margins are kept"
    assert 0 < packed.tests < packed.of == 36
    monkeypatch.setattr(page_module, "PAGE_LIMIT", 3_000)
    said = text_of(parse(render_report(read_results([folder]))).xpath("//div[@id='browse']")[0])
    assert re.search(r"\b\d+ of 36 tests are here, those with the smallest margins", said)
    assert "Token scores, where runs have them, are left out" in said


def test_a_page_of_20000_tests_is_below_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts of random words and random token scores, which deflate badly, and two models."""
    rng = np.random.default_rng(0)
    names = rng.integers(0, 10**6, 1_000_000).astype(str)
    count, each = 4_000, 5
    made = [
        {
            "cluster_id": f"c{i}",
            "context": " ".join(names[i * 200 : i * 200 + 180]),
            "candidates": [f"{' '.join(names[i * 200 + j : i * 200 + j + 20])} {j}" for j in range(each + 1)],
            "scores": [{"sum": -40.5 - j, "mean": -1.0, "tokens": 40, "bytes": 130} for j in range(each + 1)],
        }
        for i in range(count)
    ]
    one = make_run("a", [False] * each, ["c"] * each).tests
    columns = {name: np.tile(one[name].to_numpy(), count) for name in one.columns}
    columns |= {"test_id": [f"{i:016x}" for i in range(count * each)], "document": np.repeat(np.arange(count), each)}
    columns |= {"cluster_id": np.repeat([document["cluster_id"] for document in made], each)}
    columns |= {"high": np.zeros(count * each, int), "low": np.tile(np.arange(1, each + 1), count)}
    tests = one.iloc[:0].reindex(range(count * each)).assign(**columns).astype({"passed": "boolean"})
    tests["margin"] = rng.normal(-1, 1, len(tests))
    runs = [make_run(name, [False], ["c"], documents=made, tests=tests) for name in ("a", "b")]
    ends = np.arange(3, 123, 3)
    score = [CandidateTokens(ends, ends - 3, ends, -rng.exponential(3, 40).astype(np.float32)) for _ in range(100)]

    class Scores(dict[Any, Any]):
        def get(self, key: Any, otherwise: Any = None) -> CandidateTokens:
            return score[hash(key) % len(score)]

    monkeypatch.setattr(browsing, "run_tokens", lambda run: Scores({1: 1}))
    packed = pack([Paired("nnd_demo", "s", runs, tests, np.zeros((0, 2), bool), 0)], PAGE_LIMIT)
    assert size(packed) <= PAGE_LIMIT
    assert packed.tests == packed.of == 20_000
    assert packed.models == ["a", "b"]


def test_a_damaged_file_of_tokens_is_named(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", "m", documents(2))
    path = next(folder.glob("tokens_*"))
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(NNDError, match=rf"{path.name}: cannot be read"):
        render_report(read_results([folder]))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"logprobs": [float("nan")] * 31}, r"row 2: 31 tokens with a sum of nan are not those of the samples"),
        ({"cluster_id": "elsewhere"}, r"has no tokens of candidate 1 of prompt c00000; run the task again"),
        ({"text": "another"}, r"row 2: 31 tokens with .* not those of the samples for candidate 1 of prompt c00000"),
    ],
)
def test_token_scores_that_cannot_be_are_one_error(damage: dict[str, Any], message: str, tmp_path: Path) -> None:
    made = documents(1)
    made[0]["candidates"] = [
        re.sub(r"[^\x00-\x7f]", "x", text) for text in made[0]["candidates"]
    ]  # 30 words, 31 tokens
    [run] = read_results([write_run(tmp_path / "a", "m", made)])
    table = pq.read_table(run.tokens)
    rows = table.to_pylist()
    rows[1] |= damage
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), run.tokens)
    with pytest.raises(NNDError, match=rf"{run.tokens.name}.*{message}"):
        run_tokens(run)


# ---------------------------------------------------------------- one test


def test_one_test_is_shown_with_what_each_model_made_of_it(paired: Paired) -> None:
    report = report_test("00005-1", paired)
    texts, outcomes = (table.cells().to_numpy().tolist() for table in report.tables)
    document = paired.runs[0].documents[5]
    assert ["context", document["context"]] in texts
    assert ["better", document["candidates"][0]] in texts
    assert ["marked in it: meaning, major", "Wr0ng1"] in texts
    for run, row in zip(paired.runs, outcomes, strict=True):
        [test] = run.tests[run.tests["test_id"] == "00005-1"].to_dict("records")
        margins = [f"{test['margin']:+.3f}", f"{test['margin_sum']:+.2f}", f"{test['margin_bytes']:+.4f}"]
        assert row == [run.model, "passed" if test["passed"] else "failed", *margins]


def test_the_command_line_prints_a_test_and_writes_its_page(
    folder: Path, tmp_path: Path, nnd: Callable[..., Outcome]
) -> None:
    done = nnd("report", folder, "--test", "00005-1", "-o", tmp_path / "t.html")
    assert done.status == 0, done.err
    assert done.out.startswith("# nnd_marked, test 00005-1\n")
    assert "Test 00005-1" in (tmp_path / "t.html").read_text("utf-8")
    wrong = nnd("report", folder, "--test", "00005-9", "-o", tmp_path / "x.html")
    assert wrong.status == 1
    assert re.search(r"00005-9: no run has this test; did you mean '00005-\d'", wrong.err)
    assert "'00000-0', '00000-1' and 34 more" in nnd("report", folder, "--test", "zzzzzzz").err
    assert not (tmp_path / "x.html").exists()


def test_the_page_of_a_test_has_its_whole_texts(tmp_path: Path) -> None:
    made = documents(1, words=2_000, context=9_000)
    runs = read_results([write_run(tmp_path / "long", "m", made)])
    page = parse(render_test("00000-1", find_test("00000-1", runs)))
    [section], data = map(unpacked, page.xpath("//script[@class='data']/text()"))
    assert section["id"] == ["00000-1"]
    assert made[0]["candidates"][2] in data[0]["texts"]
    assert ["context", made[0]["context"]] in data[0]["fields"]


# ---------------------------------------------------------------- in a browser


def shown(page: Page) -> Locator:
    page.locator("#browse output").filter(has_not_text="searching").wait_for()
    return page.locator(".tests .example")


def ids(page: Page) -> list[str]:
    return [text.rpartition(" ")[2] for text in shown(page).locator("h3 small").all_inner_texts()]


def total(page: Page) -> int:
    shown(page)
    said = page.locator("#browse output").inner_text()
    return int(re.search(r"of ([\d,]+)", said)[1].replace(",", "")) if " of " in said else 0  # type: ignore[index]


def write_test(folder: Path, out: Path) -> Path:
    path = out / "t.html"
    path.write_text(render_test("00005-1", find_test("00005-1", read_results([folder]))), "utf-8")
    return path


@pytest.mark.complete
def test_tests_are_searched_and_filtered_in_a_browser(
    browser: Browser, folder: Path, paired: Paired, tmp_path: Path
) -> None:
    path = tmp_path / "r.html"
    path.write_text(render_report(read_results([folder])), "utf-8")
    page, complaints = open_page(browser, path, viewport={"width": 1280, "height": 900})
    page.wait_for_selector("#browse:not([hidden])")
    assert page.title() == "NND report", "a text ran as a script"
    outcomes = {
        run.model: dict(zip(run.tests["test_id"], run.tests["passed"].tolist(), strict=True)) for run in paired.runs
    }
    margins = np.min([run.tests["margin"] for run in paired.runs], axis=0)
    order = paired.runs[0].tests["test_id"].to_numpy()[np.argsort(margins, kind="stable")]
    assert ids(page) == order[:20].tolist(), "largest negative margins first"
    assert total(page) == sum(not all(of[name] for of in outcomes.values()) for name in order)

    choose = lambda name, value: page.locator(f"select[name={name}]").select_option(value)  # noqa: E731
    for outcome in ("passed", "failed"):
        choose("outcome", outcome)
        choose("model", "m-b")
        assert total(page) == sum(outcomes["m-b"][name] == (outcome == "passed") for name in order)
        choose("against", "m-<i>c")
        disagree = {name for name in order if outcomes["m-b"][name] != outcomes["m-<i>c"][name]}
        assert total(page) == sum(outcomes["m-b"][name] == (outcome == "passed") for name in disagree)
        choose("against", "")
    choose("outcome", "")
    choose("model", "")
    assert total(page) == 36
    choose("against", "*")
    assert total(page) == sum(len({of[name] for of in outcomes.values()}) > 1 for name in order)
    choose("against", "")
    choose("category", "meaning")
    assert total(page) == 12
    choose("category", "")

    page.get_by_role("button", name="Next").click()
    page.get_by_text("21 to 36 of 36 tests").wait_for()
    assert len(ids(page)) == 16

    for words, expected in (("00005-1", ["00005-1"]), ("ONERROR <IMG", ["00000-0", "00000-1", "00000-2"])):
        page.locator("input[name=search]").fill(words)
        page.get_by_text(f"1 to {len(expected)} of {counted(len(expected), 'test')}").wait_for()
        assert sorted(ids(page)) == expected
    assert "<img src=x onerror" in shown(page).first.inner_text()
    page.locator("input[name=search]").fill("nowhere to be found")
    page.get_by_text("No test is like this.").wait_for()
    assert page.title() == "NND report"
    assert complaints == []


@pytest.mark.complete
def test_tokens_marks_and_differences_are_where_they_belong(browser: Browser, folder: Path, tmp_path: Path) -> None:
    pairs = find_test("00005-1", read_results([folder]))
    page, complaints = open_page(browser, write_test(folder, tmp_path))
    page.wait_for_selector("#browse:not([hidden])")
    run = pairs[0].runs[1]
    scores = run_tokens(run)
    assert scores is not None
    good, bad = run.documents[5]["candidates"][0], run.documents[5]["candidates"][2]
    assert page.locator(".view h4:first-child").all_inner_texts()[::3] == ["Tokens of m-a", "Tokens of m-b"]
    low = page.locator(".view").nth(1).locator(".candidate.low p")
    text = low.evaluate("p => p.textContent")
    assert text.replace("⟦", "").replace("⟧", "") == f"{bad}∎"
    assert low.locator(".error").all_inner_texts() == ["Wr0ng1"]
    assert "marked: meaning, major" in str(low.locator(".error").get_attribute("title"))
    inside = re.search("⟦(.*)⟧", text)
    assert inside is not None
    assert inside[1].startswith("Wr0ng1")
    before, after = text[: inside.start()], text[inside.end() : -1]
    assert good.startswith(before)
    assert good.endswith(after)
    expected = np.rint(-scores["c00005", 2, True].logprobs.astype(float) * 10) / 10
    at = scores["c00005", 2, True].starts.tolist().index(bad.index(" Wr0ng1"))
    assert low.locator(".error").get_attribute("data-nats") == f"{expected[at]:.1f}"
    bounds = (1, 2, 4, 6, 9)
    level = sum(expected[at] >= bound for bound in bounds)
    assert f"l{level}" in str(low.locator(".error").get_attribute("class")).split()
    assert complaints == []


@pytest.mark.complete
def test_colours_of_tokens_can_be_told_apart_in_grey_and_read(browser: Browser, folder: Path, tmp_path: Path) -> None:
    """The relative luminance of WCAG 2: steps between levels, and a contrast of 4.5 with the text on them."""
    path = write_test(folder, tmp_path)

    def luminance(colour: str) -> float:
        parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))

    for scheme in ("light", "dark"):
        page, _ = open_page(browser, path, color_scheme=scheme)
        style = "getComputedStyle(document.querySelector('.scale .l{}')).backgroundColor"
        page.wait_for_selector("#browse:not([hidden])")
        levels = [luminance(page.evaluate(style.format(i))) for i in range(1, 6)]
        ground, ink = (
            luminance(page.evaluate(f"getComputedStyle(document.body).{key}")) for key in ("backgroundColor", "color")
        )
        ordered = [ground, *levels]
        assert ordered == sorted(ordered, reverse=scheme == "light")
        ratios = [(max(a, b) + 0.05) / (min(a, b) + 0.05) for a, b in pairwise(ordered)]
        assert min(ratios) > 1.1, ratios
        assert all((max(ink, level) + 0.05) / (min(ink, level) + 0.05) >= 4.5 for level in levels)


@pytest.mark.complete
def test_a_page_of_20000_tests_opens_in_two_seconds(browser: Browser, tmp_path: Path) -> None:
    made = documents(4_000, each=5, words=30, context=100)
    for i in range(2):
        write_run(tmp_path / str(i), f"m-{i}", made, seed=i)
    path = tmp_path / "r.html"
    path.write_text(render_report(read_results([tmp_path])), "utf-8")
    assert path.stat().st_size < 20_000_000
    page = browser.new_page()
    page.goto(path.as_uri())
    page.wait_for_selector("#browse:not([hidden])")
    # From the start of the navigation to the first tests on the page, by the browser's own clock.
    assert page.evaluate("performance.getEntriesByName('nnd tests shown')[0].startTime") < 2_000
    page.locator("select[name=outcome]").select_option("")
    assert total(page) == 20_000
    page.locator("input[name=search]").fill("00abc-4")
    page.get_by_text("1 to 1 of 1 test").wait_for(timeout=60_000)
    assert ids(page) == ["00abc-4"]
