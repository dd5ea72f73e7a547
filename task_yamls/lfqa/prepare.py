"""HaluQuestQA: two answers, the preferred one, and lists of the words of errors in either of them."""

from pathlib import Path

import pandas as pd

from nnd_tasks.schema import normalize
from nnd_tasks.sets.read import read_delimited
from nnd_tasks.sets.spans import find_words, read_items

ERRORS = {"factuality": "factuality_span", "irrelevance": "irrelevance_span", "incompleteness": "incomplete_ans_span"}
SIDES = {"Answer 1": ["ans1", "ans2"], "Answer 2": ["ans2", "ans1"]}


def rows(folder: Path) -> pd.DataFrame:
    """Return a row per question."""
    table = read_delimited(folder / "HaluQuestQA.csv", "\t", quotes=True)
    found = []
    for row in table.to_dict("records"):
        better, worse = SIDES[row["ans_preference"]]
        found.append({"context": row["question_text"], "chosen": row[f"{better}_text"], "rejected": row[f"{worse}_text"],
                      "category": row["category"], "high_system": row[f"{better}_label"], "low_system": row[f"{worse}_label"],
                      "spans": find_errors(row, row[f"{better}_text"], row[f"{worse}_text"]),
                      "where": f"HaluQuestQA.csv, row {row['@row']}"})  # fmt: skip
    return pd.DataFrame(found)


def find_errors(row: dict, better: str, worse: str) -> list[dict]:
    """Return the errors whose words stand in the worse answer only."""
    better, worse = normalize(better), normalize(worse)
    marked = [(kind, words) for kind, column in ERRORS.items() for words in read_items(row[column])]
    placed = [(kind, find_words(words, worse)) for kind, words in marked if find_words(words, better) is None]
    return [{**span, "category": kind} for kind, span in placed if span]
