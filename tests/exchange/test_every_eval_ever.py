"""Records of Every Eval Ever: by its schemas (0.3.0, in ``schemas``), and by its own validator in ``nox -s eee``."""

import json
import os
import re
from pathlib import Path

import pytest

from tests.commands import run
from tests.results.fake_runs import CHANCES, make_document, make_sample, score, write_run

PYTHON = os.environ.get("NND_TEST_EEE", "")
SCHEMAS = {path.name: json.loads(path.read_text()) for path in (Path(__file__).parent / "schemas").glob("*.json")}
TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "null": type(None),
    "number": (int, float),
    "integer": int,
}


def fits(value, schema, root):
    """Tell whether a value fits the part of JSON Schema that these schemas use, but for their conditions."""
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    kinds, known = schema.get("type", []), schema.get("properties", {})
    others = schema.get("additionalProperties", {})
    fields = value.items() if isinstance(value, dict) else ()
    return (
        ("oneOf" not in schema or sum(fits(value, one, root) for one in schema["oneOf"]) == 1)
        and (
            not kinds or any(isinstance(value, TYPES[kind]) for kind in ([kinds] if isinstance(kinds, str) else kinds))
        )
        and value in schema.get("enum", [schema.get("const", value)])
        and (not isinstance(value, str) or re.search(schema.get("pattern", ""), value))
        and (not isinstance(value, dict) or set(schema.get("required", ())) <= value.keys())
        and all(fits(item, schema.get("items", {}), root) for item in (value if isinstance(value, list) else ()))
        and all(key in known or others is not False for key, _ in fields)
        and all(fits(item, known.get(key) or others or {}, root) for key, item in fields)
    )


@pytest.fixture
def export(nnd, tmp_path):
    """A function that exports results: path -> record, and the instances beside it."""

    def write(results):
        done = nnd("report", results, "--eee", tmp_path / "eee")
        assert done.status == 0, done.err
        found = {}
        for path in (tmp_path / "eee").rglob("*[0-9a-f].json"):
            record = json.loads(path.read_text())
            detail = record["detailed_evaluation_results"]
            lines = (tmp_path / "eee" / detail["file_path"]).read_text().splitlines()
            assert len(lines) == detail["total_rows"]
            instances = [json.loads(line) for line in lines]
            assert fits(record, SCHEMAS["eval.schema.json"], SCHEMAS["eval.schema.json"])
            assert not fits({**record, "more": 1}, SCHEMAS["eval.schema.json"], SCHEMAS["eval.schema.json"])
            assert all(fits(instance, SCHEMAS["instance_level_eval.schema.json"], {}) for instance in instances)
            assert {instance["evaluation_id"] for instance in instances} == {record["evaluation_id"]}
            found[record["model_info"]["id"], record["evaluation_results"][0]["evaluation_result_id"]] = (
                record,
                instances,
            )
        if PYTHON:
            done = run(
                [PYTHON, "-m", "every_eval_ever", "validate", "--format", "json", f"{tmp_path}/eee/data/*/*/*/*.json*"]
            )
            reports = json.loads(done.stdout)
            assert done.returncode == 0, done.stdout[-3000:]
            assert len(reports) == 2 * len(found)
        return found

    return write


@pytest.mark.parametrize("reader", [None, "validator", "choice", "judge", "rating", "reward"])
def test_runs_of_every_reader_keep_tests_and_categories(export, tmp_path, reader):
    texts, rows = ["good", "bad", "worse"], []
    for i in range(12):
        document = make_document(f"p{i}", [f"{text} {i}" for text in texts], CHANCES)
        first = score(-3.0 if i % 3 else -1.0) if i else None  # not scored
        scores = [score(-2.0), first, score(-2.0) if i == 1 else score(-2.5)]
        rows.append(make_sample(document, scores))
    protocol = {"reader": reader} if reader else {}
    write_run(tmp_path / "results", "org/model", samples=rows, protocol=protocol)
    [(record, instances)] = export(tmp_path / "results").values()
    overall, *categories = record["evaluation_results"]
    assert record["model_info"]["id"] == "org/model"
    passed = [instance["evaluation"]["score"] for instance in instances]
    assert (len(passed), sum(passed)) == (23, 8 + 11)
    assert overall["score_details"]["score"] == pytest.approx(19 / 23)
    assert [one["score_details"]["details"] for one in (overall, *categories)] == [
        {"category": name, "prompts": prompts}
        for name, prompts in {"all": "12", "disfluent": "11", "off_target": "12"}.items()
    ]
    uncertainty = overall["score_details"]["uncertainty"]
    assert uncertainty["num_samples"] == 23
    assert uncertainty["confidence_interval"]["lower"] < 19 / 23 < uncertainty["confidence_interval"]["upper"]
    tie = next(instance for instance in instances if instance["sample_id"] == "p1-2")
    assert tie["input"] == {"raw": "context p1", "reference": ["good 1"], "choices": ["good 1", "worse 1"]}
    assert tie["evaluation"] == {"score": 0, "is_correct": False}
    assert tie["output"]["raw"] == ["worse 1"]
    assert tie["metadata"] == {"category": "off_target", "cluster_id": "p1", "margin": "0.0", "tie": "True"}


@pytest.mark.slow
def test_documents_of_other_tasks_keep_their_metric(export, stock):
    found = export(stock)
    record, instances = found["unspecified/tiny-lm-m", "overlap/overlap/all"]
    [result] = record["evaluation_results"]
    scores = [instance["evaluation"]["score"] for instance in instances]
    assert result["score_details"]["score"] == pytest.approx(sum(scores) / len(scores))
    assert result["metric_config"]["metric_id"] == "overlap"
    assert record["eval_library"]["version"].startswith("0.4")
    assert ("unspecified/tiny-lm-xs", "mc_equal/acc_norm/all") in found
