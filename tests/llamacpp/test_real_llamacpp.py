"""llama.cpp behind the server of llama-cpp-python: what lm-eval's clients make of its log-probabilities.

``nox -s llamacpp`` runs this file. ``NND_TEST_LLAMACPP`` names the Python that has ``llama_cpp`` and ``gguf``.
"""

import os
import subprocess
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import requests
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import engine_tests
import nnd_tasks
from tests.random_models import evaluate, texts
from tests.real_servers import serving
from tests.run.test_backends import assert_same, needs_client, samples_of

PYTHON = os.environ.get("NND_TEST_LLAMACPP", "")
pytestmark = pytest.mark.skipif(not PYTHON, reason="nox -s llamacpp runs it, with llama-cpp-python installed")

PROMPTS = 20
CONTEXT = 512
TEXT = "Which river did the old man cross, and why did nobody see him again?"
Serve = Callable[..., Any]


@pytest.fixture(scope="module")
def model(tiny_models):
    """Return a Llama with random weights, whose tokenizer adds BOS."""
    return tiny_models["llama"]


@pytest.fixture(scope="module")
def serve(tmp_path_factory):
    """Return a function: model, whether its GGUF file says that prompts begin with BOS, options -> a server of it."""
    script = Path(engine_tests.__file__).with_name("write_gguf.py")

    @contextmanager
    def start(model, *options, bos=True):
        folder = tmp_path_factory.mktemp("gguf")
        weights = AutoModelForCausalLM.from_pretrained(model, dtype="float32")
        tied = set(getattr(weights, "all_tied_weights_keys", ()))
        tensors = {name: weight.numpy() for name, weight in weights.state_dict().items() if name not in tied}
        np.savez(folder / "weights.npz", **tensors)
        for name in ("config.json", "tokenizer.json"):
            (folder / name).write_bytes((model / name).read_bytes())
        subprocess.run([PYTHON, script, folder, folder / "model.gguf", str(int(bos))], check=True)
        command = [PYTHON, "-m", "llama_cpp.server", "--model", folder / "model.gguf", "--n_ctx", str(CONTEXT)]
        switches = {"logits_all": "true", "verbose": "false", "n_threads": "1", "n_threads_batch": "1"}
        for name, value in switches.items():
            command += [f"--{name}", value]
        with serving([*command, *options], "/v1/models", folder / "log.txt") as url:
            yield url

    return start


#: Keys and values in float32, where llama.cpp's default is float16.
FLOAT32 = ("--type_k", "0", "--type_v", "0")


@pytest.fixture(scope="module")
def server(serve, model):
    with serve(model, *FLOAT32) as url:
        yield url


def arguments_of(client, url, model):
    """Return the model arguments of lm-eval's client; the server adds BOS, which the client does not count."""
    common = {"tokenizer": str(model), "max_length": CONTEXT - 1}
    if client == "gguf":
        return {"base_url": url, **common}
    text = {"tokenized_requests": False, "tokenizer_backend": "huggingface", "add_bos_token": False}
    return {"model": "x", "base_url": f"{url}/v1/completions", **text, **common}


@needs_client
def test_both_clients_give_the_outcomes_of_hf_where_the_server_adds_bos(serve, models, home):
    folder = models / "tiny-lm-m"
    options = {"limit": PROMPTS, "bootstrap_iters": 0}
    expected = samples_of(evaluate(folder, ["nnd_demo"], model_args={"add_bos_token": True}, **options))
    assert len(expected) == PROMPTS
    with serve(folder, *FLOAT32) as url:
        for client in ("local-completions", "gguf"):
            arguments = arguments_of(client, url, folder)
            found = samples_of(nnd_tasks.evaluate("nnd_demo", client, arguments, batch_size=1, **options))
            differences = [
                abs(a["sum"] - b["sum"])
                for one, other in zip(found, expected, strict=True)
                for a, b in zip(one["candidates"], other["candidates"], strict=True)
            ]
            print(f"{client}: {len(differences)} candidates, largest difference of a sum: {max(differences):.1e}")
            assert_same(found, expected)


def post(url, **request):
    asked = {"prompt": TEXT, "max_tokens": 1, "temperature": 0, "echo": True, "logprobs": 1, **request}
    return requests.post(f"{url}/v1/completions", json=asked, timeout=60)


def of_model(model, ids):
    """Return log-probabilities of the model after each token, shape (tokens, vocabulary)."""
    with torch.inference_mode():
        logits = AutoModelForCausalLM.from_pretrained(model, dtype="float32")(torch.tensor([ids])).logits[0]
    return torch.log_softmax(logits, -1)


def test_the_answer_has_a_log_probability_for_each_token(server, model):
    ids = AutoTokenizer.from_pretrained(model).encode(TEXT)
    after = of_model(model, ids)
    answer = post(server).json()
    found = answer["choices"][0]["logprobs"]["token_logprobs"]
    assert answer["usage"]["prompt_tokens"] == len(ids)
    assert len(found) == len(ids)  # without BOS, and with the one that was generated
    assert found[0] is None
    assert found[1:-1] == pytest.approx([float(after[i, ids[i + 1]]) for i in range(1, len(ids) - 1)], abs=1e-4)
    assert found[-1] == pytest.approx(float(after[-1].max()), abs=1e-4)


def test_without_bos_each_token_gets_a_number_of_the_next_place(serve, model):
    """Why docs/backends.md says that such a model cannot be used: nothing in the answer shows it."""
    ids = AutoTokenizer.from_pretrained(model).encode(TEXT, add_special_tokens=False)
    after = of_model(model, ids)
    with serve(model, *FLOAT32, bos=False) as url:
        found = post(url).json()["choices"][0]["logprobs"]["token_logprobs"]
    assert found[1:] == pytest.approx([float(after[i, ids[i]]) for i in range(1, len(ids))], abs=1e-4)
    assert found[1:] != pytest.approx([float(after[i - 1, ids[i]]) for i in range(1, len(ids))], abs=0.5)


def test_where_the_text_ends_for_the_model_the_last_token_is_missing(serve, model):
    """Both clients leave out the last entry, as that of a generated token; here none is generated."""
    ids = AutoTokenizer.from_pretrained(model).encode(TEXT)
    likeliest = int(of_model(model, ids)[-1].argmax())
    ends = ("--kv_overrides", f"tokenizer.ggml.eos_token_id=int:{likeliest}")
    with serve(model, *FLOAT32, *ends) as url:
        answer = post(url).json()
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert len(answer["choices"][0]["logprobs"]["token_logprobs"]) == len(ids) - 1


def test_where_the_next_token_is_part_of_a_letter_more_tokens_are_generated(server, model):
    """Both clients leave out the last entry, and take the others for tokens of the text."""
    tokenizer = AutoTokenizer.from_pretrained(model)
    ids = tokenizer.encode(" ".join(texts()))[: CONTEXT - 8]
    follows = tokenizer.convert_ids_to_tokens(of_model(model, ids).argmax(-1))
    begun = [i + 1 for i, token in enumerate(follows) if "\xf0" <= token <= "\xff"]  # first of four bytes
    prompts = {end: tokenizer.decode(ids[1:end]) for end in begun}
    end = next(end for end in begun if tokenizer.encode(prompts[end]) == ids[:end])
    answer = post(server, prompt=prompts[end]).json()
    assert answer["usage"]["prompt_tokens"] == end
    assert answer["usage"]["completion_tokens"] > 1
    assert len(answer["choices"][0]["logprobs"]["token_logprobs"]) > end
