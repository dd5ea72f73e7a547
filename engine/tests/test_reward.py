"""``nnd_reward`` against plain transformers, one text at a time."""

import pytest

from engine_tests.comparing import instances
from engine_tests.rewards import reward_of, write_reward_model
from shared_prefix.model_error import ModelError
from shared_prefix.text_models import RewardModel

REQUESTS = [
    ("One day the cat", " went to the house."),
    ("", "It was late."),
    ("It was late, and " * 30, " nobody knew."),
]


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


def test_mistakes_are_named(llama, tmp_path):
    two = write_reward_model(tmp_path / "two", llama, labels=2)
    with pytest.raises(ModelError, match="gives 2 numbers; a reward model gives one"):
        RewardModel(str(two), device="cpu")
    with pytest.raises(ModelError, match="no reward model could be loaded"):
        RewardModel(str(tmp_path / "none"), device="cpu")
    lm = RewardModel(str(write_reward_model(tmp_path / "one", llama)), device="cpu", max_length=20)
    with pytest.raises(ModelError, match="more than the model's window of 20"):
        lm.loglikelihood(instances(REQUESTS[2:]))
