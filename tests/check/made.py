"""A set in which nothing is wrong, made to be spoiled by tests."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from nnd_tasks.check.findings import Finding

from nnd_tasks.check.checking import CheckReport, check_set
from nnd_tasks.datasets import tasks_dir
from nnd_tasks.schema import cluster_key, short_hash

NAME = "made"
#: Contexts; enough to show a difference of 20 percentage points.
CONTEXTS = 80
CATEGORIES = ("fluency", "meaning")
_WORDS = [
    "amber",
    "brook",
    "cedar",
    "delta",
    "ember",
    "flint",
    "grove",
    "heron",
    "inlet",
    "jetty",
    "knoll",
    "larch",
    "maple",
]
CITATION = "## Citation\n\n```bibtex\n@article{who2020judged,\n  title = {Judged},\n}\n```\n"


def words(rng: random.Random, low: int = 4, high: int = 9) -> str:
    return " ".join(rng.choice(_WORDS) for _ in range(rng.randint(low, high))) + "."


def good_rows() -> list[dict[str, Any]]:
    """Return two tests per context, one of each category, whose texts no rule tells apart."""
    rng = random.Random(4)
    rows = []
    for i in range(CONTEXTS):
        context = f"Context {i}: {words(rng)}"
        for category in CATEGORIES:
            high, low = words(rng), words(rng)
            rows.append(
                {
                    "test_id": short_hash(context, high, low, category),
                    "context_id": f"c{i}",
                    "cluster_id": cluster_key(context, {}),
                    "context": context,
                    "high": high,
                    "low": low,
                    "category": category,
                    "high_first": rng.random() < 0.5,
                }
            )
    return rows


@dataclass
class Made:
    """What is written; every part may be changed before."""

    home: Path
    rows: list[dict[str, Any]] = field(default_factory=good_rows)
    header: dict[str, Any] = field(
        default_factory=lambda: {
            "nnd_set": NAME,
            "license": "cc-by-4.0",
            "language": ["en"],
            "configs": [{"config_name": "authors", "data_files": "authors/test-*.parquet", "default": True}],
            "nnd_schema_version": 1,
        }
    )
    body: str = f"# Made\n\n{CITATION}"
    table: Callable[[pa.Table], pa.Table] | None = None  # changes what is written
    extra: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # further configs
    task: dict[str, Any] | None = field(
        default_factory=lambda: {
            "include": str(tasks_dir() / "_base"),
            "task": f"nnd_{NAME}",
            "dataset_path": f"nnd/{NAME}",
            "doc_to_text": "{{context}}\n\nAnswer:",
            "metadata": {"version": 1.0, "categories": list(CATEGORIES)},
        }
    )
    files: dict[str, str] = field(default_factory=dict)  # further files, relative to the home

    @property
    def folder(self) -> Path:
        return self.home / "nnd" / NAME

    @property
    def yaml(self) -> Path:
        return self.home / "task_yamls" / NAME / f"nnd_{NAME}.yaml"

    def write(self) -> Path:
        for name, rows in {"authors": self.rows, **self.extra}.items():
            path = self.folder / name / "test-00000-of-00001.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            table = pa.Table.from_pylist(rows)
            pq.write_table(self.table(table) if self.table and name == "authors" else table, path)
        header = yaml.safe_dump(self.header, sort_keys=False)
        (self.folder / "README.md").write_text(f"---\n{header}---\n\n{self.body}", encoding="utf-8")
        if self.task is not None:
            self.yaml.parent.mkdir(parents=True, exist_ok=True)
            self.yaml.write_text(yaml.safe_dump(self.task, sort_keys=False), encoding="utf-8")
        for name, content in self.files.items():
            path = self.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        return self.folder

    def check(self, **options: Any) -> CheckReport:
        self.write()
        return check_set(NAME, **{"run": False, **options})

    def found(self, **options: Any) -> dict[str, Finding]:
        """Return code -> the first finding with it."""
        found: dict[str, Finding] = {}
        for one in self.check(**options).findings:
            found.setdefault(one.code, one)
        return found


def text(made: Made, value: str, row: int = 6, column: str = "low") -> None:
    """Put a text into one test; a context into all tests of its cluster."""
    if column != "context":
        made.rows[row][column] = value
        return
    old = made.rows[row]["cluster_id"]
    for one in made.rows:
        if one["cluster_id"] == old:
            one |= {"context": value, "cluster_id": cluster_key(value, {})}
