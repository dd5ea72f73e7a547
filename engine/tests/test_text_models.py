"""``nnd_mlm`` against a loop that masks one token after the other."""

import pytest
import torch
from transformers import RobertaConfig, RobertaForMaskedLM

from engine_tests.comparing import instances
from engine_tests.masked import brute_force, load
from shared_prefix.model_error import ModelError
from shared_prefix.text_models import MaskedLM

REQUESTS = [
    ("One day the cat", " went to the house of the dog."),
    ("", "It was late, and nobody knew the song."),
    ("It was late.", " Paris"),
    ("the dog the cat " * 100, " went to the house"),
]


@pytest.mark.parametrize("batch_size", [1, 3, 64])
def test_pseudo_log_likelihoods_are_those_of_a_loop(batch_size, masked_model):
    lm = MaskedLM(str(masked_model), device="cpu", batch_size=batch_size)
    found = lm.loglikelihood(instances(REQUESTS))
    for pair, (total, greedy) in zip(REQUESTS, found, strict=True):
        expected, likeliest = brute_force(masked_model, *pair)
        assert total == pytest.approx(expected, abs=1e-4)
        assert greedy == likeliest


def test_roberta_has_two_positions_less(masked_model, tmp_path):
    tokenizer, _ = load(masked_model)
    tokenizer.save_pretrained(tmp_path)
    torch.manual_seed(0)
    config = RobertaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=66,
        pad_token_id=1,
    )
    RobertaForMaskedLM(config).eval().save_pretrained(tmp_path)
    lm = MaskedLM(str(tmp_path), device="cpu")
    assert lm.max_length == 64
    [(total, _)] = lm.loglikelihood(instances(REQUESTS[3:]))
    assert total == pytest.approx(brute_force(tmp_path, *REQUESTS[3], window=64)[0], abs=1e-4)
    with pytest.raises(ModelError, match="more than the model's window of 62"):
        lm.loglikelihood(instances([("", "the " * 70)]))


def test_wrong_arguments_are_named(masked_model, gpt2):
    with pytest.raises(ModelError, match="no masked language model could be loaded"):
        MaskedLM("/no/such/folder")
    with pytest.raises(ModelError, match=r"mask token|no masked language model"):
        MaskedLM(str(gpt2))
    with pytest.raises(ModelError, match="nnd_mlm has no argument peft"):
        MaskedLM(str(masked_model), peft="x")
    with pytest.raises(ModelError, match="batch_size=auto: nnd_mlm takes a number"):
        MaskedLM(str(masked_model), batch_size="auto")
    lm = MaskedLM(str(masked_model), device="cpu")
    with pytest.raises(ModelError, match="has no token of its own"):
        lm.loglikelihood(instances([("the cat", " ")]))
    with pytest.raises(ModelError, match="neither generate"):
        lm.generate_until([])
