"""Every distinct string is tokenized once, whoever asks, and only by the tokenizer that was asked for."""

from collections import Counter

import pytest
from lm_eval.models.huggingface import HFLM
from transformers import PreTrainedTokenizerFast

from shared_prefix.encodings import TokenizingOnce
from shared_prefix.hf_shared_prefix import SharedPrefixLM
from shared_prefix.lengths import TokenCounter
from tests.random_models import evaluate


@pytest.fixture
def asked(monkeypatch):
    """Return how often each string was tokenized, with and without special tokens."""
    counts = Counter()
    encode = PreTrainedTokenizerFast.encode

    def counting(self, text, *args, **kwargs):
        counts[text, kwargs.get("add_special_tokens")] += 1
        return encode(self, text, *args, **kwargs)

    monkeypatch.setattr(PreTrainedTokenizerFast, "encode", counting)
    return counts


@pytest.mark.parametrize("name", ["gpt2", "llama", "t5"])
def test_a_run_tokenizes_each_distinct_string_once(name, tiny_models, home, asked):
    """Two tasks over one set, which ask for the same texts."""
    evaluate(tiny_models[name], ["nnd_demo", "nnd_demo_clean"], limit=20)
    assert len(asked) > 100
    assert {*asked.values()} == {1}


def test_encodings_are_those_of_the_tokenizer(tiny_models):
    for name, folder in tiny_models.items():
        backend = "seq2seq" if name == "t5" else "causal"
        arguments = {"pretrained": str(folder), "backend": backend, "device": "cpu"}
        plain = HFLM(**arguments)
        with TokenizingOnce.shared_encodings():
            counter, model = TokenCounter(arguments), SharedPrefixLM(**arguments)
            assert counter.tokenizer is model.tokenizer
            assert model.tokenizer is not plain.tokenizer
            for text in ("One day, the cat.", " and more ", "Zürich 東京 🙂", "<|endoftext|>a", "a"):
                for special in (None, True, False):
                    expected = plain.tok_encode(text, add_special_tokens=special)
                    assert counter.tok_encode(text, add_special_tokens=special) == expected
                    found = model.tok_encode(text, add_special_tokens=special)
                    assert found == expected
                    found.append(0)  # what is kept must not change with what was given out
                    assert model.tok_encode(text, add_special_tokens=special) == expected


def test_nothing_is_shared_between_other_settings_or_beyond_a_run(gpt2):
    arguments = {"pretrained": str(gpt2)}
    with TokenizingOnce.shared_encodings():
        first = TokenCounter(arguments).tokenizer
        assert TokenCounter(arguments).tokenizer is first
        assert TokenCounter({**arguments, "add_bos_token": True}).tokenizer is not first
    assert TokenCounter(arguments).tokenizer is not first
