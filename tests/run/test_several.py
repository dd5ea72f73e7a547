"""Runs in several processes: lm-eval divides the documents, and what would be scored twice is refused.

Also covers are_saved, check_output, remove_results, results_folder, write_tokens.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed import TCPStore

import nnd_tasks
from nnd_tasks.errors import NNDError
from tests import commands
from tests.commands import Outcome


def run(count: int, command: Sequence[str | Path], cwd: Path, timeout: float = 300) -> list[Outcome]:
    """Run a command in ``count`` processes that find each other as those of torchrun do."""
    store = TCPStore(
        "127.0.0.1", 0, is_master=True, wait_for_workers=False
    )  # it has its port; a free one could be taken
    world = {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count), "TORCHELASTIC_USE_AGENT_STORE": "True"}
    world |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port)}
    processes = [
        commands.start(
            command,
            cwd=cwd,
            env={**os.environ, **world, "RANK": str(k), "LOCAL_RANK": str(k)},
        )
        for k in range(count)
    ]
    outcomes = []
    try:
        for process in processes:
            out, err = process.communicate(timeout=timeout)
            outcomes.append(Outcome(process.returncode or 0, out, err))
    finally:
        for process in processes:
            process.kill()
    return outcomes


def written(folder: Path) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """Read the files of a run: its results, without times and places, and the samples of each task."""
    [path] = folder.rglob("results_*.json")
    results = json.loads(path.read_text("utf-8"))
    del results["date"], results["total_evaluation_time_seconds"]
    samples = {
        path.name.removeprefix("samples_").rpartition("_")[0]: [
            json.loads(line) for line in path.read_text("utf-8").splitlines()
        ]
        for path in folder.rglob("samples_*.jsonl")
    }
    return results, samples


def close(one: Any, two: Any) -> bool:
    """Tell whether two values are equal, numbers within 1e-6 of their size; lm-eval writes some of them as texts."""
    if isinstance(one, str) and isinstance(two, str) and one != two:
        with suppress(ValueError):
            one, two = float(one), float(two)
    if isinstance(one, float) and isinstance(two, float):
        return one == pytest.approx(two, rel=1e-6, abs=1e-6)
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() == two.keys() and all(close(one[key], two[key]) for key in one)
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(close(a, b) for a, b in zip(one, two, strict=True))
    return type(one) is type(two) and one == two


#: For ``python -c``: two processes on a CPU that lm-eval takes for those of two GPUs.
_TWO_GPUS = """
import os, sys, torch
os.environ["ACCELERATE_USE_CPU"] = "true"
torch.cuda.device_count = torch.accelerator.device_count = lambda: 2
from nnd_tasks.cli import main
main()
"""


@pytest.mark.slow
def test_documents_divided_among_processes_give_what_one_gives(llama, home, tmp_path, nnd):
    """Rates, errors, sizes, signature and samples; with few-shot examples, which must not depend on the process."""
    arguments = ["run", "--model", "hf", "--model_args", f"pretrained={llama},dtype=float32"]
    arguments += ["--tasks", "nnd_demo", "--device", "cpu", "--log_samples", "--num_fewshot", "2", "--seed", "1"]
    arguments += ["--limit", "20"]
    assert nnd(*arguments, "--output_path", tmp_path / "one").status == 0
    outcomes = run(2, [sys.executable, "-c", _TWO_GPUS, *arguments, "--output_path", "two"], tmp_path)
    assert [outcome.status for outcome in outcomes] == [0, 0], outcomes[-1].err[-3000:]
    assert sum(outcome.out.count("|nnd_demo") for outcome in outcomes) == 1, "one process writes"
    (results, samples), (other, divided) = (written(tmp_path / name) for name in ("one", "two"))
    for stored in (results, other):  # the digest of sums whose last digits differ
        assert stored["configs"]["nnd_demo"]["metadata"]["nnd"].pop("answers")
    for name in ("results", "configs", "n-samples"):
        assert close(results[name], other[name])
    assert [sample["doc_id"] for sample in divided["nnd_demo"]][:3] == [0, 2, 4]
    divided["nnd_demo"].sort(key=lambda sample: sample["doc_id"])
    for one, two in zip(samples["nnd_demo"], divided["nnd_demo"], strict=True):
        assert one["arguments"] == two["arguments"]
        assert close([one["tests"], one["candidates"]], [two["tests"], two["candidates"]])


@pytest.mark.parametrize(
    ("gpus", "here", "options"),
    [
        (0, 2, {}),
        (1, 2, {}),
        (2, 1, {}),  # two machines
        (2, 2, {"metadata": {"tokens": True}}),
        (2, 2, {"model": "nnd_mlm"}),
    ],
)
def test_processes_that_would_score_everything_are_refused(gpus, here, options, gpt2, home, monkeypatch):
    """Before the model is loaded."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(here))
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: gpus)
    with pytest.raises(NNDError, match="2 processes were started"):
        nnd_tasks.evaluate("nnd_demo", model_args={"pretrained": str(gpt2)}, device="cpu", **options)


_TRAIN = """
import os, sys, torch
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments, default_data_collator
from nnd_tasks import NNDCallback

folder, tokens = sys.argv[1], torch.Generator().manual_seed(0)
texts = torch.randint(5, 900, (16, 12), generator=tokens)
model = AutoModelForCausalLM.from_pretrained(folder)
options = dict(max_steps=2, per_device_train_batch_size=2, use_cpu=True, report_to=[], save_strategy="no", disable_tqdm=True)
callback = NNDCallback("nnd_demo", every=1, limit=6)
Trainer(
    model, TrainingArguments("out", **options), data_collator=default_data_collator, callbacks=[callback],
    train_dataset=[{"input_ids": text, "labels": text} for text in texts],
    processing_class=AutoTokenizer.from_pretrained(folder),
).train()
assert torch.distributed.get_world_size() == 2
torch.save(model.state_dict(), "weights-" + os.environ["RANK"])
torch.distributed.destroy_process_group()
"""


@pytest.mark.slow
def test_a_callback_in_two_processes_evaluates_and_writes_once(gpt2, home, tmp_path):
    """Real data-parallel training with gloo: the lines are those of the weights, which stay the same in both processes."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from nnd_tasks.models.shared_prefix import SharedPrefixLM

    outcomes = run(2, [sys.executable, "-c", _TRAIN, gpt2], tmp_path)
    assert [outcome.status for outcome in outcomes] == [0, 0], outcomes[0].err[-3000:]
    weights = [torch.load(tmp_path / f"weights-{k}") for k in range(2)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    lines = [json.loads(line) for line in (tmp_path / "out" / "nnd.jsonl").read_text("utf-8").splitlines()]
    assert [line["step"] for line in lines] == [1, 2]
    model = AutoModelForCausalLM.from_pretrained(gpt2)
    model.load_state_dict(weights[0])
    lm = SharedPrefixLM(model, tokenizer=AutoTokenizer.from_pretrained(gpt2), batch_size=8)
    results = nnd_tasks.evaluate("nnd_demo", lm, limit=6, bootstrap_iters=0, metadata={"pretrained": model})
    assert lines[1]["rates"]["all"]["rate"] == results["results"]["nnd_demo"]["pass_rate,none"]
