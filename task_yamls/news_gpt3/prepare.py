"""News summaries: annotators of an article name the best and the worst of three systems."""

from pathlib import Path

import pandas as pd

from nnd_tasks.tables.read import read_records

SYSTEMS = ["gpt3", "t0", "brio"]
FILES = {"cnn": "cnn_human.json", "bbc": "bbc_human.json"}


def rows(folder: Path) -> pd.DataFrame:
    """Return a row per article and system; its score is its best votes less its worst votes (the first system of each vote)."""
    found = []
    for config, file in FILES.items():
        for article in read_records(folder / file) if (folder / file).exists() else ():
            best = [vote["best_summary"][0] for vote in article["annotators"]]
            worst = [vote["worst_summary"][0] for vote in article["annotators"]]
            found += [
                {
                    "config": config,
                    "group": article["@key"],
                    "context": article["article"],
                    "candidate": article[system]["text"],
                    "system": system,
                    "score": best.count(system) - worst.count(system),
                    "where": article.where,
                }
                for system in SYSTEMS
            ]
    return pd.DataFrame(found)
