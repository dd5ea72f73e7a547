"""``nnd_reward`` against plain transformers, one text at a time."""

import pytest
import torch
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

from engine_tests.comparing import instances
from engine_tests.rewards import reward_of, write_reward_model
from shared_prefix.model_error import ModelError
from shared_prefix.text_models import RewardModel, encode_chat

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


@pytest.mark.parametrize("ends", ["", "{{ eos_token }}"], ids=["open", "eos"])
@pytest.mark.parametrize("pad", [None, "</s>", "<s>", -1])
def test_the_reward_is_read_where_the_model_reads_it_whatever_the_pad_token(pad, ends, llama, tmp_path):
    """The config names none, EOS, one of its own, or none of the vocabulary; the chat template ends with EOS or not."""
    folder = write_reward_model(tmp_path / "reward", llama)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template += ends
    tokenizer.save_pretrained(folder)
    config = AutoConfig.from_pretrained(folder)
    config.pad_token_id = tokenizer.convert_tokens_to_ids(pad) if isinstance(pad, str) else pad
    config.save_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    lm = RewardModel(str(folder), device="cpu", batch_size=4)
    for pair, (reward, _) in zip(REQUESTS, lm.loglikelihood(instances(REQUESTS)), strict=True):
        ids = encode_chat(tokenizer, *pair)
        assert (ids[-1] == tokenizer.eos_token_id) == bool(ends)
        with torch.no_grad():
            assert reward == pytest.approx(float(model(torch.tensor([ids])).logits), abs=1e-5)


def test_mistakes_are_named(llama, tmp_path):
    two = write_reward_model(tmp_path / "two", llama, labels=2)
    with pytest.raises(ModelError, match="gives 2 numbers; a reward model gives one"):
        RewardModel(str(two), device="cpu")
    with pytest.raises(ModelError, match="no reward model could be loaded"):
        RewardModel(str(tmp_path / "none"), device="cpu")
    lm = RewardModel(str(write_reward_model(tmp_path / "one", llama)), device="cpu", max_length=20)
    with pytest.raises(ModelError, match="more than the model's window of 20"):
        lm.loglikelihood(instances(REQUESTS[2:]))
