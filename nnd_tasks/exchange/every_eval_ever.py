"""Runs in the schema of Every Eval Ever 0.3.0 (https://github.com/evaleval/every_eval_ever, arXiv 2606.14516).

Known limits: who ran the evaluation, and whether the model's weights are open, is not in results; the records say ``unspecified``
and ``unknown``. An instance belongs to the result of all tests; its category stands in its metadata.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from nnd_tasks import __version__
from nnd_tasks.files import read_yaml, write_texts
from nnd_tasks.results.compare import category_rates
from nnd_tasks.results.paired import pair
from nnd_tasks.results.runs import METRIC, Run
from nnd_tasks.show.report import file_stem
from nnd_tasks.show.values import is_missing


def write_records(runs: Sequence[Run], folder: Path) -> None:
    """Write two files per run below ``folder``, as the datastore of Every Eval Ever has them: rates, and every scored test.

    The names of the files follow from the run, so that they are replaced when it is written again.

    Raises:
        NNDError: the files cannot be written; then none is.
    """
    fixed, files = read_yaml(Path(__file__).with_suffix(".yaml")), dict[Path, str]()
    for run in runs:
        name = str(run.model_info.get("name"))
        if not re.fullmatch(r"[\w.-]+/[\w.-]+", name) or Path(name).exists():  # it lies elsewhere than on the hub
            name = f"unspecified/{file_stem(run.model)}"
        now = f"{time.time():.0f}"
        evaluation_id = f"{run.set}/{name}/{now}"
        results = list(_list_results(run, fixed))
        about = {"evaluation_id": evaluation_id, "model_id": name}
        lines = "".join(json.dumps(instance) + "\n" for instance in _list_instances(run, fixed, results[0], about))
        identity = hashlib.sha256(f"{run.line} {run.date}".encode()).digest()
        path = f"data/nnd-tasks/{name}/{UUID(bytes=identity[:16], version=4)}"
        library = {"name": "lm_eval", "version": str(run.environment.get("lm_eval", "unknown"))}
        signature = re.sub(r"(?<=:)/[^|]*/", "", run.line)  # without the folders of this machine
        record = {
            **fixed["record"],
            "evaluation_id": evaluation_id,
            "retrieved_timestamp": now,
            "eval_library": {**library, "additional_details": {"nnd_tasks": __version__, "signature": signature}},
            "model_info": {"name": run.model, "id": name, "additional_details": fixed["model_details"]},
            "evaluation_results": results,
            "detailed_evaluation_results": {
                **fixed["samples"],
                "file_path": f"{path}_samples.jsonl",
                "total_rows": lines.count("\n"),
                "checksum": hashlib.sha256(lines.encode()).hexdigest(),
            },
        }
        files |= {folder / f"{path}.json": json.dumps(record, indent=2), folder / f"{path}_samples.jsonl": lines}
    write_texts(files, hint="name a folder with --eee")


def _list_results(run: Run, fixed: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the rates on all tests, then on each category, with their errors and intervals."""
    [paired] = pair([run])
    unit, metric = paired.words.prompt, run.protocol["config"] if paired.of_documents else "pass_rate"
    config = {"metric_id": metric, "metric_name": metric, "lower_is_better": paired.words.lower}
    config |= fixed["shares"] if paired.span == 1 else {}
    for row in category_rates(paired).to_dict("records"):
        uncertainty: dict[str, Any] = {"num_samples": row["tests"]}
        if not math.isnan(row["standard_error"]):
            uncertainty["standard_error"] = {
                "value": row["standard_error"],
                "method": f"ratio estimator, clustered by {unit}",
            }
        if not math.isnan(row["low"]):
            method = f"{'Student' if paired.numbers else 'Wilson'}, clustered by {unit}"
            ends = {"lower": row["low"], "upper": row["high"]}
            uncertainty["confidence_interval"] = {**ends, "confidence_level": 0.95, "method": method}
        details = {"category": row["category"], f"{unit}s": str(row["prompts"])}
        yield {
            "evaluation_result_id": f"{run.task}/{metric}/{row['category']}",
            "evaluation_name": f"{run.task}/{row['category']}",
            "source_data": {"dataset_name": run.set, "source_type": "other"},
            "metric_config": config,
            "score_details": {"score": row["rate"], "details": details, "uncertainty": uncertainty},
        }


def _list_instances(
    run: Run, fixed: Mapping[str, Any], result: Mapping[str, Any], about: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    """Yield a record of each scored test, or document."""
    of_result = {name: result[name] for name in ("evaluation_name", "evaluation_result_id")}
    names = ("category", "subcategory", "severity", "cluster_id", "margin", "tie")
    for row in run.tests.assign(**run.texts).dropna(subset="passed").to_dict("records"):
        document, score = run.documents[row["document"]], float(row["passed"])
        raw = str(document.get("context") or "")
        if run.reader == METRIC:
            asked, method = {"raw": raw, "reference": [str(document["target"])]}, run.protocol["filter"]
            output = [json.dumps(document["filtered_resps"])]
        else:
            texts, method = [row["high"], row["low"]], f"the text that the {run.reader} prefers"
            asked, output = {"raw": raw, "reference": texts[:1], "choices": texts}, [texts[score == 0]]
        yield {
            **fixed["instance"],
            **about,
            **of_result,
            "sample_id": row["test_id"],
            "sample_hash": hashlib.sha256(json.dumps(asked).encode()).hexdigest(),
            "input": asked,
            "output": {"raw": output},
            "answer_attribution": [{**fixed["answer"], "extracted_value": output[0], "extraction_method": method}],
            "evaluation": {"score": score, "is_correct": score == 1},
            "metadata": {name: str(row[name]) for name in names if not is_missing(row[name]) and row[name] != ""},
        }
