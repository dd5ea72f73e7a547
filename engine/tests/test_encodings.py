"""Encodings are shared by those who name the same tokenizer, and by nobody else."""

from lm_eval.models.huggingface import HFLM

from shared_prefix.hf_shared_prefix import SharedPrefixLM
from shared_prefix.lengths import TokenCounter
from shared_prefix.shared_encodings import share_encodings


def test_encodings_are_those_of_the_tokenizer(tiny_models):
    for name, folder in tiny_models.items():
        backend = "seq2seq" if name == "t5" else "causal"
        arguments = {"pretrained": str(folder), "backend": backend, "device": "cpu"}
        plain = HFLM(**arguments)
        with share_encodings():
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
    with share_encodings():
        first = TokenCounter(arguments).tokenizer
        assert TokenCounter(arguments).tokenizer is first
        assert TokenCounter({**arguments, "add_bos_token": True}).tokenizer is not first
    assert TokenCounter(arguments).tokenizer is not first
