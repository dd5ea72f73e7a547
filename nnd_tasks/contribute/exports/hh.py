"""Anthropic HH: chosen and rejected transcripts in one text each; what both begin with is the prompt."""

import re
from pathlib import Path

import pandas as pd

from nnd_tasks.tables.read import read_records

FILES = "*.jsonl"
TURN = re.compile(r"\n\n(Human|Assistant):\s?")


def recognise(records):
    sides = ["chosen", "rejected"]
    return sides if all(TURN.match(str(records[0].get(side))) for side in sides) else []


def rows(folder: Path) -> pd.DataFrame:
    records = (record for path in sorted(folder.rglob(FILES)) for record in read_records(path))
    return pd.DataFrame(
        [
            {**record, "chosen": split(record["chosen"]), "rejected": split(record["rejected"]), "where": record.where}
            for record in records
        ],
        dtype=object,
    )


def split(text):
    """Return the messages of a transcript."""
    _, *parts = TURN.split(text)
    return [{"role": role, "content": words.strip()} for role, words in zip(parts[::2], parts[1::2], strict=True)]
