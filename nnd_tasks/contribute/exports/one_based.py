"""Error spans whose columns start and end count characters from 1: here they count from 0.

That is so where every span then is whole words, and some are not as the file says.
"""

from pathlib import Path

import pandas as pd

from nnd_tasks.tables.read import read_records

FILES = "*"
SHIFTS = {"from 0": (0, 0), "from 1": (1, 1), "from 1, the end inside": (1, 0)}


def recognise(records):
    return ["start", "end"] if find_shift(records) in [*SHIFTS][1:] else []


def rows(folder: Path) -> pd.DataFrame:
    records = [record for path in sorted(folder.rglob(FILES)) for record in read_records(path)]
    shift = dict(zip(("start", "end"), SHIFTS[find_shift(records)], strict=True))
    shifted = [
        {name: int(row[name]) - by if is_place(row[name]) else row[name] for name, by in shift.items()}
        for row in records
    ]
    return pd.DataFrame(
        [{**row, **places, "where": row.where} for row, places in zip(records, shifted, strict=True)], dtype=object
    )


def find_shift(records):
    """Return the first way to count by which each span is whole words of a text beside it."""
    spans = [row for row in records if is_place(row.get("start")) and is_place(row.get("end"))]
    ways = [
        name
        for name, (a, b) in SHIFTS.items()
        if all(fits(row, int(row["start"]) - a, int(row["end"]) - b) for row in spans)
    ]
    return ways[0] if spans and ways else None


def is_place(cell):
    return str(cell).isdecimal()


def fits(row, start, end):
    texts = [text for text in row.values() if isinstance(text, str) and 0 <= start < end <= len(text)]
    return any(
        text[start].isalnum()
        and text[end - 1].isalnum()
        and not (text[start - 1 : start].isalnum() or text[end : end + 1].isalnum())
        for text in texts
    )
