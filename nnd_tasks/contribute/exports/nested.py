"""Several texts in a record: a list of objects, objects or texts keyed by system, or lists side by side; a row for each."""

from pathlib import Path

import pandas as pd

from nnd_tasks.tables.cells import is_chat, unpack
from nnd_tasks.tables.read import read_records

FILES = "*"


def recognise(records):
    names = [name for record in records for name in find_lists({key: unpack(cell) for key, cell in record.items()})]
    return [*dict.fromkeys(names)]


def rows(folder: Path) -> pd.DataFrame:
    records = (record for path in sorted(folder.rglob(FILES)) for record in read_records(path))
    return pd.DataFrame([row | {"where": record.where} for record in records for row in split(record)], dtype=object)


def find_lists(record):
    """Name the fields that hold a text or an object for each of several candidates."""
    for name, cell in record.items():
        objects = isinstance(cell, list) and cell and all(isinstance(item, dict) for item in cell)
        if (
            objects and not is_chat(cell) and not any("start" in item for item in cell)
        ):  # error spans belong to one text
            return [name]
    for kind in (list, dict):
        fields = {name: cell for name, cell in record.items() if isinstance(cell, kind) and cell and not is_chat(cell)}
        for cell in fields.values():
            items = cell.values() if kind is dict else cell
            if any(isinstance(item, (str, dict)) for item in items):
                keys = [*cell] if kind is dict else len(cell)
                alike = [other for other, of in fields.items() if keys == ([*of] if kind is dict else len(of))]
                if len(alike) > 1 or (kind is dict and all(isinstance(item, dict) for item in items)):
                    return alike
    return []


def split(record):
    """Yield the rows of a record: the cells of each candidate beside those that all share."""
    cells = {name: unpack(cell) for name, cell in record.items()}
    names = find_lists(cells)
    if not names:
        yield dict(cells)
        return
    shared = {name: cell for name, cell in cells.items() if name not in names}
    first = cells[names[0]]
    for key in first if isinstance(first, dict) else range(len(first)):
        row = {**shared, **({"system": key} if isinstance(first, dict) else {})}
        for name in names:
            item = cells[name][key]
            row |= (
                {f"{name}.{k}" if k in row else k: v for k, v in item.items()}
                if isinstance(item, dict)
                else {name: item}
            )
        yield from split(row)
