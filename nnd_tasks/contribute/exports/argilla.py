"""Argilla: records as JSON, or what to_datasets writes, a row per record and user.

Answers are the columns answer.QUESTION; suggestions are left out. Records.to_json writes no status, so that discarded responses
count: export with to_datasets. Of a ranking each text is a row with its rank.
"""

from pathlib import Path

import pandas as pd

from nnd_tasks.tables.cells import unpack
from nnd_tasks.tables.read import read_records

FILES = "*.json"


def recognise(records):
    nested = [name for name in ("fields", "responses", "suggestions") if isinstance(unpack(records[0].get(name)), dict)]
    return nested if len(nested) == 3 else [name for name in records[0] if name.endswith(".responses.users")]


def rows(folder: Path) -> pd.DataFrame:
    found = []
    for path in sorted(folder.rglob(FILES)):
        for record in read_records(path):
            data = {
                name: cell for name, cell in record.items() if ".responses" not in name and ".suggestion" not in name
            }
            data = {**unpack(data.pop("fields", {})), **data, "where": record.where}
            answers = read_responses(record)
            for user, (status, given) in answers.items() if answers else [(None, (None, {}))]:
                found += split_ranking(data | {"rater": user, "status": status} | given)
    return pd.DataFrame(found, dtype=object).drop(
        columns=["responses", "suggestions", "vectors", "metadata"], errors="ignore"
    )


def read_responses(record):
    """Return user -> status and answers, from either form."""
    nested = unpack(record.get("responses")) or {}
    flat = {
        name[: -len(".responses")]: unpack(cell) or [] for name, cell in record.items() if name.endswith(".responses")
    }
    for question, values in flat.items():
        users, statuses = (unpack(record[f"{question}.responses.{key}"]) for key in ("users", "status"))
        nested[question] = [
            {"value": value, "user_id": user, "status": status}
            for value, user, status in zip(values, users or (), statuses or (), strict=True)
        ]
    answers = {}
    for question, responses in nested.items():
        for response in responses:
            _, given = answers.setdefault(response["user_id"], (response.get("status"), {}))
            value = response["value"]
            of_labels = isinstance(value, list) and all(isinstance(item, str) for item in value)
            given[f"answer.{question}"] = (
                "|".join(value) if of_labels and not {*value} <= {*record.get("fields", record)} else value
            )
    return answers


def split_ranking(row):
    """Return a row per ranked text where an answer ranks fields of the record; else the row."""
    for name, value in row.items():
        ranks = value if name.startswith("answer.") and isinstance(value, list) and value else []
        ranks = [
            item if isinstance(item, dict) else {"value": item, "rank": i} for i, item in enumerate(ranks, start=1)
        ]
        if ranks and all(item.get("value") in row and "rank" in item for item in ranks):
            return [
                row | {f"{name}.rank": item["rank"], "system": item["value"], "candidate": row[item["value"]]}
                for item in ranks
            ]
    return [row]
