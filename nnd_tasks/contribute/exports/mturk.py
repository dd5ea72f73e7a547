"""Mechanical Turk: the CSV of a batch, a row per assignment.

Radio buttons, which have a column each or are in Answer.taskAnswers, become one column.
"""

from pathlib import Path

import pandas as pd

from nnd_tasks.tables.cells import unpack
from nnd_tasks.tables.contents import COLUMN_NAMES
from nnd_tasks.tables.read import read_records

FILES = "*.csv"


def recognise(records):
    return (
        [name for name in ("HITId", "WorkerId", "AssignmentStatus") if name in records[0]]
        if "HITId" in records[0]
        else []
    )


def rows(folder: Path) -> pd.DataFrame:
    records = (record for path in sorted(folder.rglob(FILES)) for record in read_records(path))
    return pd.DataFrame([read_answers(record) | {"where": record.where} for record in records], dtype=object)


def read_answers(record):
    """Return the cells of an assignment; Answer.best.A = true, or {"best": {"A": true}}, is Answer.best = A."""
    cells = {}
    turned_down = str(record.get("Reject") or "").strip().casefold() not in ("", *COLUMN_NAMES["no"])
    if turned_down and record.get("AssignmentStatus") != "Approved":
        record = {**record, "AssignmentStatus": "Rejected"}
    for name, cell in record.items():
        question, _, choice = name.rpartition(".")
        if name == "Answer.taskAnswers":
            for answers in unpack(cell) if cell else ():
                cells |= {f"Answer.{key}": choose(value) for key, value in answers.items()}
        elif question.count(".") and cell in ("true", "false"):
            cells[question] = choice if cell == "true" else cells.get(question)
        else:
            cells[name] = cell
    return cells


def choose(value):
    chosen = [choice for choice, on in value.items() if on is True] if isinstance(value, dict) else [value]
    return chosen[0] if len(chosen) == 1 else value
