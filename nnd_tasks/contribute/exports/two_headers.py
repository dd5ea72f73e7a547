"""A sheet whose first row names systems or raters over several columns, and whose second names these: a row for each.

They are raters where all share one text, or where all that stands below them is numbers.
"""

from pathlib import Path

import pandas as pd

from nnd_tasks.tables.contents import NAMES
from nnd_tasks.tables.read import read_sheets

FILES = "*"


def recognise(rows):
    top, second = rows[:2] if len(rows) > 2 else ((), ())
    names = [name for name in second if name]
    gaps = [name for i, name in enumerate(top) if name and top[i + 1 : i + 2] in ([""], [name])]
    repeated = len(names) > len({*names}) and not any(map(is_number, names))
    return gaps if len({*gaps}) > 1 and repeated else []


def rows(folder: Path) -> pd.DataFrame:
    sheets = [
        (f"{path}, sheet {name!r}" if name else str(path), [*cells])
        for path in sorted(folder.rglob(FILES))
        for name, cells in read_sheets(path).items()
    ]
    return pd.DataFrame([row for place, cells in sheets if cells for row in split(place, *cells)], dtype=object)


def split(place, header, *others):
    """Yield a row for each owner and row of a sheet; of a sheet without owners the rows as they are."""
    top, second = header[1], others[0][1] if others else []
    for i in range(1, len(top)):
        top[i] = top[i] or top[i - 1]
    owners = [name for name in dict.fromkeys(top) if top.count(name) > 1 and name]
    names = [name or top[i] for i, name in enumerate(second)]
    shared = [i for i, name in enumerate(top) if name not in owners]
    below = [cell for _, cells in others[1:] for i, cell in enumerate(cells) if i not in shared and cell != ""]
    judged = any(str(names[i]).casefold() in NAMES["candidate"] for i in shared) or all(map(is_number, below))
    for number, cells in others[1:]:
        for owner in owners or [None]:
            own = {names[i]: cell for i, cell in enumerate(cells) if i in shared or top[i] == owner}
            yield own | {"rater" if judged else "system": owner, "where": f"{place}, row {number}"}


def is_number(cell):
    return str(cell).strip().replace(",", ".").removeprefix("-").replace(".", "", 1).isdecimal()
