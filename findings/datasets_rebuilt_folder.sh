#!/usr/bin/env bash
# datasets 5.2.0: `load_dataset` of a local folder with a card (README.md) keeps giving the first rows that it saw there, also in a
# later process, after the parquet file was replaced, and another folder of the same name gets them too. What it prepared is kept
# under the folder's name, the config, its version (0.0.0) and a digest of the card's configs (`LocalDatasetModuleFactory`, load.py),
# which knows neither the place nor the time of the files. A `version:` of the config in the card, changed with the data, mends
# it; so does `load_dataset("parquet", data_files=...)`.
# Seen: one, then one again for two, one for another folder of this name; three with version: 0.0.3.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet datasets==5.2.0 pyarrow==24.0.0
cd "$folder"
cat > load.py <<'PYTHON'
import sys
from pathlib import Path

import pyarrow
import pyarrow.parquet
from datasets import load_dataset

place, text, version, how = sys.argv[1:]
folder = Path(place, "answers")
folder.mkdir(parents=True, exist_ok=True)
pyarrow.parquet.write_table(pyarrow.table({"text": [text]}), folder / "test.parquet")
card = f"configs:\n- config_name: default\n  version: {version}\n  data_files:\n  - split: test\n    path: test.parquet\n"
(folder / "README.md").write_text(f"---\n{card}---\n")
files = {"test": str(folder / "test.parquet")}
rows = load_dataset("parquet", data_files=files) if how == "files" else load_dataset(str(folder))
print(rows["test"][0]["text"])
PYTHON
export HF_HUB_OFFLINE=1 HF_HOME="$folder/home"
check() {
  got=$("$folder/venv/bin/python" load.py "$1" "$2" "$3" "$4" 2>/dev/null)
  echo "$1, $2, version $3, by $4: $got"
  [ "$got" = "$5" ]
}
check here one 0.0.0 folder one
check here two 0.0.0 folder one
check there other 0.0.0 folder one
check here two 0.0.0 files two
check here three 0.0.3 folder three
