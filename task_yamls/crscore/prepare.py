"""CRScore: reviews of code changes; a CSV file per programming language and rater, with the same reviews in the same order."""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from nnd_tasks.tables.read import read_delimited

DIMENSIONS = {"conciseness": "Con (P)", "comprehensiveness": "Comp (R)", "relevance": "Rel (F)"}


def rows(folder: Path) -> pd.DataFrame:
    """Return a row per review and dimension, with the scores of both raters."""
    return pd.concat([table for language in ("py", "java", "js") for table in read_reviews(folder, language)])


def read_reviews(folder: Path, language: str) -> Iterator[pd.DataFrame]:
    """Yield the reviews of a language for each dimension; a change stands beside its first review only."""
    first, second = (
        read_delimited(folder / f"{language}_{rater}_review_qual_final.csv", ",") for rater in ("atharva", "marcus")
    )
    number = (first["id"] != "").cumsum()
    for dimension, column in DIMENSIONS.items():
        yield pd.DataFrame(
            {
                "group": language + number.astype(str),
                "context": first["diff"].groupby(number).transform("first"),
                "candidate": first["review"].replace("", None),
                "system": first["system"],
                "attribute": dimension,
                "subcategory": language,
                "score": list(zip(first[column], second[column], strict=True)),
                "where": f"{language}, row " + first["@row"].astype(str),
            }
        )
