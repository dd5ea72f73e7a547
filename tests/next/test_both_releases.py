"""The same commands with lm-eval 0.4.13 and with 0.5: the same rates, errors, samples and token scores.

``nox -s next`` runs this file. ``NND_TEST_NEXT`` names the Python that has lm-eval 0.5.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from nnd_tasks.results.paired import pair
from nnd_tasks.results.read_runs import read_results
from tests.conftest import MODELS, REPO
from tests.exchange.stock_tasks import command, write_tasks
from tests.prompted.test_judge import pick
from tests.run.chat_server import ChatServer
from tests.task.tasks import write_yaml

PYTHON = os.environ.get("NND_TEST_NEXT", "")
pytestmark = pytest.mark.skipif(not PYTHON, reason="nox -s next runs it, with lm-eval 0.5 in an environment of its own")

NND = ("-c", "from nnd_tasks.cli import main; main()", "run")
LM_EVAL = ("-m", "lm_eval", "run", "--include_path", str(REPO / "task_yamls"))


@pytest.fixture(scope="module")
def home(real_sets, tmp_path_factory):
    """Return a home with the demo and, where its file is there, Quiz Design."""
    home = tmp_path_factory.mktemp("home")
    shutil.copytree(real_sets("demo"), home / "nnd" / "demo")
    return home


@pytest.fixture
def model(tiny_models):
    """Return a trained model, or without those one with random weights."""
    return MODELS / "tiny-lm-xs" if MODELS.is_dir() else tiny_models["llama"]


def of_model(model):
    return "--model", "hf", "--model_args", f"pretrained={model},dtype=float32", "--device", "cpu", "--batch_size", "8"


def ran(python, command, out, home):
    """Read the files of a run: the results, and the content of each further file by its name without the time."""
    environment = {**os.environ, "NND_HOME": str(home), "OMP_NUM_THREADS": "1", "PYTHONPATH": str(REPO)}
    arguments = [python, *command, "--output_path", str(out), "--log_samples"]
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = {}
    for path in out.rglob("*_*.*"):
        name = re.sub(r"_\d{4}-.*", "", path.name)
        if path.suffix == ".parquet":
            found[name] = pq.read_table(path).to_pylist()
        else:
            lines = path.read_text("utf-8").splitlines() if path.suffix == ".jsonl" else [path.read_text("utf-8")]
            found[name] = [json.loads(line) for line in lines]
    return found


def same(first, second):
    """Tell whether two values of JSON are the same but for the rounding of sums."""
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(same(first[key], second[key]) for key in first)
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(same, first, second))
    return bool(first == (pytest.approx(second, abs=1e-5) if isinstance(second, float) else second))


def check(command, tasks, folder, home, *, keys=()):
    """Run a command with both releases and compare all that they write; of samples the keys, if some are named."""
    given = (*command, "--tasks", ",".join(sorted(tasks)))
    old, new = (ran(python, given, folder / name, home) for python, name in ((sys.executable, "a"), (PYTHON, "b")))
    assert old.keys() == new.keys()
    (old_results,), (new_results,) = old.pop("results"), new.pop("results")
    assert old_results["results"].keys() == tasks
    for task, metrics in old_results["results"].items():
        rates = {name: value for name, value in metrics.items() if "," in name}
        assert isinstance(rates["pass_rate,none"], float)
        assert isinstance(rates["pass_rate_stderr,none"], float)
        others = {name: value for name, value in new_results["results"][task].items() if "," in name}
        assert same(rates, others)
        facts = [each["configs"][task]["metadata"]["nnd"] for each in (old_results, new_results)]
        signatures = [fact.pop("signature") for fact in facts]
        assert facts[0] == facts[1]
        assert signatures[0]["protocol"] == signatures[1]["protocol"], "such runs may be compared"
        assert [one["environment"]["lm_eval"][:3] for one in signatures] == ["0.4", "0.5"]
    for name, lines in old.items():
        assert lines
        if keys:
            lines, new[name] = ([{key: line[key] for key in keys} for line in some] for some in (lines, new[name]))
        assert [i for i, line in enumerate(lines) if not same(line, new[name][i])] == [], name


@pytest.mark.parametrize("command", [NND, LM_EVAL], ids=["nnd run", "lm_eval"])
def test_the_demo_and_quiz_design(command, real_sets, tmp_path, model, home):
    shutil.copytree(real_sets("quiz_design"), home / "nnd" / "quiz_design", dirs_exist_ok=True)
    check((*command, *of_model(model)), {"nnd_demo", "nnd_quiz_design", "nnd_quiz_design_gpt2"}, tmp_path, home)


@pytest.mark.parametrize(
    "options",
    [
        ("--num_fewshot", "2", "--limit", "10"),
        ("--sample", "7"),
        ("--limit", "5", "--metadata", '{"tokens": true, "append_eos": true}'),
        ("--limit", "0.1", "--metadata", '{"context_reliance": true}'),
    ],
    ids=["exemplars", "sample", "tokens", "reliance"],
)
def test_what_else_one_may_ask_for(options, tmp_path, model, home):
    check((*NND, *options, *of_model(model)), {"nnd_demo"}, tmp_path, home)


@pytest.mark.parametrize("at_once", [1, 4])
@pytest.mark.parametrize("verb", [NND, ("-m", "lm_eval", "run")], ids=["nnd run", "lm_eval"])
def test_a_judge_and_a_rating_behind_a_chat_api(verb, at_once, tmp_path, home):
    for reader in ("judge", "rating"):
        write_yaml(tmp_path / "yaml", f"by_{reader}", reader=reader, repeats=2)

    def answer(payload):
        text = payload["messages"][-1]["content"] + str(payload["seed"])
        return (
            pick(text, "Answer: A", "Answer: B", "Well.") if "Answer: A" in text else f"Rating: {pick(text, 3, 5, 9)}"
        )

    with ChatServer(answer) as server:
        arguments = f"model=m,base_url={server.url},num_concurrent={at_once}"
        options = ("--model", "local-chat-completions", "--model_args", arguments, "--apply_chat_template")
        options += ("--include_path", str(tmp_path / "yaml"), "--gen_kwargs", "temperature=1", "--limit", "5")
        # The two clients write a turn of a chat otherwise.
        check((*verb, *options), {"by_judge", "by_rating"}, tmp_path, home, keys=("candidates", "tests"))


def test_tasks_of_lm_eval_have_equal_documents_in_both_releases(model, tmp_path, home):
    tasks = write_tasks(tmp_path / "tasks")
    for python, name in ((sys.executable, "a"), (PYTHON, "b")):
        ran(python, ("-m", "lm_eval", *command(tasks, model, tmp_path / name)), tmp_path / name, home)
    old, new = (read_results(tmp_path / name, skipped=[]) for name in "ab")
    assert {run.set for run in old} == {run.set for run in new}
    for first, second in zip(*(sorted(runs, key=lambda run: run.set) for runs in (old, new)), strict=True):
        [paired] = pair([first, replace(second, model="new")], ["lm_eval"])
        assert paired.tests["test_id"].tolist() == first.tests["test_id"].tolist()
        assert "acc_norm" in first.set or (paired.passed[:, 0] == paired.passed[:, 1]).all()
