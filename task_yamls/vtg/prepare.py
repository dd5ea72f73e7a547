"""Verify-then-generate: pupils' wrong solutions of a problem, what kind of error they have, and a correct solution."""

from pathlib import Path

import pandas as pd

from nnd_tasks.tables.read import read_records


def rows(folder: Path) -> pd.DataFrame:
    """Return a row per judgement of a wrong solution."""
    return pd.DataFrame(
        {
            "context": record["problem"],
            "chosen": record["student_correct_response"],
            "rejected": "\n".join(record["student_incorrect_solution"]),
            "category": record["error_category"],
            "where": record.where,
        }
        for record in read_records(folder / "dataset.json")
    )


def mended(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the clean config: wrong solutions on whose category all teachers agree, each once."""
    solution = ["context", "rejected"]
    agreed = rows.groupby(solution)["category"].transform("nunique") == 1
    return rows[agreed].drop_duplicates(solution)
