#!/usr/bin/env bash
# polars 2.1.0: of a list of dicts, `from_dicts` and `DataFrame` read the types off the first 100 rows. A later number with a
# fraction, or in quotes, loses its fraction in an integer column, also within lists and structs. Of the same values as a
# column, polars raises TypeError. `infer_schema_length=None` keeps them.
# Seen: row 100 with 4.5 is 4, row 101 with "4.9" is 4, [4.5] is [4], {"a": 4.5} is {"a": 4}.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet polars==2.1.0
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import polars

ratings = [{"score": 3} for _ in range(100)] + [{"score": 4.5}, {"score": "4.9"}]
for read in (polars.from_dicts, polars.DataFrame):
    print(read.__name__, read(ratings)["score"].to_list()[98:])
    assert read(ratings)["score"].to_list()[98:] == [3, 3, 4, 4]
for early, late, got in (([3], [4.5], [4]), ({"a": 3}, {"a": 4.5}, {"a": 4})):
    assert polars.from_dicts([{"x": early}] * 100 + [{"x": late}]).to_dicts()[-1]["x"] == got
assert polars.from_dicts(ratings[:101], infer_schema_length=None)["score"].to_list()[-1] == 4.5
try:
    polars.DataFrame({"score": [3] * 100 + [4.5]})
except TypeError as error:
    print("as a column: TypeError", str(error).splitlines()[0])
else:
    raise SystemExit("the column is taken now")
PYTHON
