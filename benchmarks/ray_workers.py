"""What Ray's workers cost: beside an engine without work, and with a model on this machine.

    python benchmarks/ray_workers.py                    # 100,000 texts of 10,000 prompts; overhead per batch
    python benchmarks/ray_workers.py --model smollm2    # two workers of one thread against one process of two threads

The second needs an idle machine with two cores. Both need Ray: pip install 'nnd-tasks[ray]'.
"""

from __future__ import annotations

import argparse
import resource
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # workers import the engine from here

import nnd_tasks
from nnd_tasks.page.smollm2 import resolve_model
from shared_prefix import ray_workers
from shared_prefix.ray_workers import RayWorkers, divide


@register_model("without-work")
class EngineWithoutWork(LM):
    """Gives every request the same answer."""

    def loglikelihood(self, requests: list[Any], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """Answer at once."""
        return [(-1.0, False)] * len(requests)

    loglikelihood_rolling = generate_until = loglikelihood


class Catcher(EngineWithoutWork):
    """Keeps the requests of a run."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.pretrained, self.tokenizer, self.backend = folder, folder, "causal"
        self.requests: list[Any] = []

    def loglikelihood(self, requests: list[Any], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """Keep them, and give each another number."""
        self.requests += requests
        return [(-float(index), False) for index in range(len(requests))]


def made_up(prompts: int, texts: int) -> list[Instance]:
    """Make requests: prompts of about 600 characters, ten about each source, each with texts of about 60."""
    return [
        Instance(
            "loglikelihood", {}, (f"Source {prompt // 10:06}. {'Some words of it. ' * 32} Question {prompt}?", text), 0
        )
        for prompt in range(prompts)
        for text in (f" Text {number} of prompt {prompt}, with a few words after it." for number in range(texts))
    ]


def seconds(function: Callable[..., Any], *arguments: Any) -> float:
    start = perf_counter()
    function(*arguments)
    return perf_counter() - start


def measure_cost(prompts: int, texts: int) -> None:
    ray_workers.MODULES["without-work"] = "benchmarks.ray_workers"
    requests = made_up(prompts, texts)
    start = perf_counter()
    workers = RayWorkers("without-work", workers=2)
    workers.loglikelihood(requests)
    first = perf_counter() - start
    batches = len(divide([request.args for request in requests]))
    second = seconds(workers.loglikelihood, requests)
    print(f"{len(requests):,} texts of {prompts:,} prompts in {batches:,} batches, 2 workers")
    print(f"with the start of Ray and of the workers: {first:.1f} s; again: {second:.1f} s")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"most memory of this process, all that it imports included: {memory:.2f} GB")
    ray_workers.LEAST, ray_workers.AGAIN = 1, 1e9  # a batch for each prompt
    many = len(divide([request.args for request in requests]))
    slow = seconds(workers.loglikelihood, requests)
    print(f"{many:,} batches: {slow:.1f} s, {1000 * (slow - second) / (many - batches):.2f} ms for each further batch")


def measure_speed(model: str, task: str, rounds: int) -> None:
    from shared_prefix.hf_shared_prefix import SharedPrefixLM

    folder = resolve_model(model)
    catcher = Catcher(folder)
    nnd_tasks.evaluate([task], catcher, bootstrap_iters=0)
    requests: Sequence[Any] = catcher.requests
    torch.set_num_threads(2)
    alone = SharedPrefixLM(folder, dtype="float32", device="cpu")
    workers = RayWorkers("hf-shared-prefix", workers=2, pretrained=folder, dtype="float32", device="cpu")
    for lm in (alone, workers):  # loads and checks the model
        lm.loglikelihood(requests[:8])
    print(
        f"{task}: {len(requests):,} requests in {len(divide([request.args for request in requests]))} batches, {model}"
    )
    for _ in range(rounds):
        one, two = (seconds(lm.loglikelihood, requests) for lm in (alone, workers))
        print(
            f"one process of two threads {one:.1f} s, two workers of one thread {two:.1f} s: {one / two:.2f} times as fast"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--model", help="a model of transformers to measure with; without it the cost alone is measured"
    )
    parser.add_argument("--task", default="nnd_demo")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--prompts", type=int, default=10_000)
    options = parser.parse_args()
    try:
        if options.model:
            measure_speed(options.model, options.task, options.rounds)
        else:
            measure_cost(options.prompts, 10)
    finally:
        RayWorkers.stop_all()
