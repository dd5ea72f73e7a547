"""SummEdits: edits of a summary, each consistent with its document or not, in one JSON file per domain."""

from pathlib import Path

import pandas as pd

from nnd_tasks.schema import short_hash
from nnd_tasks.tables.read import read_records

DOMAINS = ["news", "samsum", "ectsum", "sales_email", "sales_call", "qmsumm", "podcast", "scitldr"]


def rows(folder: Path) -> pd.DataFrame:
    """Return a row per edit; its category is the one type of edit, else ``several`` or ``none``."""
    return pd.DataFrame(
        {
            "group": short_hash(edit["doc"], edit["original_summary"]),
            "context": edit["doc"],
            "candidate": edit["summary"],
            "label": str(edit["label"]),
            "category": name_edits(edit["edit_types"]),
            "subcategory": domain,
            "where": edit.where,
        }
        for domain in DOMAINS
        if (folder / f"summedits_{domain}.json").exists()
        for edit in read_records(folder / f"summedits_{domain}.json")
    )


def name_edits(types: list[str]) -> str:
    """Return the category of a list of types of edits."""
    return types[0] if len(types) == 1 else "several" if types else "none"
