"""PRMBench: two solutions as lists of steps, and the numbers of the wrong steps; one JSON Lines file per kind of error."""

from itertools import accumulate
from pathlib import Path

import pandas as pd

from nnd_tasks.tables.read import read_records


def rows(folder: Path) -> pd.DataFrame:
    """Return a row per pair of solutions of one question; where the question was changed, they answer different ones."""
    return pd.DataFrame(
        {
            "context": pair["original_question"],
            "chosen": "\n".join(pair["original_process"]),
            "rejected": "\n".join(pair["modified_process"]),
            "category": pair["classification"],
            "spans": find_steps(pair["error_steps"], pair["modified_process"]),
            "where": pair.where,
        }
        for path in sorted(folder.glob("prm800k_*.jsonl"))
        for pair in read_records(path)
        if pair["original_question"] == pair["modified_question"]
    )


def find_steps(numbers: list[int], steps: list[str]) -> list[dict]:
    """Return where steps, counted from 1, stand in their text, in which each is a line."""
    ends = list(accumulate(len(step) + 1 for step in steps))
    known = [int(number) for number in numbers if 1 <= number <= len(steps) and steps[number - 1]]
    return [{"start": ends[n - 1] - len(steps[n - 1]) - 1, "end": ends[n - 1] - 1} for n in known]
