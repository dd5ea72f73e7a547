"""What is on the page of `nnd report`, and the commands to run again. `test_browsing.py` searches its tests in a browser."""

import json
import re
import shlex
from itertools import pairwise
from pathlib import Path

import pytest

from nnd_tasks.errors import NNDError
from nnd_tasks.page.page import command_of, make_sections, render_report
from nnd_tasks.results.paired import pair
from nnd_tasks.results.read_runs import read_results
from tests.conftest import REPO
from tests.page.pages import open_page, parse, read_page, text_of
from tests.results.fake_runs import write_run
from tests.results.runs import make_run

CHANCES = {"disfluent": 0.8, "off_target": 0.5, "<b>unfaithful</b>": 0.3}


def run_of(folder, name, seed=0):
    return write_run(folder, name, CHANCES, seed=seed, contexts=12)


@pytest.fixture
def three(tmp_path):
    for i, name in enumerate(("m-a", "m-b", "m-<i>c")):
        run_of(tmp_path / "three", f"models/{name}", i)
    return read_results(tmp_path / "three")


# ---------------------------------------------------------------- what is on the page


def test_the_tables_are_those_of_the_comparison_and_a_page_has_always_the_same_bytes(three):
    text, again = (render_report(three)[1] for _ in range(2))
    assert text == again
    page = parse(text)
    [section] = make_sections(pair(three))
    every = [*section.report.tables, section.settings]
    tables = {table.name: table.cells.to_numpy().tolist() for table in every}
    expected = {"rates", "ranks", "differences", "baselines", "diagnostics", "measures", "settings"}
    assert tables.keys() == expected
    for name, rows in tables.items():
        shown = page.xpath(f"//table[@class='{name}']/tbody/tr")
        assert [[text_of(cell) for cell in row] for row in shown] == rows


# ---------------------------------------------------------------- signatures and commands


def test_a_command_holds_what_the_protocol_tells():
    protocol = {"set": "s", "shots": 2, "chat_template": True, "multiturn": True}
    settings = {"append_eos": True, "ties": "authors"}
    command = {"model": "hf-shared-prefix", "limit": 5.0, "settings": settings, "device": "cpu"}
    for given, shown in (("a=b c,token=hf_x", "a=b c,token=***"), ({"a": "b c", "token": "hf_x"}, '{"a": "b c"}')):
        run = make_run("m", [True], ["c"], protocol=protocol, command={**command, "model_args": given})
        words = shlex.split(command_of(run))
        pairs = dict(pairwise(words))
        assert (pairs["--model"], pairs["--model_args"], pairs["--device"]) == ("hf", shown, "cpu")
    assert (pairs["--limit"], pairs["--num_fewshot"]) == ("5", "2")
    assert json.loads(pairs["--metadata"]) == settings
    assert {"--apply_chat_template", "--fewshot_as_multiturn"} <= set(words)


@pytest.mark.slow
def test_the_command_on_the_page_asks_a_real_model_the_same_again(few_tasks, home, gpt2, tmp_path, monkeypatch, nnd):
    monkeypatch.chdir(tmp_path)
    include = f"include: {REPO}/task_yamls/demo/nnd_demo.yaml"
    Path("mine.yaml").write_text(
        f"{include}\ntask: mine\nmetadata: {{version: 1-A, append_bos: true, append_eos: true}}\n"
    )
    settings = {"append_bos": False, "candidate_prefix": "$answer$ = ", "number_lines": True, "ties": "authors"}
    asked = ["--model", "hf", "--model_args", f"pretrained={gpt2},dtype=float32", "--device", "cpu"]
    asked += ["--tasks", "mine", "--num_fewshot", "1", "--metadata", json.dumps({**settings, "append_eos": True})]
    asked += ["--include_path", str(tmp_path), "--log_samples"]
    assert nnd("run", *asked, "--sample", "10", "--output_path", "first").status == 0
    page = parse(render_report(read_results(["first"]))[1])
    [command] = map(text_of, page.xpath("//article[@class='run']/pre"))
    words = shlex.split(command)
    assert json.loads(words[words.index("--metadata") + 1]) == settings, "what differs from the task's YAML"
    assert nnd(*words[1:], "--include_path", str(tmp_path)).status == 0
    [first], [again] = read_results(["first"]), read_results(["results"])
    assert again.line == first.line
    assert again.tests["margin"].to_numpy() == pytest.approx(first.tests["margin"].to_numpy())
    assert first.protocol["shots"] == 1


# ---------------------------------------------------------------- texts of strangers

SCRIPT = "<script>document.title = 'owned'</script><img src=x onerror=\"document.title='owned'\">\"'&amp;{{ 7 * 7 }}"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """Return a page of honest runs and of some whose every text is an attack."""
    folder = tmp_path_factory.mktemp("hostile")
    attack = SCRIPT.replace("/", "")
    protocol = {"set": f"nnd/../..{attack}", "config": attack, "system": SCRIPT}
    given = {"token": "hf_secret1", "base_url": "https://u:secret2@host/v1?key=secret3"}
    for seed, name in enumerate(("../../x", f"org/{SCRIPT}", "\u202egnp.exe", "long" * 30)):
        run_of(folder / "honest", f"m{seed}", seed)
        more = {"task": f"nnd_{attack}", "protocol": protocol, "model_args": {"pretrained": name, **given}}
        chances = {SCRIPT: 0.5, "../../y": 0.5, "\u202eevil": 0.5}
        for path in write_run(folder / "bad", name, chances, contexts=5, seed=seed, **more).rglob("*.json*"):
            text = path.read_text("utf-8").replace('"line": "', '"line": "api_key=secret4 ')
            path.write_text(re.sub("context 0|good text 0", lambda _: json.dumps(SCRIPT)[1:-1], text), "utf-8")
    file = folder / "<script>owned()<" / "results_<img src=x onerror=owned()>.json"
    file.parent.mkdir()
    file.write_text("{")
    skipped = []
    page = folder / "report.html"
    page.write_text(render_report(read_results([folder], skipped=skipped), skipped=skipped)[1], "utf-8")
    assert [line for line in skipped if "is not valid JSON" in line]
    return page


def test_texts_of_strangers_are_never_markup_and_secrets_are_left_out(hostile):
    text, page = hostile.read_text("utf-8"), read_page(hostile)
    assert not re.search(r"secret\d", text)
    assert len(page.xpath("//script[not(@type)]")) == 1
    assert all(re.fullmatch("[A-Za-z0-9+/=]+", data) for data in page.xpath("//script[@class='data']/text()"))
    assert not page.xpath("//img | //iframe | //object | //link | //@onerror | //@src | //form/@action")
    assert not re.search(r"url\(|@import", page.xpath("string(//style)"))
    [policy] = page.xpath("//meta[@http-equiv='Content-Security-Policy']/@content")
    assert policy.startswith("default-src 'none';")
    links = page.xpath("//a/@href")
    assert {link.removeprefix("#") for link in links} <= set(page.xpath("//@id"))
    body = page.xpath("string(//body)")
    assert "document.title = 'owned'" in body
    assert "49" not in re.findall(r"&amp;(\S+)", body), "a text ran as a template"


@pytest.mark.slow
@pytest.mark.parametrize("width", [320, 1280])
def test_attacks_are_inert_and_the_page_does_not_scroll_sideways(browser, hostile, width):
    context = {"viewport": {"width": width, "height": 800}, "color_scheme": "dark" if width == 320 else "light"}
    page, complaints = open_page(browser, hostile, **context)
    page.evaluate("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.title() == "NND report"
    assert complaints == []


# ---------------------------------------------------------------- wrong input, and files


def test_a_refused_report_writes_nothing(tmp_path, nnd):
    folder, out = run_of(tmp_path, "a"), tmp_path / "out"
    assert "--allow promt" in nnd("report", folder, "-o", out / "r.html", "--allow", "promt").err
    assert not out.exists()
    with pytest.raises(NNDError, match=r"samples_m\.jsonl: no test was scored by every model"):
        make_sections(pair([make_run("m", [None, None], ["a", "b"])]))
