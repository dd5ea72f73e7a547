"""`write_site`, `group_runs`: numbers of many people's runs, whatever one of them handed in; and the site in a browser.

Also covers Section.
"""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from nnd_tasks.errors import NNDError
from nnd_tasks.page.page import Section, group_runs, write_site
from nnd_tasks.results.compare import compare_runs
from nnd_tasks.results.comparison_report import report_comparison
from nnd_tasks.results.read_runs import read_results
from nnd_tasks.show.forms import to_json
from tests.conftest import REPO
from tests.page.pages import open_page, parse, text_of
from tests.results.fake_runs import sample, write_run

if TYPE_CHECKING:
    pass

SCRIPT = "<script>document.title = 'owned'</script><img src=x onerror=\"document.title='owned'\">\"'&amp;{{ 7 * 7 }}"
CHANCES = {"disfluent": 0.8, "off_target": 0.6}


def run_of(folder: Path, name: str, seed: int = 0, **more: Any) -> Path:
    """Write a small run: with so few prompts, p values are counted and not drawn."""
    return write_run(folder, name, more.pop("chances", CHANCES), contexts=more.pop("contexts", 11), seed=seed, **more)


def change(folder: Path, pattern: str, edit: Callable[[str], str]) -> None:
    """Change the text of a run's file."""
    [path] = folder.rglob(pattern)
    path.write_text(edit(path.read_text("utf-8")), "utf-8")


def groups_of(*places: Path) -> tuple[list[Section], list[str]]:
    skipped: list[str] = []
    sets = group_runs(read_results(places, skipped=skipped), skipped)
    return [section for of_set in sets.values() for section in of_set], skipped


def read_page(path: Path) -> Any:
    return parse(path.read_text("utf-8"))


@pytest.fixture(scope="module")
def people(tmp_path_factory) -> Path:
    """Return results of three models, two of them on a second set and one with another protocol."""
    folder = tmp_path_factory.mktemp("people")
    for seed, (name, chance) in enumerate((("org/m-a", 1.0), ("org/m-b", 0.5), ("m-c", 0.0))):
        about = {"seed": seed, "chances": dict.fromkeys(CHANCES, chance)}
        run_of(folder / "anna", name, **about)
        if name != "m-c":
            run_of(folder / "ben", name, task="nnd_demo", protocol={"set": "nnd/demo"}, **about)
    run_of(folder / "ben", "few-shot", protocol={"shots": 2})
    return folder


@pytest.fixture(scope="module")
def site(people, tmp_path_factory) -> Path:
    page, skipped = write_site([people], tmp_path_factory.mktemp("out") / "site")
    assert skipped == []
    return page.parent


# ---------------------------------------------------------------- numbers


def test_numbers_are_those_of_compare(people, site):
    runs = sorted(read_results([people], ["shots=0"]), key=lambda run: (run.set, run.model))
    reports = {one.paired.set: report_comparison(one) for one in compare_runs(runs)}
    stored = json.loads((site / "results.json").read_text("utf-8"))
    assert stored[:2] == [json.loads(to_json(report)) for report in reports.values()]
    table = read_page(site / "index.html").xpath("//table[contains(@class, 'rates')]//tr")
    [_, *sets], *rows = ([text_of(cell) for cell in row] for row in table)
    assert sets == [*reports] == ["nnd/demo (authors)", "nnd/made_up (authors)"]
    assert [row[0] for row in rows] == ["m-a", "m-b", "m-c"]
    for model, *cells in rows:
        expected = [report.tables[0].cells.set_index("category").loc["all"] for report in reports.values()]
        assert cells == [one.get(model, "") for one in expected]


def test_every_run_has_its_signature_and_every_link_leads_somewhere(people, site):
    pages = {path.name: read_page(path) for path in site.glob("*.html")}
    shown = [text_of(line) for page in pages.values() for line in page.xpath("//p[contains(@class, 'signature')]")]
    assert sorted(shown) == sorted(run.line for run in read_results([people]))
    for page in pages.values():
        places = page.xpath("//@id")
        assert len(places) == len(set(places))
    links = {(name, link) for name, page in pages.items() for link in page.xpath("//a/@href")}
    assert {link.partition("#")[0] for _, link in links} - {""} == set(pages)
    for name, link in links:
        file, _, place = link.partition("#")
        assert not place or place in pages[file or name].xpath("//@id"), f"{name}: {link}"


def test_runs_that_were_asked_otherwise_stand_apart_and_it_says_how(people, site):
    said = text_of(read_page(site / "index.html").xpath("//table[contains(@class, 'apart')]/tbody/tr")[0])
    assert "shots 2 in place of 0" in said
    groups, _ = groups_of(people)
    assert [(one.paired.title, one.paired.models, one.note) for one in groups] == [
        ("nnd_demo", ["m-a", "m-b"], ""),
        ("nnd_made_up", ["m-a", "m-b", "m-c"], ""),
        ("nnd_made_up (group 2)", ["few-shot"], "shots 2 in place of 0"),
    ], "the group with the most models comes first"


# ---------------------------------------------------------------- what strangers hand in


def broken(folder: Path) -> dict[str, str]:
    """Write runs that cannot be used, one for each layer; return a part of the file's path -> what the site says of it."""

    def unscored(text: str) -> str:
        text = re.sub(r'"candidates": \[\{.*?\}\]', lambda match: re.sub(r"\{.*?\}", "null", match[0]), text)
        return re.sub(r'"passed": \w+', '"passed": null', text)

    edits: dict[str, tuple[str, Callable[[str], str], str]] = {
        "shorter": ("samples_*", lambda text: "\n".join(text.splitlines()[:3]) + "\n", "3 of 11 prompts"),
        "deep": ("results_*", lambda text: "[" * 100_000, "nested too deeply"),
        "slash": ("results_*", lambda text: text.replace('"nnd_made_up"', '"../../x"'), "Invalid name"),
        "number": ("results_*", lambda text: text.replace('": 1000000', '": "many"'), "or is damaged"),
        "unscored": ("samples_*", unscored, "no test was scored"),
    }
    for name, (pattern, edit, _) in edits.items():
        change(run_of(folder, name), pattern, edit)
    return {f"/{name}/": why for name, (_, _, why) in edits.items()}


def test_a_file_that_cannot_be_used_is_named_and_changes_nothing_else(people, tmp_path):
    shutil.copytree(people, tmp_path / "people")
    expected, _ = write_site([tmp_path / "people"], tmp_path / "before")
    said = broken(tmp_path / "people" / "stranger")
    (tmp_path / "people" / "link").symlink_to("link")
    page, skipped = write_site([tmp_path / "people", tmp_path / "nowhere"], tmp_path / "after")
    assert (page.parent / "results.json").read_text() == (expected.parent / "results.json").read_text()
    for part, why in said.items():
        assert [line for line in skipped if part in line and why in line], (part, why, skipped)
    assert any("nowhere: there is no such file or folder" in line for line in skipped)
    assert len(skipped) == len(said) + 1
    items = [text_of(item) for item in read_page(page).xpath("//h2[.='Not on this site']/following-sibling::*//li")]
    assert items == [" ".join(f"left out: {line}".split()) for line in skipped]


def test_a_run_that_would_change_the_numbers_of_others_stands_apart(people, tmp_path):
    honest, _ = groups_of(people)
    shutil.copytree(people, tmp_path / "people")
    stranger = tmp_path / "people" / "stranger"
    change(run_of(stranger, "other-tests"), "samples_*", lambda text: text.replace("0-1", "0-9"))
    change(run_of(stranger, "other-category"), "samples_*", lambda text: text.replace('"off_target"', '"x"'))
    lines = [sample(i, CHANCES, random.Random(i)) for i in range(11)]
    for line in lines[1:]:
        line |= {"candidates": [None] * 3, "tests": [{**test, "passed": None} for test in line["tests"]]}
    run_of(stranger, "few", samples=lines)
    for name, window in (("small", 8), ("large", 16)):
        short = run_of(stranger, name, task="nnd_short", about={"window": window})
        change(short, "samples_*", lambda text: text.replace('contexts": 0', 'contexts": 1'))
    found, skipped = groups_of(tmp_path / "people")
    assert skipped == []
    same = [one for one in found if not one.note and one.paired.task != "nnd_short"]
    for one, other in zip(same, (one for one in honest if not one.note), strict=True):
        assert one.comparison.rates.equals(other.comparison.rates)
        assert one.comparison.differences.equals(other.comparison.differences)
    apart = {model: one.note for one in found if one.note for model in one.paired.models}
    assert set(apart) == {"few-shot", "few", "other-tests", "other-category", "small"}
    assert apart.pop("few-shot") == "shots 2 in place of 0"
    assert all("though the protocol is the same" in note for note in apart.values())


@pytest.fixture(scope="module")
def hostile(people, tmp_path_factory) -> Path:
    """Return a site of honest runs and of some whose every text is an attack."""
    folder = tmp_path_factory.mktemp("hostile")
    shutil.copytree(people, folder / "people")
    attack = SCRIPT.replace("/", "")
    for name in ("../../x", "y/..", f"org/{SCRIPT}", "M-A", "m.a", "con", "\u202egnp.exe", "long" * 30):
        chances = {SCRIPT: 0.5, "../../y": 0.5, "\u202eevil": 0.5}
        protocol = {"set": f"nnd/../..{attack}", "config": attack, "system": SCRIPT}
        given = {"pretrained": name, "token": "hf_secret1", "base_url": "https://u:secret2@host/v1?key=secret3"}
        more = {"chances": chances, "protocol": protocol, "model_args": given}
        bad = run_of(folder / "people", name, task=f"nnd_{attack}", **more)
        text = json.dumps(SCRIPT)[1:-1]
        change(bad, "samples_*", lambda text_, new=text: text_.replace("good text 0", new).replace("context 0", new))  # type: ignore[misc]
        change(bad, "results_*", lambda text_: text_.replace('"line": "', '"line": "api_key=secret4 '))
    (folder / "people" / "<script>owned()<").mkdir()
    (folder / "people" / "<script>owned()<" / "results_<img src=x onerror=owned()>.json").write_text("{")
    page, _ = write_site([folder / "people"], folder / "out" / "site")
    assert [path.name for path in page.parent.parent.iterdir()] == ["site"], "nothing is written elsewhere"
    return page.parent


def test_texts_of_strangers_are_never_markup_nor_paths_and_secrets_are_left_out(hostile):
    names = [path.name for path in hostile.iterdir()]
    assert all(re.fullmatch(r"(?!\.)[\w.-]+\.(html|json)", name) for name in names)
    assert len(names) == 2 + 3
    owned = 0
    for path in hostile.iterdir():
        text = path.read_text("utf-8")
        assert not re.search(r"secret\d", text), path
        if path.suffix != ".html":
            continue
        page = parse(text)
        assert len(page.xpath("//script[not(@type)]")) == 1
        assert all(re.fullmatch("[A-Za-z0-9+/=]+", data) for data in page.xpath("//script[@class='data']/text()"))
        assert not page.xpath("//img | //iframe | //object | //link | //@onerror | //@src | //form/@action"), path
        assert not re.search(r"url\(|@import", page.xpath("string(//style)"))
        [policy] = page.xpath("//meta[@http-equiv='Content-Security-Policy']/@content")
        assert policy.startswith("default-src 'none';")
        assert all(re.fullmatch(r"[\w.-]*(#[a-z0-9]+)?", link) for link in page.xpath("//a/@href"))
        shown = page.xpath("string(//body)")
        assert "49" not in re.findall(r"&amp;(\S+)", shown), "a text ran as a template"
        owned += "document.title = 'owned'" in shown
    assert owned == 2


def test_a_site_without_any_run_is_an_error_and_writes_nothing(tmp_path):
    change(run_of(tmp_path / "results", "m"), "results_*", lambda text: "[")
    for select in ((), ("shots=0",)):
        with pytest.raises(NNDError, match=r"no results can be used: .*is not valid JSON"):
            write_site([tmp_path / "results"], tmp_path / "site", select)
    with pytest.raises(NNDError, match="there is no such file or folder"):
        write_site([tmp_path / "nowhere"], tmp_path / "site")
    assert not (tmp_path / "site").exists()


def test_a_set_whose_name_is_almost_that_of_another_has_a_page_of_its_own(tmp_path):
    for name, of_set in {"a": "nnd/made_up", "b": "made_up", "c": "made/up", "d": "x" * 400, "e": "nul\0"}.items():
        run_of(tmp_path / "people", name, contexts=3, protocol={"set": of_set})
    page, skipped = write_site([tmp_path / "people"], tmp_path / "site")
    assert skipped == []
    pages = {path.name for path in page.parent.glob("set-*.html")}
    assert len(pages) == 5
    assert {f"set-made_up_authors{end}.html" for end in ("", "-2", "-3")} < pages


def test_texts_are_there_only_where_anyone_may_publish_them(people, tmp_path):
    run_of(tmp_path / "more", "m-a", task="nnd_summeval", protocol={"set": "nnd/summeval"})
    page, _ = write_site([people, tmp_path / "more"], tmp_path / "site")
    with_texts = [path.name for path in page.parent.glob("set-*") if read_page(path).xpath("//script[@class='data']")]
    assert with_texts == ["set-demo_authors.html"]
    for path in page.parent.iterdir():
        assert path.name in with_texts or "with an error" not in path.read_text("utf-8")


def test_the_example_of_a_workflow_makes_a_site_and_names_actions_by_commit():
    text = (REPO / "examples" / "site_workflow.yml").read_text("utf-8")
    assert "run: nnd report results --site site\n" in text
    used = re.findall(r"uses: (.*)", text)
    assert used
    assert all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v[\d.]+", one) for one in used)


# ---------------------------------------------------------------- in a browser


@pytest.mark.slow
def test_the_front_page_can_be_sorted(browser, site):
    page, complaints = open_page(browser, site / "index.html", viewport={"width": 1280, "height": 900})
    for name, models in (("made_up", "m-a m-b m-c"), ("made_up", "m-c m-b m-a"), ("demo", "m-a m-b m-c")):
        page.get_by_role("button", name=f"Sort by nnd/{name} (authors)").press("Enter")
        shown = page.locator("table.rates tbody th").all_inner_texts()
        assert shown == models.split(), "what has no number is last"
    assert page.locator("th[aria-sort]").get_attribute("aria-sort") == "descending"
    assert complaints == []


@pytest.mark.slow
@pytest.mark.parametrize("width", [320, 1280])
def test_attacks_are_inert_and_no_page_scrolls_sideways(browser, hostile, width):
    context = {"viewport": {"width": width, "height": 800}, "color_scheme": "dark" if width == 320 else "light"}
    for path in hostile.glob("*.html"):
        page, complaints = open_page(browser, path, **context)
        page.evaluate("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        assert page.title() != "owned"
        assert complaints == []
        page.context.close()
