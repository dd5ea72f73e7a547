"""Time of scoring with vLLM, its cache of prefixes read and not read, and how far the sums are apart.

    python benchmarks/vllm_prefix.py --model FOLDER            # all of Quiz Design, 20 articles of SummEval, three rounds

Needs vLLM. Two engines in one process, with the same weights and settings, score the same requests in turn, ours and lm-eval's
`VLLM` with ``batch_size=auto``. A ratio is taken within a round, so that other work on the machine slows both alike.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")  # GiB, on CPUs
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import workloads


def timed(lm: Any, requests: list[tuple[Any, list[int], list[int]]]) -> tuple[float, list[float]]:
    begin = time.perf_counter()
    responses = lm._loglikelihood_tokens(requests, disable_tqdm=True)
    return time.perf_counter() - begin, [total for total, _ in responses]


def compare(ours: Any, plain: Any, work: workloads.Workload, rounds: int) -> None:
    requests = [(None, *ours._encode_pair(*request)) for request in work.distinct]
    times: list[tuple[float, float]] = []
    worst = 0.0
    for number in range(rounds):
        engines = [ours, plain] if number % 2 else [plain, ours]
        answers = {id(lm): timed(lm, requests) for lm in engines}
        (mine, sums), (theirs, others) = answers[id(ours)], answers[id(plain)]
        times.append((mine, theirs))
        tokens = [len(continuation) for _, _, continuation in requests]
        worst = max(worst, *(abs(a - b) / n for a, b, n in zip(sums, others, tokens, strict=True)))
        print(
            f"  round {number + 1}: ours {mine:.2f} s, plain {theirs:.2f} s, load {os.getloadavg()[0]:.1f}", flush=True
        )
    ratios = [theirs / mine for mine, theirs in times]
    sent = ours.sent
    print(
        f"| {work.name} | {len(requests):,} | {sum(len(a) + len(b) for _, a, b in requests):,} | {sent.tokens:,} | "
        f"{sent.prompts:,} | {sent.again} | {statistics.median(a for a, _ in times):.2f} | "
        f"{statistics.median(b for _, b in times):.2f} | {statistics.median(ratios):.1f} ({min(ratios):.1f} to "
        f"{max(ratios):.1f}) | {worst:.1e} |",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="folder or name of the model")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--block", type=int, default=32)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--articles", type=int, default=20, help="of SummEval")
    parser.add_argument("--groups", type=int, help="of Quiz Design; all without it")
    parser.add_argument("--window", type=int, default=1024)
    given = parser.parse_args()
    from lm_eval.models.vllm_causallms import VLLM

    from shared_prefix.vllm_shared_prefix import VLLMSharedPrefixLM

    print(f"Machine: {workloads.machine()}; blocks of {given.block}, {given.dtype}\n")
    settings: dict[str, Any] = {
        "pretrained": given.model,
        "dtype": given.dtype,
        "max_model_len": given.window,
        "gpu_memory_utilization": 0.1,
        "block_size": given.block,
        "batch_size": "auto",
    }
    with tempfile.TemporaryDirectory() as home:
        workloads.build_sets(Path(home))
        works = [workloads.quiz_design(given.groups), workloads.summeval(given.articles)]
        ours, plain = VLLMSharedPrefixLM(**settings), VLLM(**settings)
        if reason := ours.why_not():
            sys.exit(f"prefixes are not shared: {reason}")
        timed(plain, [(None, [5, 6, 7], [8])])
        print(
            "| set | requests | tokens of all requests | tokens read | prompts sent | again | ours, s | plain, s "
            "| plain / ours | largest difference per token |\n|---|---|---|---|---|---|---|---|---|---|"
        )
        for work in works:
            compare(ours, plain, work, given.rounds)


if __name__ == "__main__":
    main()
