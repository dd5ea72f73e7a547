#!/usr/bin/env bash
# datasets 5.2.0: `Sequence({...})` of fields is no list of structs but a plain dict of lists, one per field. Rows must come in that
# shape: error spans as a list of dicts raise AttributeError. `List({...})` is a list of structs, and refuses the other shape,
# also in a cast.
# Seen: Sequence({"start", "label"}) is {"start": List, "label": List}; 'list' object has no attribute 'get'.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet datasets==5.2.0
cd "$folder"
HF_HUB_OFFLINE=1 HF_DATASETS_DISABLE_PROGRESS_BARS=1 "$folder/venv/bin/python" - <<'PYTHON'
from datasets import Dataset, Features, List, Sequence, Value

fields = {"start": Value("int64"), "label": Value("string")}
old, new = Features({"spans": Sequence(fields)}), Features({"spans": List(fields)})
of_dicts = [{"spans": [{"start": 0, "label": "omission"}, {"start": 9, "label": "grammar"}]}]
of_lists = [{"spans": {"start": [0, 9], "label": ["omission", "grammar"]}}]
print("Sequence:", old["spans"], "List:", new["spans"])
assert type(old["spans"]) is dict
assert Dataset.from_list(of_dicts, features=new)[0] == of_dicts[0]
assert Dataset.from_list(of_lists, features=old)[0] == of_lists[0]


def must_fail(kind, call):
    try:
        call()
    except kind as error:
        print(kind.__name__, str(error)[:60])
    else:
        raise SystemExit("this is taken now")


must_fail(AttributeError, lambda: Dataset.from_list(of_dicts, features=old))
must_fail(AttributeError, lambda: Dataset.from_list(of_lists, features=new))
must_fail(TypeError, lambda: Dataset.from_list(of_lists, features=old).cast(new))
PYTHON
