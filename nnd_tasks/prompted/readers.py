"""Several readers of the same tests side by side: what a model would write, and what it says when asked.

Known limits: the four cells of a reader at chance say nothing of what a model notices; the checks tell which reader is.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from nnd_tasks.errors import NNDError
from nnd_tasks.results.compare import Comparison, compare
from nnd_tasks.results.paired import Paired, pair
from nnd_tasks.results.runs import SIDES, WRITER, Run, take_values
from nnd_tasks.rule import Likelihood, passes
from nnd_tasks.show.report import Report, make_table
from nnd_tasks.significance import paired_difference
from nnd_tasks.statistics import FEW, ClusteredMean, summarize_rate

#: Readers that write their verdict: their ties are frequent, so that guessing passes far fewer than half of the tests.
IN_WRITING = ("judge", "rating")
#: Share of choices that the order decides, or of tests of which no answer can be read, above which a reader hardly reads.
_MOSTLY = 0.9
#: What may differ between readers of one model.
_ALLOWED = ("reader", "questions", "prompt", "generation")
#: Whether a model says what is better, and would write it -> what that means.
CELLS = {
    (True, True): "notices, would not write it",
    (True, False): "notices, but would write it",
    (False, True): "does not notice, yet would not write it",
    (False, False): "neither",
}


def pair_readers(runs: Sequence[Run], allow: Sequence[str] = ()) -> list[Paired]:
    """Put the readers of each model on each set side by side, as if they were models.

    Reward models stand beside the readers of every other model.

    Args:
        runs: of any models and sets.
        allow: further parts of the protocol that may differ.

    Raises:
        NNDError: as `nnd_tasks.results.paired.pair`.
    """
    rewards = [replace(run, model=f"reward ({run.model})") for run in runs if run.reader == "reward"]
    others = [run for run in runs if run.reader != "reward"]
    groups = []
    for model in dict.fromkeys(run.model for run in others):
        readers = [*_name_readers([run for run in others if run.model == model]), *rewards]
        keys = {key for run in readers for key in run.comparison_key}
        paired_readers = pair(readers, [*(name for name in _ALLOWED if name in keys), *allow])
        groups += [
            replace(paired, task=f"{paired.runs[0].task} as read by {model}", credit=_count_credit(paired))
            for paired in paired_readers
            if len({run.reader for run in paired.runs}) > 1
        ]
    return groups


def compare_readers(runs: Sequence[Run], allow: Sequence[str] = ()) -> list[Comparison]:
    """Compare the readers of each model on each set.

    Args:
        runs: of any models and sets.
        allow: further parts of the protocol that may differ.

    Raises:
        NNDError: no model has several readers on one set, or runs cannot be compared.
    """
    groups = pair_readers(runs, allow)
    if not groups:
        raise NNDError(
            "--readers: no model has two readers on one set with the same chat template and shots; run nnd_SET, "
            "nnd_SET_validator and nnd_SET_choice alike, or nnd_SET_judge and nnd_SET_rating"
        )
    there = {run.path for paired in groups for run in paired.runs}
    left_out = [
        f"the run of {run.model} on {run.task} is in no comparison: no other reader of this model is at hand on {run.set} "
        "with the same chat template and shots"
        for run in runs
        if run.path not in there
    ]
    return [compare(paired, left_out) for paired in groups]


def _count_credit(paired: Paired) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Count a tie of a judge or a rating as half passed, so that guessing gives 0.5 with every reader."""
    credit = paired.passed.astype(float)
    for column, run in enumerate(paired.runs):
        if run.reader in IN_WRITING:
            credit[:, column] += paired.tests_of[run.model]["tie"].to_numpy() / 2
    return credit


def _name_readers(runs: Sequence[Run]) -> list[Run]:
    """Name the runs of a model by their readers, the writer first; a reader of several tasks with the task."""
    tasks = Counter((set_name, reader) for set_name, reader, _ in {(run.set, run.reader, run.task) for run in runs})
    named = [
        replace(run, model=run.reader if tasks[run.set, run.reader] == 1 else f"{run.reader} ({run.task})")
        for run in runs
    ]
    return sorted(named, key=lambda run: run.reader != WRITER)


def add_reader_tables(report: Report, paired: Paired) -> Report:
    """Add to a comparison of readers the four cells, if one of them writes, and whether they read at all.

    Args:
        report: of `nnd_tasks.results.comparison_report.report_comparison`.
        paired: the readers that it compares; with those of models it stays as it is.
    """
    if paired.credit is None:
        return report
    cells, checks = pd.DataFrame(_cells(paired)), pd.DataFrame(_checks(paired, paired.credit))
    tables = [make_table("cells", cells)] if len(cells) else []
    return replace(report, tables=[*report.tables, *tables, make_table("checks", checks)])


def _cells(paired: Paired) -> Iterator[dict[str, Any]]:
    readers = [run.reader for run in paired.runs]
    if WRITER not in readers:
        return
    writes = paired.passed[:, readers.index(WRITER)]
    for category in paired.categories:
        for column, reader in enumerate(readers):
            if reader == WRITER:
                continue
            is_in_cell = [(paired.passed[:, column] == notices) & (writes == well) for notices, well in CELLS]
            counts, tests = paired.sum_by_prompt(np.column_stack(is_in_cell), category)
            size = {"tests": int(tests.sum()), "prompts": len(tests), "few": len(tests) < FEW}
            for cell, count in zip(CELLS.values(), counts.T, strict=True):
                rate = summarize_rate(count, tests)
                yield {"category": category, "asked": paired.models[column], **size, "cell": cell, **rate._asdict()}


def _checks(paired: Paired, credit: np.ndarray[Any, np.dtype[np.float64]]) -> Iterator[dict[str, Any]]:
    for column, run in enumerate(paired.runs):
        outcomes = _outcomes(run, paired.tests_of[run.model])
        both = np.column_stack([outcomes["without_context"], credit[:, column]])
        for category in paired.categories:
            counts, tests = paired.sum_by_prompt(both, category)
            alone, passed = counts.T
            of_category = outcomes[paired.of_category(category)]
            # A rate of which some tests are missing is not given.
            means = {**of_category.mean(), **of_category[["without_context", "swapped"]].mean(skipna=False)}
            rate, gain = summarize_rate(passed, tests), ClusteredMean(math.nan)
            if not math.isnan(means["without_context"]):
                gain = paired_difference(alone, passed, tests)
            verdict = "above chance" if rate.low > 0.5 else "below chance" if rate.high < 0.5 else "at chance"
            verdict += ", by one letter" if means["flips"] > _MOSTLY else ""
            verdict = "mostly unread" if means["tests_unread"] > _MOSTLY else verdict
            gains = {f"gain_{name}": value for name, value in gain._asdict().items()}
            yield {"category": category, "reader": run.model, **rate._asdict(), "verdict": verdict, **means, **gains}


def _outcomes(run: Run, tests: pd.DataFrame) -> pd.DataFrame:
    """How each of some tests of a run came out without the context and with the answers swapped; nan where that was not asked.

    ``ties``: both texts have one score; ``flips``: a choice or a judge took one letter in both orders; ``mass``: P of the two
    answers; ``tests_unread``: an answer that a judge or a rating wrote could not be read.
    """
    high, low = (
        pd.DataFrame([score or {} for score in take_values(run.documents, tests, side, "scores")], index=tests.index)
        .reindex(columns=["sum", "swapped", "mass"])
        .astype(float)
        for side in SIDES
    )
    flips = {"choice": (high["sum"] > 0) == (low["sum"] > 0), "judge": high["sum"] * low["sum"] > 0}
    unread = high["sum"].isna() | low["sum"].isna()
    return pd.DataFrame(
        {
            "without_context": passes(Likelihood(tests["high_no_context"]), Likelihood(tests["low_no_context"])),
            "swapped": passes(Likelihood(high["swapped"]), Likelihood(low["swapped"])),
            "ties": tests["tie"],
            "flips": flips.get(run.reader, np.nan),
            "mass": (high["mass"] + low["mass"]) / 2,
            "tests_unread": unread if run.reader in IN_WRITING else np.nan,
        },
        dtype=float,
    )
