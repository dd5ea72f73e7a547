"""Chat arena: two models' answers, and a winner or a column for each outcome.

The columns conversation_a and conversation_b are chats with the prompt; winner names the better one, or a tie.
"""

from pathlib import Path

import pandas as pd

from nnd_tasks.tables.cells import unpack
from nnd_tasks.tables.read import read_records

FILES = "*"
OUTCOMES = {"winner_model_a": "a", "winner_model_b": "b", "winner_tie": "tie"}


def recognise(records):
    texts = [name for name in ("conversation_a", "response_a") if name in records[0]]
    winner = [name for name in ("winner", "winner_model_a") if name in records[0]]
    return ["model_a", *texts, *winner] if "model_a" in records[0] and texts and winner else []


def rows(folder: Path) -> pd.DataFrame:
    found = []
    for path in sorted(folder.rglob(FILES)):
        for record in read_records(path):
            row = {name: cell for name, cell in record.items() if name != "prompt"} | {"where": record.where}
            row |= {f"conversation_{side}": chat(record, side) for side in "ab"}
            if "winner" not in record:
                row["winner"] = next((OUTCOMES[name] for name in OUTCOMES if str(record[name]) in ("1", "True")), None)
            found.append(row)
    return pd.DataFrame(found, dtype=object)


def chat(record, side):
    """Return the messages of one side; prompt and response may be lists with a turn each."""
    if f"conversation_{side}" in record:
        return unpack(record[f"conversation_{side}"])
    prompts, answers = (unpack(record[name]) for name in ("prompt", f"response_{side}"))
    turns = zip(*([cell] if isinstance(cell, str) else cell for cell in (prompts, answers)), strict=False)
    return [
        {"role": role, "content": text}
        for turn in turns
        for role, text in zip(("user", "assistant"), turn, strict=True)
    ]
