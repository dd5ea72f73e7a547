"""``nnd_mlm`` against a loop that masks one token after the other."""

from functools import cache

import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer, RobertaConfig, RobertaForMaskedLM

from nnd_tasks.studies.stress.stress_set import load_fill
from shared_prefix.model_error import ModelError
from shared_prefix.text_models import MaskedLM
from tests.models.comparing import instances
from tests.task.tasks import run_task

REQUESTS = [
    ("One day the cat", " went to the house of the dog."),
    ("", "It was late, and nobody knew the song."),
    ("It was late.", " Paris"),
    ("the dog the cat " * 100, " went to the house"),
]


@cache
def load(folder):
    return AutoTokenizer.from_pretrained(folder), AutoModelForMaskedLM.from_pretrained(folder).eval()


def brute_force(folder, context, continuation, window=512):
    tokenizer, model = load(folder)
    target = tokenizer.encode(continuation, add_special_tokens=False)
    ahead = tokenizer.encode(context, add_special_tokens=False)
    ahead = ahead[len(ahead) + len(target) - (window - 2) :] if len(ahead) + len(target) > window - 2 else ahead
    total, greedy = 0.0, True
    for i, token in enumerate(target):
        masked = [*target[:i], tokenizer.mask_token_id, *target[i + 1 :]]
        inputs = torch.tensor([[tokenizer.cls_token_id, *ahead, *masked, tokenizer.sep_token_id]])
        with torch.no_grad():
            logits = model(inputs).logits[0, 1 + len(ahead) + i]
        total += float(torch.log_softmax(logits, dim=-1)[token])
        greedy = greedy and int(logits.argmax()) == token
    return total, greedy


@pytest.mark.parametrize("batch_size", [1, 3, 64])
def test_pseudo_log_likelihoods_are_those_of_a_loop(batch_size, masked_model):
    lm = MaskedLM(str(masked_model), device="cpu", batch_size=batch_size)
    found = lm.loglikelihood(instances(REQUESTS))
    for pair, (total, greedy) in zip(REQUESTS, found, strict=True):
        expected, likeliest = brute_force(masked_model, *pair)
        assert total == pytest.approx(expected, abs=1e-4)
        assert greedy == likeliest
    [rolling] = lm.loglikelihood_rolling(instances([REQUESTS[1][1:]], "loglikelihood_rolling"))
    assert rolling == pytest.approx(found[1][0])


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


def test_any_nnd_task_runs_on_it_and_counts_the_tokens_that_are_scored(masked_model, home):
    tokenizer, _ = load(masked_model)
    for sample in run_task(masked_model, kind="nnd_mlm", limit=1).samples:
        for text, candidate, (context, continuation) in zip(
            sample["doc"]["candidates"], sample["candidates"], sample["arguments"], strict=True
        ):
            assert continuation == f" {text}"
            assert candidate["tokens"] == len(tokenizer.encode(continuation, add_special_tokens=False))
            assert candidate["sum"] == pytest.approx(brute_force(masked_model, context, continuation)[0], abs=1e-3)


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
    with pytest.raises(ModelError, match="do not generate"):
        lm.generate_until([])


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
