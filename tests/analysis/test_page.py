"""The page of `nnd report`: what is on it, that texts stay texts, and that it works in a browser."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from lxml import html

from nnd_tasks.analysis.compare import compare
from nnd_tasks.analysis.diagnostics import diagnostics_of
from nnd_tasks.analysis.page import command_of, make_section, render_report
from nnd_tasks.analysis.results import read_results
from nnd_tasks.analysis.side_by_side import pair
from nnd_tasks.errors import NNDError
from tests.analysis.pages import open_page, parse, text_of
from tests.analysis.runs import make_run
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


def page_of(places: Sequence[Path], allow: Sequence[str] = ()) -> html.HtmlElement:
    return parse(render_report(read_results(places), allow))


def rows_of(page: html.HtmlElement, table: str) -> list[list[str]]:
    """Return the rows of a table as texts."""
    rows = page.xpath(f"//table[@class='{table}']/tbody/tr")
    return [[text_of(cell) for cell in row] for row in rows]


def open_report(browser: Browser, path: Path, places: Sequence[Path], **options: Any) -> Any:
    path.write_text(render_report(read_results(places)), "utf-8")
    return open_page(browser, path, **options)


# ---------------------------------------------------------------- what is on the page


def test_the_tables_hold_the_numbers_of_the_comparison(three: list[Path]) -> None:
    page = page_of(three)
    [paired] = pair(read_results(three))
    comparison = compare(paired)
    rates = comparison.rates.to_dict("records")
    cells = [cell.replace("§", "") for row in rows_of(page, "rates") for cell in row[3:]]
    assert cells == [f"{one['rate']:.3f} [{one['low']:.3f}, {one['high']:.3f}]" for one in rates]
    assert len(cells) == 4 * 3
    shown = rows_of(page, "differences")
    for row, one in zip(shown, comparison.differences.to_dict("records"), strict=True):
        assert row[:3] == [one["category"], f"{one['second']} - {one['first']}", f"{one['difference']:+.3f}"]
        assert row[3].startswith(f"{one['low']:+.3f} to {one['high']:+.3f}")
        assert row[4:6] == [f"{one[key]:.3f}" for key in ("p", "p_holm")]
        assert row[6].startswith(f"{one['mde']:.3f}")
    assert [row[1] for row in rows_of(page, "ranks")] == comparison.ranks["model"].tolist()
    found = [one for run in paired.runs for one in diagnostics_of(run).to_dict("records")]
    for row, one in zip(rows_of(page, "diagnostics"), found, strict=True):
        assert row[:2] == [one["category"], one["model"]]
        assert row[-2:] == [f"{one['flips_bytes']:.3f}", f"{one['flips_sum']:.3f}"]


def test_bars_lines_and_diamonds_are_where_the_rates_are(three: list[Path]) -> None:
    page = page_of(three)
    section = make_section(pair(read_results(three))[0])
    expected = section.report.tables[0].data

    def styles(kind: str) -> list[list[float]]:
        marks = page.xpath(f"//span[@class='track']/i[starts-with(@class, '{kind}')]")
        return [[float(number) for number in re.findall(r"[\d.]+", mark.get("style"))] for mark in marks]

    assert np.ravel(styles("fill")) == pytest.approx(100 * expected["rate"].to_numpy(), abs=0.006)
    ends = np.stack([expected["low"], expected["high"] - expected["low"]], axis=1)
    assert np.array(styles("span")) == pytest.approx(100 * ends, abs=0.006)
    assert np.ravel(styles("rule")) == pytest.approx(100 * expected["best_baseline"].to_numpy(), abs=0.006)
    values = page.xpath("//span[@class='track']/following-sibling::span[@class='value']")
    assert [text_of(value) for value in values] == [f"{rate:.3f}" for rate in expected["rate"]]


def test_one_run_alone_has_rates_and_no_comparison(three: list[Path]) -> None:
    page = page_of(three[:1])
    assert rows_of(page, "rates")
    assert not page.xpath("//table[@class='differences' or @class='ranks']")


def test_few_prompts_and_rates_that_a_baseline_reaches_are_marked(tmp_path: Path) -> None:
    few, enough = (page_of([write_run(tmp_path / str(n), "a", contexts=n)]) for n in (9, 10))
    assert [row[2] for row in rows_of(few, "rates")] == ["9†"] * 4
    assert [row[2] for row in rows_of(enough, "rates")] == ["10"] * 4
    assert "27 tests, 9 prompts†" in text_of(few.xpath("//figure")[0])
    # The better candidate is always the longer one here.
    assert "§" in rows_of(enough, "summary")[0][1]
    assert "§ a baseline" in text_of(enough)


def test_every_place_and_every_id_is_there_once(three: list[Path]) -> None:
    page = page_of(three)
    ids = page.xpath("//@id")
    assert len(ids) == len(set(ids))
    assert {link[1:] for link in page.xpath("//a/@href")} <= set(ids)
    assert all(box.get("tabindex") == "0" and box.get("aria-label") for box in page.xpath("//*[@role='region']"))


def test_many_lines_are_folded(tmp_path: Path) -> None:
    places = [write_run(tmp_path / f"m{i}", f"m{i}", contexts=3, seed=i) for i in range(6)]
    page = page_of(places)
    assert len(page.xpath("//section[@id='summary']/details/ul/li")) == 15
    assert not page_of(places[:3]).xpath("//section[@id='summary']/details")


# ---------------------------------------------------------------- texts of others


def test_texts_from_outside_are_never_markup_and_nothing_is_loaded(three: list[Path]) -> None:
    page = page_of(three)
    assert len(page.xpath("//script[not(@type)]")) == 1
    assert all(re.fullmatch("[A-Za-z0-9+/=]+", data) for data in page.xpath("//script[@class='data']/text()"))
    assert not page.xpath("//img | //b[text()='unfaithful'] | //i[not(@class)] | //@onerror")
    assert "<b>unfaithful</b>" in page.xpath("//select[@name='category']/option/@value")
    assert "m-<i>c" in text_of(page.xpath("//table[@class='rates']//thead")[0])
    assert not page.xpath("//link | //iframe | //object | //@src | //form/@action")
    assert not re.search(r"url\(|@import", page.xpath("string(//style)"))
    [policy] = page.xpath("//meta[@http-equiv='Content-Security-Policy']/@content")
    assert policy.startswith("default-src 'none';")


# ---------------------------------------------------------------- signatures and commands


def test_commands_and_signatures_are_there_without_secrets(three: list[Path]) -> None:
    text = render_report(read_results(three), ["prompt"])
    assert "hf_secret" not in text
    page = parse(text)
    lines = [text_of(pre) for pre in page.xpath("//section[@id='runs']//pre")]
    assert lines[0] == (
        'nnd run --model hf --model_args \'{"pretrained": "models/m-a", "dtype": "float32"}\' --tasks nnd_demo '
        "--device cpu --batch_size 8 --log_samples --output_path results"
    )
    signatures = page.xpath("//p[contains(@class, 'signature')]")
    assert [text_of(line) for line in signatures] == [run.line for run in read_results(three)]


def test_a_command_holds_what_the_protocol_tells() -> None:
    protocol = {"set": "s", "shots": 2, "chat_template": True, "multiturn": True}
    settings = {"append_eos": True, "ties": "authors"}
    command = {"model": "hf", "model_args": "pretrained=a b,revision=x", "limit": 5, "settings": settings}
    words = shlex.split(command_of(make_run("m", [True], ["c"], protocol=protocol, command=command)))
    pairs = dict(pairwise(words))
    assert pairs["--model_args"] == "pretrained=a b,revision=x"
    assert pairs["--limit"] == "5"
    assert pairs["--num_fewshot"] == "2"
    assert json.loads(pairs["--metadata"]) == settings
    assert {"--apply_chat_template", "--fewshot_as_multiturn"} <= set(words)


def test_arguments_kept_as_text_hide_their_secrets_too() -> None:
    given, shown = "pretrained=m,token=hf_x,dtype=auto", "pretrained=m,token=***,dtype=auto"
    words = shlex.split(command_of(make_run("m", [True], ["c"], command={"model": "hf", "model_args": given})))
    assert words[words.index("--model_args") + 1] == shown


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
    page = page_of([Path("first")])
    [command] = page.xpath("//article[@class='run']/pre/text()")
    words = shlex.split(command)
    assert json.loads(words[words.index("--metadata") + 1]) == settings, "what differs from the task's YAML"
    assert nnd(*words[1:], "--include_path", str(tmp_path)).status == 0
    [first], [again] = read_results(["first"]), read_results(["results"])
    assert again.line == first.line
    assert again.tests["margin"].to_numpy() == pytest.approx(first.tests["margin"].to_numpy())
    assert first.protocol["shots"] == 1


def test_arguments_are_json_without_secrets() -> None:
    command = {"model": "hf", "model_args": {"pretrained": "m", "peft": "a,b", "api_key": "k"}}
    words = shlex.split(command_of(make_run("m", [True], ["c"], command=command)))
    assert json.loads(words[words.index("--model_args") + 1]) == {"pretrained": "m", "peft": "a,b"}


def test_what_each_run_was_asked_is_shown(three: list[Path]) -> None:
    page = page_of(three)
    [table] = page.xpath("//table[@class='settings']")
    rows = {text_of(row[0]): [text_of(cell) for cell in row[1:]] for row in table.xpath(".//tr")}
    assert rows["part"] == ["m-a", "m-b", "m-<i>c"]
    assert rows["name (model)"][1] == "models/m-b"
    assert rows["selection (protocol)"] == ["all"] * 3


# ---------------------------------------------------------------- wrong input, and files


def test_runs_that_cannot_be_compared_stand_apart_and_it_says_why(tmp_path: Path) -> None:
    places = [write_run(tmp_path / "a", "a"), write_run(tmp_path / "b", "b", prompt="p2")]
    page = page_of(places)
    assert len(page.xpath("//table[@class='rates']")) == 2
    assert page.xpath("//select[@name='task']/option/@value")[1:] == ["nnd_demo (prompt p1)", "nnd_demo (prompt p2)"]
    assert "cannot be compared: prompt 'p1' and 'p2'" in text_of(page.xpath("//section[@id='summary']")[0])
    assert "prompt (protocol)" in text_of(page_of(places, ["prompt"]))


def test_a_refused_report_writes_nothing(tmp_path: Path, nnd: Callable[..., Outcome]) -> None:
    folder, out = write_run(tmp_path / "a", "a"), tmp_path / "out"
    assert "--allow promt" in nnd("report", folder, "-o", out / "r.html", "--allow", "promt").err
    assert "is a folder" in nnd("report", folder, "-o", tmp_path).err
    assert not out.exists()
    with pytest.raises(NNDError, match=r"samples_m\.jsonl: no test was scored by every model"):
        make_section(pair([make_run("m", [None, None], ["a", "b"])])[0])


def test_the_command_line_writes_the_page_and_the_files_of_its_reports(
    three: list[Path], tmp_path: Path, nnd: Callable[..., Outcome]
) -> None:
    done = nnd("report", *three, "-o", tmp_path / "r.html", "--out", tmp_path / "out")
    assert done.status == 0, done.err
    report = json.loads((tmp_path / "out" / "compare_nnd_demo.json").read_text("utf-8"))
    page = parse((tmp_path / "r.html").read_text("utf-8"))
    assert [f"{row['difference']:+.3f}" for row in report["tables"]["differences"]] == [
        row[2] for row in rows_of(page, "differences")
    ]
    first = (tmp_path / "r.html").read_bytes()
    assert nnd("report", *three, "-o", tmp_path / "r.html").status == 0
    assert (tmp_path / "r.html").read_bytes() == first, "the same runs give the same bytes"


# ---------------------------------------------------------------- in a browser


@pytest.mark.slow
@pytest.mark.parametrize("width", [320, 390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_never_scrolls_sideways(
    browser: Browser, three: list[Path], tmp_path: Path, width: int, scheme: Any
) -> None:
    options = {"viewport": {"width": width, "height": 800}, "color_scheme": scheme}
    long = [write_run(tmp_path / name, name * 30, task="nnd_" + "task" * 20) for name in ("long", "name")]
    page, complaints = open_report(browser, tmp_path / "r.html", [*three, *long], **options)
    page.wait_for_selector("#browse:not([hidden])")
    page.evaluate("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 26)"
    assert dark == (scheme == "dark")
    assert page.title() == "NND report", "a text ran as a script"
    assert complaints == []


@pytest.mark.slow
def test_no_column_of_three_models_is_cut_off(browser: Browser, tmp_path: Path) -> None:
    names = ("tiny-lm-s/step-01244", "tiny-lm-m", "org/a-model-13b-instruct")
    places = [write_run(tmp_path / str(i), name, seed=i, alone=True) for i, name in enumerate(names)]
    page, _ = open_report(browser, tmp_path / "r.html", places, viewport={"width": 1280, "height": 900})
    boxes = page.evaluate("[...document.querySelectorAll('.scroll')].map((box) => [box.scrollWidth, box.clientWidth])")
    assert boxes
    assert all(inner <= outer for inner, outer in boxes), boxes


@pytest.mark.slow
def test_without_scripts_the_numbers_are_shown(browser: Browser, three: list[Path], tmp_path: Path) -> None:
    page, _ = open_report(browser, tmp_path / "r.html", three, java_script_enabled=False)
    assert page.locator("table.rates tbody tr").first.is_visible()
    assert not page.locator("#browse").is_visible()
