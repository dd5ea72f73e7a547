"""Does `nnd run` say rightly how long it will take: predicted against actual seconds of reading, as a ratio.

    python benchmarks/time_estimate.py MODEL_FOLDER ... --tasks nnd_quiz_design nnd_summeval

The sets must be built. Ratios are given in wall-clock time, which is what a user waits, and in CPU time of the process, which
depends less on what else the machine does meanwhile, least of all with --threads 1. Both come from one run.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

import nnd_tasks
from nnd_tasks.models import estimate, shared_prefix
from nnd_tasks.models.estimate import Amount, RunEstimate

CLOCKS = {"wall": time.monotonic, "CPU": time.process_time}


class Watches:
    """One estimate per clock, and what each clock showed at the beginning and at the end of the reading."""

    def __init__(self, amount: Amount) -> None:
        self.amount = amount
        self.predicted: dict[str, float] = {}
        self.said_after: dict[str, float] = {}
        self.begin = {name: clock() for name, clock in CLOCKS.items()}
        self.parts = {name: RunEstimate(amount, str, clock) for name, clock in CLOCKS.items()}
        self.done = 0.0

    def add(self, work: float) -> None:
        """Count work for every clock."""
        self.done += work
        for part in self.parts.values():
            part.add(work)

    def look(self) -> None:
        """Let every clock look, and keep what it predicts."""
        for name, part in self.parts.items():

            def record(_: Amount, seconds: float, name: str = name) -> str:
                self.predicted[name] = seconds
                self.said_after[name] = CLOCKS[name]() - self.begin[name]
                return ""

            with patch.object(estimate, "sentence", record):
                part.look()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", nargs="+")
    parser.add_argument("--tasks", nargs="+", default=["nnd_quiz_design", "nnd_summeval"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--type", default="hf", help="model type, such as hf or nnd_mlm")
    parser.add_argument("--together", action="store_true", help="all tasks in one run")
    parser.add_argument("--plain", action="store_true", help="hf-shared-prefix that shares nothing: lm-eval's own path")
    parser.add_argument("--limit", type=float)
    parser.add_argument("--threads", type=int)
    arguments = parser.parse_args()
    estimate.LONG = 0.0
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    print("| model | tasks | tokens | wall: said after | predicted | actual | ratio | CPU ratio | work counted |")
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|")
    for model in arguments.models:
        for tasks in [arguments.tasks] if arguments.together else [[task] for task in arguments.tasks]:
            measure(model, tasks, arguments)


def measure(model: str, tasks: list[str], arguments: argparse.Namespace) -> None:
    """Run one model on some tasks, and print a row."""
    made: list[Watches] = []

    def begin(amount: Amount) -> Any:
        made.append(Watches(amount))
        return made[-1]

    took = dict.fromkeys(CLOCKS, 0.0)
    whole = shared_prefix.SharedPrefixLM._loglikelihood_tokens

    def timed(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.why_not()  # the check on a small example comes before the estimate begins
        start = {name: clock() for name, clock in CLOCKS.items()}
        try:
            return whole(self, *args, **kwargs)
        finally:
            for name, clock in CLOCKS.items():
                took[name] += clock() - start[name]

    settings = {"pretrained": model, "dtype": arguments.dtype}
    kind = arguments.type
    if arguments.plain:
        kind, settings["shared_prefix"] = "hf-shared-prefix", False
    with (
        patch.object(shared_prefix, "begin", begin),
        patch.object(shared_prefix.SharedPrefixLM, "_loglikelihood_tokens", timed),
    ):
        nnd_tasks.evaluate(tasks, kind, settings, device=arguments.device, limit=arguments.limit, bootstrap_iters=0)
    [watches] = made
    if not watches.predicted:
        print(f"| {Path(model).name} | {', '.join(tasks)} | {watches.amount.tokens:,} | over in {took['wall']:.1f} s |")
        return
    ratio = {name: seconds / took[name] for name, seconds in watches.predicted.items()}
    print(
        f"| {Path(model).name} | {', '.join(tasks)} | {watches.amount.tokens:,} | {watches.said_after['wall']:.1f} "
        f"| {watches.predicted['wall']:.1f} | {took['wall']:.1f} | {ratio['wall']:.2f} | {ratio.get('CPU', float('nan')):.2f} "
        f"| {watches.done / watches.amount.work:.3f} |",
        flush=True,
    )


if __name__ == "__main__":
    main()
