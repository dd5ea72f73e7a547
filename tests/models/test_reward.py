"""Covers encode_chat.

``nnd_reward`` against plain transformers, one text at a time.
"""

import pytest
import torch
from lm_eval.api.instance import Instance
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import nnd_tasks
from nnd_tasks.errors import NNDError
from nnd_tasks.models.model_error import ModelError
from nnd_tasks.models.text_models import RewardModel
from tests.random_models import evaluate

REQUESTS = [
    ("One day the cat", " went to the house."),
    ("", "It was late."),
    ("It was late, and " * 30, " nobody knew."),
]


def write_reward_model(folder, like, *, labels=1, chat=True):
    """Write a model with the body and the tokenizer of another, and a random head."""
    tokenizer = AutoTokenizer.from_pretrained(like)
    if not chat:
        tokenizer.chat_template = None
    tokenizer.save_pretrained(folder)
    torch.manual_seed(4)
    AutoModelForSequenceClassification.from_pretrained(like, num_labels=labels).save_pretrained(folder)
    return folder


def reward_of(folder, text, *, special=True):
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    ids = AutoTokenizer.from_pretrained(folder).encode(text, add_special_tokens=special)
    with torch.no_grad():
        return float(model(torch.tensor([ids])).logits[0, 0])


@pytest.mark.parametrize("batch_size", [1, 2, 16])
@pytest.mark.parametrize("chat", [True, False], ids=["chat", "plain"])
def test_rewards_are_those_of_each_text_alone(chat, batch_size, tiny_models, tmp_path):
    folder = write_reward_model(tmp_path / "reward", tiny_models["llama"], chat=chat)
    lm = RewardModel(str(folder), device="cpu", batch_size=batch_size)
    found = lm.loglikelihood([Instance("loglikelihood", {}, pair, i) for i, pair in enumerate(REQUESTS)])
    for (context, text), (reward, greedy) in zip(REQUESTS, found, strict=True):
        turns = f"<|user|>\n{context.strip()}\n<|assistant|>\n{text.strip()}\n"
        # The template writes special tokens itself.
        expected = reward_of(folder, turns if chat else context + text, special=not chat)
        assert reward == pytest.approx(expected, abs=1e-5)
        assert greedy is False


def test_a_reward_is_not_divided_by_tokens(tiny_models, home, tmp_path):
    folder = write_reward_model(tmp_path / "reward", tiny_models["llama"], chat=False)
    results = evaluate(folder, ["nnd_demo"], kind="nnd_reward", limit=3)
    options = {"limit": 3, "bootstrap_iters": 0}
    ready_made = nnd_tasks.evaluate(["nnd_demo"], RewardModel(str(folder), device="cpu"), **options)
    assert ready_made["samples"] == results["samples"]
    for sample in results["samples"]["nnd_demo"]:
        rewards = [reward_of(folder, "".join(pair)) for pair in sample["arguments"]]
        for test, outcome in zip(sample["doc"]["tests"], sample["tests"], strict=True):
            assert outcome["passed"] is (rewards[test["high"]] > rewards[test["low"]])
        assert [record["mean"] for record in sample["candidates"]] == pytest.approx(rewards, abs=1e-5)
    assert "margin,none" not in results["results"]["nnd_demo"], "rewards are no likelihoods"
    protocol = results["configs"]["nnd_demo"]["metadata"]["nnd"]["signature"]["protocol"]
    assert protocol["reader"] == "reward"


def test_a_context_too_long_for_the_reward_model_is_shortened(tiny_models, home, tmp_path):
    folder = write_reward_model(tmp_path / "reward", tiny_models["llama"])
    found = evaluate(folder, ["nnd_demo"], kind="nnd_reward", model_args={"max_length": 90}, limit=5)
    assert found["results"]["nnd_demo"]["truncated_contexts,none"] > 0


def test_mistakes_are_named(tiny_models, home, tmp_path):
    two = write_reward_model(tmp_path / "two", tiny_models["llama"], labels=2)
    with pytest.raises(ModelError, match="gives 2 numbers; a reward model gives one"):
        RewardModel(str(two), device="cpu")
    with pytest.raises(ModelError, match="no reward model could be loaded"):
        RewardModel(str(tmp_path / "none"), device="cpu")
    lm = RewardModel(str(write_reward_model(tmp_path / "one", tiny_models["llama"])), device="cpu", max_length=20)
    with pytest.raises(ModelError, match="more than the model's window of 20"):
        lm.loglikelihood([Instance("loglikelihood", {}, REQUESTS[2], 0)])
    with pytest.raises(
        NNDError, match="applies the chat template of its model itself; leave out --apply_chat_template"
    ):
        evaluate(tmp_path / "one", ["nnd_demo"], kind="nnd_reward", limit=1, apply_chat_template=True)
    with pytest.raises(NNDError, match="a reward model answers no question"):
        evaluate(tmp_path / "one", ["nnd_demo_choice"], kind="nnd_reward", limit=1)
