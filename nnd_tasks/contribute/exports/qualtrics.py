"""Qualtrics: a CSV with three header rows, a row per response; of a survey without texts in columns, per response and item.

Then `question` and `item` are what the second header row says before and after the last " - ", and `answer.item` the cell.
"""

import re
from pathlib import Path

import pandas as pd

from nnd_tasks.tables.cells import unpack
from nnd_tasks.tables.read import read_records

FILES = "*.csv"
NO_TEXT = re.compile(r".*(id|condition|group|arm|block)", re.IGNORECASE)


def recognise(records):
    third = {name: unpack(cell) for name, cell in (records[1] if len(records) > 1 else {}).items()}
    return [name for name, cell in third.items() if isinstance(cell, dict) and "ImportId" in cell][:3]


def rows(folder: Path) -> pd.DataFrame:
    found = []
    for path in sorted(folder.rglob(FILES)):
        texts, ids, *responses = read_records(path)
        asked = {name for name, cell in ids.items() if str(unpack(cell)["ImportId"]).startswith("QID")}
        # The publisher's own columns have their names in both rows; those of embedded data are texts of the survey, or ids.
        named = [name for name in ids if name not in asked and unpack(ids[name])["ImportId"] == name == texts[name]]
        embedded = [name for name in named if not NO_TEXT.fullmatch(name)]
        for record in responses:
            row = {**record, "rater": record.get("ResponseId"), "where": record.where}
            found += [row] if embedded else split(row, asked, texts)
    return pd.DataFrame(found, dtype=object)


def split(record, asked, texts):
    """Yield a row for each question of a response: the other cells, and its question, item and answer."""
    shared = {name: cell for name, cell in record.items() if name not in asked}
    for name in (name for name in record if name in asked):
        question, _, item = texts[name].rpartition(" - ")
        yield shared | {"question": question, "item": item, "answer.item": record[name]}
