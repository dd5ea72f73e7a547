"""Simulate: what would float32's outcomes cost, if a model read all in 16 bits and only close tests again in float32?

    nnd run --model hf --model_args pretrained=smollm2,dtype=float32 --tasks TASKS --output_path float32
    nnd run --model hf --model_args pretrained=smollm2,dtype=bfloat16 --tasks TASKS --output_path bfloat16
    python benchmarks/second_reading.py float32 bfloat16 --price 0.5

A sample of prompts is read in both types. The largest change of a margin among its tests, times ``--safety``, is the bound:
candidates of tests with a margin within it are read again, after their prompt. Time counts distinct tokens, a beginning that
several requests share once: ``--price`` for each in 16 bits, 1 in float32. Printed are means over draws of the sample.

Known limits: prices are those of tokens alone; that both sets of weights must be loaded is not in them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from transformers import AutoTokenizer

from benchmarks.set_costs import count_distinct_tokens
from nnd_tasks.page.smollm2 import SMOLLM2, resolve_model
from nnd_tasks.results.read_runs import read_results
from nnd_tasks.results.runs import Run


def pair_tests(first: Run, second: Run) -> pd.DataFrame:
    """Put the margins of a task's tests in both types beside each other, and the texts that they compare.

    Args:
        first: in float32.
        second: in 16 bits.

    Returns:
        A row per test: ``prompt``; ``high`` and ``low``, its two requests as text; ``margin`` and ``margin_16``, in nats per
        token.
    """
    texts = {}
    for line in first.path.read_text("utf-8").splitlines():
        sample = json.loads(line)
        requests = ["".join(request.values()) for request in sample["arguments"].values()]
        for test in sample["doc"]["tests"]:
            texts[test["test_id"]] = requests[test["high"]], requests[test["low"]]
    margins = [
        run.tests.set_index("test_id")[["high_mean", "low_mean"]].diff(axis=1)["low_mean"] for run in (first, second)
    ]
    tests = pd.DataFrame({"margin": -margins[0], "margin_16": -margins[1]}).astype(float).dropna()
    tests["prompt"] = first.tests.set_index("test_id")["cluster_id"]
    tests["high"], tests["low"] = zip(*(texts[test] for test in tests.index), strict=True)
    return tests


def simulate(
    tests: pd.DataFrame,
    tokens: Mapping[str, list[int]],
    seed: int,
    *,
    share: float,
    least: int,
    safety: float,
    price: float,
) -> dict[str, float]:
    """Read a task twice by the rule of this file.

    Args:
        tests: those of `pair_tests`.
        tokens: of each request.
        seed: of the sample.
        share: of the prompts that are read in both types.
        least: least number of these prompts.
        safety: times the largest change of a margin there.
        price: of a token in 16 bits.

    Returns:
        ``bound`` in nats per token; ``sample`` and ``again``: shares of the tokens that are read in float32 for the sample and
        beyond it; ``differ``: outcomes that are not float32's; ``price``: the time, in parts of float32's.
    """
    prompts = tests["prompt"].unique()
    size = min(len(prompts), max(least, round(share * len(prompts))))
    chosen = np.random.default_rng(seed).choice(prompts, size, replace=False)
    sampled = tests["prompt"].isin(chosen)
    bound = safety * (tests["margin"] - tests["margin_16"])[sampled].abs().max()
    close = sampled | (tests["margin_16"].abs() <= bound)
    total, sample, second = (
        count_distinct_tokens([tokens[text] for text in {*part["high"], *part["low"]}])
        for part in (tests, tests[sampled], tests[close])
    )
    differ = ((tests["margin"] > 0) != (tests["margin_16"] > 0)) & ~close
    return {
        "bound": bound,
        "sample": sample / total,
        "again": (second - sample) / total,
        "differ": differ.sum(),
        "price": price + second / total,
    }


def main() -> None:
    """Print a row for each task, and for each safety."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", type=Path, help="results in float32")
    parser.add_argument("second", type=Path, help="results in 16 bits")
    parser.add_argument("--price", type=float, default=0.5, help="seconds of a token in 16 bits, in parts of float32's")
    parser.add_argument("--share", type=float, default=0.05, help="of the prompts that are read in both types")
    parser.add_argument("--least", type=int, default=10, help="least number of these prompts")
    parser.add_argument(
        "--safety", type=float, nargs="+", default=[1.0, 2.0], help="times the largest change of a margin there"
    )
    parser.add_argument("--draws", type=int, default=20, help="of the sample")
    options = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(resolve_model(SMOLLM2))
    others = {run.task: run for run in read_results(options.second)}
    print("| task | tests | differ before | safety | bound | sample | again | differ | at worst | price |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    for run in read_results(options.first):
        if run.task not in others:
            continue
        tests = pair_tests(run, others[run.task])
        texts = [*{*tests["high"], *tests["low"]}]
        tokens = dict(zip(texts, tokenizer(texts)["input_ids"], strict=True))
        before = ((tests["margin"] > 0) != (tests["margin_16"] > 0)).sum()
        for safety in options.safety:
            draws = [
                simulate(
                    tests, tokens, seed, share=options.share, least=options.least, safety=safety, price=options.price
                )
                for seed in range(options.draws)
            ]
            found = pd.DataFrame(draws)
            mean = found.mean()
            shares = " | ".join(f"{mean[name]:.2f}" for name in ("sample", "again", "differ"))
            row = f"| {run.task} | {len(tests):,} | {before} | {safety:g} | {mean['bound']:.3f} | {shares} "
            print(f"{row}| {found['differ'].max():.0f} | {mean['price']:.2f} |", flush=True)


if __name__ == "__main__":
    main()
