"""Recipes are checked as a whole: one line with every mistake, and no way out of their folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nnd_tasks.errors import NNDError
from nnd_tasks.sets.build import build_set, make_set
from nnd_tasks.sets.recipe import MAX_RECIPE_BYTES, Recipe, make_recipe
from nnd_tasks.sets.shelf import SetRecipe, find_recipe, list_recipes
from nnd_tasks.yaml_json import dump_yaml, parse_yaml
from tests.conftest import SOURCES
from tests.sets.tables import LABELS, make_rows


def mistakes(values: Any) -> str:
    with pytest.raises(NNDError) as caught:
        make_recipe(values, "here")
    message = str(caught.value)
    assert message.startswith("here: ")
    assert "\n" not in message
    return message


def test_all_mistakes_are_said_in_one_line() -> None:
    message = mistakes(
        {"lable": "l", "min_gap": -1, "decimal": ";", "facts": {"language": "English", "judge": "us"}, "config": "../x"}
    )
    for words in ("lable: no such key; did you mean 'label'?", "min_gap: ", "decimal: ", "'English' is no code of a language",
                  "facts.judge: no such key; did you mean 'judges'?", "config: '../x'"):  # fmt: skip
        assert words in message


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"pair": ["a", "b"]}, "pair and winner go together"),
        ({"pair": ["a"], "winner": "w"}, "pair and winner go together"),
        ({"chosen": "a"}, "chosen and rejected"),
        ({"chosen": "a", "rejected": "b", "candidate": "c"}, "candidate is of single texts"),
        ({"chosen": "a", "rejected": "b", "min_gap": 1}, "pairs say themselves what is better"),
        ({"better": "x", "min_gap": 1}, "better and min_gap: one rule says what is better"),
        ({"systems": ["a"]}, "systems are two columns"),
        ({"field": {"high": "x"}}, "prompt field 'high'"),
        ({"encoding": "utf-9"}, "no such encoding: 'utf-9'"),
        ({"min_gap": float("nan")}, "min_gap"),
        ({"prompt": "{{context"}, "no valid template"),
        ({"winners": {"left": "won"}}, "winners.left: "),
        ({"files": {"x.csv": {"sha256": "abc"}}}, "files.x.csv.sha256"),
        ("context", "a recipe is a mapping of keys"),
    ],
)
def test_keys_that_do_not_go_together_are_refused(keys: Any, message: str) -> None:
    assert message in mistakes(keys)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"step": "frank", "options": {}},
            "step, options: of an earlier form of recipes; write it in prepare.py, in pandas",
        ),
        ({"title": "T", "license": "mit"}, "title, license: of an earlier form of recipes; put it under `facts`"),
        ({"rows": "answers[]", "complete": ["a"]}, "complete: of an earlier form of recipes; leave it out"),
        ({"pattern": "*.tsv"}, "pattern: of an earlier form of recipes; name the files"),
        (
            {"field_notes": {}, "clean_note": "x"},
            "field_notes: of an earlier form of recipes; write `fields` under `facts`",
        ),
    ],
)
def test_an_earlier_form_of_recipe_names_what_changed_and_what_to_write(keys: dict[str, Any], message: str) -> None:
    assert message in mistakes({"context": "c", **keys})


@pytest.mark.parametrize("name", ["../x.csv", "/etc/passwd", "a/../b.csv", ".hidden", "a\\b.csv", "C:x"])
def test_files_and_configs_stay_in_the_folder(name: str, tmp_path: Path, nnd_home: Path) -> None:
    assert "is not the name of a file in the folder" in mistakes({"files": {name: None}})
    assert "a config is named by letters" in mistakes({"config": name})
    (tmp_path / "t.csv").write_text("c,t,l\nq,a,good\nq,b,bad\n", encoding="utf-8")
    sent = SetRecipe(
        "mine", tmp_path / "_recipe", "own", make_recipe({**LABELS, "files": {"t.csv": {"config": name}}}, "")
    )
    with pytest.raises(NNDError, match="a config is named by letters"):
        build_set(sent)
    assert not (nnd_home / "nnd").exists()


@pytest.mark.parametrize(
    "url", ["http://x.org/f", "file:///etc/passwd", "ftp://x.org/f", "https://u:p@x.org/f", "https:///f"]
)
def test_only_public_https_addresses_are_taken(url: str) -> None:
    assert "an https:// address without a user or password" in mistakes({"files": {"f.csv": {"url": url}}})


ALIASES = "a: &a [x, x]\nb: &b [*a, *a]\nbetter: [*b, *b]\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (ALIASES, "alias"),
        ("context: c\ncontext: d\n", "context"),
        ("context: !!python/name:os.system\n", "is not YAML that can be read here"),
        ("context: " + "x" * MAX_RECIPE_BYTES, "is larger than"),
        ("- context\n", "a recipe is a mapping of keys"),
        ("context: [", "is not YAML that can be read here"),
        ("context: \xff", "is not UTF-8"),
    ],
    ids=["aliases", "key twice", "tag", "large", "list", "no YAML", "no UTF-8"],
)
def test_a_recipe_from_elsewhere_is_read_as_plain_data_with_limits(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "sent" / "_recipe"
    path.parent.mkdir()
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(NNDError) as caught:
        make_set(find_recipe(str(path)))
    assert str(path) in str(caught.value)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("values", "as_text"),
    [
        ({"label": 3, "better": [True, 1.5]}, {"label": "3", "better": ["true", "1.5"]}),
        ({"field": "a"}, {"field": {"a": "a"}}),
    ],
)
def test_plain_words_of_yaml_are_texts(values: dict[str, Any], as_text: dict[str, Any]) -> None:
    assert make_recipe(values, "").dump() == as_text


@pytest.mark.parametrize("name", list(SOURCES))
def test_recipes_of_ours_are_whole_and_come_back_from_their_yaml(name: str) -> None:
    recipe = SOURCES[name].recipe
    assert make_recipe(parse_yaml(dump_yaml(recipe.dump()), ""), "") == recipe
    assert recipe.rules or recipe.pairs or SOURCES[name].prepare
    assert all(getattr(recipe.facts, name) for name in ("license", "language", "summary", "judges"))
    assert recipe.rule_text().endswith(".")
    assert len(Recipe.model_fields) <= 38, "37 keys, and the facts"


def test_a_set_that_does_not_exist_brings_up_those_with_a_name_near_it(tmp_path: Path) -> None:
    for name, near in (("quiz", "quiz_design"), ("nnd_frank", "frank"), ("MQM", "mqm")):
        with pytest.raises(NNDError, match=f"there is no set {name!r}; did you mean .*{near}"):
            find_recipe(name)
    with pytest.raises(NNDError, match=r"known sets: .*demo"):
        find_recipe("xyzzy")
    with pytest.raises(NNDError, match=r"there is no such recipe"):
        find_recipe(str(tmp_path / "gone"))


def test_the_packages_recipe_goes_before_ones_own(nnd_home: Path) -> None:
    for name in ("demo", "mine"):
        (nnd_home / "task_yamls" / name).mkdir(parents=True)
        (nnd_home / "task_yamls" / name / "_recipe").write_text("context: mine\n", encoding="utf-8")
    assert {name: found.origin for name, found in list_recipes().items() if name in ("demo", "mine")} == {
        "demo": "package",
        "mine": "own",
    }


def test_other_numbers_than_the_published_or_expected_ones_are_told(tmp_path: Path) -> None:
    rows = [{"c": "q", "t": "a", "l": "good"}, {"c": "q", "t": "b", "l": "bad"}]
    assert make_rows(tmp_path, rows, **LABELS, published={"default": 1}, expected={"bad": 1}).notes == []
    notes = make_rows(tmp_path, rows, **LABELS, published={"default": 2}, expected={"worse": 1}).notes
    assert "default: 1 test, published are 2" in notes[0].replace("1 tests", "1 test")
    assert "expects 1, or others per category" in notes[1]
