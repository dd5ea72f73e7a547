"""Single judgements stand beside the tests: who said what, of texts and of pairs; kept by builds, loaded, and published."""

import pytest

from nnd_tasks.contribute.publish import make_plan
from nnd_tasks.sets.build import build_set
from nnd_tasks.sets.catalogue import find_recipe
from nnd_tasks.sets.first_use import load
from nnd_tasks.store import list_configs, read_judgements
from tests.sets.tables import make_rows, write_rows

SCORES = {"context": "c", "candidate": "t", "score": "s", "min_gap": 1}
LISTS = [{"c": "Q", "t": "a", "s": [1, None, 3]}, {"c": "Q", "t": "b", "s": [5, 4, 5]}]


def cells(table, *names):
    return [tuple(row[name] for name in names) for row in table.to_pylist()]


def test_places_of_a_list_keep_their_number_where_one_says_nothing(tmp_path):
    made = make_rows(tmp_path, LISTS, **SCORES)
    found = cells(made.judgements["default"], "candidate", "rater", "place", "score")
    assert found == [("a", "", 1, 1), ("a", "", 3, 3), ("b", "", 1, 5), ("b", "", 2, 4), ("b", "", 3, 5)]
    assert {*cells(made.judgements["default"], "cluster_id")} == {*cells(made.tables["default"], "cluster_id")}


def test_named_raters_are_persons_and_one_rater_per_text_is_nothing_single(tmp_path):
    rows = [{"c": "Q", "t": t, "s": s, "r": r} for t, r, s in (("a", "x", 1), ("b", "x", 4), ("b", "y", 3))]
    made = make_rows(tmp_path, rows, rater="r", **SCORES)
    assert cells(made.judgements["default"], "rater", "place") == [("x", 0), ("x", 0), ("y", 0)]
    assert not make_rows(tmp_path, rows[:2], rater="r", **SCORES).judgements


def test_votes_on_pairs_hold_both_texts_and_ties(tmp_path):
    rows = [{"a": "one", "b": "two", "w": w, "r": r} for w, r in (("b", "x"), ("b", "y"), ("tie", "z"))]
    made = make_rows(tmp_path, rows, pair=["a", "b"], winner="w", rater="r")
    found = cells(made.judgements["default"], "candidate", "rejected", "rater", "score")
    assert found == [("two", "one", "x", 1), ("two", "one", "y", 1), ("one", "two", "z", 0)]
    assert {*cells(made.judgements["default"], "cluster_id")} == {*cells(made.tables["default"], "cluster_id")}


@pytest.fixture
def built(tmp_path, nnd_home):
    """Return the recipe of a set with two configs, one of them built after the other."""
    for name in ("one", "two"):
        write_rows(tmp_path / f"{name}.jsonl", LISTS)
    facts = "{license: mit, language: en, summary: s, judges: j, homepage: '', citation: ''}"
    recipe = nnd_home / "task_yamls" / "rated" / "_recipe"
    recipe.parent.mkdir(parents=True)
    recipe.write_text(
        f"config: '@file'\ncontext: c\ncandidate: t\nscore: s\nmin_gap: 1\nfacts: {facts}\n", encoding="utf-8"
    )
    for name in ("one", "two"):
        folder = build_set(find_recipe("rated"), tmp_path / f"{name}.jsonl").folder
    return folder


def test_a_later_build_keeps_those_of_other_configs_and_datasets_loads_them(built):
    assert list_configs(built)[0] == ["one", "two"]
    assert read_judgements(built, "one").num_rows == load("rated", "two_judgements").num_rows == 5
    card = (built / "README.md").read_text("utf-8")
    assert "| `one_judgements` | `one` | 5 | not named: places in a list |" in card


@pytest.mark.parametrize("ids_only", [False, True])
def test_they_are_published_with_the_texts_and_not_with_ids(ids_only, built, tmp_path):
    plan = make_plan("rated", "me/rated", ids_only=ids_only, dry_run=True)
    single = [path for path in plan.files if path.startswith("judgements/")]
    assert single == (
        [] if ids_only else [f"judgements/{n}_judgements/test-00000-of-00001.parquet" for n in ("one", "two")]
    )
    assert ("one_judgements" in plan.files["README.md"].decode().split("---")[1]) == (not ids_only)
