"""Quiz Design: a JSON line per group, with a list of the graded questions of seven systems."""

from pathlib import Path

import pandas as pd

from nnd_tasks.tables.read import read_records


def rows(folder: Path) -> pd.DataFrame:
    """Return a row per graded question."""
    return pd.DataFrame(
        {
            "group": str(group["group_id"]),
            "context": group["context"],
            "answer": group["answer_span"],
            "candidate": question["question"],
            "label": question["reason"],
            "system": question["model_name"],
            "where": group.where,
        }
        for group in read_records(folder / "quiz_design_groups.jsonl")
        for question in group["questions"]
    )
