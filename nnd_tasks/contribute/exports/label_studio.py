"""Label Studio: JSON, JSON_MIN or CSV, a row per annotation.

Answers of JSON are the columns answer.NAME. In JSON_MIN an answer hides a field of the data that has its name, so export JSON.
"""

from pathlib import Path

import pandas as pd

from nnd_tasks.tables.cells import unpack
from nnd_tasks.tables.read import read_records

FILES = "*.json"
UTF16 = True  # positions count as the browser does; the recipe says so under spans
VALUES = ("choices", "rating", "selected", "number", "text", "taxonomy", "ranker")


def recognise(records):
    return next(
        (
            list(names)
            for names in (("annotations", "data"), ("annotation_id", "lead_time"))
            if {*names} <= {*records[0]}
        ),
        [],
    )


def rows(folder: Path) -> pd.DataFrame:
    found = []
    for path in sorted(folder.rglob(FILES)):
        for record in read_records(path):
            if "annotations" not in record:  # JSON_MIN and CSV have a record per annotation
                found.append({name_cell(name, record): simplify(unpack(cell)) for name, cell in record.items()})
                found[-1]["where"] = record.where
            for annotation in record.get("annotations") or [{}] * ("annotations" in record):
                answers = {}
                for result in annotation.get("result", ()):
                    answers.setdefault(f"answer.{result.get('from_name')}", []).append(result.get("value"))
                who = annotation.get("completed_by")
                found.append(
                    record["data"]
                    | {name: simplify(values) for name, values in answers.items()}
                    | {"annotator": who.get("email", who.get("id")) if isinstance(who, dict) else who}
                    | {name: annotation.get(name) for name in ("was_cancelled", "ground_truth")}
                    | {"where": record.where}
                )
    return pd.DataFrame(found, dtype=object)


def name_cell(name, record):
    """Name a field of the data that an answer of CSV hides, `_data_text`, as it was, and the answer `answer.text`."""
    return f"answer.{name}" if f"_data_{name}" in record else name.removeprefix("_data_")


def simplify(values):
    """Take the only value of an answer out of its object: [{"rating": 5}] is 5; error spans and all else stay."""
    if not (isinstance(values, list) and len(values) == 1 and isinstance(values[0], dict)) or "start" in values[0]:
        return values
    value = next((values[0][key] for key in VALUES if key in values[0]), values)
    return "|".join(map(str, value)) if isinstance(value, list) and values is not value else value
