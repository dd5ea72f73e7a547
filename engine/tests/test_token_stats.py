"""``token_stats=True``: the share of likeliest tokens, ranks and entropies, against those straight from the model's logits."""

from unittest.mock import patch

import pytest
import torch

from engine_tests.comparing import adversarial, count_stats, pair_of, run_out_of_memory, score_tokens
from shared_prefix import prefix_scoring


def expected_stats(plain, requests):
    """Read the logits of each request alone, and count."""
    stats = []
    for _, context, continuation in requests:
        with torch.inference_mode():
            if plain.backend == "seq2seq":
                read, labels = torch.tensor([context[-plain.max_length :]]), torch.tensor([continuation])
                logits = plain.model(input_ids=read, labels=labels).logits[0]
            else:
                read = torch.tensor([(context + continuation)[-(plain.max_length + 1) :][:-1]])
                logits = plain.model(read).logits[0, -len(continuation) :]
        stats.append(count_stats(logits, continuation))
    return stats


def assert_stats(found, expected, requests):
    for answer, stats, (_, _, continuation) in zip(found, expected, requests, strict=True):
        assert answer.logprobs is None, "tokens are not kept"
        assert answer.stats.top1 == stats.top1
        assert answer.stats.rank == pytest.approx(stats.rank, abs=1e-4)
        assert answer.stats.entropy == pytest.approx(stats.entropy, abs=1e-4 * len(continuation))


@pytest.mark.parametrize("name", ["llama", "gemma2 capped", "t5", "bart", "mamba"])
def test_stats_are_those_of_the_logits(name):
    requests = adversarial(30)
    plain, sharing = pair_of(name)
    assert (sharing.why_not() is None) == (name != "mamba")
    bare = score_tokens(sharing, requests)
    sharing.token_stats = True
    found = score_tokens(sharing, requests)
    assert_stats(found, expected_stats(plain, requests), requests)
    if name == "mamba":
        assert [answer[1] for answer in found] == [answer[1] for answer in bare]
    else:
        assert [tuple(answer) for answer in found] == bare, "to the bit"


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("cap", [None, 2.0])
def test_a_vocabulary_in_slices(bias, cap):
    torch.manual_seed(0)
    linear = torch.nn.Linear(16, 5000, bias=bias)
    with torch.no_grad():
        linear.weight.normal_(0, 0.5)
        if bias:
            linear.bias[7] = -torch.inf  # as of padding
    hidden, rows = torch.randn(6, 16), torch.tensor([0, 3, 3, 5, 1, 2, 4])
    targets = torch.tensor([4999, 0, 2500, 1023, 1024, 3, 4100])
    targets[3] = linear(hidden)[5].argmax()
    head = prefix_scoring.VocabularyHead(linear, 1.5, cap, token_stats=True)
    with torch.inference_mode(), patch.object(prefix_scoring, "_ELEMENTS", 1):  # slices of 1,024, and tokens one by one
        logprobs, greedy, stats = head(hidden, rows, targets)
        logits = 1.5 * linear(hidden)
        logits = (logits if cap is None else cap * torch.tanh(logits / cap))[rows]
    torch.testing.assert_close(logprobs, logits.log_softmax(dim=-1)[range(7), targets], atol=1e-5, rtol=1e-5)
    assert torch.equal(greedy, logits.argmax(dim=-1) == targets)
    torch.testing.assert_close(stats, prefix_scoring.stats_of(logits, targets), atol=1e-4, rtol=1e-4)
    assert torch.isfinite(stats).all()
    whole = logits.double()
    logprobs, p = whole.log_softmax(dim=-1), whole.softmax(dim=-1)
    surprise = torch.where(p > 0, -logprobs, 0)
    entropy = (p * surprise).sum(dim=-1)
    deviation = (p * (surprise - entropy[:, None]) ** 2).sum(dim=-1).sqrt()
    expected = torch.stack([entropy, deviation, whole.logsumexp(dim=-1), logprobs.amax(dim=-1)], dim=1)
    torch.testing.assert_close(stats[:, 2:].double(), expected, atol=1e-5, rtol=1e-5)


def test_a_lack_of_memory_does_not_count_a_token_twice(monkeypatch):
    requests = adversarial(30)
    plain, sharing = pair_of("llama")
    sharing.token_stats = True
    assert sharing.why_not() is None
    run_out_of_memory(monkeypatch, at={2, 3})
    assert_stats(score_tokens(sharing, requests), expected_stats(plain, requests), requests)
