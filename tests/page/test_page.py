"""`render_report`, `make_section`, `command_of`: what is on the page of `nnd report`, and the commands to run again.

Also covers render_page.

That texts of others are inert, and that it works in a browser, is tested with the site (`test_site.py`), whose pages are made
in the same way, and in `test_browsing.py`.
"""

import json
import re
import shlex
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from nnd_tasks.errors import NNDError
from nnd_tasks.page.page import command_of, make_section, render_report
from nnd_tasks.results.paired import pair
from nnd_tasks.results.read_runs import read_results
from tests.conftest import REPO
from tests.page.pages import parse, text_of
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


def test_the_tables_are_those_of_the_comparison(three):
    page = parse(render_report(three)[1])
    [section] = map(make_section, pair(three))
    every = [*section.report.tables, section.settings]
    tables = {table.name: table.cells.to_numpy().tolist() for table in every}
    expected = {"rates", "ranks", "differences", "baselines", "diagnostics", "while training", "settings"}
    assert tables.keys() == expected
    for name, rows in tables.items():
        shown = page.xpath(f"//table[@class='{name}']/tbody/tr")
        assert [[text_of(cell) for cell in row] for row in shown] == rows


def test_bars_lines_and_diamonds_are_where_the_rates_are(three):
    page = parse(render_report(three)[1])
    [section] = map(make_section, pair(three))
    expected = section.report.tables[0].data

    def styles(kind):
        marks = page.xpath(f"//span[@class='track']/i[starts-with(@class, '{kind}')]")
        return [[float(number) for number in re.findall(r"[\d.]+", mark.get("style"))] for mark in marks]

    assert np.ravel(styles("fill")) == pytest.approx(100 * expected["rate"].to_numpy(), abs=0.006)
    ends = np.stack([expected["low"], expected["high"] - expected["low"]], axis=1)
    assert np.array(styles("span")) == pytest.approx(100 * ends, abs=0.006)
    assert np.ravel(styles("rule")) == pytest.approx(100 * expected["best_baseline"].to_numpy(), abs=0.006)


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
    [command] = page.xpath("//article[@class='run']/pre/text()")
    words = shlex.split(command)
    assert json.loads(words[words.index("--metadata") + 1]) == settings, "what differs from the task's YAML"
    assert nnd(*words[1:], "--include_path", str(tmp_path)).status == 0
    [first], [again] = read_results(["first"]), read_results(["results"])
    assert again.line == first.line
    assert again.tests["margin"].to_numpy() == pytest.approx(first.tests["margin"].to_numpy())
    assert first.protocol["shots"] == 1


# ---------------------------------------------------------------- wrong input, and files


def test_a_refused_report_writes_nothing(tmp_path, nnd):
    folder, out = run_of(tmp_path, "a"), tmp_path / "out"
    assert "--allow promt" in nnd("report", folder, "-o", out / "r.html", "--allow", "promt").err
    assert not out.exists()
    with pytest.raises(NNDError, match=r"samples_m\.jsonl: no test was scored by every model"):
        make_section(pair([make_run("m", [None, None], ["a", "b"])])[0])


def test_the_same_runs_give_the_same_bytes(three, tmp_path, nnd):
    pages = [tmp_path / "first.html", tmp_path / "again.html"]
    for page in pages:
        assert nnd("report", tmp_path / "three", "-o", page).status == 0
    assert pages[0].read_bytes() == pages[1].read_bytes()
