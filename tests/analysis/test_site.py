"""The board: numbers of many people's runs side by side, whatever one of them handed in; and that its pages work in a browser."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from nnd_tasks.analysis.board import board_pages
from nnd_tasks.analysis.board.board_columns import size_text
from nnd_tasks.analysis.board.board_pages import MARKER, file_names, size_class, write_board
from nnd_tasks.analysis.board.standings import Standing, standings_of
from nnd_tasks.analysis.compare.paired import compare_runs
from typer.testing import CliRunner

from nnd_tasks.analysis.results import read_results
from nnd_tasks.cli import app
from nnd_tasks.errors import NNDError
from tests.analysis.fake_runs import write_run
from tests.analysis.pages import open_page
from tests.analysis.runs import make_run
from tests.analysis.test_html_report import parse, text_of
from tests.conftest import REPO

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SCRIPT = "<script>document.title = 'owned'</script><img src=x onerror=\"document.title='owned'\">\"'&amp;{{ 7 * 7 }}"
CHANCES = {"disfluent": 0.8, "off_target": 0.6}


def run_of(folder: Path, name: str, seed: int = 0, **more: Any) -> Path:
    """Write a small run: with so few prompts, p values are counted and not drawn."""
    return write_run(folder, name, more.pop("chances", CHANCES), contexts=more.pop("contexts", 11), seed=seed, **more)


def dated(folder: Path, date: str) -> Path:
    """Give the files of a run another date."""
    for path in [*folder.rglob("*.json"), *folder.rglob("*.jsonl")]:
        path.rename(path.with_name(path.name.replace("2026-01-01T00-00-00", date)))
    return folder


def change(folder: Path, pattern: str, edit: Callable[[str], str]) -> None:
    """Change the text of a run's file."""
    [path] = folder.rglob(pattern)
    path.write_text(edit(path.read_text("utf-8")), "utf-8")


def data_of(page: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((page.parent / "board.json").read_text("utf-8"))
    return data


def board_of(*places: Path) -> tuple[list[Standing], list[str]]:
    skipped: list[str] = []
    return standings_of(read_results(places, skipped=skipped), skipped), skipped


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return results of three models, two of them on a second set and one with another protocol."""
    folder = tmp_path_factory.mktemp("people")
    for seed, (name, chance, size) in enumerate((("org/m-a", 1.0, 70e6), ("org/m-b", 0.5, 1.3e9), ("m-c", 0.0, None))):
        about: dict[str, Any] = {"parameters": size, "seed": seed, "chances": dict.fromkeys(CHANCES, chance)}
        run_of(folder / "anna", name, **about)
        if name != "m-c":
            run_of(folder / "ben", name, task="nnd_demo", protocol={"set": "nnd/demo"}, **about)
    run_of(folder / "ben", "few-shot", protocol={"shots": 2})
    return folder


@pytest.fixture(scope="module")
def site(people: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    page, skipped = write_board([people], tmp_path_factory.mktemp("out") / "site")
    assert skipped == []
    return page.parent


# ---------------------------------------------------------------- numbers


def test_numbers_are_those_of_compare(people: Path, site: Path) -> None:
    page = parse(site / "index.html")
    comparisons = {one.paired.task: one for one in compare_runs(read_results([people]), [])}
    heads = page.xpath("//table[contains(@class, 'matrix')]/thead//th")
    tasks = [head.find("small").text for head in heads[2:]]
    assert tasks == ["nnd_demo", "nnd_made_up"]
    ranks = {one.model: one.group for one in comparisons["nnd_made_up"].ranks}
    assert len(set(ranks.values())) > 1, "the models are far apart"
    rows = page.xpath("//table[contains(@class, 'matrix')]/tbody/tr")
    assert [text_of(row.find("th")) for row in rows] == ["m-a", "m-b", "m-c"]
    for row in rows:
        model, cells = text_of(row.find("th")), row.xpath("./td")[1:]
        for task, cell in zip(tasks, cells, strict=True):
            rate = comparisons[task].categories[0].rates.get(model)
            if rate is None:
                assert text_of(cell) == "-"
                continue
            assert f"{rate.rate:.3f}" in text_of(cell)
            assert f"[{rate.low:.3f}, {rate.high:.3f}]" in text_of(cell)
            assert float(cell.get("data-value")) == rate.rate
            if task == "nnd_made_up":
                assert text_of(cell.xpath(".//span[@title='rank group']")[0]) == str(ranks[model])
    [group] = [group for group in data_of(site / "index.html")["groups"] if group["task"] == "nnd_made_up"][:1]
    for one in group["models"]:
        for result in comparisons["nnd_made_up"].categories:
            assert one["rates"][result.category]["high"] == result.rates[one["model"]].high
    best, second = (one["model"] for one in group["models"][:2])
    [pair] = [
        one for one in comparisons["nnd_made_up"].categories[0].differences if {one.first, one.second} == {best, second}
    ]
    assert group["models"][1]["behind_best"] == pytest.approx(abs(pair.difference))
    assert group["models"][1]["mde"] == pytest.approx(pair.detectable)
    assert group["models"][1]["p_holm"] == pair.p_holm


def test_every_number_has_its_signature_and_its_failed_tests(people: Path, site: Path) -> None:
    lines = {run.line for run in read_results([people])}
    shown = parse(site / "index.html").xpath("//td[@class='rate']//details/code/text()")
    assert set(shown) == lines
    assert len(shown) == 6
    links = [link for page in site.glob("set-*") for link in parse(page).xpath("//a[.='failed tests']/@href")]
    assert len(links) == len(set(links)) == 6


def test_every_link_leads_somewhere(site: Path) -> None:
    ids = {page.name: set(parse(page).xpath("//@id")) for page in site.glob("*.html")}
    ids["board.json"] = set()
    found = {page.name: parse(page).xpath("//a/@href") for page in site.glob("*.html")}
    assert {link.partition("#")[0] for links in found.values() for link in links} - {""} == set(ids)
    for name, links in found.items():
        for link in links:
            file, _, place = link.partition("#")
            assert not place or place in ids[file or name], f"{name}: {link}"


def test_runs_that_were_asked_otherwise_stand_apart_and_it_says_how(people: Path, site: Path) -> None:
    assert text_of(parse(site / "index.html").xpath("//section[@id='apart']//tbody/tr/td[1]")[0]) == (
        "shots 2 in place of 0"
    )
    groups, _ = board_of(people)
    assert [(one.paired.task, one.paired.models, one.differs) for one in groups] == [
        ("nnd_demo", ["m-a", "m-b"], ""),
        ("nnd_made_up", ["m-a", "m-b", "m-c"], ""),
        ("nnd_made_up", ["few-shot"], "shots 2 in place of 0"),
    ]


@pytest.mark.parametrize(
    ("whole", "first", "second"),
    [(1, "3 of 9", "selection all in place of 3 of 9"), (2, "", "selection 3 of 9 in place of all")],
)
def test_a_comparison_comes_first_and_one_of_the_whole_set_before_one_of_a_part(
    tmp_path: Path, whole: int, first: str, second: str
) -> None:
    for name in "abc":
        run_of(tmp_path, name, protocol={"selection": "3 of 9 (f00)"})
    for i in range(whole):
        run_of(tmp_path, f"whole-{i}")
    groups, _ = board_of(tmp_path)
    assert (groups[0].part, groups[0].differs) == (first, "")
    assert [one.differs for one in groups] == ["", second]


def test_selections_of_one_size_are_told_apart_by_their_digests(tmp_path: Path) -> None:
    for name, selected in (("a", "3 of 9 (f00)"), ("b", "3 of 9 (f00)"), ("c", "3 of 9 (f01)")):
        run_of(tmp_path, name, protocol={"selection": selected})
    groups, _ = board_of(tmp_path)
    assert [one.differs for one in groups] == ["", "selection 3 of 9 (f01) in place of 3 of 9 (f00)"]


def test_the_newest_of_equal_runs_counts_and_the_older_are_listed(tmp_path: Path) -> None:
    run_of(tmp_path / "anna", "/home/anna/m", about={"weights": "w"}, seed=1)
    dated(run_of(tmp_path / "ben", "/data/m", about={"weights": "w"}, seed=2), "2026-03-01T00-00-00")
    again = dated(run_of(tmp_path / "carl", "/data/m", about={"weights": "w"}, seed=3), "2026-02-01T00-00-00")
    run_of(tmp_path / "dora", "/data/m", about={"weights": "other"})
    page, _ = write_board([tmp_path], tmp_path / "site")
    [group] = data_of(page)["groups"]
    assert [(one["date"], len(one["older"])) for one in group["models"] if one["older"]] == [("2026-03-01T00-00-00", 2)]
    [one] = [one for one in group["models"] if one["older"]]
    assert [date for date, _ in one["older"]] == ["2026-02-01", "2026-01-01"]
    assert one["older"][0][1].startswith(f"{tmp_path.name}/carl/"), "no path of this machine"
    assert len(group["models"]) == 2
    assert "passed over: 2026-02-01" in text_of(parse(page.parent / one["page"]))
    # Where the newest is damaged, the one before counts.
    change(tmp_path / "ben", "samples_*", lambda text: text[:-20])
    groups, skipped = board_of(tmp_path)
    assert {run.date for run in groups[0].runs} == {"2026-02-01T00-00-00", "2026-01-01T00-00-00"}
    assert len(skipped) == 1
    assert "/ben/" in skipped[0]
    shutil.rmtree(again)


# ---------------------------------------------------------------- what strangers hand in


def broken(folder: Path) -> dict[str, str]:
    """Write one run of each kind that cannot be used; return a part of the file's path -> what the board says of it."""
    edits: dict[str, tuple[str, Callable[[str], str], str]] = {
        "cut": ("samples_*", lambda text: text[: len(text) // 2], "cut off or damaged"),
        "shorter": ("samples_*", lambda text: "\n".join(text.splitlines()[:3]) + "\n", "3 of 11 prompts"),
        "noise": ("results_*", lambda text: "\x00<script>", "is not valid JSON"),
        "deep": ("results_*", lambda text: "[" * 100_000, "nested too deeply"),
        "list": ("results_*", lambda text: "[]", "holds no results"),
        "slash": (
            "results_*",
            lambda text: text.replace('"nnd_made_up"', '"../../x"'),
            "holds no results of lm-eval, or is damaged (Invalid name",
        ),
        "empty": (
            "samples_*",
            lambda text: text.replace('"mean": -1.0', '"mean": "x"'),
            "is not a sample of an NND task, or damaged",
        ),
        "number": (
            "results_*",
            lambda text: text.replace('": 1000000', '": "many"'),
            "or is damaged (invalid literal for int",
        ),
    }
    for name, (pattern, edit, _) in edits.items():
        change(run_of(folder, name), pattern, edit)
    said = {f"/{name}/": why for name, (_, _, why) in edits.items()}
    [results] = run_of(folder, "alone").rglob("results_*")
    results.unlink()
    [samples] = run_of(folder, "no_samples").rglob("samples_*")
    samples.unlink()
    dated(run_of(folder, "no_date"), "x")
    change(run_of(folder, "long_name"), "results_*", lambda text: text.replace('"long_name"', f'"{"n" * 301}"'))
    none = '"passed": null', '"tie": false'
    unscored = run_of(folder, "unscored")
    change(unscored, "samples_*", lambda text: re.sub(r'"candidates": \[\{.*?\}\]', _no_scores, text))
    change(unscored, "samples_*", lambda text: re.sub(r'"passed": \w+, "tie": false', ", ".join(none), text))
    return said | {
        "/alone/": "are missing",
        "/no_samples/": "are missing",
        "/no_date/": "has no date",
        "/long_name/": "has 301 characters",
        "/unscored/": "no test was scored",
    }


def _no_scores(match: re.Match[str]) -> str:
    return re.sub(r"\{.*?\}", "null", match[0])


def test_a_file_that_cannot_be_used_is_named_and_changes_nothing_else(people: Path, tmp_path: Path) -> None:
    shutil.copytree(people, tmp_path / "people")
    expected, _ = write_board([tmp_path / "people"], tmp_path / "before")
    said = broken(tmp_path / "people" / "stranger")
    (tmp_path / "people" / "link").symlink_to("link")
    page, skipped = write_board([tmp_path / "people", tmp_path / "nowhere"], tmp_path / "after")
    assert data_of(page)["groups"] == data_of(expected)["groups"]
    for part, why in said.items():
        assert [line for line in skipped if part in line and why in line], (part, why, skipped)
    assert any("nowhere: there is no such file or folder" in line for line in skipped)
    assert len(skipped) == len(said) + 1
    shown = [text_of(item) for item in parse(page).xpath("//section[@id='skipped']//li")]
    assert len(shown) == len(skipped)
    assert not any(str(tmp_path) in line for line in shown), "no path of this machine"


def test_a_run_that_would_change_the_numbers_of_others_stands_apart(people: Path, tmp_path: Path) -> None:
    honest, _ = board_of(people)
    shutil.copytree(people, tmp_path / "people")
    stranger = tmp_path / "people" / "stranger"
    change(run_of(stranger, "other-tests"), "samples_*", lambda text: text.replace("0-1", "0-9"))
    change(run_of(stranger, "other-category"), "samples_*", lambda text: text.replace('"off_target"', '"x"'))
    few = run_of(stranger, "few")
    lines = [json.loads(line) for line in next(few.rglob("samples_*")).read_text().splitlines()]
    for line in lines[1:]:
        line["candidates"] = [None] * 3
        for test in line["tests"]:
            test["passed"] = None
    next(few.rglob("samples_*")).write_text("".join(json.dumps(line) + "\n" for line in lines))
    for name, window in (("small", 8), ("large", 16)):
        short = run_of(stranger, name, task="nnd_short", about={"window": window})
        change(short, "samples_*", lambda text: text.replace('contexts": 0', 'contexts": 1'))
    found, skipped = board_of(tmp_path / "people")
    assert skipped == []
    same = [one for one in found if not one.differs and one.paired.task != "nnd_short"]
    # Written out, because nan differs from itself.
    assert [repr(one.categories) for one in same] == [repr(one.categories) for one in honest if not one.differs]
    assert {one.paired.models[0]: one.differs for one in found if one.differs} == {
        "few-shot": "shots 2 in place of 0",
        "few": "only 2 of 22 tests could be scored",
        "other-tests": "other tests, though the protocol is the same: a file is damaged",
        "other-category": "tests have other prompts, texts or categories, though the protocol is the same: a file is damaged",
        "small": "window 8 in place of 16, with prompts that were shortened to fit",
    }


@pytest.fixture(scope="module")
def hostile(people: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a board of honest runs and of some whose every text is an attack."""
    folder = tmp_path_factory.mktemp("hostile")
    shutil.copytree(people, folder / "people")
    attack = SCRIPT.replace("/", "")
    for name in ("../../x", "y/..", f"org/{SCRIPT}", "M-A", "m.a", "con", "\u202egnp.exe"):
        chances = {SCRIPT: 0.5, "../../y": 0.5, "\u202eevil": 0.5}
        protocol = {"set": f"nnd/../..{attack}", "config": attack, "system": SCRIPT}
        bad = run_of(folder / "people", name, task=f"nnd_{attack}", chances=chances, protocol=protocol)
        text = json.dumps(SCRIPT)[1:-1]
        change(bad, "samples_*", lambda text_, new=text: text_.replace("good text 0", new).replace("context 0", new))  # type: ignore[misc]
        secret = '"model_args": {"token": "hf_secret1", "base_url": "https://u:secret2@host/v1?key=secret3", '
        change(bad, "results_*", lambda text_, new=secret: text_.replace('"model_args": {', new))  # type: ignore[misc]
        change(bad, "results_*", lambda text_: text_.replace('"line": "', '"line": "api_key=secret4 '))
    (folder / "people" / "<script>owned()<").mkdir()
    (folder / "people" / "<script>owned()<" / "results_<img src=x onerror=owned()>.json").write_text("{")
    page, _ = write_board([folder / "people"], folder / "out" / "site", texts="all")
    assert [path.name for path in page.parent.parent.iterdir()] == ["site"], "nothing is written elsewhere"
    return page.parent


def test_texts_of_strangers_are_never_markup_nor_paths(hostile: Path) -> None:
    names = [path.name for path in hostile.iterdir()]
    assert all(re.fullmatch(r"[a-z0-9-]+\.(html|json)", name) for name in names if name != MARKER)
    assert len({name.lower() for name in names}) == len(names)
    assert len([name for name in names if name.startswith("model-")]) == 3 + 1 + 7
    owned = 0
    for path in hostile.glob("*.html"):
        page = parse(path)
        assert len(page.xpath("//script")) == 1
        assert not page.xpath("//img | //iframe | //link | //@onerror | //@style | //@src | //form/@action"), path
        assert all(re.fullmatch(r"[a-z0-9-]*(\.html|\.json)?(#[a-z0-9]+)?", link) for link in page.xpath("//a/@href"))
        [policy] = page.xpath("//meta[@http-equiv='Content-Security-Policy']/@content")
        assert re.fullmatch(
            r"default-src 'none'; style-src 'sha256-\S+'; script-src 'sha256-\S+'; base-uri 'none'; form-action 'none'",
            policy,
        )
        text = page.xpath("string(//body)")
        # In the text of a test, a block of its own, it turns nothing else.
        assert not page.xpath("//text()[contains(., '\u202e')][not(ancestor::*[@class='words' and @dir='auto'])]")
        assert "49" not in re.findall(r"&amp;(\S+)", text), "a text ran as a template"
        owned += "document.title = 'owned'" in text
    assert owned > 10, "the texts are shown as they are"


def test_secrets_of_strangers_are_left_out(hostile: Path) -> None:
    for path in hostile.iterdir():
        assert not re.search(r"secret\d", path.read_text("utf-8")), path


def test_a_board_without_any_run_is_an_error_and_writes_nothing(tmp_path: Path) -> None:
    change(run_of(tmp_path / "results", "m"), "results_*", lambda text: "[")
    for select in ((), ("shots=0",)):
        with pytest.raises(NNDError, match=r"results: no results can be used: .*is not JSON"):
            write_board([tmp_path / "results"], tmp_path / "site", select)
    with pytest.raises(NNDError, match="there is no such file or folder"):
        write_board([tmp_path / "nowhere"], tmp_path / "site")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "results_2026.json").write_text('{"configs": {}}')
    with pytest.raises(NNDError, match="no results of NND tasks"):
        write_board([tmp_path / "other"], tmp_path / "site")
    assert not (tmp_path / "site").exists()


# ---------------------------------------------------------------- texts of tests


def test_texts_are_shown_only_where_anyone_may_publish_them(people: Path, tmp_path: Path) -> None:
    summeval = {"task": "nnd_summeval", "protocol": {"set": "nnd/summeval"}}
    run_of(tmp_path / "more", "m-a", **summeval)
    shown: dict[str, set[str]] = {}
    for texts in ("free", "all", "none"):
        page, _ = write_board([people, tmp_path / "more"], tmp_path / "site", texts=texts)
        shown[texts] = {
            path.name.split("-")[2]
            for path in page.parent.glob("failed-*")
            if "with an error" in path.read_text("utf-8")
        }
        assert "with an error" not in (page.parent / "index.html").read_text("utf-8")
    assert shown == {"free": {"demo"}, "all": {"demo", "made", "summeval"}, "none": set()}
    failed = next((tmp_path / "site").glob("failed-nnd-summeval*")).read_text("utf-8")
    assert '<meta name="robots" content="noindex, noarchive">' in failed
    with pytest.raises(NNDError, match="--texts some: expected free, all, none"):
        write_board([people], tmp_path / "site", texts="some")


def test_failed_tests_are_the_worst_ones(people: Path, site: Path) -> None:
    run = next(run for run in read_results([people]) if run.model == "m-b" and run.task == "nnd_demo")
    failed = run.tests[~run.tests["passed"].astype(bool)]
    [page] = site.glob("failed-nnd-demo*m-b.html")
    shown = [text_of(name).removeprefix("test ") for name in parse(page).xpath("//article/h3/small")]
    assert len(shown) == min(len(failed), board_pages.FAILED) > 0
    assert set(shown) <= set(failed["test_id"])


# ---------------------------------------------------------------- filters


def test_facts_for_the_filters_come_from_recipes(tmp_path: Path) -> None:
    sets = {
        ("nnd/mqm", "newstest2021_ende"): (["translation"], ["English", "German"], False),
        ("nnd/quiz_design", "authors"): (["question generation"], ["English"], True),
        ("nnd/blindspot_wikitext", "default"): (["synthetic errors"], [], True),
        ("nnd/../../x", ""): ([], [], False),
    }
    for i, (name, config) in enumerate(sets):
        run_of(tmp_path, f"m{i}", contexts=2, protocol={"set": name, "config": config})
    found, _ = board_of(tmp_path)
    assert {
        (one.paired.runs[0].protocol["set"], one.paired.runs[0].protocol["config"]): (
            one.kinds,
            one.languages,
            one.free,
        )
        for one in found
    } == sets


@pytest.mark.parametrize(
    ("size", "text", "of_class"),
    [(None, "", "not known"), (-5, "", "not known"), (356672, "357K", "under 1M"), (1e6, "1M", "1M to 10M"),
     (1.3e9, "1.3B", "1B to 10B"), (7e10, "70B", "10B to 100B"), (1e12, "1T", "100B and more")],
)  # fmt: skip
def test_sizes_are_written_as_people_do(size: float | None, text: str, of_class: str) -> None:
    assert size_class(make_run("m", [True], ["c"], parameters=size)) == of_class
    assert not text or size_text(size or 0) == text


NAMES = st.lists(st.text("aA/.\\-<> é\u202e%\x00", max_size=8), unique=True, max_size=8)


@settings(max_examples=40)
@given(NAMES)
def test_files_have_plain_names_and_each_its_own(names: list[str]) -> None:
    files = file_names("model", names)
    assert list(files) == names
    assert len({file.lower() for file in files.values()}) == len(names)
    assert all(re.fullmatch(r"model-[a-z0-9-]+\.html", file) for file in files.values())
    for name in names:  # the address of a page does not depend on pages that are added, where no other name is alike
        assert files[name] in (file_names("model", [name])[name], file_names("model", [name, name + "-"])[name])


# ---------------------------------------------------------------- the folder


def test_a_board_is_replaced_as_a_whole_and_nothing_else_is(
    people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "site"
    folder.mkdir()
    write_board([people], folder)
    first = {path.name: path.read_bytes() for path in folder.iterdir()}
    write_board([people], folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == first, "the same runs give the same bytes"
    write_board([people / "ben"], folder)
    assert not (folder / "model-m-c.html").exists()
    now = {path.name for path in folder.iterdir()}

    def fail(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", fail)
        with pytest.raises(NNDError, match=r"site: cannot be written .*No space left"):
            write_board([people], folder)
    assert {path.name for path in folder.iterdir()} == now
    (folder / "CNAME").write_text("example.org")
    with pytest.raises(NNDError, match="site: nnd board did not write 'CNAME'; move that away"):
        write_board([people], folder)
    for place, what in ((people, "is not empty, and not a board"), (folder / "CNAME", "is a file")):
        with pytest.raises(NNDError, match=what):
            write_board([people], place)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["site"]


def test_the_command_line_says_what_was_left_out(people: Path, tmp_path: Path) -> None:
    change(run_of(tmp_path / "more", "m"), "results_*", lambda text: "[")
    asked = ["board", str(people), str(tmp_path / "more"), "--out", str(tmp_path / "site")]
    result = CliRunner().invoke(app, [*asked, "--select", "shots=0"])
    assert result.exit_code == 0, result.output
    assert f"written: {tmp_path / 'site' / 'index.html'}" in result.stdout.replace("\n", "")
    assert re.search(r"left out: .*results_2026.*is not JSON", result.stderr.replace("\n", ""))
    assert not parse(tmp_path / "site" / "index.html").xpath("//section[@id='apart']")


def test_the_example_of_a_workflow_makes_a_board_and_names_actions_by_commit() -> None:
    text = (REPO / "examples" / "board_workflow.yml").read_text("utf-8")
    steps = [step for job in yaml.safe_load(text)["jobs"].values() for step in job["steps"]]
    used = re.findall(r"uses: (.*)", text)
    assert used
    assert all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v[\d.]+", one) for one in used)
    assert any(step.get("run", "").startswith("nnd board ") for step in steps)


# ---------------------------------------------------------------- in a browser


def shown_models(page: Any) -> list[str]:
    return [one.inner_text() for one in page.locator(".matrix tbody tr:visible th a").all()]


@pytest.mark.slow
def test_the_board_can_be_sorted_and_filtered_in_a_browser(browser: Browser, site: Path) -> None:
    page, complaints = open_page(browser, site / "index.html", viewport={"width": 1280, "height": 900})
    assert shown_models(page) == ["m-a", "m-b", "m-c"]
    assert page.locator("output").inner_text() == "", "nothing is filtered yet"
    button = page.get_by_role("button", name="Sort by made_up (authors)")
    rates = [float(cell.get_attribute("data-value")) for cell in page.locator(".matrix tbody td:last-child").all()]
    button.click()
    now = [float(cell.get_attribute("data-value")) for cell in page.locator(".matrix tbody td:last-child").all()]
    assert now == sorted(rates, reverse=True)
    assert page.locator("th[aria-sort]").get_attribute("aria-sort") == "descending"
    button.focus()
    page.keyboard.press("Enter")
    assert shown_models(page) == ["m-c", "m-b", "m-a"]
    assert page.locator("th[aria-sort]").get_attribute("aria-sort") == "ascending"
    page.get_by_role("button", name="Sort by Size").first.click()
    assert shown_models(page) == ["m-b", "m-a", "m-c"], "what has no size is last"

    page.locator("select[name=set]").select_option(label="demo (authors)")
    assert shown_models(page) == ["m-b", "m-a"]
    assert page.locator(".matrix thead th.set:visible").count() == 1
    assert not page.locator("#apart").is_visible()
    page.locator("select[name=size]").select_option("1B to 10B")
    assert shown_models(page) == ["m-b"]
    assert page.locator("output").inner_text() == "Shown: 1 of 3 models in the first table, 0 of 1 runs asked otherwise"
    page.locator("select[name=set]").select_option("")
    page.locator("select[name=size]").select_option("")
    page.locator("select[name=language]").select_option("English")
    assert shown_models(page) == ["m-b", "m-a"], "the other set has no recipe here"
    details = page.locator(".matrix tbody .sig:visible").first
    details.locator("summary").focus()
    page.keyboard.press("Enter")
    assert details.locator("code").is_visible()
    assert complaints == []


@pytest.mark.slow
def test_attacks_are_inert_in_a_browser(browser: Browser, hostile: Path) -> None:
    for path in [hostile / "index.html", *hostile.glob("set-*"), *list(hostile.glob("failed-*img*"))[:1]]:
        page, complaints = open_page(browser, path)
        assert "board" in page.title()
        assert complaints == []
        page.context.close()


@pytest.mark.slow
@pytest.mark.parametrize("width", [320, 1280])
def test_no_page_of_the_board_scrolls_sideways(browser: Browser, hostile: Path, width: int) -> None:
    context = {"viewport": {"width": width, "height": 800}, "color_scheme": "dark" if width == 320 else "light"}
    for pattern in ("index*", "set-*img*", "model-*img*", "failed-*img*"):
        page, _ = open_page(browser, next(hostile.glob(pattern)), **context)
        page.evaluate("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, pattern
        page.context.close()


@pytest.mark.slow
def test_without_scripts_a_board_is_a_plain_table(browser: Browser, site: Path) -> None:
    page, _ = open_page(browser, site / "index.html", java_script_enabled=False)
    assert shown_models(page) == ["m-a", "m-b", "m-c"]
    assert not page.locator(".filter").is_visible()
    assert page.locator(".sort").count() == 0
