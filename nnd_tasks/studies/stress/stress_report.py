"""From likelihoods of noised texts to the paper's table and figure.

`judge` asks the paper's question: does the score fall as the error grows? Its intervals are over texts.
"""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from nnd_tasks.errors import NNDError
from nnd_tasks.figures.lines import draw_lines
from nnd_tasks.files import expand
from nnd_tasks.results.read_runs import read_results
from nnd_tasks.results.runs import Run
from nnd_tasks.show.report import Report, make_table
from nnd_tasks.statistics import clustered_mean, summarize_rate
from nnd_tasks.studies.stress.error_types import ERRORS

if TYPE_CHECKING:
    from matplotlib.figure import Figure


#: Column of the tests of a run -> what `judge` calls it.
_COLUMNS = {
    **{"cluster_id": "text", "category": "error", "subcategory": "level", "noise_ratio": "noise"},
    **{"high_mean": "gold", "low_mean": "score"},
}
_SCORE = "mean log-likelihood per token"


def report_results(results: Path) -> list[Report]:
    """Return the verdicts on every stress task and model below a results folder; other tasks are passed over.

    Raises:
        NNDError: there is none, none of the tests of a run was scored, or the results cannot be read; see
            `nnd_tasks.results.read_runs.read_results`.
    """
    reports = []
    for run in read_results([results]):
        if run.tests["noise_ratio"].isna().all():
            continue
        if run.tests[["high_mean", "low_mean"]].isna().any(axis=1).all():
            raise NNDError(f"{run.path}: holds no scored stress test")
        reports.append(_report_run(run))
    if not reports:
        raise NNDError(f"{expand(results)}: holds no stress tests; they are made with `nnd stress build`")
    return reports


def _report_run(run: Run) -> Report:
    tests, title = run.tests.rename(columns=_COLUMNS), f"{run.task}, {run.model}"
    levels = judge(tests).assign(title=title)
    findings = [
        f"{outcome.capitalize()}: {', '.join(levels.loc[levels['outcome'] == outcome, 'error'].unique()) or 'none'}."
        for outcome in ("fail", "undecided")
    ]
    notes = [
        f"Score: {_SCORE}; of the gold texts {levels['gold'].iloc[0]:.4f}.",
        "A model passes an error when every level scores below the one before it, and the first below gold (`step`); where "
        "levels are kinds and no grades, when each scores below gold; and when each level has a pass rate above 0.5.",
        "It is undecided while an interval holds 0 or 0.5. The intervals are over texts; those of one error hold together with "
        f"{CONFIDENCE:.0%}. Texts that an error left as they were keep their score.",
    ]
    lacking = tests[tests[["gold", "score"]].isna().any(axis=1)]
    unscored = lacking.groupby("error", sort=False)["text"].nunique().to_dict()
    if unscored:
        counts_by_error = ", ".join(f"{error} {count:,}" for error, count in unscored.items())
        notes.append(f"Texts that take no part because a score is missing: {counts_by_error}.")
    return Report(
        name=title.replace(", ", "_"),
        title=f"Blind spots: {title}",
        findings=findings,
        tables=[make_table("levels", levels)],
        notes=notes,
        brief=[make_table("errors", levels)],
        figures={"levels": partial(draw_levels, levels, title)},
        facts={"task": run.task, "model": run.model, "metric": _SCORE, "unscored": unscored},
    )


def draw_levels(levels: pd.DataFrame, title: str) -> Figure:
    """Return the paper's Figure 4: score against noise ratio, a panel for each kind of error; the legend says what fails."""
    golds = levels.drop_duplicates("error").assign(noise=0.0, score=levels["gold"])
    points = pd.concat([golds, levels]).rename(columns={"noise": "x", "score": "y"})
    points["panel"] = [ERRORS[name].kind if name in ERRORS else "other" for name in points["error"]]
    seen = points["outcome"] == "pass"
    points["line"] = points["error"].where(seen, points["error"] + " (" + points["outcome"] + ")")
    return draw_lines(points.assign(low=math.nan, high=math.nan), title, "noise ratio", _SCORE)


#: The intervals of one error hold together with this confidence.
CONFIDENCE = 0.95


def decide(levels: pd.DataFrame) -> str:
    """Tell whether a model sees an error: ``pass``, ``fail`` or ``undecided``.

    The paper asks of the means that gold scores best, and each level lower than the one before (section 5.5.1); where levels are
    kinds and not grades, each lower than gold (section 2). A mean may fall by a few texts alone, so each level must also score
    below gold in more than half of the texts. A model passes if all intervals lie on the right side, fails if one lies on the
    wrong one, and else it is undecided.

    Args:
        levels: rows of `judge` of one error.
    """
    low = pd.concat([-levels["step_high"], levels["rate_low"] - 0.5])
    high = pd.concat([-levels["step_low"], levels["rate_high"] - 0.5])
    return "fail" if (high <= 0).any() else "pass" if (low > 0).all() else "undecided"


def judge(tests: pd.DataFrame) -> pd.DataFrame:
    """Return a row per error type, in the order of the paper, and level.

    Args:
        tests: one row per noised text: ``text`` (identifier of the gold text), ``error``, ``level``, ``seed``, ``noise`` (ratio),
            and ``gold`` and ``score``, higher is better. Where one of these is missing, neither the text nor its gold text counts
            for this error. The paper averages over all texts, so a text without a row at a level and seed takes the mean of its
            other seeds at this level, else its score at the level below (a set holds each noised text once), else its gold score
            (the error left it unchanged).

    Returns:
        ``error``, its ``outcome`` (of `decide`), the mean score of the gold texts (``gold``); ``level``, by growing amount, or
        in the order of the set where a larger amount is not worse; and over all texts, also those that the error left as they
        were: mean ``noise`` ratio and ``score``, each over seeds, then over texts; ``change``, (score - gold) / |gold|;
        ``passed``, share of the noised texts whose gold text scores strictly higher; ``texts``, number of tests, over all seeds;
        ``step_low`` and ``step_high``, interval of the mean difference to the level before, or to gold where levels are kinds,
        paired by text, nan for fewer than two texts; ``rate_low`` and ``rate_high``, interval of ``passed``, clustered by text.
        An error of which no text was scored has no row.
    """
    lacking = tests[["gold", "score"]].isna().any(axis=1)
    scored = tests[~lacking]
    golds = scored.groupby("text", sort=False)["gold"].first()
    names = {*scored["error"]}
    judged = []
    for error in [*(name for name in ERRORS if name in names), *sorted(names - ERRORS.keys())]:
        error_golds = golds.drop(tests.loc[lacking & (tests["error"] == error), "text"], errors="ignore")
        if len(error_golds):
            levels = _judge_levels(error, error_golds, scored[scored["error"] == error])
            judged.append(levels.assign(error=error, outcome=decide(levels), gold=error_golds.mean()))
    return pd.concat(judged, ignore_index=True)


def _judge_levels(error: str, golds: pd.Series, tests: pd.DataFrame) -> pd.DataFrame:
    """Return the levels of an error as `judge` has them.

    Args:
        error: its name.
        golds: gold text -> score.
        tests: the scored tests of the error.
    """
    graded = error not in ERRORS or ERRORS[error].graded
    levels = pd.Series(tests["level"].unique())
    if graded:
        levels = levels.sort_values(key=lambda names: pd.to_numeric(names, errors="coerce"), kind="stable")
    confidence = 1 - (1 - CONFIDENCE) / (2 * len(levels))
    below = unchanged = pd.DataFrame({"score": golds, "noise": 0.0})
    rows = []
    for level in levels:
        level_tests = tests[(tests["level"] == level) & tests["text"].isin(golds.index)]
        here = level_tests.groupby("text")[["score", "noise"]].mean().reindex(golds.index).fillna(below)
        means, wins = here.mean(), level_tests["gold"] > level_tests["score"]
        won = wins.groupby(level_tests["text"]).agg(["sum", "count"])
        step = clustered_mean(here["score"] - below["score"], [1] * len(golds), confidence)
        # Where all texts differ alike (by 0), the mean stands for its interval.
        step_low, step_high = (step.low, step.high) if step.standard_error else (step.mean, step.mean)
        rate_low, rate_high = summarize_rate(won["sum"], won["count"], confidence)[2:]
        rows.append(
            {
                "level": level,
                **means,
                "change": (means["score"] - golds.mean()) / abs(golds.mean()),
                "passed": wins.mean(),
                "texts": len(level_tests),
                "step_low": step_low,
                "step_high": step_high,
                "rate_low": rate_low,
                "rate_high": rate_high,
            }
        )
        below = here if graded else unchanged
    return pd.DataFrame(rows)
