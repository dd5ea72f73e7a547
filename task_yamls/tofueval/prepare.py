"""TofuEval: summaries of council meetings about a topic, a row of a CSV file per sentence with a verdict on it."""

from pathlib import Path

import pandas as pd

from nnd_tasks.tables.read import read_delimited

SUMMARY = ["doc_id", "topic", "model_name"]


def rows(folder: Path) -> pd.DataFrame:
    """Return a row per summary; its category is the type of its errors, or ``several``."""
    found = []
    for path in sorted(folder.rglob("meetingbank_factual_eval_*.csv")):
        table = read_delimited(path, ",").drop_duplicates([*SUMMARY, "sent_idx"])
        for (document, topic, system), sentences in table.groupby(SUMMARY, sort=False):
            wrong = sentences[sentences["sent_label"] == "no"]
            types = {part.strip() for cell in wrong["type"] for part in cell.split(",")}
            found.append(
                {
                    "config": path.stem.rpartition("_")[2],
                    "group": f"{document}, {topic}",
                    "context": topic,
                    "candidate": " ".join(sentences["summ_sent"]),
                    "system": system,
                    "label": "wrong" if types else "consistent",
                    "category": types.pop() if len(types) == 1 else "several",
                    "spans": [{"text": sentence} for sentence in wrong["summ_sent"]],
                    "where": f"{path.name}, {document}, {topic}, {system}",
                }
            )
    return pd.DataFrame(found)
