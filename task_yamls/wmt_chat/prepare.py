"""WMT chat translation: a CSV file per pair of languages and system, a row per sentence of a chat, with its errors."""

from pathlib import Path

import pandas as pd

from nnd_tasks.tables.read import read_delimited

KEY, POSITIONS, TURNS = ["doc_id", "segment_id", "lp"], ["start_index", "end_index"], 10


def rows(folder: Path) -> pd.DataFrame:
    """Return a row per translation without errors beside one with errors; the label says what is odd about the texts."""
    paths = sorted(folder.rglob("*.csv"))
    table = pd.concat(read_delimited(path, ",").assign(system=path.name.split(".")[2]) for path in paths)
    turns = table.drop_duplicates(KEY).to_dict("records")
    chats = [write_chat(turns[max(0, number - TURNS) : number + 1]) for number in range(len(turns))]
    table = table.merge(pd.DataFrame(turns)[KEY].assign(context=chats), on=KEY)
    table["flawed"] = table["typology_error"] != ""
    table["ways"] = table.groupby([*KEY, "mt"])["flawed"].transform("nunique")
    pairs = table[~table["flawed"]].merge(table[table["flawed"]], on=[*KEY, "context"], suffixes=("_high", ""))
    return pd.DataFrame({
        "config": pairs["lp"].str.replace("-br", ""), "context": pairs["context"],
        "chosen": pairs["mt_high"], "rejected": pairs["mt"], "high_system": pairs["system_high"], "low_system": pairs["system"],
        "category": pairs["typology_error"].str.split("/").str[0], "where": pairs["doc_id"] + " " + pairs["segment_id"],
        "spans": [list(zip(*(cell.split("/") for cell in cells), strict=True)) for cells in pairs[POSITIONS].to_numpy()],
        "label": pairs.filter(like="ways").max(axis=1).map({1: "sure", 2: "disputed"}).mask(pairs.eval("mt == mt_high"), "equal")
    })  # fmt: skip


def mended(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the clean config: without texts that were judged both with and without an error."""
    return rows[rows["label"] != "disputed"]


def write_chat(chat: list[dict]) -> str:
    """Return the last turn and those before it in its language, into which people translated the other side's."""
    said = [(turn, turn["source" if turn["lp"] == chat[-1]["lp"] else "reference"]) for turn in chat]
    return "\n".join(f"{turn['sender'].title()}: {text}" for turn, text in said if turn["doc_id"] == chat[-1]["doc_id"])
