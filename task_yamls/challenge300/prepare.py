"""Challenge 300: a row per question, with a column for each system's answer and one for its credit."""

from pathlib import Path

import pandas as pd

from nnd_tasks.tables.read import read_delimited

SYSTEMS = ["Macaw-11B", "Macaw-answer-11B", "GPT3-davinci", "Jurassic-1-jumbo", "T5-XXL-SSM-NQ"]
#: Group of the authors -> tags of its questions.
GROUPS = {
    "Common Sense": ["commonsense", "explanation", "general knowledge", "human behavior", "hypothetical", "story understanding",
                     "Winograd", "history"],
    "Entity": ["entity substitution", "entity tracking"],
    "Comparison": ["comparison", "estimation", "temporal"],
    "Creativity": ["example generation", "false presupposition", "generation", "riddle"],
    "Science": ["math", "meta-reasoning", "science", "spatial", "steps"],
}  # fmt: skip


def rows(folder: Path) -> pd.DataFrame:
    """Return a row per question and system."""
    table = read_delimited(folder / "challenge300-outputs.tsv", quotes=True)
    group_of = {tag: group for group, tags in GROUPS.items() for tag in tags}
    answers = [
        pd.DataFrame(
            {
                "group": table["id"],
                "context": table["question"],
                "candidate": table[system],
                "score": table[f"credit-{system}"],
                "label": table[f"credit-{system}"],
                "system": system,
                "category": [group_of[tag] for tag in table["category"]],
                "subcategory": table["category"],
                "where": "challenge300-outputs.tsv, row " + table["@row"].astype(str),
            }
        )
        for system in SYSTEMS
    ]
    return pd.concat(answers).sort_index(kind="stable")
