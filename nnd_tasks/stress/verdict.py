"""The paper's question to a metric, does its score fall as the error grows, with intervals over texts."""

from __future__ import annotations

import pandas as pd

from nnd_tasks.statistics import clustered_mean, confidence_interval
from nnd_tasks.stress.error_types import ERRORS

#: The intervals of one error hold together with this confidence.
CONFIDENCE = 0.95


def decide(levels: pd.DataFrame) -> str:
    """Return whether a metric sees an error: ``pass``, ``fail`` or ``undecided``.

    The paper asks of the means that gold scores best, and each level lower than the one before (section 5.5.1); where levels are
    kinds and not grades, each lower than gold (section 2). A mean may fall by a few texts alone, so each level must also score
    below gold in more than half of the texts. A metric passes if all intervals lie on the right side, fails if one lies on the
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
    found = []
    for error in [*(name for name in ERRORS if name in names), *sorted(names - ERRORS.keys())]:
        own = golds.drop(tests.loc[lacking & (tests["error"] == error), "text"], errors="ignore")
        if len(own):
            levels = _judge_levels(error, own, scored[scored["error"] == error])
            found.append(levels.assign(error=error, outcome=decide(levels), gold=own.mean()))
    return pd.concat(found, ignore_index=True)


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
        own = tests[(tests["level"] == level) & tests["text"].isin(golds.index)]
        here = own.groupby("text")[["score", "noise"]].mean().reindex(golds.index).fillna(below)
        means, wins = here.mean(), own["gold"] > own["score"]
        won = wins.groupby(own["text"]).agg(["sum", "count"])
        step = clustered_mean(here["score"] - below["score"], [1] * len(golds), confidence)
        # Where all texts differ alike (by 0), the mean stands for its interval.
        step_low, step_high = (step.low, step.high) if step.standard_error else (step.mean, step.mean)
        rate_low, rate_high = confidence_interval(won["sum"], won["count"], confidence)
        rows.append(
            {
                "level": level,
                **means,
                "change": (means["score"] - golds.mean()) / abs(golds.mean()),
                "passed": wins.mean(),
                "texts": len(own),
                "step_low": step_low,
                "step_high": step_high,
                "rate_low": rate_low,
                "rate_high": rate_high,
            }
        )
        below = here if graded else unchanged
    return pd.DataFrame(rows)
