"""`benchmarks/gpu.py` on a CPU, with tiny shapes."""

import json

from benchmarks import gpu


def test_the_table_has_a_row_for_each_model_type_and_set(llama, tmp_path, capsys):
    prompt = {"prompt": "One day, the cat", "texts": [" sat.", " ran away.", " "], "tests": [[0, 1], [1, 2]]}
    lines = [json.dumps({"set": name, **prompt}) for name in ("one", "one", "two")]
    (tmp_path / "requests.jsonl").write_text("\n".join(lines))
    words = ["--model", str(llama), "--wide", "1,64", "--device", "cpu", "--prompts", "1"]
    gpu.main([str(tmp_path / "requests.jsonl"), *words])
    rows = [
        line.split(" | ") for line in capsys.readouterr().out.splitlines() if " x 64 | " in line or "| llama |" in line
    ]
    assert [(row[1], row[2], row[3]) for row in rows] == [
        (dtype, name, "2") for dtype in ("bfloat16", "float32") for _ in range(2) for name in ("one", "two")
    ]
    assert {row[-1] for row in rows if row[1] == "float32"} == {"0 of 1 |"}
