"""Data to text: texts of models about data, and what each annotator marked in them; a file per kind of data and model."""

import json
from collections import Counter
from pathlib import Path

import pandas as pd

from nnd_tasks.tables.read import read_records

#: Number of a type of errors -> its name, in the publisher's config.yaml.
TYPES = ["Contradictory", "Not checkable", "Misleading", "Incoherent", "Repetitive", "Other"]
KEY = ["dataset", "setup_id", "example_idx"]


def rows(folder: Path) -> pd.DataFrame:
    """Return a row per text; and one per annotation whose text is not in the files."""
    files = [*folder.glob("annotations/*/*/test/*.jsonl"), *sorted(folder.glob("outputs/*/*/*-test.jsonl"))]
    annotations, *outputs = ([{**record, "where": record.where} for record in read_records(path)] for path in files)
    data = {path.parent.name: [*read_records(path)] for path in folder.glob("inputs/*/*/test.json")}
    texts = {tuple(record[name] for name in KEY): record["output"] for of_file in outputs for record in of_file}
    groups = pd.DataFrame(record for record in annotations if record["split"] == "test").groupby(KEY, sort=False)
    found = []
    for (kind, model, number), group in groups:
        text = texts.get((kind, model, number))
        marks = group["annotations"].sum()
        types = [TYPES[frequent] for frequent, _ in Counter(mark["type"] for mark in marks).most_common(1)]
        row = {"group": f"{kind} {number}", "context": json.dumps(data[kind][number], ensure_ascii=False),
               "candidate": text, "system": model, "where": group["where"].iat[0],
               "label": "mixed" if group["annotations"].map(bool).nunique() > 1 else "marked" if marks else "clean",
               "category": "".join(types), "subcategory": kind.removeprefix("d2t-"),
               "spans": [{"start": mark["start"], "end": mark["start"] + len(mark["text"]), "category": TYPES[mark["type"]]}
                         for mark in marks]}  # fmt: skip
        found += [row] * (1 if text else len(group))
    return pd.DataFrame(found)
