"""WMT24: translations whose errors people marked (ESA); the texts are lines of files of their own."""

import json
import re
from pathlib import Path

import pandas as pd

COLUMNS = ["rater", "system", "line", "type", "source", "target", "score", "document", "flag", "spans", "start", "end"]
PAIRS = {"ces": "en-cs", "hin": "en-hi", "jpn": "en-ja", "zho": "en-zh"}


def rows(folder: Path) -> pd.DataFrame:
    """Return a row per text and rater; of several by a rater in one wave the latest counts."""
    lines = {p.stem + p.parent.name: re.split("\r?\n", p.read_bytes().decode()) for p in folder.glob("txt/**/*.*")}
    found = []
    for path in sorted(folder.glob("humeval/esa_generalMT2024_wave[23].csv")):
        table = pd.read_csv(path, names=COLUMNS, dtype=str, keep_default_na=False).sort_values("end", kind="stable")
        odd = (table["type"] + table["system"] + table["document"]).str.contains("^BAD|tutorial|#bad|#incomplete|#dup")
        for mark in table[~odd].drop_duplicates(["rater", "target", "system", "line"], keep="last").to_dict("records"):
            pair, system, place = PAIRS[mark["target"]], mark["system"], int(mark["line"])  # line 0 is a canary
            domain, document = lines[pair + "documents"][place].split("\t")
            assert document == mark["document"], f"line {place} of {pair}.docs is of {document}"
            text = lines[f"{pair}.refAreferences" if system == "refA" else system + pair][place]
            found.append({"config": pair.replace("-", "_"), "group": f"{document} {place}", "subcategory": domain,
                          "context": lines[pair + "sources"][place], "candidate": text, "rater": mark["rater"], "system": system,
                          "where": f"{path.name}, {system}, {place}", **judge(json.loads(mark["spans"]))})  # fmt: skip
    return pd.DataFrame(found)


def judge(marks: list[dict]) -> dict:
    """Return the worst severity as label, the category (an omission is at no place), and the spans, their ends within."""
    label = min((mark["severity"] for mark in marks), key=["undecided", "major", "minor"].index, default="clean")
    placed = [{"start": mark["start_i"], "end": mark["end_i"] + 1} for mark in marks if mark["start_i"] != "missing"]
    return {"label": label, "category": "omission" if len(placed) < len(marks) else label, "spans": placed}


def mended(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the clean config: without the reference."""
    return rows[rows["system"] != "refA"]
