"""``--use_cache`` keyed by model: no answer of another model, none asked for twice, none unpickled."""

from __future__ import annotations

import json
import shutil
import signal
import sqlite3
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from lm_eval.models.huggingface import HFLM
from transformers import AutoModelForCausalLM

import nnd_tasks
from nnd_tasks.errors import NNDError
from nnd_tasks.models.shared_prefix import SharedPrefixLM
from nnd_tasks.runner.caching import cache_key
from tests import commands
from tests.random_models import evaluate
from tests.runner.completions_server import CompletionsServer

#: For ``python -c``: the number of the call of `_settle` at which it stops, then what follows ``nnd``. It makes the file
#: ``holding`` then, and writes how many requests it was asked into ``asked``.
HOLD = """
import sys, time
from pathlib import Path
from nnd_tasks.models.shared_prefix import SharedPrefixLM
from nnd_tasks.cli import main

settle, score, seen, stop = SharedPrefixLM._settle, SharedPrefixLM._loglikelihood_tokens, [], int(sys.argv[1])
check = SharedPrefixLM._self_check

def checked(self):  # what the check of the model on itself scores does not count
    SharedPrefixLM._settle = settle
    try:
        return check(self)
    finally:
        SharedPrefixLM._settle = hold

def hold(self, *args):
    seen.append(1)
    if len(seen) == stop:
        Path("holding").touch()
        time.sleep(600)
    settle(self, *args)

def count(self, requests, *args, **kwargs):
    Path("asked").write_text(str(len(requests)))
    return score(self, requests, *args, **kwargs)

SharedPrefixLM._settle, SharedPrefixLM._loglikelihood_tokens, SharedPrefixLM._self_check = hold, count, checked
sys.argv = ["nnd", *sys.argv[2:]]
main()
"""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[str, str]]:
    """Count the requests that reach a model."""
    counts: Counter[tuple[str, str]] = Counter()
    original = SharedPrefixLM._loglikelihood_tokens

    def counting(self: SharedPrefixLM, requests: list[Any], **kwargs: Any) -> Any:
        counts.update(request for request, _, _ in requests)
        return original(self, requests, **kwargs)

    monkeypatch.setattr(SharedPrefixLM, "_loglikelihood_tokens", counting)
    return counts


def run(model: Path, cache: Path, **kwargs: Any) -> dict[str, Any]:
    results = evaluate(model, ["nnd_demo"], use_cache=str(cache / "answers"), limit=6, **kwargs)["results"]["nnd_demo"]
    return {key: value for key, value in results.items() if key.startswith("pass_rate")}


def test_a_second_run_asks_nothing_and_gives_the_same(
    tiny_models: dict[str, Path], home: Path, tmp_path: Path, asked: Counter[tuple[str, str]]
) -> None:
    plain = evaluate(tiny_models["gpt2"], ["nnd_demo"], limit=6)["results"]["nnd_demo"]
    asked.clear()
    first = run(tiny_models["gpt2"], tmp_path)
    assert set(asked.values()) == {1}
    asked.clear()
    assert run(tiny_models["gpt2"], tmp_path, batch_size=3) == first
    assert not asked
    assert first == {key: plain[key] for key in first}


def test_another_model_does_not_get_the_answers_of_the_first(
    tiny_models: dict[str, Path], home: Path, tmp_path: Path, asked: Counter[tuple[str, str]]
) -> None:
    first = run(tiny_models["gpt2"], tmp_path)
    for model, arguments in (("llama", {}), ("gpt2", {"dtype": "bfloat16"}), ("gpt2", {"max_length": 600})):
        asked.clear()
        other = run(tiny_models[model], tmp_path, model_args=arguments)
        assert asked
        if model == "llama":
            assert other != first
    asked.clear()
    assert run(tiny_models["gpt2"], tmp_path) == first
    assert not asked


def test_a_model_that_was_trained_on_in_its_folder_is_another(
    tiny_models: dict[str, Path], home: Path, tmp_path: Path, asked: Counter[tuple[str, str]]
) -> None:
    folder = shutil.copytree(tiny_models["gpt2"], tmp_path / "model")
    first = run(folder, tmp_path)
    model = AutoModelForCausalLM.from_pretrained(folder)
    model.transformer.wte.weight.data.mul_(-1)
    model.save_pretrained(folder)
    asked.clear()
    assert run(folder, tmp_path) != first
    assert asked


def test_a_model_in_a_subfolder_is_known_by_its_files_too(
    tiny_models: dict[str, Path], home: Path, tmp_path: Path, asked: Counter[tuple[str, str]]
) -> None:
    shutil.copytree(tiny_models["gpt2"], tmp_path / "all" / "step1")
    shutil.copy(tiny_models["gpt2"] / "config.json", tmp_path / "all")
    for file in tiny_models["gpt2"].glob("tokenizer*"):
        shutil.copy(file, tmp_path / "all")
    arguments = {"model_args": {"subfolder": "step1"}}
    first = run(tmp_path / "all", tmp_path, **arguments)
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "all" / "step1")
    model.transformer.wte.weight.data.mul_(-1)
    model.save_pretrained(tmp_path / "all" / "step1")
    asked.clear()
    assert run(tmp_path / "all", tmp_path, **arguments) != first
    assert asked


def test_other_requests_are_asked_for_and_known_ones_are_not(
    tiny_models: dict[str, Path], home: Path, tmp_path: Path, asked: Counter[tuple[str, str]]
) -> None:
    run(tiny_models["gpt2"], tmp_path)
    known = set(asked)
    asked.clear()
    evaluate(tiny_models["gpt2"], ["nnd_demo"], use_cache=str(tmp_path / "answers"), limit=8)
    assert asked
    assert not known & set(asked)
    asked.clear()
    changed = {"metadata": {"candidate_prefix": "- "}}
    assert run(tiny_models["gpt2"], tmp_path, **changed) is not None
    assert asked


def test_answers_are_stored_as_json(tiny_models: dict[str, Path], home: Path, tmp_path: Path) -> None:
    run(tiny_models["gpt2"], tmp_path)
    [file] = tmp_path.glob("answers_*_rank0.db")
    with sqlite3.connect(file) as connection:
        values = [row[0] for row in connection.execute("select value from unnamed")]
    assert values
    for value in values:
        total, greedy = json.loads(value)
        assert total < 0
        assert isinstance(greedy, bool)


def test_a_pickle_in_a_cache_file_is_not_run(tiny_models: dict[str, Path], home: Path, tmp_path: Path) -> None:
    """Whoever passes a cache file on must not get to run code with it."""
    import pickle

    class Trap:
        def __reduce__(self) -> Any:
            return Path.touch, (tmp_path / "ran",)

    run(tiny_models["gpt2"], tmp_path)
    [file] = tmp_path.glob("answers_*_rank0.db")
    with sqlite3.connect(file) as connection:
        connection.execute("update unnamed set value = ?", (sqlite3.Binary(pickle.dumps(Trap())),))
    with pytest.raises(NNDError, match="holds something that is not an answer; delete it"):
        run(tiny_models["gpt2"], tmp_path)
    assert not (tmp_path / "ran").exists()


def test_a_place_that_cannot_be_written_is_refused(tiny_models: dict[str, Path], home: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(NNDError, match=r"--use_cache: .* cannot be opened"):
        run(tiny_models["gpt2"], tmp_path / "file")


def test_a_ready_made_model_cannot_be_cached(tiny_models: dict[str, Path], home: Path, tmp_path: Path) -> None:
    lm = HFLM(pretrained=str(tiny_models["gpt2"]), device="cpu")
    with pytest.raises(NNDError, match="ready-made model has no name"):
        nnd_tasks.evaluate("nnd_demo", lm, use_cache=str(tmp_path / "answers"))
    model = AutoModelForCausalLM.from_pretrained(tiny_models["gpt2"])
    with pytest.raises(NNDError, match="pretrained is a Python object"):
        nnd_tasks.evaluate(
            "nnd_demo",
            "hf",
            {"pretrained": model, "tokenizer": str(tiny_models["gpt2"])},
            use_cache=str(tmp_path / "answers"),
        )


def test_the_key_ignores_what_changes_no_answer() -> None:
    plain = cache_key("hf", {"pretrained": "x"})
    assert cache_key("hf", {"pretrained": "x", "batch_size": 3, "device": "cpu"}) == plain
    others = [
        cache_key("vllm", {"pretrained": "x"}),
        cache_key("hf", {"pretrained": "y"}),
        cache_key("hf", {"pretrained": "x", "revision": "z"}),
        cache_key("hf", {"pretrained": "x", "dtype": "float16"}),
    ]
    assert len({plain, *others}) == 5


def test_a_cache_of_requests_is_refused(tiny_models: dict[str, Path], home: Path) -> None:
    with pytest.raises(NNDError, match="--cache_requests: lm-eval keys that cache by task name"):
        evaluate(tiny_models["gpt2"], ["nnd_demo"], cache_requests=True)


@pytest.mark.slow
def test_a_killed_run_goes_on_where_it_was_and_asks_nothing_twice(
    tiny_models: dict[str, Path], home: Path, tmp_path: Path
) -> None:
    """The server counts what it is asked; it holds the client at the 100th prompt, where it is killed."""
    folder = tiny_models["gpt2"]
    with CompletionsServer.load(folder, stop_after=100) as server:
        arguments = f"model=tiny,tokenizer={folder},base_url={server.url},tokenizer_backend=huggingface,max_length=2048"
        command = [sys.executable, "-m", "nnd_tasks.cli", "run", "--model", "local-completions", "--tasks", "nnd_demo"]
        command += ["--model_args", arguments, "--use_cache", str(tmp_path / "answers")]
        with (tmp_path / "log").open("wb") as log:
            process = commands.start(command, cwd=tmp_path, output=log)
            assert server.holding.wait(120), (tmp_path / "log").read_text("utf-8")
            time.sleep(1)  # the cache is written by a thread of its own
            process.send_signal(signal.SIGKILL)
            process.wait(60)
        before = [tuple(prompt) for prompt in server.answered]
        assert len(before) == 100
        server.release()
        time.sleep(1)  # the prompt that was held is answered to nobody
        server.answered.clear()
        done = commands.run(command, cwd=tmp_path)
        assert done.returncode == 0, done.stderr[-3000:]
        after = [tuple(prompt) for prompt in server.answered]
    assert not set(before) & set(after)
    assert len(set(before) | set(after)) == len(before) + len(after) == 305


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt2", "t5"])
def test_a_killed_run_of_a_model_in_process_goes_on_where_it_was(
    name: str, tiny_models: dict[str, Path], home: Path, tmp_path: Path
) -> None:
    """The real command line, stopped while it scores, and then killed; only what was not stored is scored again."""
    arguments = ["run", "--model", "hf", "--model_args", f"pretrained={tiny_models[name]},dtype=float32"]
    arguments += ["--device", "cpu", "--tasks", "nnd_demo", "--log_samples"]

    def command(hold_at: int, output: str, *more: str) -> list[str]:
        return [sys.executable, "-c", HOLD, str(hold_at), *arguments, "--output_path", output, *more]

    cached = "--use_cache", str(tmp_path / "answers")
    with (tmp_path / "log").open("wb") as log:
        process = commands.start(command(12, "killed", *cached), cwd=tmp_path, output=log)
        for _ in range(1200):
            if (tmp_path / "holding").exists() or process.poll() is not None:
                break
            time.sleep(0.1)
        assert (tmp_path / "holding").exists(), (tmp_path / "log").read_text("utf-8")
        time.sleep(1)  # the cache is written by a thread of its own
        process.send_signal(signal.SIGKILL)
        process.wait(60)
    assert not list(tmp_path.glob("killed/**/*.json*"))
    [file] = tmp_path.glob("answers_*_rank0.db")
    with sqlite3.connect(file) as connection:
        [[stored]] = connection.execute("select count(*) from unnamed")
    assert 0 < stored < 305

    def outcomes(output: str, *more: str) -> tuple[int, list[Any]]:
        done = commands.run(command(0, output, *more), cwd=tmp_path)
        assert done.returncode == 0, done.stderr[-3000:]
        [samples] = tmp_path.glob(f"{output}/**/samples_*.jsonl")
        found = [json.loads(line) for line in samples.read_text("utf-8").splitlines()]
        return int((tmp_path / "asked").read_text()), [[sample["candidates"], sample["tests"]] for sample in found]

    asked, resumed = outcomes("resumed", *cached)
    assert asked == 305 - stored
    everything, whole = outcomes("whole")
    assert everything == 305
    for one, two in zip(resumed, whole, strict=True):
        assert [test["passed"] for test in one[1]] == [test["passed"] for test in two[1]]
        for a, b in zip(one[0], two[0], strict=True):
            assert a["tokens"] == b["tokens"]
            assert a["sum"] == pytest.approx(b["sum"], rel=1e-6, abs=1e-5 * a["tokens"])
