"""Several raters in a cell, such as 5;4;3: the cell becomes a list."""

import re
from pathlib import Path

import pandas as pd

from nnd_tasks.tables.read import read_records

FILES = "*"
NUMBERS = re.compile(r"\s*-?\d{1,3}(\.\d+)?(\s*[;|/]\s*-?\d{1,3}(\.\d+)?)*\s*")


def recognise(records):
    numbers = [name for name in records[0] if all(NUMBERS.fullmatch(str(record[name])) for record in records)]
    return [name for name in numbers if any(len(split(record[name])) > 1 for record in records)]


def rows(folder: Path) -> pd.DataFrame:
    records = [record for path in sorted(folder.rglob(FILES)) for record in read_records(path)]
    numbers = recognise(records)
    # Names and labels are lists where they have as many parts as the numbers beside them, in every row.
    lists = [
        name for name in records[0] if all(len(split(row[name])) == len(split(row[numbers[0]])) for row in records)
    ]
    return pd.DataFrame(
        [{**row, **{name: split(row[name]) for name in lists}, "where": row.where} for row in records], dtype=object
    )


def split(cell):
    return [part.strip() for part in re.split("[;|/]", str(cell))]
