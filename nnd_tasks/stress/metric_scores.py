"""Text metrics under the same stress: does a metric's score fall as the error grows?"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from tqdm import tqdm

from nnd_tasks.analysis.text_metrics import FAITHFUL, Metric, SetMetric
from nnd_tasks.datasets import read_table
from nnd_tasks.errors import NNDError
from nnd_tasks.show.report import Report
from nnd_tasks.stress.corpora import Corpus
from nnd_tasks.stress.stress_report import name_columns, report_scores
from nnd_tasks.stress.verdict import decide, judge, order_levels


def report_metric(name: str, metric: Metric | SetMetric, folder: Path, corpus: Corpus) -> Report:
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
    rows = read_table(folder).to_pandas()
    if "noise_ratio" not in rows:
        raise NNDError(f"{folder}: holds no stress tests; they are made with `nnd stress build`")
    golds = {(gold.source, gold.text): gold for gold in corpus.texts}
    of_row = list(zip(rows["context"], rows["high"], strict=True))
    if lost := {*of_row} - {*golds}:
        raise NNDError(
            f"{folder}: {len(lost):,} of its texts are not in corpus {corpus.name}; was it built from another file?"
        )
    tests = name_columns(rows).assign(gold_text=rows["high"], score_text=rows["low"])
    if isinstance(metric, SetMetric):
        # Only the levels are of sets; how much a text repeats is a number of its own.
        return report_scores(
            f"{folder.name}_{name}", name, tests.assign(gold=0.0, score=0.0), _judge_sets(name, metric, tests, corpus)
        )
    needed = "source" if name == FAITHFUL else "references"
    if not all(getattr(gold, needed) for gold in corpus.texts):
        raise NNDError(f"metric {name} needs {needed}, which corpus {corpus.name} does not have for every text")
    texts = pd.concat([rows[["context", "high", side]].set_axis([*"sgt"], axis=1) for side in ("high", "low")])
    wanted = texts.drop_duplicates()
    references = [golds[gold].references for gold in zip(wanted["s"], wanted["g"], strict=True)]
    scores = metric(wanted["t"].tolist(), wanted["s"].tolist(), references)
    if not np.isfinite(scores).all():
        raise NNDError(f"metric {name} gave scores that are no numbers")
    tests["gold"], tests["score"] = np.split(texts.merge(wanted.assign(score=scores), "left")["score"].to_numpy(), 2)
    return report_scores(f"{folder.name}_{name}", name, tests, judge(tests))


def _judge_sets(name: str, metric: SetMetric, tests: pd.DataFrame, corpus: Corpus) -> pd.DataFrame:
    """Return `judge` of a metric that scores sets of texts: all texts of one error, level and seed.

    Every text of a set gets the score of the set. A stress set holds each noised text once. Where a gold text has no test at a
    level and seed, it takes that of another seed, else that of the level below, as in `judge`, else the gold text itself.
    """
    references = corpus.reference or [text for gold in corpus.texts for text in gold.references]
    if not references:
        raise NNDError(
            f"metric {name} needs references, which corpus {corpus.name} does not have: texts_reference.txt beside texts.txt"
        )
    golds = tests.groupby("text", sort=False)["gold_text"].first()
    base = metric.score(golds.tolist(), references)
    scored = []
    for error, own in tqdm(tests.groupby("error", sort=False), desc=name, unit="error", disable=None):
        levels, graded = order_levels(error, own["level"].unique())
        below = pd.Series(index=golds.index, dtype=float)
        for level in levels:
            rows = own[own["level"] == level].reset_index(names="row")
            places = rows.pivot(index="text", columns="seed", values="row").reindex(golds.index)[rows["seed"].unique()]
            here = places.ffill(axis=1).iloc[:, -1]
            for seed in places:
                chosen = tests.reindex(places[seed].fillna(here).fillna(below if graded else np.nan))
                noised = chosen["score_text"].set_axis(golds.index).fillna(golds)
                noise = chosen["noise"].fillna(0).to_numpy()
                about = {"error": error, "level": level, "seed": seed, "noise": noise, "gold": base}
                scored.append(
                    pd.DataFrame({"text": golds.index, **about, "score": metric.score(noised.tolist(), references)})
                )
            below = here.fillna(below)
    levels = judge(pd.concat(scored))
    counts = tests.groupby(["error", "level"]).size()
    levels["texts"] = [counts[key] for key in zip(levels["error"], levels["level"], strict=True)]
    levels[["passed", "rate_low", "rate_high"]] = np.nan  # no share of texts passes, as a set has one score
    levels["outcome"] = levels["error"].map({error: decide(own) for error, own in levels.groupby("error")})
    return levels
