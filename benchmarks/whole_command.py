"""Time of the whole command: `nnd run` on all of Quiz Design against stock `lm_eval` on one document per test.

    python benchmarks/whole_command.py                        # three rounds, a tiny model
    python benchmarks/whole_command.py --profile nnd.html     # where the time of `nnd run` goes (needs pyinstrument)

Each command runs in a process of its own. What is not the model is the time of the process less that spent in the model's
``_loglikelihood_tokens``; loading the model counts as the rest does.
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

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

STOCK = """
task: naive_quiz_design
dataset_path: json
dataset_kwargs: {{data_files: {{test: {file}}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{prompt}}}}"
doc_to_choice: "{{{{[high, low]}}}}"
doc_to_target: 0
target_delimiter: " "
metric_list: [{{metric: acc_norm}}]
"""


def run_one(kind: str, arguments: list[str]) -> None:
    """Run a command line in this process, and say last how long the model took."""
    from lm_eval.models.huggingface import HFLM

    spent = [0.0]

    def timed(method: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            try:
                return method(*args, **kwargs)
            finally:
                spent[0] += time.perf_counter() - start

        return call

    if kind == "stock":
        from lm_eval.__main__ import cli_evaluate as main

        HFLM._loglikelihood_tokens = timed(HFLM._loglikelihood_tokens)
        sys.argv = ["lm_eval", "run", *arguments]
    else:
        from nnd_tasks.cli import main
        from nnd_tasks.models.shared_prefix import SharedPrefixLM

        SharedPrefixLM._loglikelihood_tokens = timed(SharedPrefixLM._loglikelihood_tokens)
        sys.argv = ["nnd", "run", *arguments]
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise
    print(f"MODEL {spent[0]}", flush=True)


def measure(kind: str, arguments: list[str]) -> tuple[float, float]:
    """Return (seconds that were not the model's, seconds of the model)."""
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, __file__, "--one", kind, *arguments], capture_output=True, text=True, cwd=tempfile.gettempdir()
    )
    total = time.perf_counter() - start
    last = done.stdout.strip().splitlines()[-1:] or [""]
    if done.returncode or not last[0].startswith("MODEL "):
        sys.exit(f"{kind} failed:\n{done.stderr[-3000:]}")
    model = float(last[0].split()[1])
    return total - model, model


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        run_one(sys.argv[2], sys.argv[3:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--profile", type=Path, help="write an HTML profile of nnd run there, and measure nothing")
    given = parser.parse_args()
    from benchmarks import workloads

    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        workloads.build_sets(home)
        work = workloads.quiz_design(None)
        model = home / "model"
        workloads.make("tiny Llama", model)
        texts = [text for prompt, candidates in work.prompts.items() for text in (prompt, *candidates)]
        workloads.tokenizer(model, texts, seq2seq=False)
        (home / "tasks").mkdir()
        pairs = home / "pairs.jsonl"
        rows = ({"prompt": prompt, "high": high[1:], "low": low[1:]} for prompt, high, low in work.pairs)
        pairs.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        (home / "tasks" / "naive.yaml").write_text(STOCK.format(file=pairs), encoding="utf-8")
        common = [
            "--model",
            "hf",
            "--model_args",
            f"pretrained={model},dtype=float32",
            "--device",
            "cpu",
            "--log_samples",
        ]
        ours = [*common, "--tasks", "nnd_quiz_design", "--output_path", str(home / "ours")]
        stock = [*common, "--tasks", "naive_quiz_design", "--output_path", str(home / "stock")]
        stock += ["--include_path", str(home / "tasks"), "--batch_size", "8"]
        if given.profile:
            command = [sys.executable, "-m", "pyinstrument", "-r", "html", "-o", str(given.profile)]
            subprocess.run([*command, "-m", "nnd_tasks.cli", "run", *ours], check=True, cwd=ROOT)
            return
        print(f"Machine: {workloads.machine()}\n")
        measure("nnd", ours)  # fills the disk's cache
        found: dict[str, list[tuple[float, float]]] = {"nnd": [], "stock": []}
        for _ in range(given.rounds):
            found["nnd"].append(measure("nnd", ours))
            found["stock"].append(measure("stock", stock))
        print("| command | not the model, s | model, s | not the model, ratio to nnd run |\n|---|---|---|---|")
        for kind, label in (("nnd", "`nnd run`"), ("stock", "stock `lm_eval`, naive pairs")):
            rest, inside = (statistics.median(values) for values in zip(*found[kind], strict=True))
            ratios = [a[0] / b[0] for a, b in zip(found[kind], found["nnd"], strict=True)]
            spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
            print(f"| {label} | {rest:.1f} | {inside:.1f} | {statistics.median(ratios):.2f} ({spread}) |")


if __name__ == "__main__":
    main()
