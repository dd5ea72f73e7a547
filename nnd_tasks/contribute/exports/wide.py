"""A column per system, per rater or both (--system A,B; --rater C,D): a row for each.

Of A_score the column is score; what is called A alone is text, or judgement where a rater is named. Objects keyed by system or
rater are columns, too. A column that all share, and that is called as one of theirs, becomes NAME (shared).
"""

import re
from pathlib import Path

import pandas as pd

from nnd_tasks.tables.cells import unpack
from nnd_tasks.tables.contents import NAMES
from nnd_tasks.tables.read import read_records

FILES = "*"
SYSTEMS, RATERS = [], []
MARKS = " _-.:()[]/,'\""


def rows(folder: Path) -> pd.DataFrame:
    records = (record for path in sorted(folder.rglob(FILES)) for record in read_records(path))
    return pd.DataFrame([row for record in records for row in split(record)], dtype=object)


def split(record):
    """Yield a row for each system and rater: the shared cells, and those whose names have the name of both."""
    cells = [(*take(name, SYSTEMS), cell) for name, cell in flatten(record, [*SYSTEMS, *RATERS])]
    cells = [(system, *take(rest, RATERS), cell) for system, rest, cell in cells]
    cells = [(system, rater, rename(rater, rest), cell) for system, rater, rest, cell in cells]
    own = {name for system, rater, name, _ in cells if system or rater}
    for system in SYSTEMS or [""]:
        for rater in RATERS or [""]:
            row = {"system": system or None, "rater": rater or None, "where": record.where}
            for of_system, of_rater, name, cell in cells:
                if not (of_system or of_rater):
                    row[f"{name} (shared)" if name in own else name] = cell
                elif of_system in ("", system) and of_rater in ("", rater):
                    row[name] = cell
            yield {name: cell for name, cell in row.items() if name in record or cell is not None}


def rename(rater, rest):
    """Name what a column has besides a rater: rater_1, or annotator1_id, names the person."""
    if rater and rest and re.sub(r"[\W\d_]", "", f"{rater}{rest}".casefold()) in NAMES["rater"]:
        return "rater"
    return rest or ("judgement" if rater else "text")


def flatten(record, owners):
    """Yield the name and the value of each cell; of an object that has the name of an owner in it, those of its fields."""
    for name, cell in record.items():
        content = unpack(cell)
        if not (isinstance(content, dict) and content):
            yield name, None if content == {} else cell
            continue
        cells = {f"{name}.{key}": value for key, value in flatten(content, owners)}
        yield from cells.items() if any(take(key, owners)[0] for key in cells) else [(name, cell)]


def take(name, owners):
    """Return the longest of the owners that is a word of a name, and the rest of the name."""
    for owner in sorted(owners, key=len, reverse=True):
        found = re.search(rf"(?<![^\W_]){re.escape(owner)}(?![^\W_])", name)
        if found:
            before, after = name[: found.start()].strip(MARKS), name[found.end() :].lstrip(MARKS)
            return owner, f"{before}{name[found.end()]}{after}" if before and after else before or after
    return "", name
