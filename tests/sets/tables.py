"""Small tables in files, and the sets that are made of them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from nnd_tasks.errors import NNDError
from nnd_tasks.sets.build import make_set
from nnd_tasks.sets.recipe import SetRecipe, make_recipe

Row = Mapping[str, Any]
LABELS = {"context": "c", "candidate": "t", "label": "l", "better": "good"}


def read_arguments(file):
    """Read test -> the arguments of its cases, from the YAML beside a file of tests."""
    return yaml.safe_load(Path(file).with_suffix(".yaml").read_text("utf-8"))


def write_rows(path, rows):
    """Write rows as JSON Lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def make(path, **keys):
    """Make the tests of the table in a file."""
    return make_set(SetRecipe("mine", Path("_"), "own", recipe=make_recipe(keys, "options")), path)


def make_csv(folder, *lines, **keys):
    """Make the tests of the lines of a CSV file."""
    path = folder / "table.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    return make(path, **keys)


def make_rows(folder, rows, **keys):
    """Make the tests of rows."""
    return make(write_rows(folder / "table.jsonl", rows), **keys)


def left_out(built, noun="rows", config="default"):
    """Count why how many rows (judgements, ...) were left out."""
    return dict(built.report[config]["accounts"][noun]["left_out"])


def read_tests(made, config="default"):
    """Read the tests of a config; of optional columns that it lacks ``""``."""
    empty = dict.fromkeys(
        ("subcategory", "severity", "high_label", "low_label", "high_system", "low_system", "rater"), ""
    )
    scores = dict.fromkeys(("high_score", "low_score"))
    return [{**empty, **scores, **row} for row in made.tables[config].to_pylist()]


def pick(rows, *columns):
    """Take some columns of rows."""
    return [tuple(row[name] for name in columns) for row in rows]


def refusal(call, *arguments, **keys):
    """Give the error in which a call ends, which is one line."""
    with pytest.raises(NNDError) as caught:
        call(*arguments, **keys)
    assert "\n" not in str(caught.value)
    return str(caught.value)
