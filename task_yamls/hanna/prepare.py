"""HANNA: stories and what each rater gave them for six criteria, one rating per row."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from nnd_tasks.tables.read import read_delimited

CRITERIA = ["Coherence", "Complexity", "Empathy", "Engagement", "Relevance", "Surprise"]


def rows(folder: Path) -> pd.DataFrame:
    """Return a row per story and criterion, with the mean of its raters to ten places."""
    return rate_stories(folder, lambda scores: round(scores.mean(), 10))


def judgements(folder: Path) -> pd.DataFrame:
    """Return the same with the list of scores."""
    return rate_stories(folder, list)


def rate_stories(folder: Path, rate: Callable[[pd.Series], object]) -> pd.DataFrame:
    """Return a row per story and criterion; its score is what ``rate`` makes of those of its raters."""
    table = read_delimited(folder / "hanna_stories_annotations.csv", ",", quotes=True)
    stories = table.drop_duplicates("Story ID").set_index("Story ID")
    scores = table[CRITERIA].astype(float).groupby(table["Story ID"], sort=False).agg(rate).stack()
    number, criterion = (scores.index.get_level_values(level) for level in (0, 1))
    return pd.DataFrame(
        {
            "context": stories["Prompt"][number].to_numpy(object),
            "candidate": stories["Story"][number].to_numpy(object),
            "attribute": criterion.str.lower(),
            "score": scores.to_numpy(),
            "where": "hanna_stories_annotations.csv, row " + stories["@row"][number].astype(str).to_numpy(object),
        }
    )
