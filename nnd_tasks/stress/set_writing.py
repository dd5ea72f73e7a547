"""What all sets of synthetic errors have in common: their names, gold texts, folders, cards and tasks."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from nnd_tasks import __version__
from nnd_tasks.baselines import table_rates
from nnd_tasks.datasets import read_report
from nnd_tasks.errors import NNDError
from nnd_tasks.sets.card import About
from nnd_tasks.sets.recipe import Facts
from nnd_tasks.sets.shelf import list_recipes
from nnd_tasks.sets.tasks import UserTask, write_task
from nnd_tasks.sets.write import write_dataset
from nnd_tasks.stress.corpora import Corpus, Gold
from nnd_tasks.stress.synthesize import VERSION
from nnd_tasks.tables import ConfigSummary, check_table, summarize

CONFIG = "stress"
PROMPT = "{{context}}\n\n"
#: What a set is, for its card.
SUMMARY = "Gold texts and the same texts with one synthetic error each (He et al., ACL 2023)."
CITATION = """@inproceedings{he2023blind,
  title = {On the Blind Spots of Model-Based Evaluation Metrics for Text Generation},
  author = {He, Tianxing and Zhang, Jingyu and Wang, Tianle and Kumar, Sachin and Cho, Kyunghyun and Glass, James and
    Tsvetkov, Yulia},
  booktitle = {Proceedings of the 61st Annual Meeting of the Association for Computational Linguistics},
  year = {2023}
}"""


def check_name(name: str) -> None:
    """Raise NNDError for a name that a set of synthetic errors may not have."""
    if not name.isidentifier():
        raise NNDError(f"a set is named by letters, digits and _, not {name!r}")
    if name in list_recipes():
        raise NNDError(f"{name} is the name of a set of `nnd build`; take another")


def some_of(texts: list[Gold], count: int | None) -> list[Gold]:
    """Return so many of the texts, drawn at random with a fixed seed, in their order; None takes all."""
    if count is None or count >= len(texts):
        return texts
    return [texts[i] for i in sorted(random.Random(0).sample(range(len(texts)), count))]  # noqa: S311


def write_stress_set(
    folder: Path,
    corpus: Corpus,
    tests: list[dict[str, Any]],
    *,
    name: str,
    report: Mapping[str, Any],
    made: Callable[[ConfigSummary, Mapping[str, Any]], tuple[str, ...]],
    replace: bool,
    summary: str = SUMMARY,
) -> ConfigSummary:
    """Write a set of synthetic errors into its folder.

    Args:
        folder: the dataset folder.
        corpus: the gold texts.
        tests: rows of the set, in the columns of the schema.
        name: of the set.
        report: what its build report says besides the corpus.
        made: returns lines for the card on how the tests were made.
        replace: overwrite other data there.
        summary: of the set, in a sentence.
    """
    table = check_table(pa.Table.from_pylist(tests), f"corpus {corpus.name}")
    counts = summarize(CONFIG, table)
    whole = {
        "corpus": corpus.name,
        "source_sha256": corpus.sha256,
        "fingerprint": counts.fingerprint,
        "trivial_rules": table_rates(table),
        **report,
        "nnd_tasks": __version__,
    }
    facts = Facts(
        title=f"blind spots: {corpus.title}",
        summary=summary,
        judges="nobody, a program put the errors in.",
        license="other",
        license_note=f"The texts stand under the terms {corpus.terms}.",
        language=corpus.languages,
        homepage="",
        citation=CITATION,
    )
    about = About(name, facts, synthetic=True, made=made(counts, whole))
    write_dataset(folder, {CONFIG: table}, about=about, report={CONFIG: whole}, default=CONFIG, replace=replace)
    return counts


def write_stress_task(
    name: str, out: str | Path | None, folder: Path, prompt: str | None, texts: Sequence[Gold]
) -> UserTask:
    """Write the task ``nnd_NAME`` of a set of synthetic errors.

    Args:
        name: of the set.
        out: where the user wants the set; None for its own place.
        folder: the dataset folder.
        prompt: template of what comes before a text that has a source; None takes `PROMPT`.
        texts: gold texts of the set.
    """
    return write_task(
        f"nnd_{name}",
        {
            "dataset_path": f"nnd/{name}" if out is None else str(folder),
            "dataset_name": CONFIG,
            "doc_to_text": (PROMPT if prompt is None else prompt) if texts[0].source else "",
            "target_delimiter": "",
            "metadata": {"version": f"{VERSION}-A"},
        },
    )


def check_same(folder: Path, key: str) -> None:
    """Raise NNDError when ``folder`` holds a stress set that was made from another plan."""
    before = read_report(folder).get(CONFIG, {}).get("plan", key)
    if before != key:
        raise NNDError(
            f"{folder}: holds a stress set of other texts, errors, levels, seeds, models or tools; take another name, or "
            "--replace it"
        )
