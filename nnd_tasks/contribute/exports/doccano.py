"""doccano: JSON or JSON Lines, a row per text.

Labels with positions are the column spans, others answer.label.
"""

from pathlib import Path

import pandas as pd

from nnd_tasks.tables.read import read_records

FILES = "*.jsonl"


def recognise(records):
    lists = [name for name in ("label", "labels", "entities") if isinstance(records[0].get(name), list)]
    return ["text", *lists] if lists and "text" in records[0] else []


def rows(folder: Path) -> pd.DataFrame:
    return pd.DataFrame(
        [read(record) for path in sorted(folder.rglob(FILES)) for record in read_records(path)], dtype=object
    )


def read(record):
    row = {
        name: cell for name, cell in record.items() if name not in ("label", "labels", "entities", "relations", "cats")
    }
    labels = [*(record.get("label") or ()), *(record.get("labels") or ()), *(record.get("entities") or ())]
    spans = [dict(zip(("start", "end", "label"), label, strict=True)) for label in labels if isinstance(label, list)]
    spans += [
        {"start": label["start_offset"], "end": label["end_offset"], "label": label["label"]}
        for label in labels
        if isinstance(label, dict)
    ]
    names = [label for label in labels if isinstance(label, str)]
    return row | {"where": record.where, "spans": spans} | ({"answer.label": "|".join(names)} if names else {})
