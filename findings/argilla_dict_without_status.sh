#!/usr/bin/env bash
# argilla 2.8.0: `Record.to_dict()` has no status of responses, so that a discarded answer looks like a submitted one.
# (The package imports requests, and does not ask for it.)
# Seen: of one submitted and one discarded response, {"quality": [{"value": "right", "user_id": …}, {"value": "wrong", …}]}.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet argilla==2.8.0 requests==2.34.2
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import uuid

import argilla

users = [uuid.UUID(int=number) for number in (1, 2)]
record = argilla.Record(
    fields={"text": "Rome is in Italy."},
    responses=[
        argilla.Response("quality", "right", users[0], status="submitted"),
        argilla.Response("quality", "wrong", users[1], status="discarded"),
    ],
)
assert [response.status for response in record.responses] == ["submitted", "discarded"]
written = record.to_dict()
print(written["responses"])
assert [set(answer) for answer in written["responses"]["quality"]] == [{"value", "user_id"}] * 2
again = argilla.Record.from_dict(written)
print("read again:", [response.status for response in again.responses])
PYTHON
