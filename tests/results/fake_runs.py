"""Results, samples and token scores in files as `nnd run` writes them, with made-up texts and scores."""

import json
import random
import zlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nnd_tasks.likelihood.scored_tokens import ANSWERS, SCHEMA
from nnd_tasks.task.metrics import answers_digest
from nnd_tasks.task.signature import line

DATE = "2026-01-01T00-00-00"
PROTOCOL = {
    "set": "nnd/made_up",
    "config": "authors",
    "data": "0123456789abcdef",
    "normalization": "token",
    "prompt": "76dc4349838f",
    "shots": 0,
    "selection": "all",
}
CHANCES = {"disfluent": 0.7, "off_target": 0.7}


def score(mean, tokens=10, size=40):
    """Return the score of a candidate of so many tokens and bytes."""
    return {"sum": mean * tokens, "mean": mean, "tokens": tokens, "bytes": size}


def make_document(name, texts, categories):
    """Return a prompt whose first text is better than each other one, in a test of each category."""
    tests = [
        {"test_id": f"{name}-{low}", "category": category, "subcategory": "", "severity": "", "high": 0, "low": low}
        for low, category in enumerate(categories, start=1)
    ]
    return {"cluster_id": name, "context": f"context {name}", "candidates": texts, "tests": tests}


def make_sample(doc, scores, **more):
    """Return a line of a samples file; its tests are those of the document, decided by the means of the scores."""
    tests = []
    for test in doc["tests"]:
        high, low = scores[test["high"]], scores[test["low"]]
        passed = high["mean"] > low["mean"] if high and low else None
        tests.append({**test, "passed": passed, "tie": bool(high and low and high["mean"] == low["mean"])})
    return {"doc": doc, "tests": tests, "candidates": scores, "truncated_contexts": 0, **more}


def sample_of_tokens(doc, tokens, **more):
    """Return a line of a samples file with the tokens of each candidate, which `write_run` puts into a file of their own.

    A token is its id, its first character, the character after the last, and its log-probability.
    """
    scores = []
    for text, own in zip(doc["candidates"], tokens, strict=True):
        total = float(np.sum([token[-1] for token in own], dtype=np.float64))
        scores.append(score(total / len(own), len(own), len(text.encode())))
    return make_sample(doc, scores, scored_tokens=tokens, **more)


def sample(doc_id, chances, rng):
    """Return one line of a samples file: a cluster with a test per category, passed with the given chances."""
    scores = [score(-2.0), *(score(-3.0 if rng.random() < chance else -1.0) for chance in chances.values())]
    texts = [f"good text {doc_id}", *(f"text {doc_id} with an error, {category}" for category in chances)]
    return make_sample(make_document(f"{doc_id:016x}", texts, chances), scores)


def write_run(
    folder,
    name,
    chances=CHANCES,
    *,
    task="nnd_made_up",
    contexts=30,
    parameters=1_000_000,
    seed=0,
    protocol=None,
    about=None,
    samples=(),
    tokens=True,
    spans=None,
    date=DATE,
    version="1-A",
    **config,
):
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
        tokens: write the tokens that the samples have.
        spans: digest of the set's error spans.
        date: of the run.
        version: of the task.
        config: what to add to the arguments that lm-eval was given.
    """
    rng = random.Random(seed)
    samples = samples or [sample(i, chances, rng) for i in range(contexts)]
    kept = tokens and "scored_tokens" in samples[0]
    asked = {**PROTOCOL, "set": task.replace("nnd_", "nnd/", 1), **(protocol or {})}
    model = {
        "type": "hf",
        "name": name,
        "weights": f"{zlib.crc32(name.encode()):012x}",
        "window": 1024,
        "arguments": {},
        **(about or {}),
    }
    parts = {"protocol": asked, "model": model, "environment": {"torch": "2"}}
    whole_line = line(*parts.values()) + (f" || spans:{spans}" if spans else "")
    answers = answers_digest(score for item in samples for score in item["candidates"])
    signature = {"line": whole_line, **parts, "spans": spans}
    nnd = {"signature": signature, "settings": {"tokens": True} if kept else {}, "answers": answers}
    given = {"model": "hf", "model_args": {"pretrained": name}, "model_num_parameters": parameters, **config}
    results = {
        "configs": {task: {"task": task, "metadata": {"nnd": nnd}}},
        "versions": {task: version},
        "n-samples": {task: {"effective": len(samples)}},
        "config": given,
    }
    output = folder / name.strip("./").replace("/", "_") / task
    inner = output / name.replace("/", "__")
    inner.mkdir(parents=True, exist_ok=True)
    (inner / f"results_{date}.json").write_text(json.dumps(results, indent=2))
    lines = ({key: value for key, value in item.items() if key != "scored_tokens"} for item in samples)
    (inner / f"samples_{task}_{date}.jsonl").write_text("".join(json.dumps(item) + "\n" for item in lines))
    if kept:
        rows = [
            (item["doc"]["cluster_id"], i, text, "whole", *zip(*own, strict=True))
            for item in samples
            for i, (text, own) in enumerate(zip(item["doc"]["candidates"], item["scored_tokens"], strict=True))
        ]
        columns = dict(zip(SCHEMA.names, zip(*rows, strict=True), strict=True))
        table = pa.table(columns, schema=SCHEMA).replace_schema_metadata({ANSWERS: answers.encode()})
        pq.write_table(table, inner / f"tokens_{task}_{date}.parquet")
    return output
