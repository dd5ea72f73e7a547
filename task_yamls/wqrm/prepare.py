"""WQRM: three drafts for an instruction, and the order in which each rater prefers them."""

from itertools import combinations
from pathlib import Path

import pandas as pd

from nnd_tasks.tables.read import read_records

DRAFTS = ["first_draft", "random_cot", "best_cot"]
#: The worst first.
RANKS = ["Least Preferred Writing Option", "Second Favorite Writing Option", "Most Preferred Writing Option"]


def rows(folder: Path) -> pd.DataFrame:
    """Return a row per pair of drafts of an instruction; as many raters for either draft are a tie."""
    found = []
    for triplet in read_records(folder / "WQRM_annotations.json"):
        for first, second in combinations(DRAFTS, 2):
            votes = [RANKS.index(rater[first]) > RANKS.index(rater[second]) for rater in triplet["annotations"]]
            lead = 2 * sum(votes) - len(votes)
            better, worse = (first, second) if lead > 0 else (second, first)
            found.append({"context": write_instruction(**triplet["instruction"]), "label": "preferred" if lead else "tie",
                          "chosen": triplet[better]["candidate"], "rejected": triplet[worse]["candidate"],
                          "high_system": better, "low_system": worse, "subcategory": triplet["genre"],
                          "where": triplet.where})  # fmt: skip
    return pd.DataFrame(found)


def judgements(folder: Path) -> pd.DataFrame:
    """Return a row per pair of drafts and rater."""
    return pd.DataFrame(
        {
            "context": write_instruction(**triplet["instruction"]),
            "chosen": triplet[better]["candidate"],
            "rejected": triplet[worse]["candidate"],
            "label": "preferred",
            "place": place,
            "where": triplet.where,
        }
        for triplet in read_records(folder / "WQRM_annotations.json")
        for place, rater in enumerate(triplet["annotations"], 1)
        for worse, better in combinations(sorted(DRAFTS, key=lambda draft: RANKS.index(rater[draft])), 2)
    )


def write_instruction(plot: str, voice: str = "", word_count: int = 0, **other: object) -> str:
    """Return an instruction as text; those for marketing have neither a voice nor a length."""
    return plot + (f"\nVoice: {voice}" if voice else "") + (f"\nLength: {word_count} words" if word_count else "")
