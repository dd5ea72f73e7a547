"""Appraise: the scores of a campaign (csv without a header) beside its batches (json), which have the texts.

Name the folder that holds both, or a pattern. Items that test raters (BAD, REF, CHK) are left out.
"""

from pathlib import Path

import pandas as pd

from nnd_tasks.tables.read import read_cells, read_json

FILES, BESIDE = "*.csv", ".json"
COLUMNS = (
    "rater system itemID itemType source_language target_language score documentID isCompleteDocument spans start end"
)


def recognise(records):
    return [name for name in records[0] if name in ("TGT", "BAD", "REF", "CHK")]


def rows(folder: Path) -> pd.DataFrame:
    items = {}
    for path in sorted(folder.rglob("*.json")):
        for batch in read_json(path):
            for item in batch["items"]:
                items.setdefault((str(item["itemID"]), item["documentID"]), item)
    found = []
    for path in sorted(folder.rglob("*.csv")):
        for number, cells in read_cells(path):
            row = dict(zip(COLUMNS.split(), cells, strict=False))
            item = items.get((row["itemID"], row["documentID"]), {})
            texts = {"source": item.get("sourceText"), "target": item.get("targetText")}
            found.append(row | texts | {"where": f"{path}, row {number}"})
    return pd.DataFrame(found, dtype=object)
