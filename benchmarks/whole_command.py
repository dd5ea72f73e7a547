"""Time of the whole command: `nnd run` on all of Quiz Design against stock `lm_eval` on one document per test.

    python benchmarks/whole_command.py            # three rounds, a tiny model
    python benchmarks/whole_command.py --first    # five prompts, against the imports that no run can do without
    python benchmarks/whole_command.py --parts    # five prompts: the seconds of each part of `nnd run`

Each command runs in a process of its own. What is not the model is the time of the process less that spent in the model's
``_loglikelihood_tokens``; loading the model counts as the rest does. CPU seconds are those of all threads and of processes
that the command starts; on a busy machine they say more than the clock.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from functools import reduce, wraps
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

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


#: What `nnd run` imports first, by whose it is; a part includes what nobody before it has imported.
IMPORTS = {
    "nnd-tasks: the command line": ("nnd_tasks.cli.typer_app",),
    "PyTorch": ("torch",),
    "transformers": ("transformers.modeling_utils",),
    "datasets, with pandas": ("datasets",),
    "lm-eval": ("lm_eval.models.huggingface", "lm_eval.evaluator", "lm_eval.loggers"),
    "nnd-tasks: runs": ("nnd_tasks.run.run", "nnd_tasks.task.task", "shared_prefix.hf_shared_prefix"),
}


def seconds() -> NDArray[np.float64]:
    """Return the time of the clock and of the CPUs, in seconds, shape (2,)."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return np.array([time.perf_counter(), sum(one.ru_utime + one.ru_stime for one in used)])


def timed(method: Any, spent: NDArray[np.float64]) -> Any:
    """Return ``method``, which adds its `seconds` to ``spent``."""

    @wraps(method)  # lm-eval reads the names of a task's parameters
    def call(*args: Any, **kwargs: Any) -> Any:
        start = seconds()
        try:
            return method(*args, **kwargs)
        finally:
            spent[:] += seconds() - start

    return call


def run_parts(arguments: list[str]) -> None:
    """Run `nnd run` in this process, and print the seconds of its parts; importing NumPy comes before."""
    gc.set_threshold(100_000, 50, 100)  # as `nnd` does
    start, parts = seconds(), {}
    for name, modules in IMPORTS.items():
        parts[f"import: {name}"] = -seconds()
        for module in modules:
            import_module(module)
        parts[f"import: {name}"] += seconds()
    for name, module, attributes in (
        ("documents and checks", "nnd_tasks.task.task", ("NNDTask.__init__", "NNDTask.prepare")),
        ("loading the model", "shared_prefix.hf_shared_prefix", ("SharedPrefixLM._create_model",)),
        ("the model", "shared_prefix.hf_shared_prefix", ("SharedPrefixLM._loglikelihood_tokens",)),
        ("lm-eval's look-up of the machine", "lm_eval.evaluator", ("add_env_info",)),
    ):
        parts[name] = np.zeros(2)
        for attribute in attributes:
            *owner, method = attribute.split(".")
            place = reduce(getattr, owner, import_module(module))
            setattr(place, method, timed(getattr(place, method), parts[name]))
    run_one("nnd", arguments)
    whole = seconds() - start
    parts["the rest"] = whole - sum(parts.values())
    print("| part | s | CPU s |\n|---|---|---|")
    for name, (clock, cpu) in {**parts, "all": whole}.items():
        print(f"| {name} | {clock:.2f} | {cpu:.2f} |")


def run_one(kind: str, arguments: list[str]) -> None:
    """Run a command line in this process, and say last how long the model took."""
    from lm_eval.models.huggingface import HFLM

    spent = np.zeros(2)
    if kind == "stock":
        from lm_eval.__main__ import cli_evaluate as main

        HFLM._loglikelihood_tokens = timed(HFLM._loglikelihood_tokens, spent)
        sys.argv = ["lm_eval", "run", *arguments]
    else:
        from nnd_tasks.cli import main
        from shared_prefix.hf_shared_prefix import SharedPrefixLM

        SharedPrefixLM._loglikelihood_tokens = timed(SharedPrefixLM._loglikelihood_tokens, spent)
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


#: What a run of a Llama imports: of lm-eval alone, and with what transformers imports for the model.
FLOORS = {
    "`import lm_eval.models.huggingface`": "import lm_eval.models.huggingface",
    "with lm-eval's evaluator and the Llama of transformers": (
        "import lm_eval.models.huggingface, lm_eval.evaluator, transformers.models.llama.modeling_llama"
    ),
}


def print_first_seconds(arguments: list[str], rounds: int) -> None:
    """Print the seconds of ``nnd run`` on five prompts beside those of the imports that it cannot do without."""
    commands = {name: [sys.executable, "-c", code] for name, code in FLOORS.items()}
    commands["`nnd run`, five prompts"] = [
        str(Path(sys.executable).with_name("nnd")),
        "run",
        *arguments,
        "--limit",
        "5",
    ]
    taken: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(rounds + 1):  # the first round fills the disk's cache
        for name, command in commands.items():
            start = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True, cwd=tempfile.gettempdir())
            taken[name].append(time.perf_counter() - start)
    medians = {name: statistics.median(seconds[1:]) for name, seconds in taken.items()}
    first = next(iter(medians.values()))
    print("| command | s | ratio to the first |\n|---|---|---|")
    for name, median in medians.items():
        print(f"| {name} | {median:.1f} | {median / first:.2f} |")


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        (run_parts(sys.argv[3:]) if sys.argv[2] == "parts" else run_one(sys.argv[2], sys.argv[3:]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--parts", action="store_true", help="the parts of nnd run on five prompts")
    parser.add_argument("--first", action="store_true", help="five prompts against the imports")
    given = parser.parse_args()
    import nnd_tasks
    from benchmarks import workloads

    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        os.environ["NND_HOME"] = str(home)
        nnd_tasks.build_set("quiz_design", workloads.DATA / "quiz_design", progress=False)
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
        if given.parts:
            command = [sys.executable, __file__, "--one", "parts", *ours, "--limit", "5"]
            done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tempfile.gettempdir())
            print(f"Machine: {workloads.machine()}\n\n{done.stdout[done.stdout.index('| part') :]}", end="")
            return
        print(f"Machine: {workloads.machine()}\n")
        if given.first:
            print_first_seconds(ours, given.rounds)
            return
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
