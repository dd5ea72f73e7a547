"""The paper's question to a metric, does its score fall as the error grows, with intervals over texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
    rated = levels[levels["passed"].notna()]
    lows = [*-levels["step_high"], *rated["rate_low"] - 0.5]
    highs = [*-levels["step_low"], *rated["rate_high"] - 0.5]
    if any(high <= 0 for high in highs):
        return "fail"
    return "pass" if lows and all(low > 0 for low in lows) else "undecided"


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
        were: mean ``noise`` ratio; ``score``, mean over texts, then over seeds; its ``deviation`` over seeds, 0 for one seed;
        ``change``, (score - gold) / |gold|; ``passed``, share of the noised texts whose gold text scores strictly higher;
        ``texts``, number of tests, over all seeds; ``step_low`` and ``step_high``, interval of the mean difference to the level
        before, or to gold where levels are kinds, paired by text, nan for fewer than two texts; ``rate_low`` and ``rate_high``,
        interval of ``passed``, clustered by text. An error of which no text was scored has one row, without a level.
    """
    lacking = tests[["gold", "score"]].isna().any(axis=1)
    scored = tests[~lacking]
    golds = scored.groupby("text", sort=False)["gold"].first()
    names = {*tests["error"]}
    rows: list[dict[str, Any]] = []
    for error in [*(name for name in ERRORS if name in names), *sorted(names - ERRORS.keys())]:
        own = golds.drop(tests.loc[lacking & (tests["error"] == error), "text"], errors="ignore")
        levels = pd.DataFrame(_judge_levels(error, own, scored[scored["error"] == error]))
        outcome = decide(levels) if len(levels) else "undecided"
        about = {"error": error, "outcome": outcome, "gold": own.mean()}
        rows += [{**about, **level} for level in levels.to_dict("records")] or [about]
    return pd.DataFrame(rows)


def order_levels(error: str, levels: Sequence[str]) -> tuple[list[str], bool]:
    """Return the levels of an error by growing amount, or as they are where a larger amount is not worse; and whether it is."""
    graded = error not in ERRORS or ERRORS[error].graded
    by_amount = pd.Series(levels).sort_values(key=lambda names: pd.to_numeric(names, errors="coerce"), kind="stable")
    return list(by_amount if graded else levels), graded


def _judge_levels(error: str, golds: pd.Series, tests: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the levels of an error as `judge` has them.

    Args:
        error: its name.
        golds: gold text -> score.
        tests: the scored tests of the error.
    """
    if golds.empty:
        return []
    base = golds.mean()
    below = unchanged = pd.DataFrame({"score": golds, "noise": 0.0})
    levels, graded = order_levels(error, tests["level"].unique())
    confidence = 1 - (1 - CONFIDENCE) / (2 * max(len(levels), 1))
    rows = []
    for level in levels:
        every = tests[tests["level"] == level]
        own = every[every["text"].isin(golds.index)]
        here = own.groupby("text")[["score", "noise"]].mean().reindex(golds.index).fillna(below)
        seeds = every.pivot_table("score", "text", "seed").reindex(golds.index)
        scores = seeds.apply(lambda column, here=here: column.fillna(here["score"])).mean()
        step = clustered_mean(here["score"] - below["score"], [1] * len(golds), confidence)
        won = (own["gold"] > own["score"]).groupby(own["text"]).agg(["sum", "count"])
        # Where all texts differ alike (by 0, or because the metric scores sets), the mean stands for its interval.
        ends = (step.mean, step.mean) if step.standard_error == 0 else (step.low, step.high)
        row = {
            "level": level,
            "noise": here["noise"].mean(),
            "score": scores.mean(),
            "deviation": scores.std() if len(scores) > 1 else 0.0,
            "change": (scores.mean() - base) / abs(base) if base else 0.0,
            "passed": (own["gold"] > own["score"]).mean(),
            "texts": len(own),
        }
        row["step_low"], row["step_high"] = ends
        row["rate_low"], row["rate_high"] = confidence_interval(won["sum"], won["count"], confidence)
        rows.append(row)
        below = here if graded else unchanged
    return rows


def rep_4gram(text: str) -> float:
    """Return the share of repeated 4-grams of words (Welleck et al., 2020): 0 without repeats; 0 for fewer than four words."""
    words = text.split()
    grams = list(zip(words, words[1:], words[2:], words[3:], strict=False))
    return 1 - len(set(grams)) / len(grams) if grams else 0.0
