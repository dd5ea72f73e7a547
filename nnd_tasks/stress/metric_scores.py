"""Text metrics under the same stress: does a metric's score fall as the error grows?"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from nnd_tasks.analysis.text_metrics import FAITHFUL, Metric, SetMetric
from nnd_tasks.datasets import read_table
from nnd_tasks.errors import NNDError
from nnd_tasks.stress.corpora import Corpus
from nnd_tasks.stress.registry import ERRORS
from nnd_tasks.stress.stress_report import StressReport
from nnd_tasks.stress.verdict import Scored, Verdict, amount_of, decide, judge, rep_4gram


def stress_metric(name: str, metric: Metric | SetMetric, folder: Path, corpus: Corpus) -> StressReport:
    """Return the verdict on a text metric.

    Args:
        name: name of the metric, for the tables.
        metric: its adapter.
        folder: folder of a set that `nnd stress build` made from ``corpus``.
        corpus: has the references.

    Raises:
        NNDError: the corpus lacks references or sources that the metric needs, or texts of the set, or the folder holds no
            stress tests.
    """
    rows = read_table(folder).to_pylist()
    if not rows or "noise_ratio" not in rows[0]:
        raise NNDError(f"{folder}: holds no stress tests; they are made with `nnd stress build`")
    golds = {(gold.source, gold.text): gold for gold in corpus.texts}
    lost = {(row["context"], row["high"]) for row in rows} - set(golds)
    if lost:
        raise NNDError(
            f"{folder}: {len(lost):,} of its texts are not in corpus {corpus.name}; was it built from another file?"
        )
    if isinstance(metric, SetMetric):
        return StressReport(
            f"{folder.name}_{name}", name, _set_verdicts(name, metric, rows, corpus), _verdicts(rows, _diversity)
        )
    if name == FAITHFUL:
        if not all(gold.source for gold in golds.values()):
            raise NNDError(f"metric {name} needs a source for every text of corpus {corpus.name}")
    elif not all(gold.references for gold in golds.values()):
        raise NNDError(f"metric {name} needs references, which corpus {corpus.name} does not have for every text")
    wanted = list(
        dict.fromkeys((row["context"], row["high"], text) for row in rows for text in (row["high"], row["low"]))
    )
    scores = metric(
        [text for _, _, text in wanted],
        [source for source, _, _ in wanted],
        [golds[source, gold].references for source, gold, _ in wanted],
    )
    known = dict(zip(wanted, scores, strict=True))
    if not all(math.isfinite(score) for score in scores):
        raise NNDError(f"metric {name} gave scores that are no numbers")

    return StressReport(f"{folder.name}_{name}", name, _verdicts(rows, known.__getitem__), _verdicts(rows, _diversity))


def _diversity(key: tuple[str, str, str]) -> float:
    return -rep_4gram(key[2])


def _verdicts(rows: Sequence[Mapping[str, Any]], score: Callable[[tuple[str, str, str]], float]) -> list[Verdict]:
    """Return the verdicts on a function of (context, gold text, text)."""
    gold = {row["cluster_id"]: score((row["context"], row["high"], row["high"])) for row in rows}
    return judge(gold, [_scored(row, score((row["context"], row["high"], row["low"]))) for row in rows])


def _scored(row: Mapping[str, Any], score: float) -> Scored:
    return Scored(row["cluster_id"], row["category"], row["subcategory"], row["seed"], row["noise_ratio"], score)


def _set_verdicts(name: str, metric: SetMetric, rows: Sequence[Mapping[str, Any]], corpus: Corpus) -> list[Verdict]:
    """Return the verdicts on a metric that scores sets of texts: all texts of one error, level and seed.

    Texts that the error left unchanged are in the set as gold texts. Every text of a set gets the score of the set.
    """
    references = list(corpus.reference) or [text for gold in corpus.texts for text in gold.references]
    if not references:
        raise NNDError(
            f"metric {name} needs references, which corpus {corpus.name} does not have; name a file with --reference"
        )
    gold = {row["cluster_id"]: row["high"] for row in rows}
    base = metric.score(list(gold.values()), references)
    scored: list[Scored] = []
    for (error, level, seed), changed in tqdm(_sets(rows).items(), desc=name, unit="set", disable=None):
        value = metric.score([changed[key]["low"] if key in changed else gold[key] for key in gold], references)
        scored += [
            Scored(key, error, level, seed, changed[key]["noise_ratio"] if key in changed else 0.0, value)
            for key in gold
        ]
    counts = Counter((row["category"], row["subcategory"]) for row in rows)
    verdicts = []
    for verdict in judge(dict.fromkeys(gold, base), scored):  # no share of texts passes, as a set has one score
        levels = [
            replace(one, passed=math.nan, rate=(math.nan, math.nan), texts=counts[verdict.error, one.level])
            for one in verdict.levels
        ]
        verdicts.append(replace(verdict, levels=tuple(levels), outcome=decide(levels)))
    return verdicts


def _sets(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str, int], dict[str, Mapping[str, Any]]]:
    """Return (error, level, seed) -> gold text -> its test.

    A stress set holds each noised text once. Where a gold text has no test at a level and seed, it takes that of another seed,
    else that of the level below, as in `nnd_tasks.stress.verdict.judge`.
    """
    grouped: dict[str, dict[str, dict[int, dict[str, Mapping[str, Any]]]]] = {}
    for row in rows:
        by_level = grouped.setdefault(row["category"], {})
        by_level.setdefault(row["subcategory"], {}).setdefault(row["seed"], {})[row["cluster_id"]] = row
    sets: dict[tuple[str, str, int], dict[str, Mapping[str, Any]]] = {}
    for error, by_level in grouped.items():
        below: dict[str, Mapping[str, Any]] = {}
        graded = error not in ERRORS or ERRORS[error].graded
        for level in sorted(by_level, key=amount_of) if graded else by_level:
            here = {key: row for by_text in by_level[level].values() for key, row in by_text.items()}
            for seed, own in by_level[level].items():
                sets[error, level, seed] = {**below, **here, **own}
            below = {**below, **here} if graded else {}
    return sets
