"""What cannot share prefixes says why."""

import pytest
import torch
import transformers as tf

from engine_tests.families import TINY, UNSUITABLE, tiny
from shared_prefix.hf_shared_prefix import why_not_config, why_unsuitable


@pytest.mark.parametrize(("kind", "settings", "reason"), UNSUITABLE)
def test_a_config_says_why_it_cannot_share(kind, settings, reason):
    sizes = TINY["llama"][0] if kind in TINY and kind != "t5gemma" else {}
    config = tf.AutoConfig.for_model(kind, **{**sizes, **settings})
    assert reason in str(why_not_config(config, "seq2seq" if config.is_encoder_decoder else "causal"))


def test_attention_without_masks_of_our_own_says_which_one_to_ask_for():
    for name, other in (("llama", "sdpa"), ("gpt_oss", "eager")):
        model = tiny(name)
        assert model.config._attn_implementation == other  # by itself: the sinks of gpt_oss need eager attention
        model.config._attn_implementation = "flash_attention_2"
        assert f"attn_implementation={other} in --model_args" in str(why_unsuitable(model, model, "causal"))


def test_models_that_are_not_those_of_transformers_say_so():
    model = tiny("llama")
    remote = type("Remote", (type(model),), {"__module__": "somewhere.else"})
    other = object.__new__(remote)
    other.__dict__ = model.__dict__
    assert "is not part of transformers" in str(why_unsuitable(other, other, "causal"))
    model.lm_head = torch.nn.Sequential(model.lm_head)
    assert "not a plain linear layer" in str(why_unsuitable(model, model, "causal"))
