"""The page of `nnd report`: what is on it, that texts stay texts, and that it works in a browser."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import html
from typer.testing import CliRunner

from nnd_tasks.analysis.compare.diagnostics import diagnostics_of
from nnd_tasks.analysis.compare.paired import category_rates, compare
from nnd_tasks.analysis.report import html_report
from nnd_tasks.analysis.report.html_examples import CANDIDATE_LIMIT, CONTEXT_LIMIT, SHORT, contrast, worst
from nnd_tasks.analysis.report.html_report import command_of, render, sections_of, write_report
from nnd_tasks.analysis.results import read_results
from nnd_tasks.analysis.side_by_side import pair
from nnd_tasks.baselines import BASELINES
from nnd_tasks.cli import app
from nnd_tasks.errors import NNDError
from tests.analysis.pages import open_page
from tests.analysis.runs import make_paired, make_run
from tests.commands import Outcome

if TYPE_CHECKING:
    from playwright.sync_api import Browser

HOSTILE = "<script>document.title = 'owned'</script><img src=x onerror=\"document.title='owned'\">\"'&amp;"
CATEGORIES = ("disfluent", "off_target", "<b>unfaithful</b>")
LONG = "word " * 800


def write_run(
    folder: Path,
    model: str,
    *,
    task: str = "nnd_demo",
    seed: int = 0,
    contexts: int = 12,
    alone: bool = False,
    **protocol: Any,
) -> Path:
    """Write what lm-eval writes for a model: per context three tests, one per category, with random scores.

    ``alone`` adds scores without the context, as ``context_reliance`` does.
    """
    rng = np.random.default_rng(seed)
    lines = []
    for i in range(contexts):
        doc: dict[str, Any] = {"cluster_id": f"c{i}", "context": f"Context {i}. {HOSTILE if i == 0 else LONG}"}
        doc["candidates"] = [f"The cat {i} sat on a mat. {HOSTILE}", *(f"The cat {i} sat {c} dog." for c in "abc")]
        scores = [
            {"sum": float(mean) * 5, "mean": float(mean), "tokens": 5, "bytes": 20} for mean in rng.normal(-3, 1, 4)
        ]
        tests = [
            {
                **{"test_id": f"t{i}-{j}", "category": category, "high": 0, "low": j + 1, "tie": False},
                "passed": scores[0]["mean"] > scores[j + 1]["mean"],
            }
            for j, category in enumerate(CATEGORIES)
        ]
        more = {"no_context": scores} if alone else {}
        lines.append(json.dumps({"doc": doc, "candidates": scores, "tests": tests, **more}))
    asked = {"set": "nnd/demo", "config": "authors", "data": "d1", "prompt": "p1", "selection": "all", **protocol}
    signature = {
        "line": f"set:nnd/demo || name:{model} || python:3",
        "protocol": asked,
        "model": {"name": model, "window": 64},
        "environment": {"python": "3"},
    }
    results = {
        "configs": {task: {"metadata": {"nnd": {"signature": signature}}}},
        "config": {
            "model": "hf-shared-prefix",
            "model_args": {"pretrained": model, "dtype": "float32", "token": "hf_secret"},
            "batch_size": 8,
            "device": "cpu",
            "limit": None,
        },
        "versions": {task: "1-A"},
        "n-samples": {task: {"effective": contexts}},
    }
    folder.mkdir(parents=True)
    (folder / "results_2026-01-01T00.json").write_text(json.dumps(results))
    (folder / f"samples_{task}_2026-01-01T00.jsonl").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture
def three(tmp_path: Path) -> list[Path]:
    return [write_run(tmp_path / name, f"models/{name}", seed=i) for i, name in enumerate(("m-a", "m-b", "m-<i>c"))]


def parse(path: Path) -> html.HtmlElement:
    return html.document_fromstring(path.read_bytes().decode())


def text_of(element: html.HtmlElement) -> str:
    return " ".join(element.text_content().split())


# ---------------------------------------------------------------- what is on the page


def test_the_tables_hold_the_numbers_of_the_comparison(three: list[Path], tmp_path: Path) -> None:
    page = parse(write_report(three, tmp_path / "out" / "r.html"))
    [paired] = pair(read_results(three))
    comparison = compare(paired)
    rows = page.xpath("//table[@class='rates']/tbody/tr")
    expected = [result.rates[model] for result in comparison.categories for model in paired.models]
    assert len(rows) == len(expected) == 4 * 3
    for row, rate in zip(rows, expected, strict=True):
        assert f"{rate.rate:.3f}" in text_of(row)
        assert f"[{rate.low:.3f}, {rate.high:.3f}]" in text_of(row)
    [overall] = page.xpath("//div[@aria-label='Differences on nnd_demo, all tests']//tbody")
    for row, found in zip(overall, comparison.categories[0].differences, strict=True):
        cells = [text_of(cell) for cell in row]
        assert cells[0] == f"{found.second} – {found.first}"  # noqa: RUF001
        shown = f"{found.low:+.3f} to {found.high:+.3f}{' ≠' if found.disagrees else ''}"
        assert cells[1:3] == [f"{found.difference:+.3f}", shown]
        assert cells[4] == f"{found.p:.3f}"
        assert cells[5] == f"{found.p_holm:.3f}"
        assert cells[6] == f"{found.mcnemar:.3f}"
        assert cells[7].startswith(f"{found.detectable:.3f}")
    by_category = page.xpath("//details[@class='pair']")
    assert len(by_category) == 3
    for details, place in zip(by_category, range(3), strict=True):
        for row, result in zip(details.xpath(".//tbody/tr"), comparison.categories[1:], strict=True):
            cells = [text_of(cell) for cell in row]
            assert cells[0] == result.category
            assert cells[5] == f"{result.differences[place].p_holm:.3f}"
    flips = [text_of(cell) for cell in rows[0].xpath("./td")]
    found = diagnostics_of(paired.runs[0])["all"]
    assert flips[-len(BASELINES) - 2 : -len(BASELINES)] == [f"{found.flips_bytes:.3f}", f"{found.flips_sum:.3f}"]
    assert "told apart" not in text_of(page.xpath("//body")[0])
    ranks = page.xpath("//div[starts-with(@aria-label, 'Ranks')]//tbody/tr")
    assert [text_of(row.find("th")) for row in ranks] == [rank.model for rank in comparison.ranks]


def test_bars_are_as_long_as_the_rates(three: list[Path], tmp_path: Path) -> None:
    page = parse(write_report(three, tmp_path / "r.html"))
    values = [float(text_of(value).split()[0]) for value in page.xpath("//span[@class='value']")]
    fills = [float(re.findall(r"[\d.]+", i.get("style"))[0]) for i in page.xpath("//i[starts-with(@class, 'fill')]")]
    assert len(fills) == len(values) == 12
    assert fills == pytest.approx([100 * value for value in values], abs=0.06)
    [section] = sections_of(pair(read_results(three)))
    rates = [result.rates[model] for result in section.categories for model in section.paired.models]
    spans = [re.findall(r"[\d.]+", i.get("style")) for i in page.xpath("//span[@class='track']/i[@class='span']")]
    ends = [(100 * rate.low, 100 * (rate.high - rate.low)) for rate in rates]
    assert [float(end) for span in spans for end in span] == pytest.approx(
        [x for pair_ in ends for x in pair_], abs=0.006
    )


def test_one_run_alone_has_no_comparison(three: list[Path], tmp_path: Path) -> None:
    page = parse(write_report(three[:1], tmp_path / "r.html"))
    assert page.xpath("//table[@class='rates']")
    assert not page.xpath("//details[@class='pair']")
    assert "nnd compare" not in text_of(page.xpath("//section[@id='runs']")[0])


def test_the_rates_of_one_model_are_those_of_a_comparison() -> None:
    rng = np.random.default_rng(3)
    outcome, clusters = rng.random(60) > 0.4, [f"c{i}" for i in rng.integers(0, 15, 60)]
    labels = rng.choice(["a", "b"], 60).tolist()
    alone = category_rates(make_paired(outcome[:, None], clusters, labels))
    beside = compare(make_paired(np.stack([outcome, ~outcome], axis=1), clusters, labels), resamples=10).categories
    assert [(r.category, r.tests, r.clusters) for r in alone] == [(r.category, r.tests, r.clusters) for r in beside]
    assert [r.rates["m0"] for r in alone] == [r.rates["m0"] for r in beside]


def test_few_prompts_are_marked(tmp_path: Path) -> None:
    page = parse(write_report([write_run(tmp_path / "a", "a", contexts=9)], tmp_path / "r.html"))
    assert "27 tests, 9 prompts†" in text_of(page.xpath("//table[@class='summary']//th[2]")[0])
    page = parse(write_report([write_run(tmp_path / "b", "b", contexts=10)], tmp_path / "r.html"))
    assert text_of(page.xpath("//table[@class='summary']//th[2]")[0]).endswith("30 tests, 10 prompts")


def test_a_rate_that_a_baseline_reaches_is_marked(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", "a")
    [paired] = pair(read_results([folder]))
    [section] = sections_of([paired])
    diagnostics = section.diagnostics["a"]
    [cell] = parse(write_report([folder], tmp_path / "r.html")).xpath("//table[@class='summary']//td")
    assert diagnostics["all"].baselines["longer"] == 1.0, "the better candidate is always the longer one here"
    assert "§" in text_of(cell)


def test_every_place_and_every_id_is_there_once(three: list[Path], tmp_path: Path) -> None:
    page = parse(write_report(three, tmp_path / "r.html"))
    ids = page.xpath("//@id")
    assert len(ids) == len(set(ids))
    assert {link[1:] for link in page.xpath("//a/@href")} <= set(ids)
    assert all(box.get("tabindex") == "0" and box.get("aria-label") for box in page.xpath("//*[@role='region']"))


# ---------------------------------------------------------------- examples


def test_texts_from_outside_are_never_markup(three: list[Path], tmp_path: Path) -> None:
    page = parse(write_report(three, tmp_path / "r.html"))
    assert len(page.xpath("//script[not(@type)]")) == 1
    assert all(re.fullmatch("[A-Za-z0-9+/=]+", data) for data in page.xpath("//script[@class='data']/text()"))
    assert not page.xpath("//img | //b[text()='unfaithful'] | //i[not(@class)] | //@onerror")
    shown = [text_of(text) for text in page.xpath("//div[@class='candidate high']/p")]
    assert any("<script>document.title = 'owned'</script><img src=x" in text for text in shown)
    assert set(page.xpath("//article/@data-model")) == {"m-a", "m-b", "m-<i>c"}
    assert set(page.xpath("//article/@data-category")) == set(CATEGORIES)


def test_nothing_is_loaded_from_anywhere(three: list[Path], tmp_path: Path) -> None:
    path = write_report(three, tmp_path / "r.html")
    page = parse(path)
    assert not page.xpath("//link | //iframe | //object | //@src | //form/@action")
    assert "url(" not in page.xpath("string(//style)")
    assert "@import" not in page.xpath("string(//style)")
    [policy] = page.xpath("//meta[@http-equiv='Content-Security-Policy']/@content")
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-")


def test_the_worst_failures_come_first_with_a_share_for_each_category() -> None:
    rng = np.random.default_rng(0)
    margins = rng.normal(0, 1, 300)
    labels = ["common"] * 280 + ["rare"] * 20
    margins[280:] *= 0.01
    tests = make_run("m", (margins > 0).tolist(), ["c"] * 300, labels, margins.tolist()).tests
    found = worst(tests, 40)
    assert len(found) == 40
    assert found["margin"].is_monotonic_increasing
    assert (found["margin"] < 0).all()
    expected = sorted(margins[:280][margins[:280] < 0])[: 40 - (found["category"] == "rare").sum()]
    assert found.loc[found["category"] == "common", "margin"].tolist() == pytest.approx(expected)
    rare = sorted(margins[280:][margins[280:] < 0])
    assert found.loc[found["category"] == "rare", "margin"].tolist() == pytest.approx(rare[:20])
    assert len(worst(tests, 1000)) == (margins < 0).sum()


def test_a_tie_is_not_called_likelier(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", "a")
    samples = next(folder.glob("samples_*"))
    lines = [json.loads(line) for line in samples.read_text().splitlines()]
    for line in lines:
        line["candidates"] = [line["candidates"][0]] * 4
        for test in line["tests"]:
            test.update(passed=False, tie=True)
    samples.write_text("\n".join(map(json.dumps, lines)) + "\n")
    titles = {
        text_of(title).partition(" -")[0]
        for title in parse(write_report([folder], tmp_path / "r.html")).xpath("//div[@class='candidate low']/h4")
    }
    assert titles == {"Worse, and as likely to the model"}


def test_tests_without_an_outcome_are_no_failures() -> None:
    tests = make_run("m", [None, False, True], ["a", "b", "c"], margins=[float("nan"), -1.0, 1.0]).tests
    assert worst(tests, 10)["test_id"].tolist() == ["t1"]


def test_the_page_stays_within_its_limit(three: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def size(path: Path) -> int:
        return path.stat().st_size - sum(map(len, parse(path).xpath("//script[@class='data']/text()")))

    whole = size(write_report(three, tmp_path / "r.html"))
    monkeypatch.setattr(html_report, "HTML_LIMIT", whole // 2)
    path = write_report(three, tmp_path / "r.html")
    assert size(path) <= whole // 2
    assert "(50 would make the page too large)" in text_of(parse(path).xpath("//section[@id='examples']")[0])
    assert parse(path).xpath("//article[contains(@class, 'example')]")


def test_long_contexts_are_cut_and_it_says_so(three: list[Path], tmp_path: Path) -> None:
    page = parse(write_report(three[:1], tmp_path / "r.html"))
    contexts = page.xpath("//article//dd")
    long = [context for context in contexts if context.find("span") is not None]
    assert long
    for context in long:
        assert len(context.text) == CONTEXT_LIMIT
        left_out = re.search(r"([\d,]+) more characters", context.find("span").text)
        assert left_out is not None
        number = int(left_out[1].replace(",", ""))
        assert number + CONTEXT_LIMIT in {len(f"Context {i}. {LONG}") for i in range(12)}


def test_a_question_is_shown_and_a_long_context_folded(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", "a")
    samples = next(folder.glob("samples_*"))
    lines = [json.loads(line) for line in samples.read_text().splitlines()]
    for i, line in enumerate(lines):
        line["doc"] |= {"context": f"Why {i}?"} if i % 2 else {"answer": f"because {i}"}
    samples.write_text("\n".join(map(json.dumps, lines)) + "\n")
    page = parse(write_report([folder], tmp_path / "r.html"))
    shown = {text_of(one) for one in page.xpath("//article/dl[@class='fields']/dd")}
    folded = {text_of(one)[:10] for one in page.xpath("//article/details/dl/dd")}
    assert any(re.fullmatch(r"Why \d+\?", one) for one in shown)
    assert any(re.fullmatch(r"because \d+", one) for one in shown)
    assert all(len(one) <= SHORT for one in shown)
    assert folded
    assert all(one.startswith("Context ") for one in folded)
    assert {text_of(one) for one in page.xpath("//article/details/summary")} == {"Context"}


def test_one_of_a_kind_is_no_plural(tmp_path: Path) -> None:
    page = parse(write_report([write_run(tmp_path / "a", "a", contexts=1)], tmp_path / "r.html"))
    assert "disfluent 1 test, 1 prompt†" in text_of(page.xpath("//figure")[0])
    assert not re.search(r"\b1 (tests|contexts|tokens|characters|parameters)\b", text_of(page.xpath("//main")[0]))


WORDS = st.lists(st.sampled_from(["a", "b", "c ", " d", "e\n", "ff", "<i>"]), max_size=60)


@given(WORDS, WORDS)
def test_the_parts_of_two_texts_add_up_to_them(left: list[str], right: list[str]) -> None:
    texts = " ".join(left), " ".join(right)
    for text, parts in zip(texts, contrast(*texts), strict=True):
        assert sum(len(part.text) + part.left_out for part in parts) == len(text)
        if not any(part.left_out for part in parts):
            assert "".join(part.text for part in parts) == text
        assert sum(len(part.text) for part in parts) <= CANDIDATE_LIMIT


def test_only_what_differs_is_marked() -> None:
    high, low = contrast("The cat sat on the mat today.", "The dog sat on the mat today.")
    assert [part.text for part in high if part.differs] == ["cat"]
    assert [part.text for part in low if part.differs] == ["dog"]
    assert "".join(part.text for part in low) == "The dog sat on the mat today."


def test_a_difference_far_inside_a_long_text_is_shown() -> None:
    same = " ".join(f"w{i}" for i in range(2000))
    high, low = contrast(f"{same} good {same}", f"{same} bad {same}")
    assert [part.text for part in low if part.differs] == ["bad"]
    assert sum(len(part.text) for part in high) < 250
    assert sum(part.left_out for part in high) > 10_000


def test_texts_with_little_in_common_are_not_marked() -> None:
    assert not any(part.differs for side in contrast("a b c d e", "f g h i e") for part in side)


# ---------------------------------------------------------------- signatures and commands


def test_commands_are_there_without_secrets(three: list[Path], tmp_path: Path) -> None:
    path = write_report(three, tmp_path / "r.html", allow=["prompt"])
    assert b"hf_secret" not in path.read_bytes()
    lines = [text_of(pre) for pre in parse(path).xpath("//section[@id='runs']//pre")]
    places = shlex.join(map(str, three))
    assert lines[0] == f"nnd compare {places} --allow prompt nnd report {places} --allow prompt -o report.html"
    assert lines[1] == (
        "nnd run --model hf --model_args pretrained=models/m-a,dtype=float32 --tasks nnd_demo --device cpu --batch_size 8 "
        "--log_samples --output_path results"
    )
    assert [text_of(line) for line in parse(path).xpath("//p[contains(@class, 'signature')]")] == [
        run.line for run in read_results(three)
    ]


def test_a_command_holds_what_the_protocol_tells() -> None:
    protocol = {"set": "s", "shots": 2, "chat_template": True, "multiturn": True}
    settings = {"append_eos": True, "ties": "authors"}
    command = {"model": "hf", "model_args": "pretrained=a b,revision=x", "limit": 5, "settings": settings}
    words = shlex.split(command_of(make_run("m", [True], ["c"], protocol=protocol, command=command)))
    assert words[:3] == ["nnd", "run", "--no-shared-prefix"]
    pairs = dict(pairwise(words))
    assert pairs["--model_args"] == "pretrained=a b,revision=x"
    assert pairs["--limit"] == "5"
    assert pairs["--num_fewshot"] == "2"
    assert json.loads(pairs["--metadata"]) == settings
    assert {"--apply_chat_template", "--fewshot_as_multiturn"} <= set(words)


@pytest.mark.parametrize(
    "given", ["pretrained=m,token=hf_x,dtype=auto", '{"pretrained": "m", "token": "hf_x", "dtype": "auto"}']
)
def test_arguments_kept_as_text_lose_their_secrets_too(given: str) -> None:
    words = shlex.split(command_of(make_run("m", [True], ["c"], command={"model": "hf", "model_args": given})))
    assert words[words.index("--model_args") + 1] == "pretrained=m,dtype=auto"


@pytest.mark.slow
def test_the_command_on_the_page_asks_a_real_model_the_same_again(
    demo_home: Path,
    tiny_models: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    nnd: Callable[..., Outcome],
) -> None:
    monkeypatch.setenv("NND_HOME", str(demo_home))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nnd_home" / "task_yamls").mkdir(parents=True)
    base = Path(__file__).parents[2] / "task_yamls" / "demo" / "nnd_demo.yaml"
    yaml = tmp_path / "mine.yaml"
    yaml.write_text(f"include: {base}\ntask: mine\nmetadata: {{version: 1-A, append_bos: true, append_eos: true}}\n")
    settings = {"append_bos": False, "candidate_prefix": "$answer$ = ", "number_lines": True, "ties": "authors"}
    asked = ["--model", "hf", "--model_args", f"pretrained={tiny_models['gpt2']},dtype=float32", "--device", "cpu"]
    asked += ["--tasks", "mine", "--num_fewshot", "1", "--metadata", json.dumps({**settings, "append_eos": True})]
    asked += ["--include_path", str(tmp_path), "--log_samples"]
    assert nnd("run", *asked, "--sample", "10", "--output_path", "first").status == 0
    page = parse(write_report(["first"], "r.html"))
    [command] = page.xpath("//article[@class='run']/pre/text()")
    words = shlex.split(command)
    assert json.loads(words[words.index("--metadata") + 1]) == settings, "what differs from the task's YAML"
    assert "add --samples" not in text_of(page.xpath("//article[@class='run']")[0])
    assert nnd(*words[1:], "--include_path", str(tmp_path)).status == 0
    [first], [again] = read_results(["first"]), read_results(["results"])
    assert again.line == first.line
    assert again.tests["margin"].to_numpy() == pytest.approx(first.tests["margin"].to_numpy())
    assert first.protocol["shots"] == 1
    assert len(page.xpath("//article[@data-task='mine']")) == min(50, (~first.tests["passed"]).sum())


def test_a_value_with_a_comma_makes_the_arguments_json() -> None:
    command = {"model": "hf", "model_args": {"pretrained": "m", "peft": "a,b", "api_key": "k"}}
    words = shlex.split(command_of(make_run("m", [True], ["c"], command=command)))
    assert json.loads(words[words.index("--model_args") + 1]) == {"pretrained": "m", "peft": "a,b"}


def test_what_the_results_do_not_tell_is_said(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", "a", system="abc123", selection="3 of 12 (f00)")
    notes = text_of(parse(write_report([folder], tmp_path / "r.html")).xpath("//article[@class='run']")[0])
    assert "abc123" in notes
    assert "3 of 12 (f00)" in notes


def test_what_differs_between_runs_is_shown(three: list[Path], tmp_path: Path) -> None:
    page = parse(write_report(three, tmp_path / "r.html"))
    [table] = page.xpath("//div[starts-with(@aria-label, 'What differs')]")
    assert "models/m-b" in text_of(table)
    assert "window" not in text_of(table)


# ---------------------------------------------------------------- wrong input


def test_runs_that_cannot_be_compared_stand_apart_and_it_says_why(tmp_path: Path) -> None:
    places = [write_run(tmp_path / "a", "a"), write_run(tmp_path / "b", "b", prompt="p2")]
    path = tmp_path / "out" / "r.html"
    page = parse(write_report(places, path))
    assert len(page.xpath("//table[@class='rates']")) == 2
    assert page.xpath("//select[@name='task']/option/@value")[1:] == ["nnd_demo (prompt p1)", "nnd_demo (prompt p2)"]
    assert "cannot be compared: prompt 'p1' and 'p2'" in text_of(page.xpath("//section[@id='summary']")[0])
    assert "prompt (protocol)" in text_of(parse(write_report(places, path, allow=["prompt"])))


def test_a_refused_report_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "out" / "r.html"
    with pytest.raises(NNDError, match="--allow promt: no part of the protocol"):
        write_report([write_run(tmp_path / "a", "a")], path, allow=["promt"])
    assert not path.parent.exists()


def test_a_set_without_any_outcome_is_refused() -> None:
    runs = [make_run("m", [None, None], ["a", "b"])]
    with pytest.raises(NNDError, match=r"samples_m\.jsonl: no test was scored by every model"):
        sections_of(pair(runs))


def test_what_cannot_be_written_is_one_line_and_leaves_the_old_page(
    three: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NNDError, match=r"is a folder; name a file, such as .*report\.html"):
        write_report(three, tmp_path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(NNDError, match="cannot be written"):
        write_report(three, tmp_path / "file" / "r.html")
    old = tmp_path / "r.html"
    old.write_text("old")

    def fail(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(NNDError, match="No space left on device"):
        write_report(three, old)
    assert old.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_texts_that_utf8_cannot_hold_are_replaced(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", "a")
    samples = next(folder.glob("samples_*"))
    samples.write_text(samples.read_text().replace("sat a dog", "sat \\ud800 dog"))
    page = parse(write_report([folder], tmp_path / "r.html"))
    assert "sat ? dog" in text_of(page)


def test_the_command_line_writes_the_page(three: list[Path], tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["report", *map(str, three), "-o", str(tmp_path / "r.html")])
    assert result.exit_code == 0, result.output
    assert f"written: {tmp_path / 'r.html'}" in result.output.replace("\n", "")
    assert parse(tmp_path / "r.html").xpath("//details[@class='pair']")


def test_a_page_is_the_same_each_time(three: list[Path]) -> None:
    sections = sections_of(pair(read_results(three)))
    assert render(sections, three) == render(sections_of(pair(read_results(three))), three)


# ---------------------------------------------------------------- in a browser


@pytest.mark.slow
@pytest.mark.parametrize("width", [320, 390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_never_scrolls_sideways(
    browser: Browser, three: list[Path], tmp_path: Path, width: int, scheme: Any
) -> None:
    options = {"viewport": {"width": width, "height": 800}, "color_scheme": scheme}
    long = [write_run(tmp_path / name, name * 30, task="nnd_" + "task" * 20) for name in ("long", "name")]
    page, _ = open_page(browser, write_report([*three, *long], tmp_path / "r.html"), **options)
    page.wait_for_selector("#browse:not([hidden])")
    page.evaluate("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 26)"
    assert dark == (scheme == "dark")


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1280])
def test_the_summary_shows_numbers_and_its_whole_caption(browser: Browser, tmp_path: Path, width: int) -> None:
    part = {"selection": "12 of 30 (0123456789ab)"}
    places = [
        write_run(tmp_path / str(i), "a-model-of-a-long-name", task="nnd_a_set_of_a_long_name", **protocol)
        for i, protocol in enumerate((part, {}))
    ]
    page, _ = open_page(browser, write_report(places, tmp_path / "r.html"), viewport={"width": width, "height": 844})
    right = page.evaluate("document.querySelector('#summary .scroll').getBoundingClientRect().right")
    for part_of in ("td b", "td small", "caption", "thead th + th a"):
        box = page.locator(f"table.summary {part_of}").first.bounding_box()
        assert box
        assert box["x"] + box["width"] <= right, part_of
    assert page.locator("h2, nav a, th a", has_text="12 of 30").count() == 3
    assert page.locator("h2, nav a, th a", has_text="0123456789ab").count() == 0


@pytest.mark.slow
def test_no_column_of_the_rates_is_cut_off(browser: Browser, tmp_path: Path) -> None:
    names = ("tiny-lm-s/step-01244", "tiny-lm-m", "org/a-model-13b-instruct")
    places = [write_run(tmp_path / str(i), name, seed=i, alone=True) for i, name in enumerate(names)]
    page, _ = open_page(browser, write_report(places, tmp_path / "r.html"), viewport={"width": 1280, "height": 900})
    boxes = page.evaluate("[...document.querySelectorAll('.scroll')].map((box) => [box.scrollWidth, box.clientWidth])")
    assert boxes
    assert all(inner <= outer for inner, outer in boxes), boxes


@pytest.mark.slow
def test_without_scripts_the_failed_tests_are_shown(browser: Browser, three: list[Path], tmp_path: Path) -> None:
    path = write_report(three, tmp_path / "r.html")
    page, _ = open_page(browser, path, java_script_enabled=False)
    assert page.locator(".example:visible").count() == len(parse(path).xpath("//article[contains(@class, 'example')]"))
    assert not page.locator("#browse").is_visible()
