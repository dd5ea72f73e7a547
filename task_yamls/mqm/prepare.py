"""WMT MQM: a row per rater and error, which marks stand around; one file per pair of languages, each with its own columns."""

from functools import cache
from pathlib import Path

import pandas as pd

from nnd_tasks.errors import NNDError
from nnd_tasks.tables.read import read_delimited
from nnd_tasks.tables.spans import take_marks

MARKS, MAJORITY = ["<v>", "</v>"], "_majority"


def rows(folder: Path) -> pd.DataFrame:
    """Return a row per rating; ``Accuracy/Mistranslation`` is of the category Accuracy."""
    files = sorted(folder.rglob("*mqm*.tsv")) or sorted(folder.rglob("*.tsv"))
    tables = [read_ratings(path) for path in files if ".avg" not in path.name]
    if not tables:
        raise NNDError(f"{folder}: has no .tsv file of ratings")
    return pd.concat([*tables, *map(take_majority, side_by_side(tables))])


def judgements(folder: Path) -> pd.DataFrame | None:
    """Return the ratings behind `take_majority`."""
    tables = side_by_side([read_ratings(path) for path in folder.rglob("sxs_*.tsv")])
    return pd.concat([table.assign(config=table["config"] + MAJORITY) for table in tables]) if tables else None


def side_by_side(tables: list[pd.DataFrame]) -> list[pd.DataFrame]:
    """Return the tables of ratings side by side, of which each translation has several: `mended`, without attention checks."""
    tables = [mended(table.copy()) for table in tables if table["config"].iat[0].startswith("sxs")]
    return [
        table[(table["severity"] != "HOTW-test") & ~table["category"].isin(["Found", "Missed"])] for table in tables
    ]


def take_majority(table: pd.DataFrame) -> pd.DataFrame:
    """Return a row per translation: right if most of its raters found no error, else its most frequent category of error.

    Each rater has one vote; a translation that as many find right as wrong is left out.
    """
    text = [table["group"], table["candidate"]]
    right = (table["label"] == "No-error").astype(float)
    votes = right.groupby([*text, table["rater"]]).mean().sub(0.5).map(lambda lead: (lead > 0) - (lead < 0))
    lead = votes.groupby(["group", "candidate"]).sum().rename("lead")
    table = table.drop(columns="rater").join(lead, on=["group", "candidate"])
    telling = table[(2 * right - 1) * table["lead"] > 0]
    often = telling.groupby(["group", "candidate", "category"])["label"].transform("size")
    first = telling.loc[often.sort_values(ascending=False, kind="stable").index].drop_duplicates(["group", "candidate"])
    return first.sort_index().drop(columns="lead").assign(config=first["config"] + MAJORITY)


@cache
def read_ratings(path: Path) -> pd.DataFrame:
    """Return the ratings of one file; its config is named after it."""
    table = read_delimited(path, "\t", quotes=False)
    doc, segment = (
        table[next((name for name in names if name in table), names[0])]
        for names in (["doc_id", "doc"], ["seg_id", "globalSegId", "docSegId"])
    )
    config = path.name.split(".")[0].removeprefix("mqm_").replace("sxs_mqm_generalMT2023", "sxs2023").lower()
    label = table["category"].str.strip()
    targets = [take_marks(text, *MARKS) for text in table["target"]]
    return pd.DataFrame(
        {
            "config": config,
            "group": doc + "_" + segment + "_" + table["source"],
            "context": table["source"],
            "candidate": [text for text, _ in targets],
            "spans": [spans for _, spans in targets],
            "label": label.where(label.str.casefold() != "no-error", "No-error"),
            "category": label.str.split("/").str[0].str.strip(),
            "subcategory": label,
            "severity": table["severity"],
            "system": table["system"],
            "rater": table["rater"],
            "where": f"{path}, row " + table["@row"].astype(str),
        }
    )


def mended(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the clean config: sources without marks, and no ratings that blame the source."""
    for column in ("context", "group"):
        rows[column] = rows[column].map(without_marks)
    return rows[~rows["category"].isin(["Source error", "Source issue"])]


def without_marks(text: str) -> str:
    """Return a text without its marks."""
    for mark in MARKS:
        text = text.replace(mark, "")
    return text
