"""What all sets of synthetic errors have in common: their rows, folders, cards and tasks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from rapidfuzz.distance import Levenshtein

from nnd_tasks import __version__
from nnd_tasks.errors import NNDError
from nnd_tasks.files import expand
from nnd_tasks.schema import short_hash
from nnd_tasks.sets.build import BuiltSet
from nnd_tasks.sets.card import About
from nnd_tasks.sets.catalogue import list_recipes
from nnd_tasks.sets.recipe import Facts
from nnd_tasks.sets.tasks import UserTask, shipped_task, write_task
from nnd_tasks.sets.write import making, write_dataset
from nnd_tasks.show.forms import markdown_table
from nnd_tasks.show.report import Table
from nnd_tasks.store import dataset_folder, read_report
from nnd_tasks.studies.stress.corpora import KNOWN, Corpus, Gold
from nnd_tasks.tables import ConfigSummary

CONFIG = "stress"
#: What a model reads before a text that has a source.
PROMPT = "{{context}}\n\n"
#: The N of the tasks' version N-X, to raise when the same command comes to give other tests.
VERSION = 3
CITATION = """@inproceedings{he2023blind,
  title = {On the Blind Spots of Model-Based Evaluation Metrics for Text Generation},
  author = {He, Tianxing and Zhang, Jingyu and Wang, Tianle and Kumar, Sachin and Cho, Kyunghyun and Glass, James and
    Tsvetkov, Yulia},
  booktitle = {Proceedings of the 61st Annual Meeting of the Association for Computational Linguistics},
  year = {2023}
}"""


@dataclass(frozen=True)
class StressSet:
    """A set of synthetic errors that was written.

    Attributes:
        folder: the dataset folder.
        summary: of its tests.
        report: what is stored in ``build_report.json``.
        tables: how the tests were made, as on the card.
        task: the task that scores the set.
    """

    folder: Path
    summary: ConfigSummary
    report: Mapping[str, Any]
    tables: Sequence[Table]
    task: UserTask


def compute_noise(gold: str, noised: str, *, switching: bool = False) -> float:
    """Return the word-level Levenshtein distance over the number of gold words (paper, Eq. 1).

    Args:
        gold: the gold text, of at least one word.
        noised: the same text with an error.
        switching: the error only moves words, so the distance is halved (paper, note 7).
    """
    words = gold.split()
    return Levenshtein.distance(words, noised.split()) / len(words) / (1 + switching)


def make_row(
    gold: Gold, low: str, category: str, subcategory: str, noise: float, seed: int, *key: str
) -> dict[str, Any]:
    """Return a test as a row in the columns of the schema; ``key`` and the texts give its id."""
    cluster = short_hash("stress", gold.source, gold.text)
    return {
        "test_id": short_hash(cluster, *key, low),
        "context_id": cluster,
        "cluster_id": cluster,
        "context": gold.source,
        "high": gold.text,
        "low": low,
        "category": category,
        "high_first": True,
        "subcategory": subcategory,
        "noise_ratio": noise,
        "seed": seed,
    }


@dataclass(frozen=True)
class NewSet:
    """A set of synthetic errors that is to be written.

    Attributes:
        name: of the set; letters, digits and ``_``.
        corpus: the gold texts.
        out: the dataset folder; None takes ``$NND_HOME/nnd/NAME``.
        replace: overwrite a set of this name that was made in another way.

    Raises:
        NNDError: the name is taken, or no name.
    """

    name: str
    corpus: Corpus
    out: str | Path | None
    replace: bool

    def __post_init__(self) -> None:
        name = self.name
        if not name.isidentifier():
            raise NNDError(f"a set is named by letters, digits and _, not {name!r}")
        if name in list_recipes() or (shipped_task(f"nnd_{name}") and name != f"blindspot_{self.corpus.name}"):
            raise NNDError(f"{name} is the name of another set; take another")

    @property
    def folder(self) -> Path:
        """The dataset folder."""
        return (dataset_folder(self.name) if self.out is None else expand(self.out)).absolute()

    @contextmanager
    def making(self, *settings: object) -> Iterator[dict[str, Any]]:
        """Yield the beginning of the build report, while no other process makes the set.

        Args:
            settings: all that the tests depend on besides the corpus.

        Raises:
            NNDError: the folder holds a set that was made with other settings, or another process makes it.
        """
        plan = short_hash(json.dumps([self.corpus.sha256, settings, __version__, VERSION]))
        with making(self.folder, timeout=0):  # no waiting for another build of this set, which may take hours
            if not self.replace and read_report(self.folder).get(CONFIG, {}).get("plan", plan) != plan:
                raise NNDError(
                    f"{self.folder}: holds a stress set of other texts, errors, levels, seeds, models or tools; take another "
                    "name, or --replace it"
                )
            yield {
                "plan": plan,
                "corpus": self.corpus.name,
                "source_sha256": self.corpus.sha256,
                "nnd_tasks": __version__,
            }

    def write(
        self, tests: pd.DataFrame, report: Mapping[str, Any], tables: Sequence[Table], made: str, summary: str
    ) -> StressSet:
        """Write the set, and the task ``nnd_NAME`` that scores it.

        Args:
            tests: rows of `make_row`.
            report: what is stored in ``build_report.json``.
            tables: how the tests were made, for the card.
            made: the same in words.
            summary: of the set, in a sentence.
        """
        sets = BuiltSet()
        sets.add(CONFIG, tests, report)
        known = KNOWN.get(self.corpus.name, {})
        facts = Facts(
            title=f"blind spots: {known.get('title', self.corpus.name)}",
            summary=summary,
            judges="nobody, a program put the errors in.",
            license="other",
            license_note=f"The texts stand under the terms {known.get('terms', 'other')}.",
            language=tuple(known.get("languages", ())),
            homepage="",
            citation=CITATION,
        )
        lines = [made, *(line for table in tables for line in ("", table.caption, "", *markdown_table(table)))]
        about = About(self.name, facts, synthetic=True, made=tuple(lines))
        write_dataset(
            self.folder, sets.tables, about=about, report=sets.report, default=CONFIG, known=sets.summaries,
            replace=self.replace,
        )  # fmt: skip
        fields = {
            "dataset_path": f"nnd/{self.name}" if self.out is None else str(self.folder),
            "dataset_name": CONFIG,
            "doc_to_text": PROMPT if self.corpus.texts[0].source else "",
            "target_delimiter": "",
            "metadata": {"version": f"{VERSION}-A"},
        }
        task = write_task(f"nnd_{self.name}", fields)
        return StressSet(self.folder, sets.summaries[CONFIG], sets.report[CONFIG], tables, task)
