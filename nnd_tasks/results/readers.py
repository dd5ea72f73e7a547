"""Several readers of the same tests side by side: what a model would write, and what it says when asked."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from nnd_tasks.errors import NNDError
from nnd_tasks.results.paired import Paired, pair
from nnd_tasks.results.runs import Run
from nnd_tasks.rule import Likelihood, passes
from nnd_tasks.show.report import Table
from nnd_tasks.significance import is_few
from nnd_tasks.statistics import ClusteredMean, paired_difference, summarize_rate

#: The reader of a plain task.
WRITER = "writer"
#: Share of choices that the order decides, above which a reader hardly reads.
_MOSTLY = 0.9
#: What may differ between readers of one model.
_ALLOWED = ("reader", "questions", "prompt")
#: Whether a model says what is better, and would write it -> what that means.
CELLS = {
    (True, True): "notices, would not write it",
    (True, False): "notices, but would write it",
    (False, True): "does not notice, yet would not write it",
    (False, False): "neither",
}


def reader_of(run: Run) -> str:
    """Return who read the candidates of a run: ``writer``, ``validator``, ``choice`` or ``reward``."""
    return str(run.protocol.get("reader", WRITER))


def check_writers(runs: Sequence[Run], what: str) -> None:
    """Raise NNDError if a run has answers about texts and not their likelihoods, which ``what`` needs."""
    for run in runs:
        if (reader := reader_of(run)) != WRITER:
            raise NNDError(
                f"{what} takes likelihoods of texts, and {run.task} of {run.model} has those of a {reader}; add --select "
                f"reader={WRITER}"
            )


def pair_readers(runs: Sequence[Run], allow: Sequence[str] = ()) -> list[Paired]:
    """Put the readers of each model on each set side by side, as if they were models.

    Reward models stand beside the readers of every other model.

    Args:
        runs: of any models and sets.
        allow: further parts of the protocol that may differ.

    Raises:
        NNDError: as `nnd_tasks.results.paired.pair`.
    """
    rewards = [replace(run, model=f"reward ({run.model})") for run in runs if reader_of(run) == "reward"]
    others = [run for run in runs if reader_of(run) != "reward"]
    groups = []
    for model in dict.fromkeys(run.model for run in others):
        readers = [*_name_readers([run for run in others if run.model == model]), *rewards]
        known = {key for run in readers for key in run.comparison_key}
        paired = pair(readers, [*(name for name in _ALLOWED if name in known), *allow])
        several = (one for one in paired if len({reader_of(run) for run in one.runs}) > 1)
        groups += [replace(one, task=f"{one.runs[0].task} as read by {model}") for one in several]
    return groups


def _name_readers(runs: Sequence[Run]) -> list[Run]:
    """Return the runs of a model under the names of their readers, the writer first; a reader of several tasks with the task."""
    tasks = Counter(found[:2] for found in {(run.set, reader_of(run), run.task) for run in runs})
    named = [
        replace(run, model=reader if tasks[run.set, reader] == 1 else f"{reader} ({run.task})")
        for run in runs
        for reader in [reader_of(run)]
    ]
    return sorted(named, key=lambda run: reader_of(run) != WRITER)


def reader_tables(paired: Paired) -> list[Table]:
    """Return what can be said of readers besides rates and differences: the four cells, and whether they read at all."""
    cells = pd.DataFrame(_cells(paired))
    columns = {"category": "{category}", "asked": "{asked}", "tests": "{tests:,}", "prompts": "{prompts:,}{few:†}"}
    share = "{mean:.3f} [{low:.3f}, {high:.3f}]"
    tables = [Table("cells", cells, {**columns, "{cell}": share}, _CELLS_CAPTION)] if len(cells) else []
    return [*tables, Table("checks", pd.DataFrame(_checks(paired)), _CHECKS, _CHECKS_CAPTION)]


def _cells(paired: Paired) -> Iterator[dict[str, Any]]:
    readers = [reader_of(run) for run in paired.runs]
    if WRITER not in readers:
        return
    writes = paired.passed[:, readers.index(WRITER)]
    for category in paired.categories:
        for place, reader in enumerate(readers):
            if reader == WRITER:
                continue
            found = [(paired.passed[:, place] == notices) & (writes == well) for notices, well in CELLS]
            counts, tests = paired.by_prompt(np.column_stack(found), category)
            about = {"category": category, "asked": paired.models[place], "tests": int(tests.sum())}
            about |= {"prompts": len(tests), "few": is_few(len(tests))}
            for cell, count in zip(CELLS.values(), counts.T, strict=True):
                yield {**about, "cell": cell, **summarize_rate(count, tests)._asdict()}


def _checks(paired: Paired) -> Iterator[dict[str, Any]]:
    for place, run in enumerate(paired.runs):
        outcomes = _outcomes(run).loc[paired.tests["test_id"]]
        both = np.column_stack([outcomes["without_context"], paired.passed[:, place]])
        for category in paired.categories:
            counts, tests = paired.by_prompt(both, category)
            alone, passed = counts.T
            part = outcomes[paired.of_category(category)]
            # A rate of which some tests are missing is not given.
            means = {**part.mean(), **part[["without_context", "swapped"]].mean(skipna=False)}
            rate, gain = summarize_rate(passed, tests), ClusteredMean(math.nan)
            if not math.isnan(means["without_context"]):
                gain = paired_difference(alone, passed, tests)
            verdict = "above chance" if rate.low > 0.5 else "below chance" if rate.high < 0.5 else "at chance"
            verdict += ", by one letter" if means["flips"] > _MOSTLY else ""
            gains = {f"gain_{name}": value for name, value in gain._asdict().items()}
            yield {"category": category, "reader": run.model, **rate._asdict(), "verdict": verdict, **means, **gains}


def _outcomes(run: Run) -> pd.DataFrame:
    """Return of each test how it came out without the context and with the answers swapped; nan where that was not asked.

    ``ties``: both texts have one score; ``flips``: a choice took one letter in both orders; ``mass``: P of the two answers.
    """
    tests = run.tests.set_index("test_id")
    sides = [
        pd.DataFrame(
            [run.documents[i]["scores"][j] or {} for i, j in zip(tests["document"], tests[side], strict=True)],
            index=tests.index,
        )
        .reindex(columns=["sum", "swapped", "mass"])
        .astype(float)
        for side in ("high", "low")
    ]
    high, low = sides
    same = (high["sum"] > 0) == (low["sum"] > 0)
    return pd.DataFrame(
        {
            "without_context": passes(Likelihood(tests["high_no_context"]), Likelihood(tests["low_no_context"])),
            "swapped": passes(Likelihood(high["swapped"]), Likelihood(low["swapped"])),
            "ties": tests["tie"],
            "flips": same if reader_of(run) == "choice" else np.nan,
            "mass": (high["mass"] + low["mass"]) / 2,
        },
        dtype=float,
    )


_CELLS_CAPTION = (
    "What a model says and what it would write: share of tests, with Wilson's 95% interval clustered by prompt. It notices if "
    "the asked reader passes the test, and would not write the worse text if the writer passes it. A reader that tosses a coin "
    "notices half of what the writer passes, and half of the rest."
)
_CHECKS_CAPTION = (
    "Does a reader read? At chance: the 95% interval of its rate contains 0.5; with few prompts "
    "this says little. By one letter: the order decides more than 90% of its choices. Ties fail; a "
    "model in 16 bits has many. Answers swapped: its rate when the question "
    "names the answers in the other order. Without context: its rate on the candidates alone (metadata context_reliance), "
    "and what the context adds, paired by test. One letter: share of choices that the order decides. Mass: mean probability "
    "of the two answers; the rest goes to other tokens."
)
_CHECKS = {
    "category": "{category}",
    "reader": "{reader}",
    "rate": "{mean:.3f} [{low:.3f}, {high:.3f}]",
    "verdict": "{verdict}",
    "ties": "{ties:.3f}",
    "answers swapped": "{swapped:.3f}",
    "without context": "{without_context:.3f}",
    "context adds": "{gain_mean:+.3f} [{gain_low:+.3f}, {gain_high:+.3f}]",
    "one letter": "{flips:.3f}",
    "mass": "{mass:.2g}",
}
