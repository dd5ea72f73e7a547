"""Biomedical MQM: a JSON file per pair of languages and system, with a list of the errors of each translation."""

from pathlib import Path

import pandas as pd

from nnd_tasks.tables.read import read_records

NO_ERROR = {"error_category": "", "error_subcategory": "", "severity": ""}


def rows(folder: Path) -> pd.DataFrame:
    """Return a row per error, and one for a translation without errors."""
    return pd.DataFrame(
        {
            "config": path.parent.name,
            "group": f"{segment['filename']}_{segment['SEG_ID']}_{segment['source']}",
            "context": segment["source"],
            "candidate": segment["target"],
            "system": segment["MT_Engine"],
            "rater": segment["Annotator_ID"],
            "label": error["error_category"],
            "category": error["error_category"],
            "subcategory": error["error_subcategory"],
            "severity": error["severity"],
            "spans": span_of(error),
            "where": segment.where,
        }
        for path in sorted(folder.rglob("*.json"))
        for segment in read_records(path)
        for error in segment["target_errors"] or [NO_ERROR]
    )


def span_of(error: dict) -> list[dict]:
    """Return where an error is; about one position in five is that of another text, then the nearest place of its words is."""
    if "startIndex" not in error:
        return []
    return [
        {
            "start": int(error["startIndex"]),
            "end": int(error["endIndex"]) + 1,
            "text": error["term"],
            "category": error["error_category"],
            "severity": error["severity"],
        }
    ]
