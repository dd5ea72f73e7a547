"""The table that a run prints: lm-eval's, with what one looks for first, and the rest on request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nnd_tasks.measures import MEASURES
from nnd_tasks.run.adapter import make_table
from nnd_tasks.task.metrics import NORMALIZATIONS, PROMPT_RATES

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
    shown = {
        task: {
            key: value
            for key, value in metrics.items()
            if all_metrics
            or "nnd" not in results["configs"].get(task, {}).get("metadata", {})
            or not _is_further(key.partition(",")[0], value)
        }
        for task, metrics in results["results"].items()
    }
    return make_table({**results, "results": shown})


def _is_further(metric: str, value: Any) -> bool:
    return metric in _FURTHER or f"{metric}_".startswith(_FURTHER_KINDS) or (metric in _WARNINGS and not value)
