"""News summaries: annotators of an article name the best and the worst of three systems."""

from pathlib import Path

import pandas as pd

from nnd_tasks.tables.read import read_records

SYSTEMS = ["gpt3", "t0", "brio"]
ANNOTATORS = 3
FILES = {"cnn": "cnn_human.json", "bbc": "bbc_human.json"}


def rows(folder: Path) -> pd.DataFrame:
    """Return a row per article and system; its score is its best votes less its worst votes (the first system of each vote)."""
    votes = judgements(folder)
    return votes.assign(score=votes["score"].map(lambda scores: sum(scores) // ANNOTATORS))


def judgements(folder: Path) -> pd.DataFrame:
    """Return the same with a list of votes, each times the number of annotators, so that the mean of three is the score."""
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
                    "score": [ANNOTATORS * ((a == system) - (b == system)) for a, b in zip(best, worst, strict=True)],
                    "where": article.where,
                }
                for system in SYSTEMS
            ]
    return pd.DataFrame(found)
