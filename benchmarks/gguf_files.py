"""Tests a second and peak memory of `llamacpp` on GGUF files, against each text alone in llama.cpp and `hf-shared-prefix`.

    OMP_NUM_THREADS=1 python benchmarks/gguf_files.py TOKENIZER FILE.gguf ... [--groups 40] [--rounds 3]

Requests are the first groups of Quiz Design. Each measurement is a fresh process; within a round all take turns, and a ratio is
taken within a round. Seconds are those of `loglikelihood`, tokenizing included: of the processor with one thread, which other
work on the machine moves less, else of the clock. Memory is the peak beyond the imports.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import nnd_tasks  # noqa: E402
from benchmarks import workloads  # noqa: E402

#: Way -> model of lm-eval, and its arguments.
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "hf-shared-prefix, float32": ("hf-shared-prefix", {"dtype": "float32", "device": "cpu", "batch_size": 1}),
    "llamacpp": ("llamacpp", {}),
    "llamacpp, n_ubatch=512": ("llamacpp", {"n_ubatch": 512}),
    "llama.cpp, each text alone": ("llamacpp", {"shared_prefix": False, "n_ubatch": 512}),
}


def read_peak() -> float:
    """Return the most memory of this process since the last reset, in MB (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def measure(way: str, tokenizer: str, file: Path, requests: list[tuple[str, str]]) -> tuple[float, float]:
    """Return seconds, and MB beyond the imports, of one scoring in this process."""
    import torch
    from lm_eval.api.instance import Instance

    from shared_prefix.hf_shared_prefix import SharedPrefixLM
    from shared_prefix.llamacpp import LlamaCppLM, load_library

    model, arguments = WAYS[way]
    if model == "llamacpp":
        load_library()
    (torch.ones(64, 64) @ torch.ones(64, 64)).sum()
    Path("/proc/self/clear_refs").write_text("5")
    before = read_peak()
    if model == "llamacpp":
        lm: Any = LlamaCppLM(str(file), tokenizer=tokenizer, **arguments)
    else:
        lm = SharedPrefixLM(pretrained=str(file.parent), gguf_file=file.name, tokenizer=tokenizer, **arguments)
    lm.why_not()
    instances = [Instance("loglikelihood", {}, request, i) for i, request in enumerate(requests)]
    start, processor = time.perf_counter(), time.process_time()
    lm.loglikelihood(instances, disable_tqdm=True)
    wall, busy = time.perf_counter() - start, time.process_time() - processor
    return busy if torch.get_num_threads() == 1 else wall, read_peak() - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokenizer", help="folder or name")
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--groups", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.way:
        print(
            json.dumps(measure(given.way, given.tokenizer, given.files[0], [(a, b) for a, b in json.load(sys.stdin)]))
        )
        return
    with tempfile.TemporaryDirectory() as home:
        os.environ["NND_HOME"] = home
        nnd_tasks.build_set("quiz_design", workloads.DATA / "quiz_design", progress=False)
        work = workloads.quiz_design(given.groups)
    requests, tests = json.dumps(work.distinct), len(work.pairs)
    print(f"{given.groups} groups, {len(work.distinct)} texts, {tests} tests; {workloads.machine()}")
    print("| file | way | seconds | tests a second | times each text alone | times hf float32 | MB |", flush=True)
    print("|---|---|---|---|---|---|---|")
    for file in given.files:
        found: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
        for _ in range(given.rounds):
            for way in WAYS:
                command = [sys.executable, __file__, given.tokenizer, str(file), "--way", way]
                ran = subprocess.run(command, input=requests, text=True, check=True, stdout=subprocess.PIPE)
                found[way].append(json.loads(ran.stdout.splitlines()[-1]))
        for way, rounds in found.items():
            seconds, memory = (statistics.median(column) for column in zip(*rounds, strict=True))
            hf, *_, alone = (
                statistics.median(other[0] / ours[0] for other, ours in zip(found[name], rounds, strict=True))
                for name in WAYS
            )
            cells = f"{seconds:.1f} | {tests / seconds:.2f} | {alone:.2f} | {hf:.2f} | {memory:.0f}"
            print(f"| {file.name} | {way} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
