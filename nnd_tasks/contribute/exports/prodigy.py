"""Prodigy: JSON Lines, a row per example, or per option where options differ.

What the annotator pressed (accept, reject, ignore) is the column status; of options `answer.accepted` says yes or no.
"""

from pathlib import Path

import pandas as pd

from nnd_tasks.tables.read import read_records

FILES = "*.jsonl"


def recognise(records):
    return ["answer", "_task_hash"] if {"answer", "_task_hash"} <= {*records[0]} else []


def rows(folder: Path) -> pd.DataFrame:
    records = [record for path in sorted(folder.rglob(FILES)) for record in read_records(path)]
    options = {str([option.get("text") for option in record.get("options") or ()]) for record in records}
    found = []
    for record in records:
        accept = record.get("accept") or []
        row = {**record, "status": record["answer"], "rater": record.get("_annotator_id") or record.get("_session_id")}
        row = {name: cell for name, cell in row.items() if name not in ("answer", "options", "accept", "tokens")}
        row |= {"where": record.where}
        if len(options) == 1:  # no options, or the same labels for every text
            found.append(row | ({"answer.choice": "|".join(map(str, accept)) or None} if record.get("options") else {}))
            continue
        for option in record.get("options") or [{}]:
            verdict = {"prompt": row.get("text"), "candidate": option.get("text"), "option": option.get("id")}
            found.append(row | verdict | {"answer.accepted": "yes" if option.get("id") in accept else "no"})
    return pd.DataFrame(found, dtype=object)
