"""A set in which nothing is wrong, made to be spoiled by tests."""

import random
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import yaml

from nnd_tasks.contribute.check.checking import check_set
from nnd_tasks.schema import short_hash
from nnd_tasks.store import list_files, tasks_dir

NAME = "made"
#: Contexts; enough to show a difference of 20 percentage points.
CONTEXTS = 80
CATEGORIES = ["fluency", "meaning"]
_WORDS = "amber brook cedar delta ember flint grove heron inlet jetty knoll larch maple".split()  # noqa: SIM905
CITATION = "## Citation\n\n```bibtex\n@article{who2020judged,\n  title = {Judged},\n}\n```\n"


def good_tests():
    """Return two tests per context, one of each category, whose texts no rule tells apart."""
    rng = random.Random(4)

    def draw():
        return " ".join(rng.choices(_WORDS, k=rng.randint(4, 9))) + "."

    rows = []
    for i in range(CONTEXTS):
        context = f"Context {i}: {draw()}"
        for category in CATEGORIES:
            texts = {"context": context, "high": draw(), "low": draw()}
            ids = {
                "test_id": short_hash(*texts.values()),
                "context_id": context[:11],
                "cluster_id": short_hash(context),
            }
            rows.append({**ids, **texts, "category": category, "high_first": rng.random() < 0.5})
    return pd.DataFrame(rows, dtype=object)


HEADER = f"""
nnd_set: {NAME}
license: cc-by-4.0
language: [en]
configs: [{{config_name: authors, data_files: [{{split: test, path: authors/test-*.parquet}}], default: true}}]
nnd_schema_version: 1
"""
TASK = f"""
include: {tasks_dir() / "_base"}
task: nnd_{NAME}
dataset_path: nnd/{NAME}
doc_to_text: "{{{{context}}}}\\n\\nAnswer:"
metadata: {{version: 1.0, categories: [fluency, meaning]}}
"""


@dataclass
class Made:
    """What is written; every part may be changed before."""

    home: Path
    tests: pd.DataFrame = field(default_factory=good_tests)
    header: dict = field(default_factory=lambda: yaml.safe_load(HEADER))
    body: str = f"# Made\n\n{CITATION}"
    extra: dict = field(default_factory=dict)  # further configs
    task: dict = field(default_factory=lambda: yaml.safe_load(TASK))
    files: dict = field(default_factory=dict)  # further files, relative to the home

    @property
    def folder(self):
        return self.home / "nnd" / NAME

    def change(
        self,
        *,
        header=(),
        body="",
        task=(),
        files=(),
        listed="",
        held="",
        contexts=CONTEXTS,
        put=None,
        columns=(),
    ):
        """Make a change of ``changes.yaml``."""
        self.tests = self.tests.head(2 * contexts).assign(**dict(columns))
        if put:
            self.put(**put)
        self.header.update(header)
        self.body = body or self.body
        self.task = {} if task is None else {**self.task, **dict(task)}
        self.files.update(files)
        if listed:
            self.header["configs"].append({"config_name": listed, "data_files": list_files(listed)})
        if held:
            self.extra[held] = good_tests()

    def put(self, text, row=6, column="low"):
        """Put a text into one test; a context into all tests of its prompt."""
        rows = [row]
        if column == "context":
            rows = list(self.tests.index[self.tests["cluster_id"] == self.tests["cluster_id"][row]])
            self.tests.loc[rows, "cluster_id"] = short_hash(text)
        self.tests.loc[rows, column] = text

    def add(self, **changes):
        """Add the first test once more, with changes."""
        self.tests.loc[len(self.tests)] = {**self.tests.loc[0], "test_id": f"t{len(self.tests)}", **changes}

    def write(self):
        files = {f"nnd/{NAME}/README.md": f"---\n{yaml.safe_dump(self.header)}---\n\n{self.body}"}
        if self.task:
            files[f"task_yamls/{NAME}/nnd_{NAME}.yaml"] = yaml.safe_dump(self.task)
        for name, content in {**files, **self.files}.items():
            path = self.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        for name, tests in {"authors": self.tests, **self.extra}.items():
            (self.folder / name).mkdir(exist_ok=True)
            tests.to_parquet(self.folder / name / "test-00000-of-00001.parquet", index=False)

    def found(self, **options):
        """Return code -> the first finding with it."""
        self.write()
        return {one.code: one for one in reversed(check_set(NAME, **options).findings)}
