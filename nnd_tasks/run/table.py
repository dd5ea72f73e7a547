"""The table that a run prints: first what one looks for, and the rest on request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pytablewriter import MarkdownTableWriter

from nnd_tasks.measures import MEASURES
from nnd_tasks.task.metrics import NORMALIZATIONS, PROMPT_RATES

#: As in lm-eval's table, whose rows are in the order of the alphabet.
_HEADERS = ["Tasks", "Version", "Filter", "n-shot", "Metric", "", "Value", "", "Stderr"]
#: Counts that warn where they are not 0.
_WARNINGS = ("ties", "unscored", "truncated_contexts")
#: Metrics of our tasks that are printed on request.
_FURTHER = {*NORMALIZATIONS, *PROMPT_RATES, "candidates", "no_context"} - {"pass_rate"}
_FURTHER_KINDS = (*(f"{name}_" for name in MEASURES), "span_")


def write_table(results: Mapping[str, Any], *, all_metrics: bool = False) -> str:
    """Write the metrics of all tasks and groups as Markdown.

    Args:
        results: those of lm-eval.
        all_metrics: also likelihoods in bits, margins, other rates, and counts that are 0.
    """
    rows = [row for task in results["results"] for row in _list_rows(results, task, all_metrics=all_metrics)]
    return str(MarkdownTableWriter(headers=_HEADERS, value_matrix=rows).dumps())


def _list_rows(results: Mapping[str, Any], task: str, *, all_metrics: bool) -> Iterator[list[str]]:
    metrics = results["results"][task]
    selecting = not all_metrics and "nnd" in results["configs"].get(task, {}).get("metadata", {})
    higher = results["higher_is_better"].get(task, {})
    begin = [str(metrics.get("alias", task)), str(results["versions"].get(task, ""))]
    for key, value in metrics.items():
        metric, comma, filtered = key.partition(",")
        further = metric in _FURTHER or f"{metric}_".startswith(_FURTHER_KINDS) or (metric in _WARNINGS and not value)
        if not comma or metric.endswith("_stderr") or (selecting and further):
            continue
        arrow = {True: "↑", False: "↓"}.get(higher.get(metric), "")
        numbers = [value, metrics.get(f"{metric}_stderr,{filtered}", "")]
        value, error = (f"{number:.4f}" if isinstance(number, (int, float)) else str(number) for number in numbers)
        yield [
            *begin,
            filtered,
            str(results["n-shot"].get(task, "")),
            metric,
            arrow,
            value,
            "±" if error else "",
            error,
        ]
        begin = ["", ""]
