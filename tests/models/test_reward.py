"""``nnd_reward`` against plain transformers, one text at a time."""

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import nnd_tasks
from nnd_tasks.errors import NNDError
from shared_prefix.model_error import ModelError
from shared_prefix.text_models import RewardModel
from tests.models.comparing import instances
from tests.random_models import evaluate
from tests.task.tasks import read_task, run_task

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
def test_rewards_are_those_of_each_text_alone(chat, batch_size, llama, tmp_path):
    folder = write_reward_model(tmp_path / "reward", llama, chat=chat)
    lm = RewardModel(str(folder), device="cpu", batch_size=batch_size)
    found = lm.loglikelihood(instances(REQUESTS))
    for (context, text), (reward, greedy) in zip(REQUESTS, found, strict=True):
        turns = f"<|user|>\n{context.strip()}\n<|assistant|>\n{text.strip()}\n"
        # The template writes special tokens itself.
        expected = reward_of(folder, turns if chat else context + text, special=not chat)
        assert reward == pytest.approx(expected, abs=1e-5)
        assert greedy is False


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


def test_mistakes_are_named(llama, home, tmp_path):
    two = write_reward_model(tmp_path / "two", llama, labels=2)
    with pytest.raises(ModelError, match="gives 2 numbers; a reward model gives one"):
        RewardModel(str(two), device="cpu")
    with pytest.raises(ModelError, match="no reward model could be loaded"):
        RewardModel(str(tmp_path / "none"), device="cpu")
    lm = RewardModel(str(write_reward_model(tmp_path / "one", llama)), device="cpu", max_length=20)
    with pytest.raises(ModelError, match="more than the model's window of 20"):
        lm.loglikelihood(instances(REQUESTS[2:]))
    with pytest.raises(
        NNDError, match="applies the chat template of its model itself; leave out --apply_chat_template"
    ):
        evaluate(tmp_path / "one", ["nnd_demo"], kind="nnd_reward", limit=1, apply_chat_template=True)
    with pytest.raises(NNDError, match="a reward model answers no question"):
        evaluate(tmp_path / "one", ["nnd_demo_choice"], kind="nnd_reward", limit=1)
