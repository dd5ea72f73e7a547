"""A column per system, per rater or both (--system A,B; --rater C,D): a row for each.

Of A_score the column is score; what is called A alone is text, or judgement where a rater is named.
"""

import re
from pathlib import Path

import pandas as pd

from nnd_tasks.tables.read import read_records

FILES = "*"
SYSTEMS, RATERS = [], []


def rows(folder: Path) -> pd.DataFrame:
    records = (record for path in sorted(folder.rglob(FILES)) for record in read_records(path))
    return pd.DataFrame([row for record in records for row in split(record)], dtype=object)


def split(record):
    """Yield a row for each system and rater: the shared cells, and those whose names have the name of both."""
    cells = [(*take(name, SYSTEMS), cell) for name, cell in record.items()]
    cells = [(system, *take(rest, RATERS), cell) for system, rest, cell in cells]
    for system in SYSTEMS or [""]:
        for rater in RATERS or [""]:
            row = {"system": system or None, "rater": rater or None, "where": record.where}
            for of_system, of_rater, rest, cell in cells:
                if of_system in ("", system) and of_rater in ("", rater):
                    row[rest or ("judgement" if of_rater else "text")] = cell
            yield {name: cell for name, cell in row.items() if name in record or cell is not None}


def take(name, owners):
    """Return the longest of the owners that is a word of a name, and the rest of the name."""
    for owner in sorted(owners, key=len, reverse=True):
        found = re.search(rf"(?<![^\W_]){re.escape(owner)}(?![^\W_])", name)
        if found:
            return owner, (name[: found.start()] + name[found.end() :]).strip(" _-.:()[]/")
    return "", name
