"""BASSE: summaries of news in Spanish and Basque, with marks of one to three raters on five criteria; a line per article."""

from pathlib import Path

import pandas as pd

from nnd_tasks.tables.read import read_records


def rows(folder: Path) -> pd.DataFrame:
    """Return a row per summary and criterion; rounds 1 and 2 are one config per language, the others each their own."""
    return pd.DataFrame(
        {
            "config": path.name.split(".")[1] + ("" if article["round"] in (1, 2) else f"_round_{article['round']}"),
            "group": article["idx"],
            "context": article["original_document"],
            "candidate": summary["summ"],
            "system": system,
            "attribute": criterion,
            "score": marks,
            "where": f"{article.where}, {system}",
        }
        for path in sorted(folder.glob("BASSE.*.jsonl"))
        for article in read_records(path)
        for system, summary in article["model_summaries"].items()
        for criterion, marks in summary["anns"].items()
    )


def mended(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the clean config: without the newspaper's own subheads."""
    return rows[rows["system"] != "subhead"]
