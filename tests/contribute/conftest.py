"""Fixtures: a set to check in which nothing is wrong, and sets of a user's own to publish."""

import shutil
from types import SimpleNamespace
from unittest.mock import Mock

import pyarrow as pa
import pytest

from nnd_tasks.baselines import baseline_rates
from nnd_tasks.schema import fingerprint
from nnd_tasks.sets.recipe import PREPARE, RECIPE, Facts
from nnd_tasks.sets.write import CardFacts, write_dataset
from nnd_tasks.store import user_tasks_dir
from tests.contribute.made import Made

FACTS = {"title": "Mine", "summary": "Mine.", "judges": "We.", "homepage": "", "citation": "@misc{mine,}"}


def some_tests(count=30, word="good"):
    """Return a table of tests, ten prompts and three categories."""
    return pa.Table.from_pylist(
        [
            {
                "test_id": f"t{i}",
                "context_id": f"c{i % 10}",
                "cluster_id": f"k{i % 10}",
                "context": f"The context number {i % 10}, long enough to be recognized anywhere.",
                "high": f"A {word} answer number {i} to it, which nobody else gives.",
                "low": f"A bad answer number {i}.",
                "category": ("wrong", "dull", "long")[i % 3],
                "high_first": bool(i % 2),
                "rater": "Jo",
                "question": f"What is {i % 10}?",
            }
            for i in range(count)
        ]
    )


@pytest.fixture
def own_set(nnd_home, monkeypatch):
    """A function that writes a set: ``own_set("mine", license="mit", tables={...}, prepare="...")``.

    It gives the ``folder`` of the dataset, that of its ``recipe`` and task, what a new build gives (``again``), and what stands
    for `nnd_tasks.sets.build.make_set` (``build``).
    """

    def make(name="mine", tables=None, *, license="mit", prepare="", **report):
        tables = tables or {"all": some_tests()}
        folder, recipe = nnd_home / "nnd" / name, user_tasks_dir() / name
        reports = {
            config: {
                "fingerprint": fingerprint(table),
                "source_sha256": {"mine.csv": "ab" * 32},
                "trivial_rules": baseline_rates(table),
                **report,
            }
            for config, table in tables.items()
        }
        shutil.rmtree(folder, ignore_errors=True)
        card_facts = CardFacts(name, Facts(license=license, language=("en",), **FACTS), "Better is better.")
        write_dataset(folder, tables, card_facts=card_facts, report=reports, default="all")
        recipe.mkdir(parents=True, exist_ok=True)
        (recipe / RECIPE).write_text("files:\n  mine.csv:\nbetter: [right]\n" + "label: grade\n" * (not prepare))
        if prepare:
            (recipe / PREPARE).write_text(prepare)
        again = SimpleNamespace(tables=dict(tables), report=reports)
        build = Mock(return_value=again)
        monkeypatch.setattr("nnd_tasks.contribute.publish.make_set", build)
        return SimpleNamespace(folder=folder, recipe=recipe, again=again, build=build)

    return make


@pytest.fixture
def made(nnd_home, monkeypatch):
    """A set in which nothing is wrong; it is not written yet.

    Beside tasks of the user those of the package are not looked at: reading them takes as long as all else that is checked.
    """
    monkeypatch.setattr("nnd_tasks.contribute.check.checking.written_folders", lambda: [user_tasks_dir()])
    return Made(nnd_home)
