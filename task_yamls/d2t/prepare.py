"""Data to text: texts of models about data, and what each annotator marked in them; a file per kind of data and model."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from nnd_tasks.tables.read import read_records

#: Number of a type of errors -> its name, in the publisher's config.yaml.
TYPES = ["Contradictory", "Not checkable", "Misleading", "Incoherent", "Repetitive", "Other"]
KEY = ["dataset", "setup_id", "example_idx"]


def rows(folder: Path) -> pd.DataFrame:
    """Return a row per text; and one per annotation whose text is not in the files."""
    return describe(folder, lambda group: [group]).drop(columns="place")


def judgements(folder: Path) -> pd.DataFrame:
    """Return a row per annotation."""
    return describe(folder, lambda group: [group[i : i + 1] for i in range(len(group))])


def describe(folder: Path, split: Callable[[pd.DataFrame], list[pd.DataFrame]]) -> pd.DataFrame:
    """Return a row for each part into which ``split`` divides the annotations of a text."""
    files = [*folder.glob("annotations/*/*/test/*.jsonl"), *sorted(folder.glob("outputs/*/*/*-test.jsonl"))]
    annotations, *outputs = ([{**record, "where": record.where} for record in read_records(path)] for path in files)
    data = {path.parent.name: [*read_records(path)] for path in folder.glob("inputs/*/*/test.json")}
    texts = {tuple(record[name] for name in KEY): record["output"] for of_file in outputs for record in of_file}
    groups = pd.DataFrame(record for record in annotations if record["split"] == "test").groupby(KEY, sort=False)
    found = []
    for (kind, model, number), group in groups:
        text = texts.get((kind, model, number))
        for place, part in enumerate(split(group), 1):
            marks = part["annotations"].sum()
            types = [TYPES[frequent] for frequent, _ in Counter(mark["type"] for mark in marks).most_common(1)]
            row = {"group": f"{kind} {number}", "context": json.dumps(data[kind][number], ensure_ascii=False),
                   "candidate": text, "system": model, "where": group["where"].iat[0], "place": place,
                   "label": "mixed" if part["annotations"].map(bool).nunique() > 1 else "marked" if marks else "clean",
                   "category": "".join(types), "subcategory": kind.removeprefix("d2t-"),
                   "spans": [{"start": mark["start"], "end": mark["start"] + len(mark["text"]), "category": TYPES[mark["type"]]}
                             for mark in marks]}  # fmt: skip
            found += [row] * (1 if text else len(part))
    return pd.DataFrame(found)
