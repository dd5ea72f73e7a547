"""Tasks of ours through models of the engine: ``hf-shared-prefix``, ``nnd_mlm``, ``nnd_reward`` and ``ray``."""

import pytest
import torch

import nnd_tasks
from engine_tests.fake_ray import count_batches, fake_ray
from engine_tests.masked import brute_force, load
from engine_tests.rewards import reward_of, write_reward_model
from nnd_tasks.errors import NNDError
from nnd_tasks.studies.stress.stress_set import load_fill
from shared_prefix import ray_workers
from shared_prefix.text_models import RewardModel
from tests import random_models
from tests.run.test_backends import assert_same, samples_of
from tests.task.tasks import read_task, run_task


def test_evaluate_shares_by_default_and_gives_the_outcomes_of_plain_hf(llama, home, caplog):
    with caplog.at_level("INFO"):
        shared = random_models.evaluate(llama, ["nnd_demo"], limit=10)
    assert sum("every distinct token is read once" in record.message for record in caplog.records) == 1
    plain = random_models.evaluate(llama, ["nnd_demo"], limit=10, shared_prefix=False)
    assert (shared["config"]["model"], plain["config"]["model"]) == ("hf-shared-prefix", "hf")
    assert_same(samples_of(shared), samples_of(plain))


# ---------------------------------------------------------------- rewards


def test_a_reward_is_not_divided_by_tokens(llama, home, tmp_path):
    folder = write_reward_model(tmp_path / "reward", llama, chat=False)
    run = run_task(folder, kind="nnd_reward", limit=3)
    options = {"limit": 3, "bootstrap_iters": 0}
    ready_made = nnd_tasks.evaluate(["nnd_demo"], RewardModel(str(folder), device="cpu"), **options)
    assert read_task(ready_made).samples == run.samples
    for sample in run.samples:
        rewards = [reward_of(folder, "".join(pair)) for pair in sample["arguments"]]
        for test, outcome in zip(sample["doc"]["tests"], sample["tests"], strict=True):
            assert outcome["passed"] is (rewards[test["high"]] > rewards[test["low"]])
        assert [record["mean"] for record in sample["candidates"]] == pytest.approx(rewards, abs=1e-5)
    assert "margin" not in run.rates, "rewards are no likelihoods"
    assert run.facts["signature"]["protocol"]["reader"] == "reward"


def test_a_context_too_long_for_the_reward_model_is_shortened(llama, home, tmp_path):
    folder = write_reward_model(tmp_path / "reward", llama)
    run = run_task(folder, kind="nnd_reward", model_args={"max_length": 90}, limit=5)
    assert run.rates["truncated_contexts"] > 0


def test_what_asks_more_of_a_reward_model_than_it_gives_is_named(llama, home, tmp_path):
    write_reward_model(tmp_path / "one", llama)
    with pytest.raises(
        NNDError, match="applies the chat template of its model itself; leave out --apply_chat_template"
    ):
        random_models.evaluate(tmp_path / "one", ["nnd_demo"], kind="nnd_reward", limit=1, apply_chat_template=True)
    with pytest.raises(NNDError, match="a reward model answers no question"):
        random_models.evaluate(tmp_path / "one", ["nnd_demo_choice"], kind="nnd_reward", limit=1)


# ---------------------------------------------------------------- masked language models


def test_any_nnd_task_runs_on_it_and_counts_the_tokens_that_are_scored(masked_model, home):
    tokenizer, _ = load(masked_model)
    for sample in run_task(masked_model, kind="nnd_mlm", limit=1).samples:
        for text, candidate, (context, continuation) in zip(
            sample["doc"]["candidates"], sample["candidates"], sample["arguments"], strict=True
        ):
            assert continuation == f" {text}"
            assert candidate["tokens"] == len(tokenizer.encode(continuation, add_special_tokens=False))
            assert candidate["sum"] == pytest.approx(brute_force(masked_model, context, continuation)[0], abs=1e-3)


def test_places_are_filled_with_the_likeliest_words(masked_model):
    fill = load_fill(masked_model)
    words = ["One ", "day ", "the ", "cat ", "went", "."]
    found = fill(words, 3)
    assert 1 <= len(set(found)) == len(found) <= 10
    assert all(word.isalnum() for word in found)
    tokenizer, model = load(masked_model)
    inputs = tokenizer("One day the [MASK] went.", return_tensors="pt")
    with torch.no_grad():
        logits = model(**inputs).logits[0, 4]
    ranked = [tokenizer.decode([i]).strip() for i in logits.argsort(descending=True).tolist()]
    assert found[0] == next(word for word in ranked if word.isalnum() and not word.startswith("["))


# ---------------------------------------------------------------- several workers


def through_ray(folder, **kwargs):
    """Evaluate some of the demo."""
    arguments = {"engine": "hf", "workers": 2, "pretrained": str(folder), **kwargs.pop("model_args", {})}
    with fake_ray() as ray:
        results = nnd_tasks.evaluate(["nnd_demo"], "ray", arguments, bootstrap_iters=0, **kwargs)
        assert ray.actors == [], "they leave room for the next model"
        return results, ray


def test_a_run_is_that_of_the_engine(llama, home, monkeypatch):
    """Outcomes, tokens, signature; the number of workers is in its environment."""
    monkeypatch.setattr(ray_workers, "LEAST", 2000)
    options = {"limit": 8, "apply_chat_template": True, "metadata": {"tokens": True}}
    plain = random_models.evaluate(llama, ["nnd_demo"], **options)
    results, ray = through_ray(llama, model_args={"dtype": "float32"}, **options)
    assert count_batches(ray) > 2
    assert_same(samples_of(results), samples_of(plain))
    ours, theirs = (each["configs"]["nnd_demo"]["metadata"]["nnd"]["signature"] for each in (results, plain))
    assert ours == {**theirs, "line": ours["line"], "environment": {**theirs["environment"], "workers": 2}}
    assert results["config"]["model"] == "ray"
    assert results["tokens"]["nnd_demo"].num_rows == plain["tokens"]["nnd_demo"].num_rows


def test_mistakes_are_those_of_the_engine(gpt2, home):
    for arguments, message in (
        ({"engine": "hff"}, "--model hff: lm-eval has no such model type"),
        ({"dtype": "float31"}, "dtype=float31: no such type"),
    ):
        with pytest.raises(NNDError, match=message):
            through_ray(gpt2, model_args=arguments, limit=2)
