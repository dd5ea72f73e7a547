"""MRBench: replies of tutors to a pupil's mistake, each judged on up to eight dimensions; one JSON file per release."""

from pathlib import Path

import pandas as pd

from nnd_tasks.tables.read import read_records

#: File -> its config, and what it calls the replies.
FILES = {"MRBench_V2.json": ("v2", "anno_llm_responses"), "mrbench_v3_devset.json": ("bea", "tutor_responses")}
#: Label -> its level; "To some extent" and "Neutral" are between. Of the answer's being revealed, "No" is best.
LEVELS = {"Yes": 2, "No": 0, "Encouraging": 2, "Offensive": 0}


def rows(folder: Path) -> pd.DataFrame:
    """Return a row per reply and dimension; in the configs ``_levels`` what is between the best and the worst counts, too."""
    return pd.DataFrame(
        {
            "config": config + levels,
            "group": f"{config} {number}",
            "context": "\n".join(line.strip() for line in chat["conversation_history"].split("\n")),
            "candidate": reply["response"],
            "system": tutor,
            "attribute": dimension,
            "subcategory": "Bridge" if "Novice" in chat[replies] else "MathDial",
            "score": 2 * (label == "No") if dimension.startswith("Revealing") else LEVELS.get(label, between),
            "where": f"{name}, conversation {number}, {tutor}",
        }
        for name, (config, replies) in FILES.items()
        for levels, between in {"": None, "_levels": 1}.items()
        for number, chat in enumerate(read_records(folder / name), start=1)
        for tutor, reply in chat[replies].items()
        for dimension, label in reply["annotation"].items()
    )


def mended(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the clean config: without the conversations that are in the set ``bridge``."""
    return rows[rows["subcategory"] != "Bridge"]
