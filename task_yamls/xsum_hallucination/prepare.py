"""XSum hallucinations: one-sentence summaries, and what each of three workers marked in them; a row of the CSV per span."""

from collections import Counter
from pathlib import Path

import pandas as pd

from nnd_tasks.tables.read import read_delimited


def rows(folder: Path) -> pd.DataFrame:
    """Return a row per summary with a label per worker; its category is the kind that two workers or more marked."""
    table = read_delimited(folder / "hallucination_annotations_xsum_summaries.csv", ",")
    found = []
    for (article, system, summary), marks in table.groupby(["bbcid", "system", "summary"], sort=False):
        kinds = {worker: {*rows["hallucination_type"]} - {"NULL"} for worker, rows in marks.groupby("worker_id")}
        counts = Counter(kind for of_worker in kinds.values() for kind in of_worker)
        agreed = [kind for kind in counts if counts[kind] > 1]
        labels = ["marked" if of_worker else "clean" for of_worker in kinds.values()]
        found.append(
            {
                "group": article,
                "context": "",
                "article": article,
                "candidate": summary,
                "system": system,
                "label": labels if agreed or labels.count("clean") > 1 else ["unclear"] * len(labels),
                "category": "both" if len(agreed) > 1 else "".join(agreed),
                "where": f"{article}, {system}",
            }
        )
    return pd.DataFrame(found)


def mended(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the clean config: without the references."""
    return rows[rows["system"] != "Gold"]
