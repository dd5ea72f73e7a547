"""LAMP: paragraphs that writers edited, with a list of their edits; one JSON file per writer."""

from pathlib import Path

import pandas as pd

from nnd_tasks.tables.read import read_records


def rows(folder: Path) -> pd.DataFrame:
    """Return a row per edit: the finished paragraph, and the same with this edit undone."""
    return pd.DataFrame(
        {
            "context": paragraph["instruction"],
            "chosen": paragraph["postedit"],
            "category": edit["categorization"].replace("/ ", "/"),
            "where": paragraph.where,
            **undo(edit["originalText"], edit["editedText"], paragraph["postedit"]),
        }
        for path in sorted(folder.glob("W*_edits.json"))
        for paragraph in read_records(path)
        for edit in paragraph["fine_grained_edits"]
    )


def undo(original: str, edited: str, finished: str) -> dict:
    """Return the paragraph without an edit and where its original words are, or the label of an edit that stays."""
    if not edited.strip():
        return {"label": "deletes", "rejected": finished}
    if original == edited or finished.count(edited) != 1:
        return {"label": "not once", "rejected": finished}
    start = finished.index(edited)
    spans = [{"start": start, "end": start + len(original)}] if original else []
    return {"label": "undone", "rejected": finished.replace(edited, original), "spans": spans}
