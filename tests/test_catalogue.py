"""`nnd list` and `nnd show`: every set, built or not, of the package and of the user, broken ones included."""

import json
import re
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nnd_tasks.cli import app
from nnd_tasks.cli.listing import list_sets, report_set
from nnd_tasks.errors import NNDError
from nnd_tasks.publishers.licences import licence_columns, licence_names, terms_of
from nnd_tasks.sets.build import build_set
from nnd_tasks.sets.catalogue import find_recipe
from tests.conftest import REPO, SOURCES

BASE = "context: c\ncandidate: t\nlabel: l\nbetter: [good]\nfacts: {kind: judging, license: mit}\n"
ROWS = "c,t,l\nq,a,good\nq,b,bad\n"


@pytest.fixture
def own(nnd_home):
    """Return the recipe of a set of the user's own."""
    path = nnd_home / "task_yamls" / "mine" / "_recipe"
    path.parent.mkdir(parents=True)
    path.write_text(BASE, encoding="utf-8")
    return path


@pytest.fixture
def built(own, tmp_path):
    """Return the recipe of a set of the user's own that is built."""
    table = tmp_path / "d.csv"
    table.write_text(ROWS, encoding="utf-8")
    build_set("mine", table)
    return own


def entries():
    """Return set -> the row of its first config."""
    done = CliRunner().invoke(app, ["list", "--format", "json"])
    assert done.exit_code == 0
    rows = json.loads(done.output)["tables"]["sets"]
    return {row["name"]: row for row in reversed(rows)}


def facts_of(name):
    table = report_set(name).tables[0].data
    return dict(zip(table["fact"], table["value"], strict=True))


def test_every_recipe_is_listed_built_or_not(own):
    found = entries()
    assert set(found) == {*SOURCES, "mine"}
    assert all(entry["license"] and Path(entry["recipe"]).is_file() for entry in found.values())
    assert found.pop("mine")["state"] == "not built; run: nnd build mine"
    assert {entry["state"] for entry in found.values()} == {"built on first use"}


@pytest.mark.parametrize("name", list(SOURCES))
def test_every_set_of_ours_can_be_shown_before_it_is_built(name):
    assert f"({name})" in report_set(name).title
    facts = facts_of(name)
    assert len(facts["rule"]) > 15
    assert facts["state"] == "built on first use"


def test_a_set_of_ones_own_is_listed_and_shown_with_its_tests(built):
    entry = entries()["mine"]
    assert entry["built"]
    assert (entry["config"], entry["tests"]) == ("default", 1)
    report = report_set("mine")
    assert facts_of("mine")["tests"] == "1 in config default"
    assert report.tables[1].data["text"].tolist() == ["q", "a", "b"]


@pytest.mark.parametrize("content", ["{", "", "title: !!python/name:os.system\n"])
def test_a_broken_recipe_hides_neither_the_others_nor_its_data(content, built, nnd_home):
    built.write_text(content, "utf-8")
    found = entries()
    assert set(found) == {*SOURCES, "mine"}
    assert "recipe unreadable" in found["mine"]["state"]
    assert found["mine"]["built"]
    assert "_recipe" in facts_of("mine")["recipe unreadable"]
    assert facts_of("mine")["tests"] == "1 in config default"
    shutil.rmtree(nnd_home / "nnd")
    assert "recipe unreadable" in entries()["mine"]["state"]
    with pytest.raises(NNDError, match="_recipe"):
        report_set("mine")


def test_a_recipe_that_somebody_sent_can_be_shown(tmp_path):
    path = tmp_path / "sent" / "_recipe"
    path.parent.mkdir()
    path.write_text(BASE, encoding="utf-8")
    assert facts_of(str(path))["state"] == f"not built; run: nnd build {path}"


@pytest.mark.parametrize(("template", "shown"), [("{{context}}?", "q?"), ("{{ nothing }}", ""), ("{{", "")])
def test_a_prompt_is_shown_as_a_model_reads_it_or_as_it_is(template, shown, built):
    (built.parent / "nnd_a.yaml").write_text("{", encoding="utf-8")
    task = f"task: nnd_mine\ndoc_to_text: {json.dumps(template)}\n"
    (built.parent / "nnd_mine.yaml").write_text(task, encoding="utf-8")
    assert report_set("mine").facts["prompt"] == (shown or template)
    assert f"What a model reads:\n\n{shown or template}\n" in CliRunner().invoke(app, ["show", "mine"]).output


def test_the_parts_of_a_prompt_are_shown_with_its_texts(built, tmp_path):
    built.write_text(f"{BASE}field: {{answer: a}}\n", encoding="utf-8")
    table = tmp_path / "d.csv"
    table.write_text("c,a,t,l\nq,42,a,good\nq,42,b,bad\n", encoding="utf-8")
    build_set("mine", table)
    examples = report_set("mine").tables[1].data
    assert list(zip(examples["part"], examples["text"], strict=True)) == [
        *(("context", "q"), ("answer", "42"), ("high", "a"), ("low", "b")),
    ]


def test_licences_in_the_docs_are_those_of_recipes_and_terms():
    page = (REPO / "docs" / "which_set.md").read_text("utf-8")
    configs = {"`mqm`, news": ("mqm", "newstest2021_ende"), "`mqm`, `ted_ende`": ("mqm", "ted_ende")}
    allowed = re.findall(r"^\*\*Training: (.*)\. Commercial use: (.*)\.\*\*\n\n((?:- .*\n)+)", page, re.MULTILINE)
    rows = [
        (*re.fullmatch(r"- (.*?): (.*?); (.*)", line).groups(), *terms)
        for *terms, lines in allowed
        for line in lines.splitlines()
    ]
    named = set()
    for names, *columns in rows:
        for label in names.split(", "):
            name, config = configs.get(names, (label.strip("`"), ""))
            named.add(name)
            licence = find_recipe(name).recipe.facts.license or ""
            assert columns == [*licence_columns(licence, terms_of(name, {}, config)).values()]
    assert named == {*SOURCES}


def test_a_licence_may_have_spaces_and_capitals():
    names = ["CC BY 4.0", "cc_by_4.0", "Apache-2.0", "Our Terms", "CC BY 9.9"]
    assert licence_names(names) == ["cc-by-4.0", "cc-by-4.0", "apache-2.0", "our terms", "cc by 9.9"]


def test_the_errors_of_a_set_that_nobody_judged_are_made(nnd_home):
    page = (REPO / "docs" / "which_set.md").read_text("utf-8")
    unjudged = re.findall(r"\| \[`(\w+)`\][^|]* \| nobody:", page)
    assert "demo" in unjudged
    sets = list_sets().drop_duplicates("name").set_index("name")
    assert set(sets.loc[unjudged, "errors"]) == {"made"}
