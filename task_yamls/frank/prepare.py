"""FRANK: annotators mark each sentence of a summary; the most common error of a wrong summary is its label."""

from collections import Counter
from collections.abc import Callable
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
    return describe(folder, lambda summary: [most_common_error(summary)]).drop(columns="place")


def judgements(folder: Path) -> pd.DataFrame:
    """Return a row per summary and annotator: the most common error, or ``NoE`` where no sentence has one."""
    return describe(folder, errors_of_each)


def describe(folder: Path, read_labels: Callable[[Record], list[str]]) -> pd.DataFrame:
    """Return a row per label of a summary; the place of the label is that of its annotator."""
    split = folder / "test_split.txt"
    test = set(split.read_text("utf-8").split()) if split.exists() else None
    found = []
    for summary in read_records(folder / "human_annotations_sentence.json"):
        article = summary["hash"]
        if len(article) < CNNDM_HASH_LENGTH or (
            article not in test if test is not None else summary["split"] != "test"
        ):
            continue
        found += [{"group": article, "context": summary["article"], "candidate": summary["summary"], "label": label,
                   "system": summary["model_name"], "category": CATEGORIES[label], "subcategory": label, "place": place,
                   "where": summary.where} for place, label in enumerate(read_labels(summary), 1)]  # fmt: skip
    return pd.DataFrame(found)


def errors_of_each(summary: Record) -> list[str]:
    """Return the most common error of each annotator; on a tie the first seen."""
    labels: dict[str, list[str]] = {}
    for sentence in summary["summary_sentences_annotations"]:
        for annotator, found in sentence.items():
            labels.setdefault(annotator, []).extend(label for label in found if label != "NoE")
    return [Counter(errors or ["NoE"]).most_common(1)[0][0] for errors in labels.values()]


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
