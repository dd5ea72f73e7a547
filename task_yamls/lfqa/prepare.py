"""HaluQuestQA: two answers, the preferred one, and lists of the words of errors in either of them."""

from pathlib import Path

import pandas as pd

from nnd_tasks.tables.read import read_delimited
from nnd_tasks.tables.spans import find_words, read_items

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
                      "spans": find_errors(row, row[f"{better}_text"]),
                      "where": f"HaluQuestQA.csv, row {row['@row']}"})  # fmt: skip
    return pd.DataFrame(found)


def find_errors(row: dict, better: str) -> list[dict]:
    """Return the errors of the worse answer: those whose words do not stand in the better one."""
    marked = [(kind, words) for kind, column in ERRORS.items() for words in read_items(row[column])]
    return [{"text": words, "category": kind} for kind, words in marked if find_words(words, better) is None]
