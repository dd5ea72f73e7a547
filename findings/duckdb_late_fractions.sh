#!/usr/bin/env bash
# duckdb 2.0.1: a rating of 4.5 is read as 5 from a CSV file and as 4 from a JSON file, if about the first 20,480 ratings are
# whole numbers; a text in their place is an error, a fraction is not. `read_csv` and `read_json` take a column's type from their first
# `sample_size` rows (20,480) and cast the rest to it. A cast to BIGINT rounds, and not in one way: a text, as in CSV, and a
# DECIMAL go away from zero at a half, a DOUBLE, as in JSON, to the even number. `sample_size=-1` reads the fractions.
# Seen after 30,000 times 4: 4.5, 3.5 and 2.5 are 5, 4 and 3 from CSV, and 4, 4 and 2 from JSON, without a warning.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet duckdb==2.0.1
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import json
from pathlib import Path

import duckdb

ratings = [4] * 30_000 + [4.5, 3.5, 2.5]
Path("ratings.csv").write_text("rating\n" + "".join(f"{rating}\n" for rating in ratings))
Path("ratings.jsonl").write_text("".join(json.dumps({"rating": rating}) + "\n" for rating in ratings))


def last(source):
    """Return the type of the column and the last three ratings."""
    kind, found = duckdb.sql(f"SELECT typeof(any_value(rating)), list(rating) FROM {source}").fetchall()[0]
    return kind, found[-3:]


for source, expected in (("'ratings.csv'", [5, 4, 3]), ("'ratings.jsonl'", [4, 4, 2])):
    print(source, *last(source))
    assert last(source) == ("BIGINT", expected)
for source in ("read_csv('ratings.csv', sample_size=-1)", "read_json('ratings.jsonl', sample_size=-1)"):
    print(source, *last(source))
    assert last(source) == ("DOUBLE", [4.5, 3.5, 2.5])
assert duckdb.sql("SELECT '4.5'::BIGINT, 4.5::DECIMAL(3, 1)::BIGINT, 4.5::DOUBLE::BIGINT").fetchall() == [(5, 5, 4)]
Path("ratings.csv").write_text("rating\n" + "4\n" * 30_000 + "four\n")
try:
    last("'ratings.csv'")
except duckdb.ConversionException as error:
    print("a text:", str(error).splitlines()[0])
else:
    raise AssertionError("a text was read as a number")
PYTHON
