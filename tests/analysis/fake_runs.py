"""Results and samples files as lm-eval writes them for NND tasks, with made-up texts and scores."""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PROTOCOL = {
    "set": "nnd/made_up",
    "config": "authors",
    "data": "0123456789abcdef",
    "normalization": "token",
    "prompt": "76dc4349838f",
    "shots": 0,
    "selection": "all",
}
CATEGORIES = ("disfluent", "off_target")


def sample(doc_id: int, chances: Mapping[str, float], rng: random.Random, **changes: Any) -> dict[str, Any]:
    """Return one line of a samples file: a cluster with a test per category, passed with the given chances."""
    cluster = f"{doc_id:016x}"
    candidates = [{"sum": -20.0, "mean": -2.0, "tokens": 10, "bytes": 40}]
    texts = [f"good text {doc_id}"]
    tests = []
    for i, (category, chance) in enumerate(chances.items(), start=1):
        passed = rng.random() < chance
        mean = -3.0 if passed else -1.0
        candidates.append({"sum": 10 * mean, "mean": mean, "tokens": 10, "bytes": 40})
        texts.append(f"text {doc_id} with an error, {category}")
        about = {"test_id": f"{cluster}-{i}", "category": category, "subcategory": "", "severity": ""}
        tests.append({**about, "high": 0, "low": i, "passed": passed, "tie": False})
    doc = {"cluster_id": cluster, "context": f"context {doc_id}", "candidates": texts, "tests": tests}
    return {
        "doc_id": doc_id,
        "doc": doc,
        "target": texts[0],
        "filter": "none",
        "tests": tests,
        "candidates": candidates,
        "clusters": 1,
        "truncated_contexts": 0,
        **changes,
    }


def write_run(
    folder: Path,
    name: str,
    chances: Mapping[str, float] | None = None,
    *,
    task: str = "nnd_made_up",
    contexts: int = 30,
    parameters: int | None = 1_000_000,
    seed: int = 0,
    protocol: Mapping[str, Any] | None = None,
    about: Mapping[str, Any] | None = None,
    samples: Sequence[Mapping[str, Any]] = (),
) -> Path:
    """Write the files of one run below ``folder`` and return the folder that ``--output_path`` named.

    Args:
        folder: for all runs.
        name: of the model, as ``pretrained=`` gives it.
        chances: category -> chance of a pass.
        task: name of the task.
        contexts: how many.
        parameters: of the model; None where lm-eval does not know.
        seed: of the outcomes.
        protocol: what differs from `PROTOCOL`.
        about: what to add to the model's part of the signature.
        samples: the lines of the samples file, in the place of made-up ones.
    """
    rng = random.Random(seed)
    chosen = chances or dict.fromkeys(CATEGORIES, 0.7)
    samples = samples or [sample(i, chosen, rng) for i in range(contexts)]
    asked = {**PROTOCOL, "set": task.replace("nnd_", "nnd/", 1), **(protocol or {})}
    model = {
        "type": "hf",
        "name": name,
        "weights": f"{zlib.crc32(name.encode()):012x}",
        "window": 1024,
        **(about or {}),
    }
    line = " || ".join(
        "|".join(f"{key}:{value}" for key, value in part.items()) for part in (asked, model, {"torch": "2"})
    )
    signature = {"line": line, "protocol": asked, "model": model, "environment": {"torch": "2"}}
    results = {
        "results": {task: {"alias": task}},
        "configs": {task: {"task": task, "metadata": {"version": "1-A", "nnd": {"signature": signature}}}},
        "versions": {task: "1-A"},
        "n-samples": {task: {"original": len(samples), "effective": len(samples)}},
        "config": {"model": "hf", "model_args": {"pretrained": name}, "model_num_parameters": parameters},
        "model_name": name,
    }
    output = folder / name.strip("./").replace("/", "_") / task
    inner = output / name.replace("/", "__")
    inner.mkdir(parents=True, exist_ok=True)
    (inner / "results_2026-01-01T00-00-00.json").write_text(json.dumps(results, indent=2))
    lines = "".join(json.dumps(item) + "\n" for item in samples)
    (inner / f"samples_{task}_2026-01-01T00-00-00.jsonl").write_text(lines)
    return output
