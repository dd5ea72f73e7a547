"""A sheet whose first row names systems over several columns, and whose second names these: a row per system."""

from pathlib import Path

import pandas as pd

from nnd_tasks.tables.read import read_cells

FILES = "*"


def recognise(rows):
    top, second = rows[:2] if len(rows) > 2 else ((), ())
    names = [name for name in second if name]
    gaps = [name for i, name in enumerate(top) if name and top[i + 1 : i + 2] in ([""], [name])]
    return gaps if len(gaps) > 1 and len(names) > len({*names}) else []


def rows(folder: Path) -> pd.DataFrame:
    found = []
    for path in sorted(folder.rglob(FILES)):
        (_, top), (_, second), *records = read_cells(path)
        for i in range(1, len(top)):
            top[i] = top[i] or top[i - 1]
        systems = [name for name in dict.fromkeys(top) if top.count(name) > 1 and name]
        for number, cells in records:
            for system in systems:
                own = {
                    second[i] or top[i]: cell
                    for i, cell in enumerate(cells)
                    if top[i] not in systems or top[i] == system
                }
                found.append({**own, "system": system, "where": f"{path}, row {number}"})
    return pd.DataFrame(found, dtype=object)
