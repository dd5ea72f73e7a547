"""Several raters in a cell, such as 5;4;3, of whom some may have said nothing (5;;3): the cell becomes a list.

So do names and labels beside them, if the same ones come again and again.
"""

import re
from pathlib import Path

import pandas as pd

from nnd_tasks.tables.read import read_records

FILES = "*"
SEPARATORS = r"[;|\n]", "/", r",\s+"  # the first that a cell has: names have commas, too
NUMBER = re.compile(r"(-?\d{1,3}(\.\d+)?)?")


def recognise(records):
    return [name for name in records[0] if holds_numbers([record.get(name) for record in records])]


def rows(folder: Path) -> pd.DataFrame:
    records = [record for path in sorted(folder.rglob(FILES)) for record in read_records(path)]
    numbers = recognise(records)
    lists = [
        *numbers,
        *(name for name in records[0] if goes_beside([(row.get(numbers[0]), row.get(name)) for row in records])),
    ]
    return pd.DataFrame(
        [{**row, **{name: split(row.get(name)) for name in lists}, "where": row.where} for row in records], dtype=object
    )


def holds_numbers(cells):
    """Tell whether cells hold several numbers: not 4/5, four of five, nor a date of one year."""
    parts = [split(cell) for cell in cells]
    several = [numbers for numbers in parts if len(numbers) > 1]
    of_one = any("/" in str(cell) for cell in cells) and len({numbers[-1] for numbers in several}) == 1
    return bool(several) and not of_one and all(NUMBER.fullmatch(part) for numbers in parts for part in numbers)


def goes_beside(cells):
    """Tell whether most cells beside several numbers have as many parts, which come again."""
    beside = [split(cell) for number, cell in cells if len(split(number)) == len(split(cell)) > 1]
    parts = [part for cell in beside for part in cell]
    return 2 * len(beside) > sum(len(split(number)) > 1 for number, _ in cells) and 2 * len({*parts}) <= len(parts)


def split(cell):
    text = "" if cell is None else str(cell)
    separator = next((separator for separator in SEPARATORS if re.search(separator, text)), "(?!)")
    return [part.strip() for part in re.split(separator, text)]
