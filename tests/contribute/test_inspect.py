"""A real inspect_ai runs what ``eval.yaml`` describes, on the files that would be published.

``nox -s inspect`` runs this file. ``NND_TEST_INSPECT`` names the Python that has inspect_ai.
"""

import json
import os

import pytest

from nnd_tasks.contribute.publish import make_plan
from tests.commands import run
from tests.contribute.conftest import some_tests

PYTHON = os.environ.get("NND_TEST_INSPECT", "")

#: Every answer is A. The model says what it costs: else inspect_ai would load a tokenizer from the internet to count it.
RUN = """
import itertools, json
import huggingface_hub
huggingface_hub.hf_hub_download = lambda filename, **_: f"me/mine/{filename}"
from inspect_ai import eval
from inspect_ai._eval.task.hf import task_create_from_hf
from inspect_ai.model import ModelOutput, ModelUsage, get_model

answer = ModelOutput.from_content("mockllm/model", "ANSWER: A")
answer.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
[log] = eval(
    task_create_from_hf("hf/me/mine/all"),
    model=get_model("mockllm/model", custom_outputs=itertools.repeat(answer)),
    display="none",
)
samples = [[sample.choices, sample.target, sample.scores["choice"].value] for sample in log.samples]
print(json.dumps([log.status, samples, log.samples[0].messages[0].text]))
"""


@pytest.mark.skipif(not PYTHON, reason="nox -s inspect runs it, with inspect_ai in an environment of its own")
def test_inspect_runs_what_is_published(own_set, tmp_path):
    own_set(tables={"all": some_tests().drop_columns(["question"])})
    for path, content in make_plan("mine", "me/mine").files.items():
        (tmp_path / "me" / "mine" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "me" / "mine" / path).write_bytes(content)
    environment = {**os.environ, "HF_HOME": str(tmp_path / "hub"), "INSPECT_LOG_DIR": str(tmp_path / "logs")}
    environment.pop("PYTHONPATH", None)
    done = run([PYTHON, "-c", RUN], cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    status, samples, asked = json.loads(done.stdout.splitlines()[-1])
    assert status == "success"
    assert len(samples) == 30
    assert {(target, value) for _, target, value in samples} == {("A", "C"), ("B", "I")}, "texts are shuffled"
    assert all(text in asked for text in samples[0][0])
