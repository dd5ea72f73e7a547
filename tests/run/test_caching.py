"""``--use_cache`` keyed by model: no answer of another model, and none asked for twice."""

import shutil
from collections import Counter

import pytest
from lm_eval.api.model import CacheHook
from transformers import AutoModelForCausalLM

from nnd_tasks.errors import NNDError
from nnd_tasks.run import run as module
from nnd_tasks.run.run import cache_key
from shared_prefix.hf_shared_prefix import SharedPrefixLM
from tests.random_models import evaluate


@pytest.fixture
def asked(monkeypatch):
    """Count the requests that reach a model."""
    counts = Counter()
    original = SharedPrefixLM._loglikelihood_tokens

    def counting(self, requests, **kwargs):
        counts.update(request for request, _, _ in requests)
        return original(self, requests, **kwargs)

    monkeypatch.setattr(SharedPrefixLM, "_loglikelihood_tokens", counting)
    return counts


def run(model, cache, **kwargs):
    results = evaluate(model, ["nnd_demo"], use_cache=str(cache / "answers"), limit=6, **kwargs)["results"]["nnd_demo"]
    return {key: value for key, value in results.items() if key.startswith("pass_rate")}


def test_an_answer_is_asked_for_once_for_each_model(gpt2, llama, home, tmp_path, asked):
    plain = evaluate(gpt2, ["nnd_demo"], limit=6)["results"]["nnd_demo"]
    folder = shutil.copytree(gpt2, tmp_path / "model")
    asked.clear()
    first = run(folder, tmp_path)
    assert first == {key: plain[key] for key in first}
    assert set(asked.values()) == {1}
    known = set(asked)
    asked.clear()
    assert run(folder, tmp_path, batch_size=3) == first
    assert not asked
    assert run(llama, tmp_path) != first
    assert asked
    asked.clear()
    evaluate(folder, ["nnd_demo"], use_cache=str(tmp_path / "answers"), limit=8)
    assert asked
    assert not known & set(asked), "of more prompts, those that are new"
    asked.clear()
    run(folder, tmp_path, metadata={"candidate_prefix": "- "})
    assert asked, "other texts are other requests"
    model = AutoModelForCausalLM.from_pretrained(folder)
    model.transformer.wte.weight.data.mul_(-1)
    model.save_pretrained(folder)
    assert run(folder, tmp_path) != first, "a model that was trained on in its folder is another"


def test_a_python_object_has_no_name_to_key_answers_by():
    with pytest.raises(NNDError, match="ready-made model has no name"):
        cache_key(object(), {})
    with pytest.raises(NNDError, match="pretrained is a Python object"):
        cache_key("hf", {"pretrained": object()})


def test_the_key_ignores_what_changes_no_answer():
    plain = cache_key("hf", {"pretrained": "x"})
    assert cache_key("hf", {"pretrained": "x", "batch_size": 3, "device": "cpu"}) == plain
    others = [
        cache_key("vllm", {"pretrained": "x"}),
        cache_key("hf", {"pretrained": "y"}),
        cache_key("hf", {"pretrained": "x", "revision": "z"}),
        cache_key("hf", {"pretrained": "x", "dtype": "float16"}),
    ]
    assert len({plain, *others}) == 5


def test_a_cache_of_an_earlier_release_is_found(monkeypatch):
    monkeypatch.setattr(module, "environment", lambda *packages: [])
    assert cache_key("local-completions", {"base_url": "http://h/v1", "seed": 1}) == "ef7ec820fb68"


def test_a_run_that_stops_while_it_scores_goes_on_where_it_was(gpt2, home, tmp_path, asked, monkeypatch):
    plain = run(gpt2, tmp_path / "other")
    total, store, stored = len(asked), CacheHook.add_partial, []

    def stopping(self, *answer):
        store(self, *answer)
        stored.append(answer)
        if len(stored) == 7:
            self.dbdict.commit()  # a thread writes, sooner or later
            raise KeyboardInterrupt

    monkeypatch.setattr(CacheHook, "add_partial", stopping)
    with pytest.raises(KeyboardInterrupt):
        run(gpt2, tmp_path)
    monkeypatch.setattr(CacheHook, "add_partial", store)
    asked.clear()
    assert run(gpt2, tmp_path) == plain
    assert len(asked) == total - 7
