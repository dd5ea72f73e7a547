"""Runs as the analysis sees them, made in memory."""

from pathlib import Path

import numpy as np
import pandas as pd

from nnd_tasks.results.paired import Paired
from nnd_tasks.results.runs import COLUMNS, Run

PROTOCOL = {"set": "nnd/demo", "config": "default", "data": "abc", "prompt": "p"}


def make_run(
    model,
    passed,
    clusters,
    categories=None,
    margins=None,
    **changes,
):
    """Return a run with one test per outcome; candidates 2i and 2i + 1 belong to test i of a cluster."""
    labels = list(categories or ["c"] * len(passed))
    names = list(dict.fromkeys(clusters))
    prompt = {"context": "the cat sat", "no_context": None}
    documents = [{"cluster_id": name, **prompt, "candidates": [], "scores": []} for name in names]
    rows = []
    for i, (outcome, cluster, category) in enumerate(zip(passed, clusters, labels, strict=True)):
        place = names.index(cluster)
        texts = documents[place]["candidates"]
        texts += [f"better cat {i}", f"worse text {i} here"]
        documents[place]["scores"] += [None, None]
        about = {"test_id": f"t{i}", "cluster_id": cluster, "category": category, "subcategory": "", "severity": ""}
        about |= {"document": place, "high": len(texts) - 2, "low": len(texts) - 1, "passed": outcome, "tie": False}
        margin = margins[i] if margins is not None else (1.0 if outcome else -1.0)
        margins_and_high = ("margin", "margin_sum", "margin_bytes", "high_sum", "high_mean")
        scores = {**dict.fromkeys(margins_and_high, margin), "low_sum": 0.0, "low_mean": 0.0}
        lengths = dict.fromkeys(("high_tokens", "low_tokens", "high_bytes", "low_bytes"), 1.0)
        rows.append({**about, **scores, **lengths})
    tests = pd.DataFrame(rows, columns=list(COLUMNS)).astype({"passed": "boolean", "seed": "Int64"})
    settings = {
        "model": model,
        "task": "nnd_demo",
        "path": Path(f"samples_{model}.jsonl"),
        "date": "2026",
        "protocol": dict(PROTOCOL),
        "model_info": {"window": 64},
        "environment": {},
        "line": f"set:nnd/demo || name:{model}",
        "short_line": f"nnd:?|demo|{model}",
        "version": "1-A",
        "command": {},
        "parameters": 1,
        "truncated": 0,
        "documents": documents,
        "tests": tests,
    }
    return Run(**{**settings, **changes})


def make_paired(passed, clusters, categories=None):
    """Return models ``m0``, ``m1``, … side by side; ``passed`` has shape (tests, models)."""
    table = np.asarray(passed, dtype=bool)
    runs = [make_run(f"m{j}", table[:, j].tolist(), clusters, categories) for j in range(table.shape[1])]
    tests = runs[0].tests[["test_id", "cluster_id", "category", "subcategory", "severity", "document"]]
    return Paired("nnd_demo", runs, tests, table, 0)
