"""MEDEC: clinical notes into which people put one error each, and the corrected notes; a CSV file per split."""

import re
from pathlib import Path

import pandas as pd

from nnd_tasks.tables.read import read_delimited


def rows(folder: Path) -> pd.DataFrame:
    """Return a row per wrong note (``notes``), and one per wrong sentence with the note before it (``sentences``)."""
    found = []
    for path in sorted(folder.glob("*.csv")):
        table = read_delimited(path, ",")
        split = "validation_" if "Validation" in path.name else ""
        for note in table[table["Error Flag"] == "1"].to_dict("records"):
            # The text and its list of sentences differ in spaces and line breaks.
            words = map(re.escape, note["Error Sentence"].split())
            start, end = re.search(r"\s+".join(words), note["Text"]).span()
            known = {"category": note["Error Type"], "where": note["Text ID"]}
            found += [
                {"config": split + "notes", "chosen": note["Corrected Text"], "rejected": note["Text"],
                 "spans": [{"start": start, "end": end}], **known},
                {"config": split + "sentences", "context": note["Text"][:start].rstrip(),
                 "chosen": note["Corrected Sentence"], "rejected": note["Error Sentence"], **known},
            ]  # fmt: skip
    return pd.DataFrame(found)


def mended(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the clean config: without texts in which UTF-8 was read as another encoding."""
    return rows[~rows["rejected"].str.contains("[âÎÃË]")]
