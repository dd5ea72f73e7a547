"""`write_site`, `group_runs`: numbers of many people's runs, whatever one of them handed in; and the site in a browser.

Also covers Section.
"""

import json
import random
import re
import shutil

import pytest

from nnd_tasks.errors import NNDError
from nnd_tasks.page.page import group_runs, write_site
from nnd_tasks.results.compare import compare_runs
from nnd_tasks.results.comparison_report import report_comparison
from nnd_tasks.results.read_runs import read_results
from nnd_tasks.show.forms import to_json
from tests.page.pages import open_page, parse, read_page, text_of
from tests.results.fake_runs import make_sample, sample, write_run

SCRIPT = "<script>document.title = 'owned'</script><img src=x onerror=\"document.title='owned'\">\"'&amp;{{ 7 * 7 }}"
CHANCES = {"disfluent": 0.8, "off_target": 0.6}


def run_of(folder, name, chances=CHANCES, contexts=11, **more):
    """Write a small run: with so few prompts, p values are counted and not drawn."""
    return write_run(folder, name, chances, contexts=contexts, **more)


def change(folder, pattern, edit):
    """Change the text of a run's file."""
    [path] = folder.rglob(pattern)
    path.write_text(edit(path.read_text("utf-8")), "utf-8")


def groups_of(*places):
    skipped = []
    sets = group_runs(read_results(places, skipped=skipped), skipped)
    return [section for of_set in sets.values() for section in of_set], skipped


@pytest.fixture(scope="module")
def people(tmp_path_factory):
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
def site(people, tmp_path_factory):
    page, skipped = write_site([people], tmp_path_factory.mktemp("out") / "site")
    assert skipped == []
    return page.parent


# ---------------------------------------------------------------- numbers


def test_numbers_are_those_of_compare(people, site):
    runs = sorted(read_results([people], ["shots=0"]), key=lambda run: (run.set, run.model))
    reports = {comparison.paired.set: report_comparison(comparison) for comparison in compare_runs(runs)}
    stored = json.loads((site / "results.json").read_text("utf-8"))
    assert stored[:2] == [json.loads(to_json(report)) for report in reports.values()]
    table = read_page(site / "index.html").xpath("//table[contains(@class, 'rates')]//tr")
    rows = [[text_of(cell) for cell in row] for row in table]
    rates = [report.tables[0].cells.set_index("category").loc["all"] for report in reports.values()]
    assert [*reports] == ["nnd/demo (authors)", "nnd/made_up (authors)"]
    expected = [[model, *(of_set.get(model, "") for of_set in rates)] for model in ("m-a", "m-b", "m-c")]
    assert rows == [[rows[0][0], *reports], *expected]


def test_every_run_has_its_signature_and_every_link_leads_somewhere(people, site):
    pages = {path.name: read_page(path) for path in site.glob("*.html")}
    signatures = [text_of(line) for page in pages.values() for line in page.xpath("//p[contains(@class, 'signature')]")]
    assert sorted(signatures) == sorted(run.line for run in read_results([people]))
    ids = {name: page.xpath("//@id") for name, page in pages.items()}
    assert all(len(of_page) == len(set(of_page)) for of_page in ids.values())
    links = {(name, *link.split("#")) for name, page in pages.items() for link in page.xpath("//a/@href")}
    assert {file for _, file, *_ in links} - {""} == set(pages)
    for name, file, *targets in links:
        assert set(targets) <= set(ids[file or name])


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


def unscore(text):
    documents = [json.loads(line)["doc"] for line in text.splitlines()]
    return "".join(json.dumps(make_sample(document, [None] * 3)) + "\n" for document in documents)


#: Folder of a run that cannot be used -> its file, what is changed there, and what the site says of it; one for each layer.
BROKEN = {
    "shorter": ("samples_*", lambda text: "\n".join(text.splitlines()[:3]) + "\n", "3 of 11 prompts"),
    "deep": ("results_*", lambda text: "[" * 100_000, "nested too deeply"),
    "slash": ("results_*", lambda text: text.replace('"nnd_made_up"', '"../../x"'), "Invalid name"),
    "unscored": ("samples_*", unscore, "no test was scored"),
}


def test_a_file_that_cannot_be_used_is_named_and_changes_nothing_else(people, site, tmp_path):
    shutil.copytree(people, tmp_path / "people")
    for name, (pattern, edit, _) in BROKEN.items():
        change(run_of(tmp_path / "people" / "stranger", name), pattern, edit)
    (tmp_path / "people" / "link").symlink_to("link")
    page, skipped = write_site([tmp_path / "people", tmp_path / "nowhere"], tmp_path / "after")
    assert (page.parent / "results.json").read_text() == (site / "results.json").read_text()
    expected = {f"/{name}/": why for name, (_, _, why) in BROKEN.items()}
    expected["nowhere"] = "there is no such file or folder"
    for path, why in expected.items():
        [line] = [line for line in skipped if path in line]
        assert why in line
    assert len(skipped) == len(expected)
    items = [text_of(item) for item in read_page(page).xpath("//h2[.='Not on this site']/following-sibling::*//li")]
    assert items == [" ".join(f"left out: {line}".split()) for line in skipped]


def test_a_run_that_would_change_the_numbers_of_others_stands_apart(people, tmp_path):
    shutil.copytree(people, tmp_path / "people")
    stranger = tmp_path / "people" / "stranger"
    change(run_of(stranger, "other-tests"), "samples_*", lambda text: text.replace("0-1", "0-9"))
    change(run_of(stranger, "other-category"), "samples_*", lambda text: text.replace('"off_target"', '"x"'))
    lines = [sample(i, CHANCES, random.Random(i)) for i in range(11)]
    lines[1:] = [make_sample(line["doc"], [None] * 3) for line in lines[1:]]
    run_of(stranger, "few", samples=lines)
    for name, window in (("small", 8), ("large", 16)):
        short = run_of(stranger, name, task="nnd_short", about={"window": window})
        change(short, "samples_*", lambda text: text.replace('contexts": 0', 'contexts": 1'))
    (honest, _), (groups, skipped) = groups_of(people), groups_of(tmp_path / "people")
    assert skipped == []
    same = [group for group in groups if not group.note and group.paired.task != "nnd_short"]
    for group, alone in zip(same, (group for group in honest if not group.note), strict=True):
        assert group.comparison.rates.equals(alone.comparison.rates)
        assert group.comparison.differences.equals(alone.comparison.differences)
    apart = {model: group.note for group in groups if group.note for model in group.paired.models}
    assert apart.pop("few-shot") == "shots 2 in place of 0"
    assert set(apart) == {"few", "other-tests", "other-category", "small"}
    assert all("though the protocol is the same" in note for note in apart.values())


@pytest.fixture(scope="module")
def hostile(people, tmp_path_factory):
    """Return a site of honest runs and of some whose every text is an attack."""
    folder = tmp_path_factory.mktemp("hostile")
    shutil.copytree(people, folder / "people")
    attack = SCRIPT.replace("/", "")
    protocol = {"set": f"nnd/../..{attack}", "config": attack, "system": SCRIPT}
    chances = {SCRIPT: 0.5, "../../y": 0.5, "\u202eevil": 0.5}
    for name in ("../../x", "y/..", f"org/{SCRIPT}", "M-A", "m.a", "con", "\u202egnp.exe", "long" * 30):
        given = {"pretrained": name, "token": "hf_secret1", "base_url": "https://u:secret2@host/v1?key=secret3"}
        task = f"nnd_{attack}"
        bad = run_of(folder / "people", name, task=task, chances=chances, protocol=protocol, model_args=given)
        for text in ("good text 0", "context 0"):
            change(bad, "samples_*", lambda content, text=text: content.replace(text, json.dumps(SCRIPT)[1:-1]))
        change(bad, "results_*", lambda content: content.replace('"line": "', '"line": "api_key=secret4 '))
    file = folder / "people" / "<script>owned()<" / "results_<img src=x onerror=owned()>.json"
    file.parent.mkdir()
    file.write_text("{")
    page, _ = write_site([folder / "people"], folder / "out" / "site")
    assert [path.name for path in page.parent.parent.iterdir()] == ["site"], "nothing is written elsewhere"
    return page.parent


def test_texts_of_strangers_are_never_markup_nor_paths_and_secrets_are_left_out(hostile):
    texts = {path.name: path.read_text("utf-8") for path in hostile.iterdir()}
    assert len(texts) == 2 + 3
    assert all(re.fullmatch(r"(?!\.)[\w.-]+\.(html|json)", name) for name in texts)
    assert not re.search(r"secret\d", "".join(texts.values()))
    pages = [parse(text) for name, text in texts.items() if name.endswith(".html")]
    for page in pages:
        assert len(page.xpath("//script[not(@type)]")) == 1
        assert all(re.fullmatch("[A-Za-z0-9+/=]+", data) for data in page.xpath("//script[@class='data']/text()"))
        assert not page.xpath("//img | //iframe | //object | //link | //@onerror | //@src | //form/@action")
        assert not re.search(r"url\(|@import", page.xpath("string(//style)"))
        [policy] = page.xpath("//meta[@http-equiv='Content-Security-Policy']/@content")
        assert policy.startswith("default-src 'none';")
        assert all(re.fullmatch(r"[\w.-]*(#[a-z0-9]+)?", link) for link in page.xpath("//a/@href"))
    bodies = [page.xpath("string(//body)") for page in pages]
    assert "49" not in re.findall(r"&amp;(\S+)", "".join(bodies)), "a text ran as a template"
    assert sum("document.title = 'owned'" in body for body in bodies) == 2


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
