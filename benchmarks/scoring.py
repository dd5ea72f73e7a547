"""Time and memory of scoring many candidates of one context: ours against the ways that others do it.

    python benchmarks/scoring.py                     # on a CPU: three models, three rounds
    python benchmarks/scoring.py --device cuda       # bfloat16, a 1B-parameter model, all of SummEval
    python benchmarks/scoring.py --only prefill      # tokens per second as a share of the dense prefill

All methods score the same requests with the same weights in one process, round by round; a ratio is taken within a round.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM

from benchmarks import workloads
from shared_prefix.hf_shared_prefix import SharedPrefixLM
from shared_prefix.prefix_scoring import VocabularyHead
from shared_prefix.prefix_tree import common_prefix

PARTS = ("speed", "floor", "prefill", "full", "memory", "growth")
#: Shapes that are timed on a CPU: those that have been from the start, and windows, experts and hybrids.
DENSE = ("Llama 8 x 512", "T5 6 x 512", "GPT-2 small")
SPECIAL = ("Gemma 3 6 x 512", "Qwen 3 MoE 6 x 512", "LFM2 6 x 512", "Qwen3-Next 6 x 512", "Granite 4 hybrid 6 x 512")
Requests = Sequence[tuple[str, str]]
BATCHES = (1, 8, 16)
LONG = 30.0  # seconds; a method that took longer in the first round is not timed again
HEADER = "| model | set | method | rounds | seconds | ratio to ours | spread |\n|---|---|---|---|---|---|---|"


def instances(requests: Requests) -> list[Instance]:
    return [Instance("loglikelihood", {}, request, i) for i, request in enumerate(requests)]


def score(lm: HFLM, requests: Requests, batch_size: int | None = None) -> list[float]:
    """Score with an lm-eval model, tokenizing included."""
    if batch_size is not None:
        lm.batch_size_per_gpu = batch_size
    return [total for total, _ in lm.loglikelihood(instances(requests), disable_tqdm=True)]


def authors(lm: HFLM, work: workloads.Workload) -> list[float]:
    """One candidate at a time, test by test, with a cache of repeats: what the authors' code does."""
    known: dict[tuple[str, str], float] = {}
    for prompt, high, low in work.pairs:
        for request in ((prompt, high), (prompt, low)):
            if request not in known and request[1].strip():
                known[request] = lm._loglikelihood_tokens([(request, *lm._encode_pair(*request))], disable_tqdm=True)[
                    0
                ][0]
    return [known[request] for request in work.distinct if request in known]


@torch.inference_mode()
def floor(lm: HFLM, work: workloads.Workload, row: int = 1024) -> float:
    """Dense causal passes over as many tokens as the prefix tree has, the head at scored positions only.

    A reference for time, not for numbers: each row is read as one text, with the fastest attention that there is. A row is as
    long as the longest text if that is longer, because a long context is read whole. Texts are already tokens when the clock
    starts. For encoder-decoders, a pass for each context with all its candidates in a row.
    """
    encoded = [(prompt, *lm._encode_pair(prompt, text)) for prompt, text in work.distinct]
    if lm.backend == "seq2seq":
        return _floor_of_encoder_decoder(lm, encoded)
    tree, scored = tree_of(encoded)
    row = max(row, *(len(context) + len(continuation) for _, context, continuation in encoded))
    _synchronize(lm)
    start = time.perf_counter()
    for first in range(0, len(tree), row):
        tokens = torch.tensor([tree[first : first + row]], device=lm.device)
        hidden = lm.model.base_model(input_ids=tokens, use_cache=False).last_hidden_state[0]
        places = [place for place in range(first, first + tokens.shape[1]) if place in scored]
        if places:
            rows = [i for i, place in enumerate(places) for _ in scored[place]]
            targets = [target for place in places for target in scored[place]]
            _head(lm, hidden[torch.tensor(places, device=lm.device) - first], rows, targets)
    _synchronize(lm)
    return time.perf_counter() - start


def tree_of(encoded: Sequence[tuple[str, list[int], list[int]]]) -> tuple[list[int], dict[int, list[int]]]:
    """Return the tokens of the prefix tree, depth first, and for each place in it the tokens that are scored there."""
    tree: list[int] = []
    scored: dict[int, list[int]] = {}
    path: list[int] = []
    known: tuple[int, ...] = ()
    for sequence, length, targets in sorted((tuple([*c, *k][:-1]), len(c), k) for _, c, k in encoded):
        shared = common_prefix(known, sequence)
        path = [*path[:shared], *range(len(tree), len(tree) + len(sequence) - shared)]
        tree += sequence[shared:]
        known = sequence
        for place, target in zip(path[length - 1 :], targets, strict=True):
            scored.setdefault(place, []).append(target)
    return tree, scored


@torch.inference_mode()
def prefill(lm: HFLM, tree: Sequence[int], row: int = 4096) -> None:
    """Read the tokens of a tree as dense causal rows, without the vocabulary head: the most that the model can read."""
    for first in range(0, len(tree), row):
        lm.model.base_model(input_ids=torch.tensor([tree[first : first + row]], device=lm.device), use_cache=False)


def share_of_prefill(shape: str, work: workloads.Workload, arguments: dict[str, Any], rounds: int) -> str:
    """Return a table row: tokens per second of ours, and as a share of those of the dense prefill, which uses sdpa."""
    dense = HFLM(**arguments, attn_implementation="sdpa")
    lm = SharedPrefixLM(**arguments)
    assert lm.why_not() is None, lm.why_not()
    tree, _ = tree_of([(prompt, *lm._encode_pair(prompt, text)) for prompt, text in work.distinct])
    score(lm, work.distinct)
    prefill(dense, tree)
    pairs = [
        (clock(lm, lambda: score(lm, work.distinct)), clock(dense, lambda: prefill(dense, tree))) for _ in range(rounds)
    ]
    ours, least = (len(tree) / statistics.median(seconds) for seconds in zip(*pairs, strict=True))
    shares = [least_seconds / our_seconds for our_seconds, least_seconds in pairs]
    return (
        f"| {shape} | {work.name} | {rounds} | {len(tree):,} | {ours:,.0f} | {least:,.0f} | "
        f"{statistics.median(shares):.0%} | {min(shares):.0%} to {max(shares):.0%} |"
    )


def _floor_of_encoder_decoder(lm: HFLM, encoded: Sequence[tuple[str, list[int], list[int]]]) -> float:
    contexts: dict[str, tuple[list[int], list[int]]] = {}
    for prompt, context, continuation in encoded:
        contexts.setdefault(prompt, (context, []))[1].extend(continuation)
    _synchronize(lm)
    start = time.perf_counter()
    for context, candidates in contexts.values():
        states = lm.model.get_encoder()(input_ids=torch.tensor([context], device=lm.device)).last_hidden_state
        tokens = torch.tensor([candidates], device=lm.device)
        hidden = lm.model.get_decoder()(input_ids=tokens, encoder_hidden_states=states, use_cache=False)
        _head(lm, hidden.last_hidden_state[0], range(len(candidates)), candidates)
    _synchronize(lm)
    return time.perf_counter() - start


def _head(lm: HFLM, hidden: torch.Tensor, rows: Sequence[int], targets: Sequence[int]) -> float:
    """Score targets with the head that we use, in slices of the vocabulary: the faster one."""
    head = VocabularyHead(lm.model.get_output_embeddings())
    device = hidden.device
    return float(head(hidden, torch.tensor([*rows], device=device), torch.tensor([*targets], device=device))[0].sum())


def _synchronize(lm: HFLM) -> None:
    if lm.device.type == "cuda":
        torch.cuda.synchronize()


def clock(lm: HFLM, call: Callable[[], Any]) -> float:
    _synchronize(lm)
    start = time.perf_counter()
    call()
    _synchronize(lm)
    return time.perf_counter() - start


# ---------------------------------------------------------------- one model


def prepare(shape: str, works: Sequence[workloads.Workload], folder: Path) -> dict[str, Any]:
    """Write model and tokenizer; return the model arguments."""
    backend = workloads.make(shape, folder)
    texts = [text for work in works for prompt, candidates in work.prompts.items() for text in (prompt, *candidates)]
    workloads.tokenizer(folder, texts, seq2seq=backend == "seq2seq")
    return {"pretrained": str(folder), "backend": backend}


def compare(shape: str, work: workloads.Workload, arguments: dict[str, Any], rounds: int, slow: bool) -> dict[str, Any]:
    """Time every method ``rounds`` times; check that they agree."""
    ours, plain = SharedPrefixLM(**arguments), HFLM(**arguments)
    assert ours.why_not() is None, ours.why_not()
    requests = work.distinct
    naive = [(prompt, text) for prompt, *texts in work.pairs for text in texts if text.strip()]
    answers: dict[str, list[float]] = {}

    def run(name: str, lm: HFLM, batch: int | None = None) -> None:
        answers[name] = score(lm, requests, batch)

    times: dict[str, list[float]] = {}
    batched = {f"HFLM, distinct, batch {batch}": batch for batch in BATCHES}
    methods: dict[str, Callable[[], Any]] = {"shared prefix": lambda: run("ours", ours)}
    methods |= {name: lambda batch=batch: run("plain", plain, batch) for name, batch in batched.items()}
    if slow:
        methods["authors' method"] = lambda: authors(plain, work)
    if slow and not (plain.backend == "seq2seq" and len(naive) > 1000):  # minutes and minutes: see `naive_pairs`
        methods["HFLM, naive pairs"] = lambda: score(plain, naive, batched[best_of(times, batched)])
    warm = requests[:3]
    score(ours, warm), score(plain, warm, 1)
    times |= {name: [] for name in methods}
    for number in range(rounds):
        best = best_of(times, batched) if number else None
        for name, call in methods.items():
            # Only the best batch size is measured again, and not again what takes minutes.
            if best is None or (name == best if name in batched else times[name][0] <= LONG):
                times[name].append(clock(plain, call))
                print(f"    {shape}, {work.name}, {name}: {times[name][-1]:.2f} s", file=sys.stderr, flush=True)
    worst = max(abs(a - b) / abs(a) for a, b in zip(answers["plain"], answers["ours"], strict=True))
    return {"model": shape, "set": work.name, "times": times, "requests": len(requests), "worst": worst}


def best_of(times: dict[str, list[float]], batched: Iterable[str]) -> str:
    """Return the batch size that was fastest in the first round, in which all are timed."""
    return min(batched, key=lambda name: times[name][0])


def against_floor(shape: str, work: workloads.Workload, arguments: dict[str, Any], rounds: int) -> str:
    """Return a table row: ours against the floor, in turn."""
    lm = SharedPrefixLM(**arguments)
    assert lm.why_not() is None, lm.why_not()
    score(lm, work.distinct)
    floor(lm, work)
    pairs = [(clock(lm, lambda: score(lm, work.distinct)), floor(lm, work)) for _ in range(rounds)]
    ours, least = (statistics.median(seconds) for seconds in zip(*pairs, strict=True))
    ratios = [one / other for one, other in pairs]
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
    return (
        f"| {shape} | {work.name} | {rounds} | {ours:.2f} | {least:.2f} | {statistics.median(ratios):.2f} | {spread} |"
    )


def naive_pairs(shape: str, articles: int, arguments: dict[str, Any]) -> str:
    """Return a table row for naive pairs of an encoder-decoder, which does not group repeats, on few articles."""
    ours, plain = SharedPrefixLM(**arguments), HFLM(**arguments)
    work = workloads.summeval(articles)
    naive = [(prompt, text) for prompt, *texts in work.pairs for text in texts if text.strip()]
    score(ours, work.distinct[:3])
    batch = min(BATCHES, key=lambda size: clock(plain, lambda: score(plain, naive[:40], size)))
    seconds = clock(plain, lambda: score(plain, naive, batch))
    ratio = seconds / statistics.median(clock(plain, lambda: score(ours, work.distinct)) for _ in range(3))
    what = f"SummEval, {articles} article | HFLM, naive pairs, batch {batch}"
    return f"| {shape} | {what} | 1 | {seconds:.2f} | {ratio:.2f} | |"


def show(result: dict[str, Any]) -> list[str]:
    """Return the table rows of one comparison: median seconds and, paired by round, the ratio to ours."""
    times, ours = result["times"], result["times"]["shared prefix"]
    best = best_of(times, [name for name in times if "distinct" in name])
    lines = []
    for name, seconds in times.items():
        ratios = [a / b for a, b in zip(seconds, ours, strict=False)]
        mark = " (its best)" if name == best else ""
        lines.append(
            f"| {result['model']} | {result['set']} | {name}{mark} | {len(seconds)} | {statistics.median(seconds):.2f} | "
            f"{statistics.median(ratios):.2f} | {min(ratios):.2f} to {max(ratios):.2f} |"
        )
    lines.append(
        f"| {result['model']} | {result['set']} | largest relative difference: {result['worst']:.1e} | | | | |"
    )
    return lines


# ---------------------------------------------------------------- tokens, memory and growth


def tokens(works: Sequence[workloads.Workload], arguments: dict[str, Any]) -> list[str]:
    """Return how many tokens are read when every test, request or context is read on its own, or all as one tree."""
    lm = SharedPrefixLM(**arguments)
    lines = ["| set | every test | every request | every context once | one prefix tree |", "|---|---|---|---|---|"]
    for work in works:
        encoded = {request: lm._encode_pair(*request) for request in work.distinct}
        size = {request: len(context) + len(continuation) - 1 for request, (context, continuation) in encoded.items()}
        tests = sum(size[prompt, text] for prompt, *texts in work.pairs for text in texts if (prompt, text) in size)
        contexts = {prompt: len(context) for (prompt, _), (context, _) in encoded.items()}
        once = sum(contexts.values()) + sum(size[request] - contexts[request[0]] for request in size)
        sequences = sorted({tuple([*context, *continuation][:-1]) for context, continuation in encoded.values()})
        shared = [0, *(common_prefix(one, two) for one, two in pairwise(sequences))]
        tree = sum(len(sequence) - known for sequence, known in zip(sequences, shared, strict=True))
        lines.append(f"| {work.name} | {tests:,} | {sum(size.values()):,} | {once:,} | {tree:,} |")
    return lines


def memory(shape: str, folder: Path, backend: str) -> list[str]:
    """Return the peak resident memory of each method above that of the loaded model; one process each."""
    lines = []
    for method in ("shared prefix", "HFLM, batch 1"):
        command = [sys.executable, __file__, "--memory-of", method, "--folder", str(folder), "--backend", backend]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        lines.append(f"| {shape} | {method} | {done.stdout.strip().splitlines()[-1]} |")
    return lines


def memory_of(method: str, folder: Path, backend: str) -> None:
    arguments = {"pretrained": str(folder), "backend": backend, "dtype": "float32", "device": "cpu"}
    lm = SharedPrefixLM(**arguments) if method == "shared prefix" else HFLM(**arguments)
    requests = workloads.summeval(6).distinct
    score(lm, [("a b c d e f g h", " i"), ("a", " b")], 1)
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak so far is forgotten; Linux
    before = _status("VmRSS")
    score(lm, requests, 1)
    print(f"{(_status('VmHWM') - before) / 1024:.0f} MiB")


def _status(name: str) -> int:
    """Return a field of this process's status, in KiB."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def growth(arguments: dict[str, Any], shape: str) -> list[str]:
    """Return seconds against candidates per context, and against the number of distinct tokens."""
    lm, plain = SharedPrefixLM(**arguments), HFLM(**arguments)
    lm.why_not()
    work = workloads.summeval(2)
    lines = []
    texts = [text for candidates in work.prompts.values() for text in candidates]
    while len(texts) < 64:
        texts += [f"{text} Again" for text in texts]
    short = list(work.prompts)
    cases = [("2 articles", short, count) for count in (1, 4, 16, 64)]
    if lm.backend == "causal":  # a context longer than a row of ours
        many = "\n\n".join(workloads.summeval(3).prompts)
        cases += [("1 context of 3 articles", [many], count) for count in (1, 4, 16)]
    for what, contexts, count in cases:
        requests = [(prompt, text) for prompt in contexts for text in texts[:count]]
        prompts = sum(len(lm.tok_encode(prompt)) for prompt in contexts)
        tokens = prompts + sum(len(lm._encode_pair(*request)[1]) for request in requests)
        seconds = statistics.median(clock(lm, lambda requests=requests: score(lm, requests)) for _ in range(3))
        other = clock(plain, lambda requests=requests: score(plain, requests, 1))
        lines.append(
            f"| {shape} | {what} | {count} | {tokens:,} | {seconds:.2f} | {1e3 * seconds / tokens:.3f} | {other:.2f} "
            f"| {other / seconds:.1f} |"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--models", nargs="*", help="only these shapes")
    parser.add_argument("--skip", nargs="*", default=[], choices=PARTS)
    parser.add_argument("--only", nargs="*", default=PARTS, choices=PARTS, help="only these parts")
    parser.add_argument("--memory-of")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--backend")
    given = parser.parse_args()
    if given.memory_of:
        memory_of(given.memory_of, given.folder, given.backend)
        return
    gpu = given.device.startswith("cuda")
    skip = {*given.skip, *(set(PARTS) - set(given.only))}
    print(f"Machine: {workloads.machine()}\n")
    with tempfile.TemporaryDirectory() as home:
        workloads.build_sets(Path(home))
        works = [workloads.summeval(None)] if gpu else [workloads.quiz_design(40), workloads.summeval(6)]
        shapes = given.models or (["Llama 1B"] if gpu else [*DENSE, *SPECIAL])
        common = {"device": given.device, "dtype": "bfloat16" if gpu else "float32"}
        if gpu:
            common["softmax_dtype"] = "float32"
        prepared = {}
        for shape in shapes:
            prepared[shape] = {**prepare(shape, works, Path(home) / shape.replace(" ", "_")), **common}
        if "speed" not in skip:
            print(HEADER, flush=True)
            for shape in shapes:
                for work in works:
                    result = compare(shape, work, prepared[shape], given.rounds, slow=not gpu)
                    print("\n".join(show(result)), flush=True)
                if prepared[shape]["backend"] == "seq2seq":
                    print(naive_pairs(shape, 1, prepared[shape]), flush=True)
        if "floor" not in skip:
            print(
                "\nAgainst the floor:\n\n| model | set | rounds | seconds | floor, seconds | ratio | spread |",
                flush=True,
            )
            print("|---|---|---|---|---|---|---|", flush=True)
            for shape in shapes:
                for work in [*works, *workloads.long_contexts(24_000)]:
                    print(against_floor(shape, work, prepared[shape], given.rounds), flush=True)
        if "prefill" not in skip:
            print("\nTokens per second as a share of the dense prefill, which uses sdpa and no vocabulary head:\n")
            print("| model | set | rounds | tokens | ours, per second | prefill, per second | share | spread |")
            print("|---|---|---|---|---|---|---|---|", flush=True)
            for shape in (shape for shape in shapes if prepared[shape]["backend"] == "causal"):
                for work in works:
                    print(share_of_prefill(shape, work, prepared[shape], given.rounds), flush=True)
        if "full" not in skip and not gpu:
            full = [workloads.quiz_design(None), workloads.summeval(None)]
            arguments = {**prepare("tiny Llama", full, Path(home) / "tiny"), **common}
            print("\n".join(["\nDistinct tokens to read:\n", *tokens(full, arguments)]), flush=True)
            print(f"\nWhole sets:\n\n{HEADER}")
            for work in full:
                print("\n".join(show(compare("tiny Llama", work, arguments, 1, slow=True))), flush=True)
        if "growth" not in skip and not gpu:
            print(
                "\nGrowth with the number of candidates:\n\n"
                "| model | contexts | candidates of each | distinct tokens | seconds | ms per token "
                "| HFLM batch 1, seconds | ratio |\n|---|---|---|---|---|---|---|---|"
            )
            for shape in shapes:
                print("\n".join(growth(prepared[shape], shape)), flush=True)
        if "memory" not in skip and not gpu:
            print(
                "\nPeak memory above the loaded model, 6 SummEval articles:\n\n| model | method | peak |\n|---|---|---|"
            )
            for shape in shapes:
                print(
                    "\n".join(memory(shape, Path(home) / shape.replace(" ", "_"), prepared[shape]["backend"])),
                    flush=True,
                )


if __name__ == "__main__":
    main()
