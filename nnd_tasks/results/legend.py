"""Marks beside numbers that one should not lean on, the same in all reports."""

from __future__ import annotations

from nnd_tasks.statistics import FEW

#: Mark -> what it means, for `nnd_tasks.show.report.Report.legend`. A table has a column of truth values for each, such as
#: ``few``, and writes it as ``{few:†}``.
FEW_PROMPTS = {"†": f"fewer than {FEW} prompts, or no spread between them: the interval is unreliable."}


def is_few(prompts: int, error: float | None = None) -> bool:
    """Tell whether an interval is unreliable: few prompts, or a standard error of 0."""
    return prompts < FEW or error == 0
