"""From scores of noised texts, by a model or by a text metric, to the paper's table and figure."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from nnd_tasks.analysis.results import Run, read_results
from nnd_tasks.analysis.text_metrics import FAITHFUL, Metric
from nnd_tasks.datasets import read_table
from nnd_tasks.errors import NNDError
from nnd_tasks.files import expand
from nnd_tasks.show.figures import draw_lines
from nnd_tasks.show.report import Report, Table
from nnd_tasks.stress.corpora import Corpus
from nnd_tasks.stress.error_types import ERRORS
from nnd_tasks.stress.verdict import CONFIDENCE, judge
from nnd_tasks.wording import figure_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Column of a set -> what `judge` calls it.
_COLUMNS = {"cluster_id": "text", "category": "error", "subcategory": "level", "noise_ratio": "noise", "seed": "seed"}
_LEVELS = {
    "error": "{error}",
    "verdict": "{outcome}",
    "level": "{level}",
    "noise ratio": "{noise:.3f}",
    "score": "{score:.4f}",
    "change": "{change:+.1%}",
    "step": "{step_low:+.4f} to {step_high:+.4f}",
    "pass rate": "{passed:.3f}",
    "its interval": "{rate_low:.3f} to {rate_high:.3f}",
    "texts": "{texts:,}",
}


def report_results(results: Path) -> list[Report]:
    """Return the verdicts on every stress task and model below a results folder; other tasks are passed over.

    Raises:
        NNDError: there is none, none of the tests of a run was scored, or the results cannot be read; see
            `nnd_tasks.analysis.results.read_results`.
    """
    stress = [run for run in read_results([results]) if run.tests["noise_ratio"].notna().any()]
    if not stress:
        raise NNDError(f"{expand(results)}: holds no stress tests; they are made with `nnd stress build`")
    return [_report_run(run) for run in stress]


def _report_run(run: Run) -> Report:
    tests = run.tests
    scores = {
        name: [
            (run.documents[i]["scores"][place] or {}).get("mean")
            for i, place in zip(tests["document"], tests[side], strict=True)
        ]
        for side, name in (("high", "gold"), ("low", "score"))
    }
    tests = tests.assign(**scores)
    if tests[[*scores]].isna().any(axis=1).all():
        raise NNDError(f"{run.path}: holds no scored stress test")
    return report_scores(
        f"{run.task}, {run.model}", "mean log-likelihood per token", tests, task=run.task, model=run.model
    )


def report_metric(name: str, metric: Metric, folder: Path, corpus: Corpus) -> Report:
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
    tests = read_table(folder).to_pandas()
    if "noise_ratio" not in tests:
        raise NNDError(f"{folder}: holds no stress tests; they are made with `nnd stress build`")
    golds = {(gold.source, gold.text): gold for gold in corpus.texts}
    if lost := {*zip(tests["context"], tests["high"], strict=True)} - {*golds}:
        raise NNDError(
            f"{folder}: {len(lost):,} of its texts are not in corpus {corpus.name}; was it built from another file?"
        )
    needed = "source" if name == FAITHFUL else "references"
    if not all(getattr(gold, needed) for gold in corpus.texts):
        raise NNDError(f"metric {name} needs {needed}, which corpus {corpus.name} does not have for every text")
    asked = {side: list(zip(tests[side], tests["context"], tests["high"], strict=True)) for side in ("high", "low")}
    wanted = dict.fromkeys(asked["high"] + asked["low"])
    texts, sources, _ = zip(*wanted, strict=True)
    scores = metric(texts, sources, [golds[source, gold].references for _, source, gold in wanted])
    known = dict(zip(wanted, scores, strict=True))
    tests["gold"], tests["score"] = ([known[key] for key in asked[side]] for side in ("high", "low"))
    return report_scores(f"{folder.name}, {name}", name, tests, task=folder.name)


def report_scores(title: str, metric: str, tests: pd.DataFrame, **facts: str) -> Report:
    """Return a report on one score.

    Args:
        title: of the task or set, and what scored it.
        metric: name of the score.
        tests: in the columns of a stress set, with ``gold`` and ``score`` as for `judge`.
        facts: for JSON.
    """
    tests = tests.rename(columns=_COLUMNS)
    levels = judge(tests).assign(title=title)
    findings = [
        f"{outcome.capitalize()}: {', '.join(levels.loc[levels['outcome'] == outcome, 'error'].unique()) or 'none'}."
        for outcome in ("fail", "undecided")
    ]
    notes = [
        f"Score: {metric}; of the gold texts {levels['gold'].iloc[0]:.4f}.",
        "A metric passes an error when every level scores below the one before it, and the first below gold (`step`); where "
        "levels are kinds and no grades, when each scores below gold; and when each level has a pass rate above 0.5.",
        "It is undecided while an interval holds 0 or 0.5. The intervals are over texts; those of one error hold together with "
        f"{CONFIDENCE:.0%}. Texts that an error left as they were keep their score.",
    ]
    lacking = tests[tests[["gold", "score"]].isna().any(axis=1)]
    unscored = lacking.groupby("error", sort=False)["text"].nunique().to_dict()
    if unscored:
        said = ", ".join(f"{error} {count:,}" for error, count in unscored.items())
        notes.append(f"Texts that take no part because a score is missing: {said}.")
    return Report(
        name=title.replace(", ", "_"),
        title=f"Blind spots: {title}",
        findings=findings,
        tables=[Table("levels", levels, _LEVELS)],
        notes=notes,
        brief=Table("verdicts", levels, {"error": "{error}", "{title}": "{outcome}"}),
        figures={"levels": partial(draw_levels, levels, metric, title)},
        facts={**facts, "metric": metric, "unscored": unscored},
    )


def draw_levels(levels: pd.DataFrame, metric: str, title: str) -> Figure:
    """Return the paper's Figure 4: score against noise ratio, a panel for each kind of error; the legend says what fails."""
    golds = levels.drop_duplicates("error").assign(noise=0.0, score=levels["gold"])
    points = pd.concat([golds, levels]).rename(columns={"noise": "x", "score": "y"})
    points["panel"] = [ERRORS[name].kind if name in ERRORS else "other" for name in points["error"]]
    seen = points["outcome"] == "pass"
    points["line"] = points["error"].where(seen, points["error"] + " (" + points["outcome"] + ")")
    return draw_lines(points.assign(low=math.nan, high=math.nan), title, "noise ratio", figure_text(metric))
