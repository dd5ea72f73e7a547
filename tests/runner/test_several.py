"""Runs in several processes: everything is as with one, and is written and shown once."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.random_models import evaluate
from tests.runner.holding import HOLD
from tests.runner.several import NND, cached, run, start, written


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


def test_other_numbers_would_be_seen() -> None:
    assert close({"a": [1.0, "-2.0", True]}, {"a": [1.0 + 1e-7, "-2.0000001", True]})
    for other in ({"a": [1.0, "-2.0001", True]}, {"a": [1.00001, "-2.0", True]}, {"a": [1.0, "-2.0", False]}, {}):
        assert not close({"a": [1.0, "-2.0", True]}, other)


def test_two_processes_give_what_one_gives(tiny_models: dict[str, Path], home: Path, tmp_path: Path) -> None:
    """Results, samples, cache, table and log; with few-shot examples, which lm-eval's own way of dividing would change."""
    model = f"pretrained={tiny_models['llama']},dtype=float32"
    command = [*NND, "--model", "hf", "--model_args", model, "--tasks", "nnd_demo", "--device", "cpu", "--log_samples"]
    command += ["--num_fewshot", "2", "--seed", "1", "--output_path", "out", "--use_cache", "cache/answers"]
    found, tables, lines = {}, {}, {}
    for count in (1, 2):
        folder = tmp_path / str(count)
        folder.mkdir()
        first, *others = run(count, command, folder)
        assert first.status == 0, first.err[-3000:]
        assert others == [(0, "", "")] * (count - 1), "one process speaks"
        found[count] = [*written(folder / "out"), cached(folder / "cache")]
        tables[count] = [line for line in first.out.splitlines() if line.startswith("|")]
        lines[count] = re.findall(r"\[(?:nnd|evaluator|loggers\S*):\d+\] (.*)", first.err)
    assert len(found[1][2]) == 305
    for one, two in zip(*found.values(), strict=True):
        assert close(one, two)
    assert tables[1] == tables[2]
    assert lines[1]
    assert [line for line in lines[2] if "Using cache" not in line] == [
        line for line in lines[1] if "Using cache" not in line
    ]


def test_a_run_whose_process_is_killed_ends_and_goes_on_with_another_number_of_them(
    tiny_models: dict[str, Path], home: Path, tmp_path: Path
) -> None:
    """The second of two processes is killed while it scores; three go on with what both have answered."""
    arguments = ["run", "--model", "hf", "--model_args", f"pretrained={tiny_models['gpt2']},dtype=float32"]
    arguments += ["--device", "cpu", "--tasks", "nnd_demo", "--log_samples", "--use_cache", "answers"]

    def command(hold_at: int, output: str) -> list[str]:
        return [sys.executable, "-c", HOLD, str(hold_at), *arguments, "--output_path", output]

    first, second = start(2, command(6, "killed"), tmp_path)
    for _ in range(1200):
        if (tmp_path / "holding").exists() or second.poll() is not None:
            break
        time.sleep(0.1)
    assert (tmp_path / "holding").exists(), second.communicate()
    time.sleep(1)  # the cache is written by a thread of its own
    second.send_signal(signal.SIGKILL)
    err = first.communicate(timeout=60)[1]
    assert first.returncode == 1
    assert err.splitlines()[-1].startswith("nnd: error: process 2 of 2 ended without saying why; ")
    assert "Traceback" not in err
    assert not list(tmp_path.glob("killed/**/*.json*"))
    stored = {}
    for path in tmp_path.glob("answers_*_rank*.db"):
        with sqlite3.connect(path) as connection:
            [[stored[path.stem[-1]]]] = connection.execute("select count(*) from unnamed")
    assert sorted(stored) == ["0", "1"]
    assert all(stored.values())
    assert sum(stored.values()) < 305

    first_outcome, *others = run(3, command(0, "resumed"), tmp_path)
    assert first_outcome.status == 0, first_outcome.err[-3000:]
    assert others == [(0, "", "")] * 2
    asked = [int((tmp_path / f"asked-{k}").read_text()) for k in range(3)]
    assert sum(asked) == 305 - sum(stored.values())
    assert len(cached(tmp_path)) == 305
    _, samples = written(tmp_path / "resumed")
    whole = evaluate(tiny_models["gpt2"], ["nnd_demo"])["samples"]["nnd_demo"]
    for one, two in zip(samples["nnd_demo"], whole, strict=True):
        assert [test["passed"] for test in one["tests"]] == [test["passed"] for test in two["tests"]]
        assert close(json.loads(json.dumps(one["candidates"])), json.loads(json.dumps(two["candidates"])))


#: For ``python -c``: which process fails, where and how, then what follows ``nnd``.
_FAIL = """
import os, signal, sys
import lm_eval.api.metrics
from lm_eval.models.huggingface import HFLM
from nnd_tasks.cli import main
from nnd_tasks.harness.task import NNDTask

rank, where, how = sys.argv[1:4]
owner, name = {
    "loading": (HFLM, "_create_model"), "tokenizing": (HFLM, "tok_encode"), "metrics": (NNDTask, "process_results"),
}[where]

def fail(*args, **kwargs):
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    raise KeyError("lost")

if os.environ["RANK"] == rank:
    setattr(owner, name, fail)
sys.argv = ["nnd", *sys.argv[4:]]
main()
"""


@pytest.mark.parametrize(
    ("count", "rank", "where", "how"),
    [
        (2, 1, "tokenizing", "error"),
        (2, 1, "metrics", "error"),
        (2, 0, "tokenizing", "error"),
        (3, 1, "tokenizing", "killed"),
        (2, 0, "loading", "killed"),
    ],
)
def test_a_process_that_fails_anywhere_ends_all_with_its_reason(
    count: int, rank: int, where: str, how: str, tiny_models: dict[str, Path], home: Path, tmp_path: Path
) -> None:
    """Also where the others are exchanging something else by then, and where the first one is gone."""
    command = [sys.executable, "-c", _FAIL, str(rank), where, how, "run", "--model", "hf", "--device", "cpu"]
    command += [
        "--model_args",
        f"pretrained={tiny_models['gpt2']},dtype=float32",
        "--tasks",
        "nnd_demo",
        "--limit",
        "4",
    ]
    outcomes = run(count, [*command, "--output_path", "out", "--use_cache", "answers"], tmp_path, timeout=60)
    assert all(outcome.status for outcome in outcomes)
    said = [line for outcome in outcomes for line in outcome.err.splitlines() if line.startswith("nnd: error:")]
    reason = "ended without saying why; " if how == "killed" else "stopped with KeyError: 'lost' "
    [line] = said
    assert line.startswith(f"nnd: error: process {rank + 1} of {count} {reason}")
    assert "Traceback" not in "".join(outcome.err for outcome in outcomes)
    assert not list(tmp_path.glob("out/**/*.json*"))


def test_a_users_mistake_is_said_once(tiny_models: dict[str, Path], home: Path, tmp_path: Path) -> None:
    model = ["--model", "hf", "--model_args", f"pretrained={tiny_models['gpt2']}", "--device", "cpu"]
    outcomes = run(2, [*NND, *model, "--tasks", "nnd_dmo"], tmp_path)
    assert [outcome.status for outcome in outcomes] == [1, 1]
    said = [line for outcome in outcomes for line in outcome.err.splitlines() if line.startswith("nnd: error:")]
    [line] = said
    assert "there is no task 'nnd_dmo'" in line


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


def test_a_callback_in_two_processes_evaluates_and_writes_once(
    tiny_models: dict[str, Path], home: Path, tmp_path: Path
) -> None:
    """Real data-parallel training with gloo: the lines are those of the weights, which stay the same in both processes."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    import nnd_tasks
    from nnd_tasks.models.shared_prefix import SharedPrefixLM

    outcomes = run(2, [sys.executable, "-c", _TRAIN, tiny_models["gpt2"]], tmp_path)
    assert [outcome.status for outcome in outcomes] == [0, 0], outcomes[0].err[-3000:]
    weights = [torch.load(tmp_path / f"weights-{k}") for k in range(2)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    lines = [json.loads(line) for line in (tmp_path / "out" / "nnd.jsonl").read_text("utf-8").splitlines()]
    assert [line["step"] for line in lines] == [1, 2]
    model = AutoModelForCausalLM.from_pretrained(tiny_models["gpt2"])
    model.load_state_dict(weights[0])
    lm = SharedPrefixLM(model, tokenizer=AutoTokenizer.from_pretrained(tiny_models["gpt2"]), batch_size=8)
    results = nnd_tasks.evaluate("nnd_demo", lm, limit=6, bootstrap_iters=0, metadata={"pretrained": model})
    assert lines[1]["rates"]["all"]["rate"] == results["results"]["nnd_demo"]["pass_rate,none"]


@pytest.mark.complete
def test_torchrun_divides_plain_requests_and_those_of_encoder_decoders(
    tiny_models: dict[str, Path], home: Path, tmp_path: Path
) -> None:
    """The launcher itself, on the plain path of a T5."""
    launcher = [Path(sys.executable).with_name("torchrun"), "--standalone", "--nproc_per_node", "2"]
    arguments = [
        "--model",
        "hf",
        "--model_args",
        f"pretrained={tiny_models['t5']},dtype=float32",
        "--tasks",
        "nnd_demo",
    ]
    arguments += ["--device", "cpu", "--limit", "6", "--log_samples", "--output_path", "out", "--no-shared-prefix"]
    command = [*launcher, "-m", "nnd_tasks.cli", "run", *arguments, "--batch_size", "4"]
    done = subprocess.Popen(
        command,
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = done.communicate(timeout=240)
    except subprocess.TimeoutExpired:
        os.killpg(done.pid, signal.SIGTERM)  # which torchrun hands on
        raise
    assert done.returncode == 0, err[-3000:]
    assert out.count("|nnd_demo|") == 1
    bars = set(re.findall(r"Running loglikelihood requests: 100%\|\S+\| (\d+)/", err))
    _, samples = written(tmp_path / "out")
    alone = evaluate(tiny_models["t5"], ["nnd_demo"], limit=6, shared_prefix=False)["samples"]["nnd_demo"]
    assert len(samples["nnd_demo"]) == len(alone) == 6
    requests = sum(len(sample["arguments"]) for sample in alone)
    [shown] = bars
    assert 0 < int(shown) < requests
    for one, two in zip(samples["nnd_demo"], alone, strict=True):
        assert [test["passed"] for test in one["tests"]] == [test["passed"] for test in two["tests"]]
        for a, b in zip(one["candidates"], two["candidates"], strict=True):
            assert a["sum"] == pytest.approx(b["sum"], rel=1e-5)
