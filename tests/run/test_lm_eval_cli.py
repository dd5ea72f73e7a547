"""The real command lines: the literal ``lm_eval`` in a process of its own once, all else in this one."""

import contextlib
import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from lm_eval.models.huggingface import HFLM

from nnd_tasks.errors import NNDError
from nnd_tasks.store import tasks_dir
from nnd_tasks.task import task_files
from nnd_tasks.task.task_files import write_task_folder
from tests import commands
from tests.commands import printed_table as table
from tests.conftest import DATA, MODELS, REPO, needs_data, needs_models
from tests.run.chat_server import ChatServer
from tests.run.test_backends import needs_client
from tests.task.tasks import write_yaml

BIN = Path(sys.executable).parent
MODEL = MODELS / "tiny-lm-xs"


@pytest.fixture(autouse=True)
def use_built(link_sets, monkeypatch):
    link_sets("demo", *(("summeval", "frank") if DATA.is_dir() else ()))
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def lm_eval(monkeypatch, capsys):
    """A function that runs the literal command in this process, and returns its output."""
    from lm_eval.__main__ import cli_evaluate

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["lm_eval", *map(str, words)])
        with contextlib.suppress(SystemExit):
            cli_evaluate()
        return capsys.readouterr().out

    return call


@pytest.fixture
def registered(nnd, small_lm_eval, tmp_path, monkeypatch):
    """Register through the command, in a copy of lm-eval: that of this environment is everybody's."""
    site = shutil.copytree(small_lm_eval, tmp_path / "site")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), str(REPO)]))
    monkeypatch.setattr(task_files, "lm_eval_tasks_dir", lambda: site / "lm_eval" / "tasks")
    assert nnd("register").status == 0
    return site / "lm_eval" / "tasks" / task_files.REGISTERED


@pytest.mark.slow
@needs_data
@needs_models
def test_the_literal_command_scores_two_sets_after_nnd_register(registered, tmp_path, nnd):
    command = (
        f"{BIN}/lm_eval --model hf --model_args pretrained={MODEL},dtype=float32 --tasks nnd_summeval,nnd_frank --device cpu "
        f"--limit 3 --batch_size 4 --output_path {tmp_path / 'out'} --log_samples"
    )
    done = commands.run(command.split(), cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    printed = table(done.stdout)
    assert set(printed) == {"nnd_summeval", "nnd_frank"}
    results = json.loads(next((tmp_path / "out").rglob("results_*.json")).read_text())["results"]
    for task, metrics in printed.items():
        value, error = metrics["pass_rate"]
        assert float(value) == pytest.approx(results[task]["pass_rate,none"], abs=1e-4)
        assert float(error.split("†")[0]) == pytest.approx(results[task]["pass_rate_stderr,none"], abs=1e-4)
        assert float(metrics["clusters"][0]) == 3
    assert len([*(tmp_path / "out").rglob("samples_*.jsonl")]) == 2
    assert nnd("register", "--undo").status == 0
    assert not registered.exists()
    assert "nothing was registered" in nnd("register", "--undo").out


@needs_client
def test_the_literal_command_runs_a_judge_behind_a_chat_api(lm_eval, tmp_path):
    folder = write_yaml(tmp_path / "yaml", "verdict", reader="judge")
    with ChatServer(lambda payload: "Answer: A") as server:
        arguments = f"model=m,base_url={server.url},num_concurrent=4"
        options = ("--model", "local-chat-completions", "--model_args", arguments, "--apply_chat_template")
        printed = table(lm_eval(*options, "--tasks", "verdict", "--include_path", folder, "--limit", "2"))
    rates = {name: float(value) for name, (value, _) in printed["verdict"].items()}
    expected = {"pass_rate": 0, "pass_rate_half": 0.5, "unread": 0, "both_right": 0, "order_flips": 1, "first": 1}
    assert {name: rates[name] for name in expected} == expected
    assert len(server.payloads) == 2 * rates["tests"]


@needs_models
def test_nnd_run_needs_no_registration_and_passes_everything_on(nnd, tmp_path, monkeypatch):
    (tmp_path / "extra").mkdir()
    demo = tasks_dir() / "demo" / "nnd_demo.yaml"
    (tmp_path / "extra" / "mine.yaml").write_text(f"include: {demo}\ntask: mine\n")
    command = (
        f"run --model hf --model_args pretrained={MODEL},dtype=float32 --tasks nnd_demo,mine --device cpu --limit 4 "
        f"--include_path {tmp_path / 'extra'} --batch_size auto --use_cache {tmp_path / 'cache'} --num_fewshot 1 "
        f"--output_path {tmp_path / 'out'}"
    )
    words = [*command.split(), "--metadata", '{"append_eos": true, "ties": "authors"}']
    done = nnd(*words)
    assert done.status == 0, done.err
    printed = table(done.out)
    assert printed["nnd_demo (4 of 60 prompts)"] == printed["mine (4 of 60 prompts)"]
    with monkeypatch.context() as patch:
        patch.setattr(HFLM, "_loglikelihood_tokens", None)  # nothing is left to score
        assert table(nnd(*words).out) == printed
    stored = json.loads(next((tmp_path / "out").rglob("results_*.json")).read_text())
    assert stored["configs"]["nnd_demo"]["metadata"]["nnd"]["append_eos"] is True
    assert stored["n-shot"]["nnd_demo"] == 1


def test_lm_eval_lists_and_validates_our_tasks(lm_eval):
    include = ("--include_path", write_task_folder())
    listed = lm_eval("ls", "tasks", *include)
    for name in ("nnd", "nnd_quiz_design", "nnd_challenge300_macaw", "nnd_mqm_ende_gpt2", "nnd_news_gpt3_bbc"):
        assert re.search(rf"\|\s*{name}\s*\|", listed)
    assert "all tasks found and valid" in lm_eval("validate", "--tasks", "nnd_demo", *include).lower()


def test_a_mistake_is_one_clear_line_with_the_literal_command_too(lm_eval):
    with pytest.raises(NNDError, match=r"quiz_design_groups\.jsonl \(sha256 "):
        lm_eval("--model", "dummy", "--tasks", "nnd_quiz_design", "--include_path", write_task_folder())


def test_categories_and_severities_of_any_script_are_printed_saved_and_read(nnd, llama, tmp_path):
    named = {"错误": "重大", "गलत": "", "गलती": "Sum", "C++": "-1", "C#": "1"}
    pairs = [f"Q{i}?,yes,no {i},{category},{severity}\n" for i, (category, severity) in enumerate(named.items())]
    (tmp_path / "错误.csv").write_text("q,better,worse,kind,how\n" + "".join(pairs), "utf-8")
    recipe = "files: {错误.csv: {}}\nconfig: '@file'\nchosen: better\nrejected: worse\ncategory: kind\nseverity: how\nfield: q\n"
    (tmp_path / "words").mkdir()
    (tmp_path / "words" / "_recipe").write_text(recipe, "utf-8")
    assert nnd("build", tmp_path / "words", "--source", tmp_path / "错误.csv").status == 0
    run = ["--model", "hf", "--model_args", f"pretrained={llama}", "--device", "cpu", "--log_samples"]
    shown = nnd("run", *run, "--tasks", "nnd_words", "--output_path", tmp_path / "results").out
    metrics = {name.removeprefix("pass_rate_") for name in table(shown)["nnd_words"]}
    assert {"错误", "गलत", "गलती", "severity_重大", "severity_sum"} <= metrics
    for slug, number in {"c": 2, "severity_1": 2}.items():
        assert len([name for name in metrics if re.fullmatch(slug + "_[0-9a-f]{8}", name)]) == number
    assert nnd("report", tmp_path / "results", "--out", tmp_path / "pages").status == 0
    pages = "".join(path.read_text("utf-8") for path in (tmp_path / "pages").rglob("*.html"))
    assert all(name in pages for name in named)
