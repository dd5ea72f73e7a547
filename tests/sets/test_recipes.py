"""Recipes are checked as a whole: one line with every mistake, and no way out of their folder."""

from pathlib import Path

import pytest
import yaml

from nnd_tasks.errors import NNDError
from nnd_tasks.files import dump_yaml, parse_yaml
from nnd_tasks.sets.catalogue import find_recipe, list_recipes
from nnd_tasks.sets.recipe import MAX_RECIPE_BYTES, make_recipe
from tests.conftest import SOURCES
from tests.sets.small_files import write_files
from tests.sets.tables import LABELS, make_rows, refusal


def mistakes(values):
    message = refusal(make_recipe, values, "here")
    assert message.startswith("here: ")
    return message


def test_all_mistakes_are_said_in_one_line():
    facts = {"language": "English", "judge": "us"}
    message = mistakes({"lable": "l", "min_gap": -1, "decimal": ";", "facts": facts, "config": "../x"})
    for words in ("lable: no such key; did you mean 'label'?", "min_gap: ", "decimal: ", "'English' is no code of a language",
                  "facts.judge: no such key; did you mean 'judges'?", "config: '../x'"):  # fmt: skip
        assert words in message


MISTAKES = yaml.safe_load(Path(__file__).with_name("mistakes.yaml").read_text("utf-8"))


@pytest.mark.parametrize("mistake", MISTAKES, ids=[str(mistake["keys"]) for mistake in MISTAKES])
def test_a_wrong_key_is_refused(mistake):
    assert mistake["message"] in mistakes(mistake["keys"])


def test_a_column_may_have_two_roles_that_fit():
    shared = {"context": "q", "group": "q", "field": {"asked": "q"}, "label": "l", "severity": "l"}
    assert make_recipe({**shared, "category": "@file", "subcategory": "@file"}, "").severity == "l"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a: &a [x, x]\nb: &b [*a, *a]\nbetter: [*b, *b]\n", "alias"),
        ("context: c\ncontext: d\n", "context"),
        ("context: !!python/name:os.system\n", "is not YAML that can be read here"),
        ("context: " + "x" * MAX_RECIPE_BYTES, "is larger than"),
        ("- context\n", "a recipe is a mapping of keys"),
    ],
    ids=["aliases", "key twice", "tag", "large", "list"],
)
def test_a_recipe_from_elsewhere_is_read_as_plain_data_with_limits(content, message, tmp_path):
    path = write_files(tmp_path / "sent", {"_recipe": content}) / "_recipe"
    error = refusal(find_recipe, str(path))
    assert str(path) in error
    assert message in error


def test_plain_words_of_yaml_are_texts():
    values = parse_yaml("{label: 3, better: [true, 1.5], field: a}", "")
    assert make_recipe(values, "").dump() == {"label": "3", "better": ["true", "1.5"], "field": {"a": "a"}}


@pytest.mark.parametrize("name", list(SOURCES))
def test_recipes_of_ours_are_whole_and_come_back_from_their_yaml(name):
    recipe = SOURCES[name].recipe
    assert make_recipe(parse_yaml(dump_yaml(recipe.dump()), ""), "") == recipe
    assert recipe.rules or recipe.pairs or SOURCES[name].prepare
    assert all(getattr(recipe.facts, name) for name in ("license", "language", "summary", "judges"))
    assert SOURCES[name].rule.sentence.endswith(".")


def test_a_set_that_does_not_exist_brings_up_those_with_a_name_near_it(tmp_path):
    with pytest.raises(NNDError, match=r"there is no set 'nnd_FRANK'; did you mean .*frank"):
        find_recipe("nnd_FRANK")
    with pytest.raises(NNDError, match=r"known sets: .*demo"):
        find_recipe("xyzzy")
    with pytest.raises(NNDError, match=r"there is no such recipe"):
        find_recipe(str(tmp_path / "gone"))


def test_the_packages_recipe_goes_before_ones_own(nnd_home):
    origins = {"demo": "package", "mine": "own"}
    for name in origins:
        write_files(nnd_home / "task_yamls" / name, {"_recipe": "context: mine\n"})
    found = list_recipes()
    assert {name: found[name].origin for name in origins} == origins


def test_other_numbers_than_the_published_or_expected_ones_are_told(tmp_path):
    rows = [{"c": "q", "t": "a", "l": "good"}, {"c": "q", "t": "b", "l": "bad"}]
    assert make_rows(tmp_path, rows, **LABELS, published={"default": 1}, expected={"bad": 1}).notes == []
    notes = make_rows(tmp_path, rows, **LABELS, published={"default": 2}, expected={"worse": 1}).notes
    assert "published are 2" in notes[0]
    assert "expects 1, or others per category" in notes[1]
