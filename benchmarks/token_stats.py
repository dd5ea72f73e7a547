"""What keeping all of each token costs: seconds of scoring with ``token_scores`` and ``token_stats``, and without, in turn.

It fails where a sum is not the same to the bit.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import torch
from lm_eval.api.instance import Instance

from benchmarks import workloads
from shared_prefix.hf_shared_prefix import SharedPrefixLM


def measure(lm: SharedPrefixLM, work: workloads.Workload, rounds: int) -> tuple[list[float], list[float]]:
    """Return the seconds of each round without both and with both; the order changes from round to round.

    Raises:
        AssertionError: a sum differs.
    """
    seconds: dict[bool, list[float]] = {False: [], True: []}
    clock = (
        time.process_time if lm.device.type == "cpu" else time.perf_counter
    )  # other work on the machine does not count
    for number in range(-1, rounds):  # the first round warms up
        sums = {}
        for stats in (False, True) if number % 2 else (True, False):
            lm.token_scores = lm.token_stats = stats
            begun = clock()
            answers = lm.loglikelihood(
                [Instance("loglikelihood", {}, pair, i) for i, pair in enumerate(work.distinct)], disable_tqdm=True
            )
            if number >= 0:
                seconds[stats].append(clock() - begun)
            sums[stats] = [tuple(answer) for answer in answers]
        assert sums[False] == sums[True], "the sums are the same to the bit"
    return seconds[False], seconds[True]


def main() -> None:
    """Measure every model on both sets, and print a table."""
    parser = argparse.ArgumentParser(description="Measure what keeping all of each token costs.")
    parser.add_argument(
        "--models",
        nargs="+",
        default=["tiny Llama", "Llama 8 x 512", "T5 6 x 512"],
        help="shapes, or folders of models",
    )
    parser.add_argument("--rounds", type=int, default=5, help="rounds (default: 5)")
    options = parser.parse_args()
    print(
        f"Machine: {workloads.machine()}\n\n| model | set | without, s | with, s | ratio | spread |\n|---|---|---|---|---|---|"
    )
    with tempfile.TemporaryDirectory() as home:
        workloads.build_sets(Path(home))
        works = [workloads.quiz_design(20), workloads.summeval(3)]
        for shape in options.models:
            folder, backend = Path(shape), "causal"
            if not folder.is_dir():
                folder = Path(home, shape.replace(" ", "_"))
                backend = workloads.make(shape, folder)
                texts = [text for work in works for pair in work.distinct for text in pair]
                workloads.tokenizer(folder, texts, seq2seq=backend == "seq2seq")
            device = "cuda" if torch.cuda.is_available() else "cpu"
            lm = SharedPrefixLM(pretrained=str(folder), dtype="float32", device=device, backend=backend)
            for work in works:
                bare, stats = measure(lm, work, options.rounds)
                ratios = [more / less for less, more in zip(bare, stats, strict=True)]
                print(
                    f"| {Path(shape).name} | {work.name} | {statistics.median(bare):.2f} | {statistics.median(stats):.2f} | "
                    f"{statistics.median(ratios):.2f} | {min(ratios):.2f} to {max(ratios):.2f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
