"""ESA 2023: translations whose errors people marked in five campaigns, ESA or MQM; the texts are in the batches."""

import json
from pathlib import Path

import pandas as pd

COLUMNS = ["rater", "system", "item", "type", "source", "target", "score", "document", "flag", "spans", "start", "end"]


def rows(folder: Path) -> pd.DataFrame:
    """Return a row per text and rater; a config per campaign. Documents of checks have several #, of the tutorial none."""
    batches = json.loads((folder / "batches_wmt23_en-de_esa.json").read_text("utf-8"))
    batches = [{(item["documentID"], str(item["itemID"])): item for item in batch["items"]} for batch in batches]
    found = []
    for path in sorted(folder.glob("*.scores.csv")):
        table = pd.read_csv(path, names=COLUMNS, dtype=str, keep_default_na=False).set_index(["document", "item"])
        table = table[(table["type"] == "TGT") & (table.index.get_level_values("document").str.count("#") == 1)]
        for rater, marks in table.sort_values("end").groupby(["rater", "document", "item"]).tail(1).groupby("rater"):
            texts = next(batch for batch in batches if {*marks.index} <= {*batch})  # a rater has one batch
            for key, mark in marks.to_dict("index").items():
                source, where = texts[key]["sourceText"], f"{path.name}, {rater}, {key[0]}"
                found.append({"config": f"{path.name[9:12].lower()}_{path.name[:6]}", "group": f"{key[0].split('#')[0]} {source}",
                              "context": source, "candidate": texts[key]["targetText"], "system": mark["system"], "rater": rater,
                              "where": where, **judge(json.loads(mark["spans"]))})  # fmt: skip
    return pd.DataFrame(found)


def judgements(folder: Path) -> pd.DataFrame:
    """Return the same for each config, with the other campaigns as panels."""
    marks = rows(folder)
    return pd.concat(marks.assign(config=config, panel=marks["config"]) for config in marks["config"].unique())


def judge(marks: list[dict]) -> dict:
    """Return the worst severity as label, the category of the first such error (ESA: or an omission), and the spans."""
    label = min((mark["severity"] for mark in marks), key=["undecided", "major", "minor"].index, default="clean")
    kind = next((mark["error_type"][0] for mark in marks if mark["severity"] == label and mark.get("error_type")), "")
    placed = [{"start": mark["start_i"], "end": mark["end_i"] + 1} for mark in marks if mark["start_i"] != "missing"]
    return {"label": label, "category": kind or ("omission" if len(placed) < len(marks) else label), "spans": placed}
