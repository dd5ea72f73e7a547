"""The windows of backends."""

import shutil

import pytest
from lm_eval.models.huggingface import HFLM
from transformers import AutoTokenizer, MambaConfig

from shared_prefix.lengths import TokenCounter, warn_once
from shared_prefix.model_error import ModelError


@pytest.mark.parametrize(("name", "given"), [("gpt2", {}), ("llama", {}), ("t5", {}), ("t5", {"max_length": 77})])
def test_the_window_is_that_of_hflm(name, given, tiny_models):
    arguments = {"pretrained": str(tiny_models[name]), **given}
    assert TokenCounter(arguments).window == HFLM(**arguments, device="cpu").max_length


def test_a_window_that_nothing_tells_is_lm_evals_default_with_a_model_and_unknown_without(gpt2, tmp_path, caplog):
    warn_once.cache_clear()
    tokenizer = AutoTokenizer.from_pretrained(gpt2)
    tokenizer.save_pretrained(tmp_path / "known")
    assert TokenCounter({"tokenizer": str(tmp_path / "known")}).window == tokenizer.model_max_length
    tokenizer.model_max_length = 1000000000000000019884624838656
    tokenizer.save_pretrained(tmp_path / "unknown")
    counter = TokenCounter({"tokenizer": str(tmp_path / "unknown")})
    assert (counter.window, counter.overlong(10**9, 1)) == (None, False)
    model = shutil.copytree(tmp_path / "unknown", tmp_path / "model")
    MambaConfig(architectures=["MambaForCausalLM"]).save_pretrained(model)
    assert [TokenCounter({"pretrained": str(model)}).window for _ in range(3)] == [2048] * 3
    assert TokenCounter({"pretrained": str(model), "max_length": "99"}).window == 99
    told = [message.partition(", so")[0] for message in caplog.messages if message.startswith("the window")]
    assert told == [f"the window of {tmp_path / name} is not known" for name in ("unknown", "model")]
    with pytest.raises(ModelError, match="max_length='wide': expected a number"):
        TokenCounter({"pretrained": str(model), "max_length": "wide"})


@pytest.mark.parametrize(
    ("model_type", "arguments", "most"),
    [
        (None, {}, 101),  # the last token is never an input
        ("vllm", {}, 99),
        ("sglang", {}, 100),
        ("local-completions", {"base_url": "http://localhost:1"}, 99),  # one token is generated
    ],
)
def test_the_room_of_each_backend(model_type, arguments, most, gpt2):
    counter = TokenCounter({"pretrained": str(gpt2), "max_length": 100, **arguments}, model_type)
    assert [counter.overlong(most - more, 10) for more in (10, 9)] == [False, True]
