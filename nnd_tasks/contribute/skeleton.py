"""Read the judged texts of a file whose rows hold several. Complete each "?"."""

from pathlib import Path

import pandas as pd

from nnd_tasks.tables.read import read_records  # JSON, JSON Lines; docs/contribute.md names readers of other files


def rows(folder: Path) -> pd.DataFrame:
    """Return a row per judged text."""
    return pd.DataFrame(
        {
            "context": record["?"],  # what a model is given
            "candidate": item["?"],  # the text that was judged
            "label": item["?"],  # what people said of it; or "score": a number, or a list with one per rater
            "where": record.where,  # the place in the file, for errors
        }
        for path in sorted(folder.rglob("FILE"))
        for record in read_records(path)
        for item in record["?"]
    )
