"""The engine without nnd-tasks: its command scores a task of lm-eval's own kind, and gets the numbers of plain ``hf``."""

import json
import os
import re
import runpy
import subprocess
import sys
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

import lm_eval
import pytest
from lm_eval.api.registry import get_model
from lm_eval.tasks import TaskManager

import shared_prefix.hf_shared_prefix
from shared_prefix.upstream import register_models

TEXT = "One day the cat went to the house of the dog and nobody knew the song"
#: A task as lm-eval's own with several choices, such as hellaswag; acc_mutual_info also asks for the choices alone.
CHOICES = """
task: choices
dataset_path: json
dataset_kwargs: {{data_files: {{test: {table}}}, cache_dir: {cache}}}
test_split: test
fewshot_split: test
output_type: multiple_choice
doc_to_text: "{{{{text}}}}:"
doc_to_choice: "{{{{endings}}}}"
doc_to_target: label
metric_list: [{{metric: acc}}, {{metric: acc_norm}}, {{metric: acc_mutual_info}}]
"""
#: A process in which nnd-tasks cannot be imported, and lm-eval has no tasks of its own, which take seconds to list.
ALONE = """
import runpy, sys
sys.modules["nnd_tasks"] = None
from lm_eval.tasks import manager
manager.__file__ = "none/manager.py"
runpy.run_module("shared_prefix", run_name="__main__")
assert not [name for name in sys.modules if name.startswith("nnd_tasks.")]
"""


@pytest.fixture
def choices(tmp_path):
    """Return a folder with the task ``choices``, ten documents of four endings."""
    words = TEXT.split()
    rows = [
        {"text": " ".join(words[:length]), "endings": words[length : length + 4], "label": length % 4}
        for length in range(1, 11)
    ]
    table = tmp_path / "table.jsonl"
    table.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    (tmp_path / "choices.yaml").write_text(CHOICES.format(table=table, cache=tmp_path / "cache"), encoding="utf-8")
    return tmp_path


def evaluate(model, folder, pretrained):
    manager = TaskManager(include_path=str(folder), include_defaults=False)
    arguments = {"pretrained": str(pretrained), "dtype": "float32"}
    options = {"num_fewshot": 2, "device": "cpu", "task_manager": manager, "bootstrap_iters": 0}
    return lm_eval.simple_evaluate(model, arguments, ["choices"], **options)


def assert_same_samples(found, expected):
    for one, two in zip(found, expected, strict=True):
        assert len(one["filtered_resps"]) == 8
        for (total, greedy), (other, likeliest) in zip(one["filtered_resps"], two["filtered_resps"], strict=True):
            assert (float(total), str(greedy)) == (pytest.approx(float(other), rel=1e-6, abs=1e-4), str(likeliest))


def test_python_gets_the_numbers_of_hf(llama, choices):
    plain, shared = (evaluate(model, choices, llama) for model in ("hf", "hf-shared-prefix"))
    assert shared["results"]["choices"] == plain["results"]["choices"]
    assert_same_samples(shared["samples"]["choices"], plain["samples"]["choices"])


@pytest.mark.slow
def test_the_command_gets_the_numbers_of_hf_where_nnd_tasks_cannot_be_imported(llama, choices):
    words = ["--model", "hf-shared-prefix", "--model_args", f"pretrained={llama},dtype=float32", "--device", "cpu"]
    words += ["--include_path", str(choices), "--tasks", "choices", "--num_fewshot", "2"]
    words += ["--output_path", str(choices / "out"), "--log_samples"]
    paths = [str(Path(shared_prefix.__file__).parents[1]), os.environ.get("PYTHONPATH")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    line = [sys.executable, "-c", ALONE, *words]
    done = subprocess.run(line, env=environment, capture_output=True, encoding="utf-8", timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "every distinct token is read once" in done.stderr
    [results], [samples] = ((choices / "out").rglob(pattern) for pattern in ("results_*.json", "samples_*.jsonl"))
    plain = evaluate("hf", choices, llama)
    rates = json.loads(results.read_text("utf-8"))["results"]["choices"]
    for metric in ("acc,none", "acc_norm,none", "acc_mutual_info,none"):
        assert rates[metric] == plain["results"]["choices"][metric]
    assert_same_samples(map(json.loads, samples.read_text("utf-8").splitlines()), plain["samples"]["choices"])


def test_a_typo_of_a_model_is_one_line_with_those_there_are(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["lm_eval", "run", "--model=hf-shared-prefx", "--tasks", "choices"])
    with pytest.raises(SystemExit, match=r"^--model hf-shared-prefx: no such model; there are .*, hf-shared-prefix, "):
        runpy.run_module("shared_prefix", run_name="__main__")


def test_every_model_is_an_entry_point_that_lm_eval_is_told():
    register_models()
    ours = [entry for entry in entry_points(group="lm_eval.models") if entry.value.startswith("shared_prefix.")]
    for entry in ours:
        if entry.name != "vllm-shared-prefix" or find_spec("vllm"):
            assert entry.load() is get_model(entry.name)
    sources = [path.read_text("utf-8") for path in Path(shared_prefix.__file__).parent.glob("*.py")]
    assert sum(len(re.findall(r"^@register_model\(", source, re.MULTILINE)) for source in sources) == len(ours)
