"""Runs in several processes: lm-eval divides the documents, and what would be scored twice is refused."""

import json
import os
import sys
from contextlib import suppress

import pytest
import torch
from torch.distributed import TCPStore

import nnd_tasks
from nnd_tasks.errors import NNDError
from tests import commands
from tests.commands import Outcome
from tests.conftest import REPO
from tests.run import test_own_model


def run_twice(command, cwd):
    """Run a command in two processes that find each other as those of torchrun do."""
    # The store has its port; a free one could be taken.
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    world = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "TORCHELASTIC_USE_AGENT_STORE": "True"}
    world |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port)}
    processes = [
        commands.start(command, cwd=cwd, env={**os.environ, **world, "RANK": str(k), "LOCAL_RANK": str(k)})
        for k in range(2)
    ]
    outcomes = []
    try:
        for process in processes:
            out, err = process.communicate(timeout=300)
            outcomes.append(Outcome(process.returncode or 0, out, err))
    finally:
        for process in processes:
            process.kill()
    return outcomes


def written(folder):
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


def close(one, two):
    """Tell whether two values are equal, numbers within 1e-6 of their size; lm-eval writes some of them as texts."""
    if isinstance(one, dict):
        return one.keys() == two.keys() and all(close(one[key], two[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(two) and all(map(close, one, two))
    with suppress(ValueError, TypeError):
        return float(one) == pytest.approx(float(two), rel=1e-6, abs=1e-6, nan_ok=True)
    return bool(one == two)


#: For ``python -c``, in two processes on a CPU: a run, which takes them for those of two GPUs, a training, and `own_model.py`.
_PROGRAM = f"""
import json, os, sys, torch
sys.path[:0] = [{str(REPO)!r}, {str(REPO / "engine" / "tests")!r}]
os.environ["ACCELERATE_USE_CPU"] = "true"
model, *arguments = sys.argv[1:]
counts = torch.cuda.device_count, torch.accelerator.device_count
torch.cuda.device_count = torch.accelerator.device_count = lambda: 2
from nnd_tasks.cli import main
sys.argv = ["nnd", *arguments]
try:
    main()
except SystemExit as stop:
    assert not stop.code
torch.cuda.device_count, torch.accelerator.device_count = counts

from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments, default_data_collator
from nnd_tasks import NNDCallback
trained, tokenizer = AutoModelForCausalLM.from_pretrained(model), AutoTokenizer.from_pretrained(model)
texts = torch.randint(5, 900, (16, 12), generator=torch.Generator().manual_seed(0))
options = dict(max_steps=2, per_device_train_batch_size=2, use_cpu=True, report_to=[], save_strategy="no", disable_tqdm=True)
Trainer(
    trained, TrainingArguments("training", **options), data_collator=default_data_collator,
    train_dataset=[dict(input_ids=text, labels=text) for text in texts], processing_class=tokenizer,
    callbacks=[NNDCallback("nnd_demo", every=1, limit=6)],
).train()
assert torch.distributed.get_world_size() == 2
torch.save(trained.state_dict(), "weights-" + os.environ["RANK"])

from tests.run.test_own_model import Recurrent, evaluate, sums
module = Recurrent(caching=True)
results = evaluate(module)
print()
rates = results and [sums(results), results["results"]["nnd_demo"]["pass_rate,none"]]  # the first process has them
print(json.dumps([module.tokens_read, rates]))
torch.distributed.destroy_process_group()
"""
#: Of the run: with few-shot examples, which must not depend on the process.
_WORDS = ["--tasks=nnd_demo", "--device=cpu", "--log_samples", "--num_fewshot=2", "--seed=1", "--limit=12"]


def arguments_of(model, out):
    return ["run", "--model", "hf", "--model_args", f"pretrained={model},dtype=float32", *_WORDS, "--output_path", out]


@pytest.fixture(scope="module")
def twice(llama, demo_home, tmp_path_factory):
    """Run `_PROGRAM` once in two processes; return its folder and what they printed."""
    folder = tmp_path_factory.mktemp("twice")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NND_HOME", str(demo_home))
        outcomes = run_twice([sys.executable, "-c", _PROGRAM, llama, *arguments_of(llama, "two")], folder)
    assert [outcome.status for outcome in outcomes] == [0, 0], [outcome.err[-3000:] for outcome in outcomes]
    return folder, outcomes


@pytest.mark.slow
def test_documents_divided_among_processes_give_what_one_gives(twice, llama, home, tmp_path, nnd):
    """Rates, errors, sizes, signature and samples."""
    folder, outcomes = twice
    assert nnd(*arguments_of(llama, tmp_path)).status == 0
    assert sum(outcome.out.count("|nnd_demo") for outcome in outcomes) == 1, "one process writes"
    (results, samples), (other, divided) = written(tmp_path), written(folder / "two")
    for stored in (results, other):  # the digest of sums whose last digits differ
        assert stored["configs"]["nnd_demo"]["metadata"]["nnd"].pop("answers")
    for name in ("results", "configs", "n-samples"):
        assert close(results[name], other[name])
    assert [sample["doc_id"] for sample in divided["nnd_demo"]][:3] == [0, 2, 4]
    divided["nnd_demo"].sort(key=lambda sample: sample["doc_id"])
    for one, two in zip(samples["nnd_demo"], divided["nnd_demo"], strict=True):
        assert one["arguments"] == two["arguments"]
        assert close([one["tests"], one["candidates"]], [two["tests"], two["candidates"]])


@pytest.mark.slow
def test_a_callback_in_two_processes_evaluates_and_writes_once(twice, llama, home):
    """Real data-parallel training with gloo: the lines are those of the weights, which stay the same in both processes."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from shared_prefix.hf_shared_prefix import SharedPrefixLM

    folder, _ = twice
    weights = [torch.load(folder / f"weights-{k}") for k in range(2)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    lines = [json.loads(line) for line in (folder / "training" / "nnd.jsonl").read_text("utf-8").splitlines()]
    assert [line["step"] for line in lines] == [1, 2]
    model = AutoModelForCausalLM.from_pretrained(llama)
    model.load_state_dict(weights[0])
    lm = SharedPrefixLM(model, tokenizer=AutoTokenizer.from_pretrained(llama), batch_size=8)
    results = nnd_tasks.evaluate("nnd_demo", lm, limit=6, bootstrap_iters=0, metadata={"pretrained": model})
    assert lines[1]["rates"]["all"]["rate"] == results["results"]["nnd_demo"]["pass_rate,none"]


@pytest.mark.slow
def test_two_processes_score_a_share_of_a_users_own_model_each(twice, home):
    _, outcomes = twice
    (read, (found, rate)), (other_read, _) = (json.loads(outcome.out.splitlines()[-1]) for outcome in outcomes)
    module = test_own_model.Recurrent(caching=True)
    alone = test_own_model.evaluate(module)
    assert found == pytest.approx(test_own_model.sums(alone), rel=1e-6)
    assert rate == alone["results"]["nnd_demo"]["pass_rate,none"]
    twice_read = 1  # the question whether there is a cache
    assert read + other_read == module.tokens_read + twice_read
    assert min(read, other_read) > 0.2 * module.tokens_read


@pytest.mark.parametrize(
    ("gpus", "here", "options"),
    [
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
