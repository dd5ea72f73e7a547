"""The report of a comparison on tasks that are not NND's: one for all of them, with a row per task, metric and filter."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pandas as pd

from nnd_tasks.categories import ALL
from nnd_tasks.results.compare import Comparison
from nnd_tasks.results.comparison_report import LEGEND, give_verdicts
from nnd_tasks.results.runs import Run
from nnd_tasks.show.report import Report, make_table
from nnd_tasks.significance import LEVEL, POWER, RESAMPLES

#: Columns of what `_describe_group` says.
_GROUP = ["model", "weights", "of_release", "release"]
#: Sentences above which those on pairs without a difference are counted, not listed.
_LISTED = 10


def report_documents(comparisons: Sequence[Comparison]) -> Report:
    """Report what is known of the models on some tasks.

    Args:
        comparisons: at least one; as `nnd_tasks.results.compare.compare_all` gives them, which corrects p values over all.
    """
    tables: dict[str, list[pd.DataFrame]] = defaultdict(list)
    sentences, notes = list[str](), list(comparisons[0].not_compared)
    runs = [run for one in comparisons for run in one.paired.runs]
    for one in comparisons:
        paired, protocol = one.paired, one.paired.runs[0].protocol
        clusters = None if paired.words.prompt == paired.words.test else one.rates["prompts"]
        names = {"task": paired.name.replace(f" ({protocol['config']})", ""), "metric": protocol["config"]}
        rates = one.rates.assign(clusters=clusters, beaten=False, best_baseline=math.nan)
        ranks = one.ranks if len(one.ranks) and one.ranks["group"].max() > 1 else pd.DataFrame()
        described = pd.DataFrame(map(_describe_group, paired.runs if "weights" in protocol else ()), columns=_GROUP)
        groups = rates[rates["category"] == ALL].merge(described, on="model")
        parts = {"rates": rates, "ranks": ranks, "differences": one.differences, "groups": groups}
        for name, rows in parts.items():
            tables[name] += [rows.assign(**names)] if len(rows) else []
        verdicts = give_verdicts(one.rates, one.differences, paired.words)
        sentences += [f"{paired.title}: {line}" for line in verdicts]
        notes += [f"{paired.title}: {note}" for note in paired.notes]
    if len(sentences) > _LISTED:
        shown = [line for line in sentences if ": No difference" not in line]
        sentences = [
            *shown,
            f"No difference shown: {len(sentences) - len(shown)} of {len(sentences)}; the table has each.",
        ]
    numbers = {"resamples": RESAMPLES, "power": POWER, "level": LEVEL}
    data = {name: pd.concat(rows, ignore_index=True) for name, rows in tables.items() if rows}
    overall = [rows[rows["category"] == ALL] for name, rows in data.items() if name == "differences"]
    return Report(
        name="compare_documents",
        title=f"Tasks of lm-eval: {', '.join(dict.fromkeys(run.model for run in runs))}",
        findings=sentences,
        tables=[make_table(f"document_{name}", rows, None, **numbers) for name, rows in data.items()],
        notes=notes,
        legend={mark: text.replace("prompts", "documents or clusters") for mark, text in LEGEND.items()},
        brief=[make_table("overall_document_differences", rows) for rows in overall],
        facts={"signatures": {f"{run.model}, {run.set}": run.line for run in runs}},
    )


def _describe_group(run: Run) -> tuple[Any, ...]:
    """How lm-eval weights the tasks of a group, and the error that it gives their mean; see `_GROUP`."""
    error = run.reported.get(f"{run.protocol['metric']}_stderr,{run.protocol['filter']}")
    of_release = error if isinstance(error, float) else math.nan
    return run.model, run.protocol["weights"], of_release, run.environment["lm_eval"]
