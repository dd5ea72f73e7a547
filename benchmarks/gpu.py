"""The engine on a GPU, in one call of at most eight minutes: tokens a second, shares of the dense prefill and of the matrix peak.

    python benchmarks/gpu.py --write requests.jsonl    # where nnd-tasks and the sets are: prompts, texts and tests of three sets
    python benchmarks/gpu.py requests.jsonl --model SMOLLM2    # on the GPU: needs PyTorch, transformers, lm-eval and the engine
    python benchmarks/gpu.py requests.jsonl --model tiny-lm-xs --device cpu --prompts 2 --wide ""

Every model scores the distinct requests of each set in float32 and bfloat16. Beside ``--model``, a Llama of 1.7B random weights
with its tokenizer is read (``--wide layers,width``). The dense prefill reads as many tokens as the tree of the requests has, in
rows of one batch; the matrix peak is the best of some square products in the same type. Outcomes that change are those of tests
whose better text is the likelier one in one order of requests and size of rows, and not in another one.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "engine")]

import torch  # noqa: E402

SETS = {"quiz_design": None, "summeval": None, "mqm": "newstest2021_ende"}
HEADER = (
    "| model | type | set | requests | distinct tokens | tokens a second | of the prefill | of the matrix peak | outcomes that "
    "change |\n|---|---|---|---|---|---|---|---|---|"
)
#: A set: its name, (context, continuation) of each request, and (better, worse) of each test, as places of requests.
Work = tuple[str, list[tuple[str, str]], list[tuple[int, int]]]


def write(file: Path) -> None:
    """Write the prompts of the sets, each with its texts and tests, as JSON Lines."""
    from nnd_tasks.store import find_dataset, read_table
    from nnd_tasks.task.documents import cluster_documents

    with file.open("w", encoding="utf-8") as lines:
        for name, config in SETS.items():
            folder = find_dataset(f"nnd/{name}")
            if folder is None:
                sys.exit(f"{name} is not built: nnd build {name}")
            for document in cluster_documents(read_table(folder, config), name):
                tests = [(test["high"], test["low"]) for test in document["tests"]]
                texts = [f" {text}" for text in document["candidates"]]
                prompt = f"{document['context']}\n\nText:"
                lines.write(json.dumps({"set": name, "prompt": prompt, "texts": texts, "tests": tests}) + "\n")


def read(file: Path, prompts: int | None) -> list[Work]:
    """Read what `write` wrote, of each set the first ``prompts`` prompts; texts without words are left out with their tests."""
    works: dict[str, Work] = {}
    taken: dict[str, int] = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        prompt = json.loads(line)
        name, requests, tests = works.setdefault(prompt["set"], (prompt["set"], [], []))
        taken[name] = taken.get(name, 0) + 1
        if prompts is not None and taken[name] > prompts:
            continue
        places = {}
        for i, text in enumerate(prompt["texts"]):
            if text.strip():
                places[i] = len(requests)
                requests.append((prompt["prompt"], text))
        tests += [(places[a], places[b]) for a, b in prompt["tests"] if a in places and b in places]
    return list(works.values())


def seconds(device: torch.device, call: Callable[[], Any]) -> tuple[float, Any]:
    """Return how long a call takes, and its result."""
    synchronize = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    synchronize()
    start = time.perf_counter()
    result = call()
    synchronize()
    return time.perf_counter() - start, result


def matrix_peak(device: torch.device, dtype: torch.dtype) -> float:
    """Return the best rate of square products, in multiplications with an addition a second."""
    size = 8192 if device.type == "cuda" else 512
    a, b = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    return max(size**3 / seconds(device, lambda: a @ b)[0] for _ in range(5))


def count_distinct(encoded: Sequence[tuple[Any, list[int], list[int]]]) -> int:
    """Count the tokens of the prefix tree of what the model reads."""
    from shared_prefix.prefix_tree import common_prefix

    inputs = sorted({tuple((context + continuation)[:-1]) for _, context, continuation in encoded})
    return sum(map(len, inputs)) - sum(common_prefix(a, b) for a, b in pairwise(inputs))


def outcomes(answers: Sequence[Any], encoded: Sequence[Any], tests: Sequence[tuple[int, int]]) -> list[bool]:
    """Tell which tests pass, by the log-likelihood per token."""
    means = [answer[0] / len(one[2]) for answer, one in zip(answers, encoded, strict=True)]
    return [means[better] > means[worse] for better, worse in tests]


def measure(lm: Any, work: Work, peak: float) -> str:
    """Score a set, and return its cells of the table, from its name on."""
    name, requests, tests = work
    lm.encode_pairs(requests)
    encoded = [(None, *lm._encode_pair(*request)) for request in requests]
    distinct = count_distinct(encoded)
    lm._loglikelihood_tokens(encoded[: len(encoded) // 10 + 1], disable_tqdm=True)  # warms up
    taken, answers = seconds(lm.device, lambda: lm._loglikelihood_tokens(encoded, disable_tqdm=True))
    rate = distinct / taken
    length = min(1024, distinct)
    batch = torch.zeros(max(1, min(4096, distinct) // length), length, dtype=torch.long, device=lm.device)
    calls = max(1, round(distinct / batch.numel()))
    with torch.inference_mode():
        dense, _ = seconds(lm.device, lambda: [lm.model.base_model(batch, use_cache=False) for _ in range(calls)])
    lm.row_tokens //= 2
    again = lm._loglikelihood_tokens(encoded[::-1], disable_tqdm=True)[::-1]
    lm.row_tokens *= 2
    pairs = zip(outcomes(answers, encoded, tests), outcomes(again, encoded, tests), strict=True)
    weights = lm.model.num_parameters(exclude_embeddings=True)
    shares = f"{rate * dense / (calls * batch.numel()):.0%} | {rate * weights / peak:.0%}"
    changed = f"{sum(a != b for a, b in pairs)} of {len(tests):,}"
    return f"{name} | {len(requests):,} | {distinct:,} | {rate:,.0f} | {shares} | {changed}"


def load(given: argparse.Namespace, dtype: str) -> Iterator[tuple[str, Any]]:
    """Yield the models in a type, each with its name."""
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    from shared_prefix.hf_shared_prefix import SharedPrefixLM

    common = {"device": given.device, "batch_size": 8}
    yield Path(given.model).name, SharedPrefixLM(pretrained=given.model, dtype=dtype, **common)
    if given.wide:
        layers, width = map(int, given.wide.split(","))
        tokenizer = AutoTokenizer.from_pretrained(given.model)
        shape = {"hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": max(1, width // 64)}
        config = LlamaConfig(
            vocab_size=len(tokenizer), intermediate_size=4 * width, max_position_embeddings=4096, **shape
        )
        torch.manual_seed(0)
        model = LlamaForCausalLM(config).to(getattr(torch, dtype)).to(given.device).eval()
        yield f"Llama {layers} x {width}", SharedPrefixLM(pretrained=model, tokenizer=tokenizer, **common)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("requests", type=Path, nargs="?")
    parser.add_argument("--write", type=Path, metavar="FILE")
    parser.add_argument("--model", help="folder or name of a model of transformers")
    parser.add_argument("--wide", default="24,2048", help="layers and width of a Llama of random weights; empty: none")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--prompts", type=int, help="of each set; default: all")
    parser.add_argument("--minutes", type=float, default=8, help="nothing begins after so long")
    given = parser.parse_args(arguments)
    end = time.monotonic() + 60 * given.minutes
    if given.write:
        write(given.write)
        return
    if given.requests is None or given.model is None:
        parser.error("name the file of requests and a --model")
    device, works = torch.device(given.device), read(given.requests, given.prompts)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    print(f"{name}, torch {torch.__version__}\n\n{HEADER}", flush=True)
    for dtype in ("bfloat16", "float32"):
        peak = matrix_peak(device, getattr(torch, dtype))
        for model, lm in load(given, dtype):
            for work in works:
                row = measure(lm, work, peak) if time.monotonic() < end else f"{work[0]} | no time was left | | | | | |"
                print(f"| {model} | {dtype} | {row} |", flush=True)


if __name__ == "__main__":
    main()
