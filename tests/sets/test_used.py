"""Each key of a recipe, each column of a prepare.py and each option of `nnd new` is used, or refused: none is ignored."""

from pathlib import Path

import pandas as pd
import pytest

from nnd_tasks.errors import NNDError
from nnd_tasks.sets.build import make_set
from nnd_tasks.sets.recipe import Recipe, SetRecipe, make_recipe
from nnd_tasks.sets.rows import ROLES
from tests.sets.small_files import write_files
from tests.sets.tables import refusal

COLUMNS = ("c", "t", "l", "s", "g", "who", "r", "a", "k", "u", "v", "x", "e", "f", "h", "y", "z", "w", "m", "n")
CELLS = [
    "q,té,good,4.0,g1,m1,r1,a1,k1,u1,minor,x1,[[0 1]],0,1,té,b,1,m1,m2",
    "q,b,bad,1,g1,m2,r2,a1,k1,u1,minor,x1,[[0 1]],0,1,b,c,2,m1,m2",
    "q,b,bad,2,g2,m2,r2,a1,k2,u2,major,x1,[[0 1]],0,1,b,d,2,m2,m1",
    "q,d,odd,3,g2,m3,r1,a2,k2,u2,major,x1,[[0 1]],0,1,d,b,tie,m1,m2",
    "q,d,good,4,g2,m3,r1,a2,k2,u2,major,x1,[[0 1]],0,1,d,b,1,m1,m2",
    "q,,good,4,g2,m3,r1,a2,k2,u2,major,x1,[[0 1]],0,1,,b,1,m1,m2",
]
ROWS = [dict(zip(COLUMNS, line.split(","), strict=True)) for line in CELLS]
TEXTS = {"context": "c", "candidate": "t"}
#: What a table holds -> the recipe that reads it.
BASES = {
    "labels": {**TEXTS, "label": "l", "better": "good", "rater": "r"},
    "errors": {**TEXTS, "label": "l", "better": ["good", "odd"], "category": "k", "severity": "v", "several_errors": "each"},
    "scores": {**TEXTS, "score": "s", "min_gap": 1},
    "majority": {**TEXTS, "score": "s", "majority": True},
    "attributes": {**TEXTS, "attribute": {"one": "s"}, "min_gap": 1},
    "pairs": {"context": "c", "chosen": "y", "rejected": "z"},
    "winners": {"context": "c", "pair": ["y", "z"], "winner": "w"},
    "prepare": {"better": "good", "files": {"t.csv": {}}},
    "prepare_pairs": {"files": {"t.csv": {}}},
}  # fmt: skip
#: Key -> a value that changes something, if anything reads it.
VALUES = {
    "files": {"t.csv": {"config": "other"}}, "config": "other", "encoding": "cp1252", "decimal": ",",
    "missing": ["bad", "1"], "leave_out": {"u": ["u2"]}, "context": "x", "candidate": "x", "group": "g", "label": "x",
    "score": "x", "system": "who", "rater": "r", "attribute": {"a": "a"}, "category": "a", "subcategory": "u",
    "severity": "u", "several_errors": "each", "spans": {"column": "e"}, "field": {"hint": "x"}, "chosen": "x",
    "rejected": "x", "pair": ["x", "z"], "winner": "x", "winners": {"1": "second", "2": "first"}, "systems": ["m", "n"],
    "better": "bad", "ignore": "odd", "min_gap": 3, "majority": True, "best": 3,
    "candidates": "rows", "published": {"default": 99}, "expected": {"none": 9}, "facts": {"rule": "It is better."},
}  # fmt: skip
PREPARE = """import pandas as pd
from nnd_tasks.tables.read import read_delimited


def rows(folder):
    table = read_delimited(folder / "t.csv")
    return pd.DataFrame({role: table[column] for role, column in NAMES.items()})
"""
ROWS_OF = {
    "prepare": {**TEXTS, "label": "l", "u": "u"},
    "prepare_scores": {**TEXTS, "score": "s"},
    "prepare_pairs": {"chosen": "y", "rejected": "z", "u": "u"},
}


@pytest.fixture
def outcome(tmp_path):
    """A function that makes a set, and returns all that a recipe decides; the error where it is refused."""
    text = "\n".join([",".join(COLUMNS), *CELLS]).replace("[[0 1]]", '"[[0, 1]]"')
    source = write_files(tmp_path, {"t.csv": text}) / "t.csv"

    def make(keys, roles=()):
        prepare = None
        if roles:
            prepare = write_files(tmp_path, {"prepare.py": PREPARE.replace("NAMES", repr(roles))}) / "prepare.py"
        try:
            recipe = make_recipe(keys, "options")
            built = make_set(SetRecipe("mine", tmp_path / "_recipe", "own", prepare, recipe=recipe), source)
        except NNDError as error:
            return str(error)
        reports = [{**report, "recipe": None, "source_sha256": None} for report in built.report.values()]
        return str(
            [[table.to_pylist() for table in built.tables.values()], [*built.tables], reports, built.notes, built.rule]
        )

    return make


@pytest.mark.parametrize("base", BASES)
def test_each_key_is_used_or_refused(base, outcome):
    assert {*Recipe.model_fields} - {*VALUES} == {"prompt"}, "which comes into the task"
    keys, roles = BASES[base], {role: name for role, name in ROWS_OF.get(base, {}).items() if role != "u"}
    before = outcome(keys, roles)
    assert before.startswith("[["), before
    values = {key: value for key, value in VALUES.items() if not (roles and key == "files")}  # its rows name configs
    assert [
        key
        for key, value in values.items()
        if keys.get(key) != value and outcome({**keys, key: value}, roles) == before
    ] == []


@pytest.mark.parametrize("base", ROWS_OF)
def test_each_column_of_prepare_is_used_or_refused(base, outcome):
    keys = BASES.get(base) or {"min_gap": 1, "files": {"t.csv": {}}}
    roles = {role: name for role, name in ROWS_OF[base].items() if role != "u"}
    columns = {
        "label": "v", "score": "s", "system": "who", "rater": "r", "attribute": "a", "category": "k", "subcategory": "u",
        "severity": "v", "group": "g", "spans": "e", "config": "a", "where": "t", "high_system": "m", "low_system": "n",
    }  # fmt: skip
    before = outcome(keys, roles)
    assert before.startswith("[["), before
    assert [
        role for role in ROLES if role not in roles and outcome(keys, {**roles, role: columns.get(role, "x")}) == before
    ] == []


def test_an_encoding_is_refused_for_files_that_are_no_texts(tmp_path):
    pd.DataFrame(ROWS).to_parquet(tmp_path / "t.parquet")
    recipe = make_recipe({**BASES["scores"], "encoding": "cp1252"}, "options")
    error = refusal(make_set, SetRecipe("mine", Path("_"), "own", recipe=recipe), tmp_path / "t.parquet")
    assert "encoding: used for" in error
