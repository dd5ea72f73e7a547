"""FRANK: annotators mark each sentence of a summary; the most common error of a wrong summary is its label."""

from collections import Counter
from pathlib import Path

import pandas as pd

from nnd_tasks.tables.read import Record, read_records

CNNDM_HASH_LENGTH = 40  # articles of CNN/DailyMail are named by a SHA-1, those of XSum by a shorter number
CATEGORIES = {
    **dict.fromkeys(["RelE", "EntE", "CircE"], "Semantic Frame"),
    **dict.fromkeys(["CorefE", "LinkE"], "Discourse"),
    **dict.fromkeys(["OutE", "GramE"], "Verifiability"),
    **dict.fromkeys(["NoE", "OtherE"], ""),
}


def rows(folder: Path) -> pd.DataFrame:
    """Return a row per summary of an article of CNN/DailyMail's test split."""
    split = folder / "test_split.txt"
    test = set(split.read_text("utf-8").split()) if split.exists() else None
    found = []
    for summary in read_records(folder / "human_annotations_sentence.json"):
        article = summary["hash"]
        if len(article) < CNNDM_HASH_LENGTH or (
            article not in test if test is not None else summary["split"] != "test"
        ):
            continue
        label = most_common_error(summary)
        found.append({"group": article, "context": summary["article"], "candidate": summary["summary"], "label": label,
                      "system": summary["model_name"], "category": CATEGORIES[label], "subcategory": label,
                      "where": summary.where})  # fmt: skip
    return pd.DataFrame(found)


def most_common_error(summary: Record) -> str:
    """Return ``NoE``, or the most common error, annotator by annotator; on a tie the first seen wins (authors' release).

    A sentence is right when two annotators say ``NoE``, a summary when all its sentences are.
    """
    by_annotator: dict[str, list[str]] = {}
    for sentence in summary["summary_sentences_annotations"]:
        for annotator, labels in sentence.items():
            by_annotator.setdefault(annotator, []).extend(labels)
    votes = [sum(labels.count("NoE") for labels in s.values()) for s in summary["summary_sentences_annotations"]]
    errors = Counter(label for labels in by_annotator.values() for label in labels if label != "NoE")
    if not votes or (min(votes) < 2 and not errors):
        raise ValueError("too few annotations to tell whether the summary is right")
    return "NoE" if min(votes) >= 2 else errors.most_common(1)[0][0]
