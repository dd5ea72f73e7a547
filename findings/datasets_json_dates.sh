#!/usr/bin/env bash
# datasets 5.2.0: `load_dataset("json")` of JSON lines makes timestamps of a text column if all its values read as dates, in lists and
# structs too. pyarrow's reader, which infers them, takes 1999-12-31 as well as 2024-05-01 10:00:00. A target "1999-12-31" becomes
# "1999-12-31 00:00:00" as text. One other text in the column keeps all as they are, as do `Dataset.from_list` and `field=`.
# Seen: the column is timestamp[s], the answer datetime(1999, 12, 31, 0, 0); with "unknown" in another row it is a string.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet datasets==5.2.0
cd "$folder"
HF_HOME="$folder/cache" HF_HUB_OFFLINE=1 HF_DATASETS_DISABLE_PROGRESS_BARS=1 "$folder/venv/bin/python" - <<'PYTHON'
import json
from datetime import datetime
from pathlib import Path

from datasets import Dataset, load_dataset


def answers(*rows, field=None):
    """Return the type of the answers, and the first one, after they were written as JSON."""
    path = Path(f"{len(list(Path().glob('*.json')))}.json")
    path.write_text(json.dumps({field: rows}) if field else "\n".join(map(json.dumps, rows)))
    data = load_dataset("json", data_files=str(path), split="train", **({"field": field} if field else {}))
    print(data.features["answer"], repr(data[0]["answer"]))
    return data.features["answer"], data[0]["answer"]


date, other = {"answer": "1999-12-31"}, {"answer": "unknown"}
kind, answer = answers(date, {"answer": "2001-01-01"})
assert kind.dtype == "timestamp[s]" and answer == datetime(1999, 12, 31) and str(answer) == "1999-12-31 00:00:00"
assert answers({"answer": ["1999-12-31", "2000-01-01"]})[0].feature.dtype == "timestamp[s]"
assert answers(date, other)[1] == answers(date, field="rows")[1] == Dataset.from_list([date])[0]["answer"] == "1999-12-31"
PYTHON
