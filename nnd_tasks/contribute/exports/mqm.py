"""WMT MQM: a tsv with a row per error; here a row per rater and translation, with its score.

mqm_score is 0 less the weights of the errors: major 5, minor 1, minor punctuation 0.1, non-translation 25 (Freitag et al. 2021).
The marks of an error are taken out of the translation, and are its error spans.
"""

from pathlib import Path

import pandas as pd

from nnd_tasks.tables.read import read_delimited, read_table
from nnd_tasks.tables.spans import take_marks

FILES = "*.tsv"


def recognise(records):
    names = ["system", "rater", "source", "target", "category", "severity"]
    return names if {*names} <= {*records[0]} else []


def rows(folder: Path) -> pd.DataFrame:
    found = {}
    for path in sorted(folder.rglob(FILES)):
        table = read_delimited(path, "\t", quotes=False) if path.suffix == ".tsv" else read_table(path)
        for row in table.to_dict("records"):
            target, [*spans] = take_marks(row["target"], "<v>", "</v>")
            source = row["source"].replace("<v>", "").replace("</v>", "")
            segment = tuple(row.get(name) for name in ("doc", "doc_id", "seg_id", "globalSegId"))
            key = (path, *segment, source, row["system"], row["rater"], target)
            judged = found.setdefault(
                key, {"source": source, "target": target, "spans": [], "mqm_score": 0.0, "worst": 0.0}
            )
            weight = weigh(row["category"].casefold(), row["severity"].casefold())
            judged["mqm_score"] -= weight
            judged["spans"] += [span | {"category": row["category"], "severity": row["severity"]} for span in spans]
            if weight and weight >= judged["worst"]:  # the category of the worst error
                judged |= {
                    "worst": weight,
                    "category": row["category"].split("/")[0].strip(),
                    "severity": row["severity"],
                }
            judged |= {"system": row["system"], "rater": row["rater"], "where": f"{path}, row {row['@row']}"}
    return pd.DataFrame([*found.values()], dtype=object)


def weigh(category, severity):
    if severity == "minor":
        return 0.1 if category == "fluency/punctuation" else 1.0
    return 25.0 if category.startswith("non-translation") else 5.0 if severity in ("major", "critical") else 0.0
