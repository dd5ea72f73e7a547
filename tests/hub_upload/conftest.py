"""Sets to publish, written by hand into the user's home, with a recipe and what a new build of them gives."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nnd_tasks.baselines import table_rates
from nnd_tasks.datasets import CARD, REPORT, user_tasks_dir
from nnd_tasks.sets.card import About, make_card
from nnd_tasks.sets.recipe import PREPARE, RECIPE, Facts
from nnd_tasks.tables import fingerprint, summarize

FACTS = {"title": "Mine", "summary": "Mine.", "judges": "We.", "homepage": "", "citation": "@misc{mine,}"}


def some_tests(count: int = 30, word: str = "good") -> pa.Table:
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


@dataclass
class OwnSet:
    """A set of a user's own.

    Attributes:
        folder: its dataset folder.
        recipe: the folder of its recipe and task.
        again: what `nnd_tasks.sets.build.make_set` returns for it; `sources` has what it was asked for.
    """

    folder: Path
    recipe: Path
    again: SimpleNamespace
    sources: list[str | None]


@pytest.fixture
def own_set(nnd_home: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., OwnSet]:
    """Return what writes a set: ``own_set("mine", license="mit", tables={...}, prepare="...")``."""

    def make(
        name: str = "mine",
        tables: dict[str, pa.Table] | None = None,
        *,
        license: str | None = "mit",
        prepare: str = "",
        earlier: str = "",
        **report: Any,
    ) -> OwnSet:
        tables = tables or {"all": some_tests()}
        folder, recipe, sources = nnd_home / "nnd" / name, user_tasks_dir() / name, []
        reports = {
            config: {
                "fingerprint": fingerprint(table),
                "source_sha256": {"mine.csv": "ab" * 32},
                "trivial_rules": table_rates(table),
                **report,
            }
            for config, table in tables.items()
        }
        about = About(name, Facts(license=license, language=("en",), **FACTS), "Better is better.")
        summaries = [summarize(config, table) for config, table in tables.items()]
        for config, table in tables.items():
            (folder / config).mkdir(parents=True, exist_ok=True)
            pq.write_table(table, folder / config / "test-00000-of-00001.parquet")
        columns = next(iter(tables.values())).column_names
        (folder / CARD).write_text(make_card(about, summaries, columns, reports, default="all", earlier=earlier))
        (folder / REPORT).write_text(json.dumps(reports))
        recipe.mkdir(parents=True, exist_ok=True)
        (recipe / RECIPE).write_text("files:\n  mine.csv:\nlabel: grade\nbetter: [right]\n")
        if prepare:
            (recipe / PREPARE).write_text(prepare)
        again = SimpleNamespace(tables=dict(tables), report=reports)

        def make_set(found: Any, source: str | None) -> SimpleNamespace:
            assert found.name == name
            sources.append(source)
            return again

        monkeypatch.setattr("hub_upload.plan.make_set", make_set)
        return OwnSet(folder, recipe, again, sources)

    return make
