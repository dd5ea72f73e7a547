"""Runs with token scores and marked errors, as lm-eval and `nnd run` write them, with made-up texts and scores."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nnd_tasks.harness.token_table import SCHEMA

DATE = "2026-01-01T00-00-00"
_WORDS = "the a river city over under stone quickly walked green house found small letters 城市 naïve Straße 🙂 of and"


def documents(count: int, *, each: int = 3, words: int = 30, context: int = 60) -> list[dict[str, Any]]:
    """Return prompts with one good candidate and ``each`` worse ones, in which one word or two are others and marked."""
    rng = np.random.default_rng(0)
    made = []
    for i in range(count):
        good = rng.choice(_WORDS.split(), words).tolist()
        candidates, marks = [" ".join(good)], [[]]
        for j in range(each):
            at = int(rng.integers(1, words - 1))
            bad = [*good[:at], f"Wr0ng{j}", *good[at + 1 + j % 2 :]]
            start = len(" ".join(good[:at])) + 1
            kind = {"category": ("grammar", "meaning")[j % 2], "severity": "major"}
            candidates.append(" ".join(bad))
            marks.append([{"start": start, "end": start + 6, **kind}])
        about = [{"test_id": f"{i:05x}-{j}", "category": ("grammar", "meaning")[j % 2]} for j in range(each)]
        tests = [
            {**one, "subcategory": "", "severity": "major", "high": 0, "low": j + 1} for j, one in enumerate(about)
        ]
        text = " ".join(rng.choice(_WORDS.split(), context).tolist())
        document = {"cluster_id": f"c{i:05x}", "context": f"Source {i}: {text}", "question": f"Which of {i}?"}
        made.append({**document, "candidates": candidates, "error_spans": marks, "tests": tests})
    return made


def write_run(
    folder: Path,
    model: str,
    made: list[dict[str, Any]],
    *,
    seed: int = 0,
    tokens: bool = True,
    task: str = "nnd_marked",
    spans_digest: str = "s1",
    without_context: bool = False,
    parameters: int | None = None,
    about: Mapping[str, Any] | None = None,
) -> Path:
    """Write the files of a run; a token is a word with the space before it, a wrong word is more surprising.

    ``spans_digest`` is that of the error spans, ``parameters`` the model's number of them, ``about`` is added to its
    part of the signature. With ``without_context`` the candidates have scores without the context too.
    Characters beyond ASCII are tokens of their own, twice, as bytes of one character are. There is an end-of-sequence token.
    """
    rng = np.random.default_rng(seed)
    noise = np.random.default_rng([seed, 1])  # of its own, so that the other numbers are the same with it and without
    lines, rows = [], []
    for document in made:
        scores = []
        for i, text in enumerate(document["candidates"]):
            spans = [match.span() for match in re.finditer(r" ?[\x21-\x7e]+| ?[^\x00-\x7f]", text)]
            spans = [span for span in spans for _ in range(1 + (not text[slice(*span)].isascii()))] + [(len(text),) * 2]
            logprobs = -rng.exponential(2, len(spans))
            logprobs -= [4.0 if "Wr0ng" in text[slice(*span)] else 0.0 for span in spans]
            logprobs = logprobs.astype(np.float32)
            total = float(logprobs.sum(dtype=np.float64))
            scores.append({"sum": total, "mean": total / len(spans), "tokens": len(spans), "bytes": len(text.encode())})
            ids = [abs(hash_of(text[slice(*span)])) % 500 for span in spans]
            rows.append((document["cluster_id"], i, text, "whole", ids, *map(list, zip(*spans, strict=True)), logprobs))
        outcomes = [
            {**test, "passed": scores[test["high"]]["mean"] > scores[test["low"]]["mean"], "tie": False}
            for test in document["tests"]
        ]
        line = {"doc": document, "candidates": scores, "tests": outcomes}
        if without_context:
            means = [score["mean"] + float(noise.normal()) / 2 for score in scores]
            line["no_context"] = [
                {**score, "mean": mean, "sum": mean * score["tokens"]}
                for score, mean in zip(scores, means, strict=True)
            ]
        lines.append(json.dumps(line))
    asked = {"set": "nnd/marked", "config": "default", "data": "d1", "prompt": "p1", "selection": "all"}
    info = {"name": model, "window": 64, **(about or {})}
    signature = {"line": model, "protocol": asked, "model": info, "environment": {}}
    signature |= {"spans": spans_digest} if tokens else {}
    results = {
        "configs": {task: {"metadata": {"nnd": {"signature": signature}}}},
        "config": {"model": "hf", "model_args": {"pretrained": model}, "model_num_parameters": parameters},
        "versions": {task: "1-A"},
    }
    folder.mkdir(parents=True)
    (folder / f"results_{DATE}.json").write_text(json.dumps(results))
    (folder / f"samples_{task}_{DATE}.jsonl").write_text("\n".join(lines) + "\n")
    if tokens:
        columns = dict(zip(SCHEMA.names, map(list, zip(*rows, strict=True)), strict=True))
        pq.write_table(pa.table(columns, schema=SCHEMA), folder / f"tokens_{task}_{DATE}.parquet")
    return folder


def hash_of(text: str) -> int:
    """Return a number of a text that is the same in each process."""
    return int.from_bytes(text.encode()[-4:], "little")
